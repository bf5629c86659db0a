"""Patterns: templates in a small, bounded part of Jinja, whose variables stand for sections.

There is `{{ name }}`, `if`, `for` and a few filters. There is no assignment, no macro, no include and no arithmetic, so
that nothing can grow but by the steps of a loop, and those are counted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from foreword.errors import InputError
from foreword.frozen import frozen

LONGEST = 200_000  # characters of a template
MOST_NODES = 5_000  # parts of a template
MOST_STEPS = 10_000  # steps of all its loops together
LONG = 50  # parts of a step, or characters of a filtered text, that count for one step more
MOST_OUTPUT = 1_000_000  # characters that it writes by itself
MOST_THINGS = 1_000_000  # that one variable may stand for
SIGN = "\0"  # what no file can hold, and no template may write
STEPS, COUNTED = f"{SIGN}steps", f"{SIGN}counted"  # names that no template can write
WRITTEN = re.compile(f"{SIGN}([0-9]{{1,9}}){SIGN}")
NODES = (
    "Template", "Output", "TemplateData", "Name", "Getattr", "Getitem", "For", "If", "Const", "Compare", "Operand",
    "And", "Or", "Not", "Filter", "Test", "CondExpr", "List", "Tuple",
)  # fmt: skip
FILTERS = ("default", "d", "upper", "lower", "trim", "title", "capitalize", "length", "count", "first", "last")
ATTRIBUTES = ("name", "instructions")  # of a mark
LOOP = ("index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem")
TESTS = ("defined", "undefined", "none", "string", "iterable", "true", "false")

T = TypeVar("T")


class TemplateFault(InputError):
    """A template cannot be used, and in which line."""

    def __init__(self, message: str, line: int | None = 0) -> None:
        self.message = message
        self.line = line or 0
        super().__init__(f"{message} in line {line:,}" if line else message)

    def below(self, lines: int) -> "TemplateFault":
        """Return the same fault for a template that begins so many lines further down in its file."""
        return TemplateFault(self.message, self.line + lines if self.line else 0)


@frozen
class Pattern:
    """A template that was read and checked, and the plain values that are known already."""

    source: str
    names: frozenset[str]
    """The variables that it mentions."""
    known: Mapping[str, str | tuple[str, ...]]

    def fill(self, variables: Mapping[str, Sequence[tuple[str, T]]]) -> list[str | T]:
        """Write the template out; each variable stands for named things, and these come back in their places."""
        return self.fill_apart(variables, ())[0]

    def fill_apart(
        self, variables: Mapping[str, Sequence[tuple[str, T]]], moving: Sequence[str]
    ) -> tuple[list[str | T], list[str | T]]:
        """Write the template out in two parts: what stands before any mention of a moving variable, and the rest."""
        things: dict[int, tuple[T, ...]] = {}
        context = {name: Mark.of(at, variables[name], things) for at, name in enumerate(sorted(variables))}
        steps = Steps()
        compiled = compile_template(self.source, frozenset(moving))
        first, second = (self._write(template, context, steps) for template in (compiled.stable, compiled.moving))
        # White space belongs to what follows it.
        stable = first.rstrip() if moving else first
        rest = first[len(stable) :] + second
        placed: set[int] = set()
        return list(split_marks(stable, things, placed)), list(split_marks(rest, things, placed))

    def _write(self, template: Any, context: Mapping[str, Any], steps: "Steps") -> str:
        """Write one part out, with a sign wherever something stands."""
        try:
            return "".join(bound(template.generate({**self.known, **context, STEPS: steps})))
        except TemplateFault:
            raise
        except Exception as error:  # noqa: BLE001 - a template may fail in any way, and none may end the turn
            raise TemplateFault(f"cannot be filled in: {error}") from None


@frozen
class Compiled:
    """A template that was looked at, in two parts, and the variables it mentions."""

    stable: Any
    moving: Any
    names: frozenset[str]


NO_LISTS: Mapping[str, tuple[str, ...]] = {}


def read_pattern(text: str, known: Mapping[str, str], lists: Mapping[str, tuple[str, ...]] = NO_LISTS) -> Pattern:
    """Read a template, or raise TemplateFault with the line."""
    names = compile_template(text).names
    texts = {name: value.replace(SIGN, "") for name, value in known.items()}
    return Pattern(source=text, names=names, known={**texts, **lists})


def bound(pieces: Iterable[str]) -> Iterator[str]:
    """Pass on what a template writes, as long as it is not too much."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MOST_OUTPUT:
            raise TemplateFault(f"writes more than {MOST_OUTPUT:,} characters")
        yield piece


class Steps:
    """Counts the steps of all loops; a long one counts for several, and so does a filter on a long text."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def take(self, steps: int) -> None:
        """Take steps from those that are left."""
        self.left -= steps
        if self.left < 0:
            raise TemplateFault(f"takes more than {MOST_STEPS:,} steps")

    def count(self, items: Iterable[T], cost: int) -> Iterator[T]:
        """Pass items on, as long as there are steps left."""
        for item in items:
            self.take(cost)
            yield item


class Mark(Generic[T]):
    """Stands in a template for things, and is written as a sign that no file can hold."""

    def __init__(self, label: str, sign: str, parts: "Sequence[Mark[T]]") -> None:
        self.name = label
        self._sign = sign
        self._parts = parts

    @classmethod
    def of(cls, number: int, named: Sequence[tuple[str, T]], things: dict[int, tuple[T, ...]]) -> "Mark[T]":
        """Make the mark of a variable's things, which is also a list of their own marks."""
        first = number * MOST_THINGS
        things[first] = tuple(thing for _, thing in named)
        things |= {first + at: (thing,) for at, (_, thing) in enumerate(named, 1)}
        parts = [cls(label.replace(SIGN, ""), write_sign(first + at), ()) for at, (label, _) in enumerate(named, 1)]
        return cls("", write_sign(first) if named else "", parts)

    @property
    def instructions(self) -> "Mark[T]":
        """The thing itself, as the templates of others call it."""
        return self

    def __str__(self) -> str:
        return self._sign

    __repr__ = __str__  # in a list, too

    def __bool__(self) -> bool:
        return bool(self._sign)

    def __iter__(self) -> "Iterator[Mark[T]]":
        return iter(self._parts)

    def __reversed__(self) -> "Iterator[Mark[T]]":
        return reversed(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def write_sign(number: int) -> str:
    """Write the sign of some things."""
    return f"{SIGN}{number}{SIGN}"


def split_marks(text: str, things: Mapping[int, tuple[T, ...]], placed: set[int]) -> Iterator[str | T]:
    """Split what was written at its signs; a thing that was placed already is not placed again.

    A filter may have cut a sign to pieces, and these stand for nothing.
    """
    words = ""
    for at, piece in enumerate(WRITTEN.split(text)):
        if at % 2 == 0:
            words += piece.replace(SIGN, "")
            continue
        new = [thing for thing in things.get(int(piece), ()) if id(thing) not in placed]
        if words and new:
            yield words
            words = ""
        placed.update(map(id, new))
        yield from new
    if words:
        yield words


@lru_cache(maxsize=256)
def compile_template(text: str, moving: frozenset[str] = frozenset()) -> Compiled:
    """Compile a template after every part of it was looked at; what mentions a moving variable begins a second part."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError, TemplateSyntaxError

    if len(text) > LONGEST:
        raise TemplateFault(f"has {len(text):,} characters; a template has at most {LONGEST:,}")
    environment = make_environment()
    try:
        tree = environment.parse(text)
        check_nodes(tree)  # before anything else: Jinja works out what is constant, such as 9 ** 9 ** 9
        names = find_names(tree)
        for loop in tree.find_all(nodes.For):
            step = (*loop.body, *([loop.test] if loop.test else ()))
            cost = nodes.Const(1 + sum(weigh(node) for part in step for node in walk(part)) // LONG)
            loop.iter = nodes.Filter(loop.iter, COUNTED, [cost], [], None, None, lineno=loop.lineno)
        parts = [nodes.Template(body, lineno=1) for body in split_body(tree.body, moving)]
        stable, rest = (environment.from_string(part.set_environment(environment)) for part in parts)
        return Compiled(stable=stable, moving=rest, names=names)
    except TemplateSyntaxError as error:
        raise TemplateFault(f"is not a usable template: {error.message}", error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError):  # Python has limits for what Jinja writes
        raise TemplateFault("is not a usable template: it is nested too deeply") from None
    except (TemplateError, ArithmeticError, ValueError) as error:
        raise TemplateFault(f"is not a usable template: {error}") from None


def split_body(body: Sequence[Any], moving: frozenset[str]) -> tuple[list[Any], list[Any]]:
    """Split the parts of a template before the first one that mentions a moving variable."""
    from jinja2 import nodes

    flat: list[Any] = []
    for node in body:
        several = isinstance(node, nodes.Output)
        flat += [nodes.Output([one], lineno=one.lineno) for one in node.nodes] if several else [node]
    first = next((at for at, node in enumerate(flat) if mentions(node, moving)), len(flat))
    return flat[:first], flat[first:]


def mentions(tree: Any, names: frozenset[str]) -> bool:
    """Whether a part of a template mentions one of these variables."""
    return any(type(node).__name__ == "Name" and node.name in names for node in walk(tree))


def find_names(tree: Any) -> frozenset[str]:
    """Name the variables of a template; unlike Jinja's own function, without working out what is constant."""
    from jinja2.meta import TrackingCodeGenerator

    finder = TrackingCodeGenerator(tree.environment)
    finder.optimizer = None
    finder.visit(tree)
    return frozenset(finder.undeclared_identifiers)


def check_nodes(tree: Any) -> None:
    """Refuse a template that has other parts than those that cannot grow."""
    for count, node in enumerate(walk(tree), 1):
        kind = type(node).__name__
        itself = kind == "Name" and node.name == "self"
        if kind not in NODES or itself or (kind == "For" and node.recursive):
            word = "self" if itself else kind.lower()
            raise TemplateFault(f"uses {word}, and there is only if, for and {{{{ name }}}}", node.lineno)
        if count > MOST_NODES:
            raise TemplateFault(f"has more than {MOST_NODES:,} parts")
        if SIGN in read_constant(node):
            raise TemplateFault("writes a NUL, which is no text", node.lineno)


def walk(tree: Any) -> Iterator[Any]:
    """Give a part of a template and all parts of it, in their order."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(node.iter_child_nodes())))


def weigh(node: Any) -> int:
    """Weigh what one part of a template does in a step of a loop."""
    return 1 + len(read_constant(node)) // LONG


def read_constant(node: Any) -> str:
    """Return the text that a part of a template holds, if it is one."""
    text = getattr(node, "value", None) or getattr(node, "data", None)
    return text if isinstance(text, str) else ""


@lru_cache(maxsize=1)
def make_environment() -> Any:
    """Make the environment of all templates: immutable, sandboxed, with nothing to load and little to call."""
    from jinja2 import ChainableUndefined, pass_context
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """Shows no attribute but those of marks and loops: a method, printed, would be another text in each process."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            known = ATTRIBUTES if isinstance(obj, Mark) else LOOP if isinstance(obj, LoopContext) else ()
            return getattr(obj, attribute) if attribute in known else self.undefined(obj=obj, name=attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(obj, (str, list, tuple)) and isinstance(argument, int):
                return obj[argument] if -len(obj) <= argument < len(obj) else self.undefined(obj=obj)
            return self.getattr(obj, argument)

    # What is constant is not worked out beforehand, where no step is counted.
    environment = Environment(undefined=ChainableUndefined, autoescape=False, optimized=False)
    plain = ImmutableSandboxedEnvironment(undefined=ChainableUndefined)

    def bind(name: str) -> Any:
        @pass_context
        def apply(context: Any, value: Any, *args: Any) -> Any:
            context[STEPS].take(len(value) // LONG if isinstance(value, str) else 0)
            return plain.call_filter(name, value, args)

        return apply

    @pass_context
    def counted(context: Any, items: Iterable[T], cost: int) -> Iterator[T]:
        return context[STEPS].count(items, cost)  # type: ignore[no-any-return]

    environment.globals.clear()
    environment.filters = {**{name: bind(name) for name in FILTERS}, COUNTED: counted}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment
