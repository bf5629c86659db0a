"""The linter: finds problems in a workspace, each with file, line and remedy."""
