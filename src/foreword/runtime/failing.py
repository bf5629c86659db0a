"""The error of a tool that could not do its work, in words that its caller may hear."""

from foreword.errors import ForewordError


class ToolFailed(ForewordError):
    """A tool could not do its work; the message is told to the model and to the log."""
