"""The error of a tool that could not do its work."""

from foreword.errors import ForewordError


class ToolFailed(ForewordError):
    """A tool could not do its work; the model and the event log both get the message."""
