"""Remembering: what did not change is not computed again."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

KEPT = 4_096


class Memo:
    """Remembers results for the very same arguments, or for an equal key."""

    __slots__ = ("_by_identity", "_by_key", "_kept")

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._by_identity: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}
        self._by_key: dict[Hashable, Any] = {}

    def once(self, function: Callable[..., T], *args: object) -> T:
        """Call a pure function once for these very objects; they are kept, so that no other takes their place."""
        key = (function, *map(id, args))
        known = self._by_identity.get(key)
        if known is None:
            if len(self._by_identity) >= self._kept:
                self._by_identity.clear()
            known = self._by_identity[key] = (function(*args), args)
        value: T = known[0]
        return value

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Make a value once for this key."""
        known: T | None = self._by_key.get(key)
        if known is None:
            if len(self._by_key) >= self._kept:
                self._by_key.clear()
            known = self._by_key[key] = make()
        return known
