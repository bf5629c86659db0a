"""The decorator of all value classes, and the closed vocabularies: levels, paces, placements, verdicts, modes."""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from enum import Enum, IntEnum
from functools import partial
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
def frozen(kind: type[T] | None = None, *, eq: bool = False) -> Any:
    """Make a class a frozen dataclass that compares by identity, or by fields with `eq=True`.

    The standard decorator compiles five methods per class, which took a third of our start time. This one compiles only
    the constructor and shares the other methods; everything else is the standard library's.
    """

    def make(kind: type[T]) -> type[T]:
        made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=True, match_args=False)(kind)
        made.__init__ = write_init_on_first_use(made)
        made.__repr__, made.__reduce__ = show_value, reduce_value
        made.__setattr__ = made.__delattr__ = refuse_change
        if eq:
            made.__eq__, made.__hash__ = write_comparison(made)
        kept: type[T] = made
        return kept

    return make if kind is None else make(kind)


def write_init_on_first_use(kind: Any) -> Callable[..., None]:
    """Return a constructor that replaces itself with the compiled one; a start constructs only some of the classes."""

    def init(self: Any, **values: Any) -> None:
        kind.__init__ = write_init(kind)
        kind.__init__(self, **values)

    return init


def write_init(kind: Any) -> Callable[..., None]:
    """Compile the constructor: keyword-only, writing directly to the slots."""
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
    exec("\n".join([head, *(body or [" pass"])]), names)  # noqa: S102 - field names only, as in the standard library
    init: Callable[..., None] = names["__init__"]
    return init


def write_comparison(kind: Any) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
    """Build `__eq__` and `__hash__` by fields."""
    names = [field.name for field in fields(kind)]
    read = attrgetter(*names) if names else lambda _: ()

    def equal(self: Any, other: object) -> Any:
        return read(self) == read(other) if other.__class__ is kind else NotImplemented

    def digest(self: Any) -> int:
        return hash(read(self))

    return equal, digest


def refuse_change(self: Any, name: str, *_: object) -> NoReturn:
    """Refuse to change a value."""
    raise FrozenInstanceError(f"a {type(self).__name__} is frozen; its {name} cannot change")


def show_value(self: Any) -> str:
    """Return the call that creates the value."""
    parts = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
    return f"{type(self).__name__}({parts})"


def reduce_value(self: Any) -> tuple[Any, ...]:
    """Return how to recreate the value, for copies and pickles."""
    return partial(self.__class__, **{field.name: getattr(self, field.name) for field in fields(self)}), ()


class Trust(IntEnum):
    """How much a reader may see: `public < familiar < inner < full`."""

    PUBLIC = 0
    FAMILIAR = 1
    INNER = 2
    FULL = 3

    def __str__(self) -> str:
        return self.name.lower()


class Pace(IntEnum):
    """The data that a section may depend on, from slowest to fastest."""

    STATIC = 0
    SESSION = 1
    TURN = 2

    def __str__(self) -> str:
        return self.name.lower()


class TextEnum(Enum):
    """An enum whose value is its text in files and output."""

    __hash__ = object.__hash__  # members are singletons; the inherited hash is slow Python code on the hot path

    def __str__(self) -> str:
        return str(self.value)


class Placement(TextEnum):
    """The place of a section: in the system prompt, with the newest user message, or where a template names it."""

    SYSTEM = "system"
    TAIL = "tail"
    NESTED = "nested"


class Verdict(TextEnum):
    """The result for a slot."""

    KEPT = "kept"
    SHORTENED = "shortened"
    INDEXED = "indexed"
    DROPPED = "dropped"
    WITHHELD = "withheld"
    ABSENT = "absent"


class Mode(TextEnum):
    """How much of a blueprint a turn gets: the slots that list the mode under `modes`.

    `brief` is for very small models and windows; `brief` and `none` have no tools.
    """

    FULL = "full"
    MINIMAL = "minimal"
    BRIEF = "brief"
    NONE = "none"


class Delivery(TextEnum):
    """The delivery of the reply of a background run."""

    ALWAYS = "always"
    AS_NEEDED = "as_needed"
    NEVER = "never"


class EditPolicy(TextEnum):
    """When an edit of a section reaches a session that was already sent the old text."""

    NOW = "now"
    APPEND = "append"
    COLD = "cold"
    NEXT_SESSION = "next-session"
    AUTO = "auto"


class Vocabulary(TextEnum):
    """A vocabulary for counting tokens."""

    O200K = "o200k"
    CL100K = "cl100k"
    LLAMA3 = "llama3"
    LLAMA2 = "llama2"
    DEEPSEEK_V3 = "deepseek_v3"
    QWEN3 = "qwen3"
    GLM4 = "glm4"
    KIMI = "kimi"
    PHI4 = "phi4"
    MISTRAL_V3 = "mistral_v3"
    MISTRAL_V1 = "mistral_v1"
    GEMMA3 = "gemma3"
    GEMMA2 = "gemma2"
