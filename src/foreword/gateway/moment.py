"""Moments as the state has them: UTC, in letters that sort."""

from datetime import UTC, datetime

FORM = "%Y-%m-%dT%H:%M:%S.%fZ"


def write_moment(moment: datetime) -> str:
    """Write a moment."""
    return moment.astimezone(UTC).strftime(FORM)


def read_moment(text: str) -> datetime:
    """Read a moment that was written."""
    return datetime.strptime(text, FORM).replace(tzinfo=UTC)
