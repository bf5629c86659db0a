"""Storage: the SQLite files of state, event log and budgets."""
