"""The one decorator for values: frozen, with slots, made by keyword."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(kind: type[T]) -> type[T]: ...


@overload
def frozen(*, eq: bool) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
def frozen(kind: type[T] | None = None, *, eq: bool = False) -> Any:
    """Make a class a frozen dataclass, compared by identity unless asked otherwise.

    The standard decorator compiles every method by itself, a millisecond a class at each start; this one
    leaves out what values do not need and shares the rest.
    """

    def make(kind: type[T]) -> type[T]:
        made = dataclass(frozen=True, slots=True, kw_only=True, eq=eq, repr=False, match_args=False)(kind)
        made.__repr__ = show  # type: ignore[method-assign]
        return made

    return make if kind is None else make(kind)


def show(self: Any) -> str:
    """Show a value as the call that makes it."""
    parts = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
    return f"{type(self).__name__}({parts})"
