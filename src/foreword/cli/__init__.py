"""The command line: reads what a person typed, asks the engine, and prints the answer."""

from foreword.cli.main import main

__all__ = ["main"]
