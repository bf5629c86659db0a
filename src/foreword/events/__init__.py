"""The event log: what happened, what it cost, and who may read it."""
