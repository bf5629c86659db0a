"""Schedules: messages to agents at later times, run on behalf of a user, with a destination for the reply."""
