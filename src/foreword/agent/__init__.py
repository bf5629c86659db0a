"""The agent runtime: runs one turn, calls the model, runs its tools and records events."""
