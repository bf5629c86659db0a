"""Schedules: what agents are told later, in whose name, and where their replies go."""
