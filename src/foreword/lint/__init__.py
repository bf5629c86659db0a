"""Linting a workspace."""
