"""The store: files of rows, opened safely, their schema described once and migrated."""
