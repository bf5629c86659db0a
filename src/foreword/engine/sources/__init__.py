"""Sources: the only stage that opens files, and only those that the plan allows."""
