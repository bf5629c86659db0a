"""The one decorator for values: frozen, with slots, made by keyword."""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(kind: type[T]) -> type[T]: ...


@overload
def frozen(*, eq: bool) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
def frozen(kind: type[T] | None = None, *, eq: bool = False) -> Any:
    """Make a class a frozen dataclass, compared by identity unless asked otherwise.

    The standard decorator compiles five methods for each class, which took a third of our start. This one compiles the
    constructor alone and shares the rest; everything else about the class is the standard library's.
    """

    def make(kind: type[T]) -> type[T]:
        made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True, match_args=False)(kind)
        made.__init__ = write_init(made)
        made.__repr__, made.__setattr__, made.__delattr__, made.__reduce__ = show, refuse, refuse, reduce
        if eq:
            made.__eq__, made.__hash__ = write_comparison(made)
        kept: type[T] = made
        return kept

    return make if kind is None else make(kind)


def write_init(kind: Any) -> Callable[..., None]:
    """Write the constructor: keywords only, straight into the slots."""
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters, body = [], []
    for field in fields(kind):
        name = field.name
        names[f"set_{name}"] = getattr(kind, name).__set__
        given = name
        if field.default_factory is not MISSING:
            names[f"make_{name}"] = field.default_factory
            parameters.append(f"{name}=MISSING")
            given = f"make_{name}() if {name} is MISSING else {name}"
        elif field.default is not MISSING:
            names[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        body.append(f" set_{name}(self, {given})")
    if hasattr(kind, "__post_init__"):
        body.append(" self.__post_init__()")
    head = f"def __init__(self, *, {', '.join(parameters)}):" if parameters else "def __init__(self):"
    exec("\n".join([head, *(body or [" pass"])]), names)  # noqa: S102 - names of fields, as the standard library does
    init: Callable[..., None] = names["__init__"]
    return init


def write_comparison(kind: Any) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
    """Write the comparison by fields."""
    names = [field.name for field in fields(kind)]
    read = attrgetter(*names) if names else lambda _: ()

    def equal(self: Any, other: object) -> Any:
        return read(self) == read(other) if other.__class__ is kind else NotImplemented

    def digest(self: Any) -> int:
        return hash(read(self))

    return equal, digest


def refuse(self: Any, name: str, *_: object) -> NoReturn:
    """Refuse to change a value."""
    raise FrozenInstanceError(f"a {type(self).__name__} is frozen, so its {name} cannot change")


def show(self: Any) -> str:
    """Show a value as the call that makes it."""
    parts = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
    return f"{type(self).__name__}({parts})"


def reduce(self: Any) -> tuple[Any, ...]:
    """Say how to make the value again, for copies and pickles."""
    return remake, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})


def remake(kind: type[T], values: dict[str, Any]) -> T:
    """Make a value of its fields."""
    return kind(**values)
