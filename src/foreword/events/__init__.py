"""The event log: records what happens in a turn, what it costs, and who may read it."""
