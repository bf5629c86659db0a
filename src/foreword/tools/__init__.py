"""The tools that redeem what a prompt offers."""

from foreword.tools.reading import READING, Reading, call

__all__ = ["READING", "Reading", "call"]
