"""Erasure: everything that is kept of one person is found, given to them, and removed; and a second look proves it."""
