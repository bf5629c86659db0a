"""Patterns: templates in a small, bounded part of Jinja, whose variables stand for sections.

There is `{{ name }}`, `if`, `for` and a few filters. There is no assignment, no macro, no include and no arithmetic, so
that nothing can grow but by the steps of a loop, and those are counted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from foreword.errors import InputError
from foreword.frozen import frozen

LONGEST = 200_000  # characters of a template
MOST_NODES = 20_000  # parts of a template
MOST_STEPS = 10_000  # steps of all its loops together
MOST_OUTPUT = 1_000_000  # characters that it writes by itself
STEPS = "\0steps"  # a name that no template can write
NODES = (
    "Template", "Output", "TemplateData", "Name", "Getattr", "Getitem", "For", "If", "Const", "Compare", "Operand",
    "And", "Or", "Not", "Filter", "Test", "CondExpr", "List", "Tuple",
)  # fmt: skip
FILTERS = ("default", "d", "upper", "lower", "trim", "title", "capitalize", "length", "count", "first", "last")
TESTS = ("defined", "undefined", "none", "string", "iterable", "true", "false")

T = TypeVar("T")


class TemplateFault(InputError):
    """A template cannot be used, and in which line."""

    def __init__(self, message: str, line: int = 0) -> None:
        self.line = line
        super().__init__(f"{message} in line {line:,}" if line else message)


@frozen
class Pattern:
    """A template that was read and checked, and the plain values that are known already."""

    source: str
    names: frozenset[str]
    """The variables that it mentions."""
    known: Mapping[str, str]

    def fill(self, variables: Mapping[str, Sequence[tuple[str, T]]]) -> list[str | T]:
        """Write the template out; each variable stands for named things, and these come back in their places."""
        things: list[tuple[T, ...]] = []
        context: dict[str, Any] = {name: Mark.of(named, things) for name, named in variables.items()}
        template = compile_template(self.source)[0]
        try:
            written = "".join(bound(template.generate({**self.known, **context, STEPS: Steps()})))
        except TemplateFault:
            raise
        except Exception as error:  # noqa: BLE001 - a template may fail in any way, and none may end the turn
            raise TemplateFault(f"cannot be filled in: {error}") from None
        return list(split_marks(written, things))


def read_pattern(text: str, known: Mapping[str, str]) -> Pattern:
    """Read a template, or raise TemplateFault with the line."""
    _, names = compile_template(text)
    return Pattern(source=text, names=names, known=known)


def bound(pieces: Iterable[str]) -> Iterator[str]:
    """Pass on what a template writes, as long as it is not too much."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MOST_OUTPUT:
            raise TemplateFault(f"writes more than {MOST_OUTPUT:,} characters")
        yield piece


class Steps:
    """Counts the steps of all loops."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def count(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on, as long as there are steps left."""
        for item in items:
            self.left -= 1
            if self.left < 0:
                raise TemplateFault(f"takes more than {MOST_STEPS:,} steps")
            yield item


class Mark(Generic[T]):
    """Stands in a template for things, and is written as a sign that no file can hold."""

    def __init__(self, label: str, sign: str, parts: "Sequence[Mark[T]]") -> None:
        self.name = label
        self._sign = sign
        self._parts = parts

    @classmethod
    def of(cls, named: Sequence[tuple[str, T]], things: list[tuple[T, ...]]) -> "Mark[T]":
        """Make the mark of several things, which is also a list of their own marks."""
        parts = [cls(label, sign_for((thing,), things), ()) for label, thing in named]
        return cls("", sign_for(tuple(thing for _, thing in named), things), parts)

    @property
    def instructions(self) -> "Mark[T]":
        """The thing itself, as the templates of others call it."""
        return self

    def __str__(self) -> str:
        return self._sign

    def __bool__(self) -> bool:
        return bool(self._parts) or bool(self.name)

    def __iter__(self) -> "Iterator[Mark[T]]":
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def sign_for(some: tuple[T, ...], things: list[tuple[T, ...]]) -> str:
    """Return the sign of some things."""
    things.append(some)
    return f"\0{len(things) - 1}\0" if some else ""


def split_marks(text: str, things: Sequence[tuple[T, ...]]) -> Iterator[str | T]:
    """Split what was written at its signs; a thing that was placed already is not placed again."""
    placed: set[int] = set()
    for at, piece in enumerate(text.split("\0")):
        if at % 2 == 0:
            if piece:
                yield piece
            continue
        for thing in things[int(piece)] if piece.isdecimal() and int(piece) < len(things) else ():
            if id(thing) not in placed:
                placed.add(id(thing))
                yield thing


@lru_cache(maxsize=256)
def compile_template(text: str) -> tuple[Any, frozenset[str]]:
    """Compile a template after every part of it was looked at, and name its variables."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError, TemplateSyntaxError
    from jinja2.meta import find_undeclared_variables

    if len(text) > LONGEST:
        raise TemplateFault(f"has {len(text):,} characters; a template has at most {LONGEST:,}")
    environment = make_environment()
    try:
        tree = environment.parse(text)
        names = frozenset(find_undeclared_variables(tree))
        check_nodes(tree)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno)
        return environment.from_string(tree), names
    except TemplateSyntaxError as error:
        raise TemplateFault(f"is not a usable template: {error.message}", error.lineno) from None
    except (TemplateError, RecursionError, MemoryError, OverflowError) as error:
        raise TemplateFault(f"is not a usable template: {error or type(error).__name__}") from None


def check_nodes(tree: Any) -> None:
    """Refuse a template that has other parts than those that cannot grow."""
    from jinja2 import nodes

    for count, node in enumerate(tree.find_all(nodes.Node), 1):
        kind = type(node).__name__
        if kind not in NODES or (kind == "For" and node.recursive):
            raise TemplateFault(f"uses {kind.lower()}, and there is only if, for and {{{{ name }}}}", node.lineno)
        if count > MOST_NODES:
            raise TemplateFault(f"has more than {MOST_NODES:,} parts")


@lru_cache(maxsize=1)
def make_environment() -> Any:
    """Make the environment of all templates: immutable, sandboxed, with nothing to load and little to call."""
    from jinja2 import ChainableUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=ChainableUndefined, autoescape=False)
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    environment.tests = {name: environment.tests[name] for name in TESTS}

    @pass_context
    def counted(context: Any, items: Iterable[T]) -> Iterator[T]:
        return context[STEPS].count(items)  # type: ignore[no-any-return]

    environment.filters["counted"] = counted
    return environment
