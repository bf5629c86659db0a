"""The ledger: the record of what a session has sent, so that the cached prefix stays unchanged."""
