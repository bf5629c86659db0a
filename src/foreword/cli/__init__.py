"""The command line interface: parses arguments, calls the engine and prints the result."""
