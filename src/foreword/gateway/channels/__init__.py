"""Channels that reach people where they are: each is a small class behind the one protocol."""
