"""The configuration of a workspace: its schema, its loader and its checks."""
