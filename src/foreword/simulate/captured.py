"""A request as it was captured, checked before anything is done with it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from foreword.caching import list_blocks
from foreword.caching.blocks import LISTS
from foreword.caching.cache import Counted
from foreword.errors import InputError, suggest
from foreword.frozen import frozen
from foreword.simulate.usage import read_usage

FIELDS = {"at": str, "model": str, "shape": str, "request": dict, "usage": dict, "session": str}
REQUIRED = ("at", "model", "shape", "request")
LONGEST = 60  # characters of what is shown of a wrong value


@frozen
class Recorded:
    """One request as it was captured, and what its provider reported."""

    at: datetime
    model: str
    """The whole name, provider and all."""
    shape: str
    request: Mapping[str, Any]
    usage: Counted | None = None
    session: str = ""
    """Which conversation it belongs to; a miss is explained by the request before it in the same one."""


def make(value: Any) -> Recorded:
    """Make a request of what stands on a line, or raise InputError with what is wrong."""
    if not isinstance(value, dict):
        raise InputError("a line must be an object with at, model, shape and request")
    for name in value:
        if name not in FIELDS:
            raise InputError(f"{name!r:.60} is not a known key{suggest(name, list(FIELDS))}")
    for name, kind in FIELDS.items():
        found = value.get(name)
        if found is None and name in REQUIRED:
            raise InputError(f"{name!r} is missing")
        if found is not None and not isinstance(found, kind):
            raise InputError(f"{name!r} must be {'a text' if kind is str else 'an object'}")
    shape, usage = value["shape"], value.get("usage")
    if shape not in LISTS:
        raise InputError(f"the shape {shape!r:.60} is not known{suggest(shape, list(LISTS))}")
    made = Recorded(
        at=read_time(value["at"]),
        model=value["model"],
        shape=shape,
        request=value["request"],
        usage=None if usage is None else read_usage(usage),
        session=value.get("session") or "",
    )
    try:
        list_blocks(shape, made.request)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"the request has not the shape {shape}: {reason}") from None
    return made


def read_time(text: str) -> datetime:
    """Read when a request was made; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"'at' is {text[:LONGEST]!r}, which is no time such as 2026-11-16T13:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
