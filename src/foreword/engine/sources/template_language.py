"""Templates in a small, bounded subset of Jinja, whose variables are placeholders for sections.

The subset has `{{ name }}`, `if`, `for` and a few filters. It has no assignment, macro, include or arithmetic, so the
output can only grow by loop steps, and these are counted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from foreword.errors import InputError
from foreword.types import frozen

MAX_TEMPLATE_CHARS = 200_000  # the maximum characters of a template
MAX_TEMPLATE_NODES = 5_000  # the maximum nodes of a template
MAX_TEMPLATE_STEPS = 10_000  # the maximum steps of all its loops together
STEP_COST_UNIT = 50  # nodes of a step, or characters of a filtered text, that cost one more step
MAX_OUTPUT_CHARS = 1_000_000  # the maximum characters of output, without the sections
MAX_VARIABLE_ITEMS = 1_000_000  # the maximum sections of one variable
SIGN = "\0"  # delimits placeholders: no file can hold it, and no template may write it
STEPS, COUNTED = f"{SIGN}steps", f"{SIGN}counted"  # names that no template can write
WRITTEN = re.compile(f"{SIGN}([0-9]{{1,9}}){SIGN}")
NODES = (
    "Template", "Output", "TemplateData", "Name", "Getattr", "Getitem", "For", "If", "Const", "Compare", "Operand",
    "And", "Or", "Not", "Filter", "Test", "CondExpr", "List", "Tuple",
)  # fmt: skip
FILTERS = ("default", "d", "upper", "lower", "trim", "title", "capitalize", "length", "count", "first", "last")
ATTRIBUTES = ("name", "instructions")  # of a placeholder
LOOP = ("index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem")
TESTS = ("defined", "undefined", "none", "string", "iterable", "true", "false")

T = TypeVar("T")


class InvalidTemplate(InputError):
    """A template cannot be used; the message names the line."""

    def __init__(self, message: str, line: int | None = 0) -> None:
        self.message = message
        self.line = line or 0
        super().__init__(f"{message} in line {line:,}" if line else message)

    def below(self, lines: int) -> "InvalidTemplate":
        """Return the same error for a template that begins so many lines further down in its file."""
        return InvalidTemplate(self.message, self.line + lines if self.line else 0)


@frozen
class ParsedTemplate:
    """A parsed and checked template, with the plain values that are already known."""

    source: str
    names: frozenset[str]
    """The variables that it uses."""
    known: Mapping[str, str | tuple[str, ...]]

    def expand_parts(
        self, variables: Mapping[str, Sequence[tuple[str, T]]], moving: Sequence[str]
    ) -> tuple[list[str | T], list[str | T]]:
        """Expand the template in two parts: up to the first use of a moving variable, and the rest."""
        things: dict[int, tuple[T, ...]] = {}
        context = {name: Placeholder.of(at, variables[name], things) for at, name in enumerate(sorted(variables))}
        steps = StepCounter()
        compiled = compile_template(self.source, frozenset(moving))
        first, second = (self._write(template, context, steps) for template in (compiled.stable, compiled.moving))
        # Trailing white space belongs to the second part.
        stable = first.rstrip() if moving else first
        rest = first[len(stable) :] + second
        placed: set[int] = set()
        return list(split_placeholders(stable, things, placed)), list(split_placeholders(rest, things, placed))

    def _write(self, template: Any, context: Mapping[str, Any], steps: "StepCounter") -> str:
        """Expand one part, with placeholders for the items."""
        pieces, size = [], 0
        try:
            for piece in template.generate({**self.known, **context, STEPS: steps}):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_OUTPUT_CHARS:
                    break
        except InvalidTemplate:
            raise
        except Exception as error:  # noqa: BLE001 - a template may raise anything, and must not end the turn
            raise InvalidTemplate(f"cannot be filled in: {error}") from None
        if size > MAX_OUTPUT_CHARS:
            raise InvalidTemplate(f"writes more than {MAX_OUTPUT_CHARS:,} characters")
        return "".join(pieces)


@frozen
class CompiledTemplate:
    """A compiled template in two parts, and the variables it uses."""

    stable: Any
    moving: Any
    names: frozenset[str]


NO_LISTS: Mapping[str, tuple[str, ...]] = {}


def parse_template(
    text: str, known: Mapping[str, str], lists: Mapping[str, tuple[str, ...]] = NO_LISTS
) -> ParsedTemplate:
    """Parse a template, or raise InvalidTemplate with the line."""
    names = compile_template(text).names
    texts = {name: value.replace(SIGN, "") for name, value in known.items()}
    return ParsedTemplate(source=text, names=names, known={**texts, **lists})


class StepCounter:
    """Counts the steps of all loops; a long step counts for several, as does a filter on a long text."""

    def __init__(self) -> None:
        self.left = MAX_TEMPLATE_STEPS

    def take(self, steps: int) -> None:
        """Subtract steps from the remaining ones."""
        self.left -= steps
        if self.left < 0:
            raise InvalidTemplate(f"takes more than {MAX_TEMPLATE_STEPS:,} steps")

    def count(self, items: Iterable[T], cost: int) -> Iterator[T]:
        """Yield items while steps remain."""
        for item in items:
            self.take(cost)
            yield item


class Placeholder(Generic[T]):
    """A placeholder for items in a template, written as a sign that no file can hold."""

    def __init__(self, label: str, sign: str, parts: "Sequence[Placeholder[T]]") -> None:
        self.name = label
        self._sign = sign
        self._parts = parts

    @classmethod
    def of(cls, number: int, named: Sequence[tuple[str, T]], things: dict[int, tuple[T, ...]]) -> "Placeholder[T]":
        """Make the placeholder of a variable's items, which is also the list of their placeholders."""
        first = number * MAX_VARIABLE_ITEMS
        things[first] = tuple(thing for _, thing in named)
        things |= {first + at: (thing,) for at, (_, thing) in enumerate(named, 1)}
        parts = [
            cls(label.replace(SIGN, ""), f"{SIGN}{first + at}{SIGN}", ()) for at, (label, _) in enumerate(named, 1)
        ]
        return cls("", f"{SIGN}{first}{SIGN}" if named else "", parts)

    @property
    def instructions(self) -> "Placeholder[T]":
        """The item itself, for templates written for other tools."""
        return self

    def __str__(self) -> str:
        return self._sign

    __repr__ = __str__  # for a placeholder in a printed list

    def __bool__(self) -> bool:
        return bool(self._sign)

    def __iter__(self) -> "Iterator[Placeholder[T]]":
        return iter(self._parts)

    def __reversed__(self) -> "Iterator[Placeholder[T]]":
        return reversed(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def split_placeholders(text: str, things: Mapping[int, tuple[T, ...]], placed: set[int]) -> Iterator[str | T]:
    """Split output at its placeholders; an item that was placed before is skipped.

    A filter may have cut a placeholder; its remains are removed.
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
def compile_template(text: str, moving: frozenset[str] = frozenset()) -> CompiledTemplate:
    """Compile a template after checking every node; the first node that uses a moving variable starts part two."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError, TemplateSyntaxError

    if len(text) > MAX_TEMPLATE_CHARS:
        raise InvalidTemplate(f"has {len(text):,} characters; a template has at most {MAX_TEMPLATE_CHARS:,}")
    environment = make_environment()
    try:
        tree = environment.parse(text)
        check_nodes(tree)  # first: Jinja would evaluate constants such as 9 ** 9 ** 9
        names = find_variables(tree)
        for loop in tree.find_all(nodes.For):
            step = [node for part in (*loop.body, loop.test) if part for node in walk_nodes(part)]
            cost = sum(1 + len(read_constant(node)) // STEP_COST_UNIT for node in step)
            steps = nodes.Const(1 + cost // STEP_COST_UNIT)
            loop.iter = nodes.Filter(loop.iter, COUNTED, [steps], [], None, None, lineno=loop.lineno)
        parts = [nodes.Template(body, lineno=1) for body in split_body(tree.body, moving)]
        stable, rest = (environment.from_string(part.set_environment(environment)) for part in parts)
        return CompiledTemplate(stable=stable, moving=rest, names=names)
    except TemplateSyntaxError as error:
        raise InvalidTemplate(f"is not a usable template: {error.message}", error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError):  # limits of Python for the code that Jinja generates
        raise InvalidTemplate("is not a usable template: it is nested too deeply") from None
    except (TemplateError, ArithmeticError, ValueError) as error:
        raise InvalidTemplate(f"is not a usable template: {error}") from None


def split_body(body: Sequence[Any], moving: frozenset[str]) -> tuple[list[Any], list[Any]]:
    """Split the nodes of a template before the first one that uses a moving variable."""
    from jinja2 import nodes

    flat: list[Any] = []
    for node in body:
        several = isinstance(node, nodes.Output)
        flat += [nodes.Output([one], lineno=one.lineno) for one in node.nodes] if several else [node]
    for at, node in enumerate(flat):
        if any(type(one).__name__ == "Name" and one.name in moving for one in walk_nodes(node)):
            return flat[:at], flat[at:]
    return flat, []


def find_variables(tree: Any) -> frozenset[str]:
    """Return the variables of a template; unlike Jinja's function, without evaluating constants."""
    from jinja2.meta import TrackingCodeGenerator

    finder = TrackingCodeGenerator(tree.environment)
    finder.optimizer = None
    finder.visit(tree)
    return frozenset(finder.undeclared_identifiers)


def check_nodes(tree: Any) -> None:
    """Refuse a template with nodes outside the bounded subset."""
    for count, node in enumerate(walk_nodes(tree), 1):
        kind = type(node).__name__
        itself = kind == "Name" and node.name == "self"
        if kind not in NODES or itself or (kind == "For" and node.recursive):
            word = "self" if itself else kind.lower()
            raise InvalidTemplate(f"uses {word}, and there is only if, for and {{{{ name }}}}", node.lineno)
        if count > MAX_TEMPLATE_NODES:
            raise InvalidTemplate(f"has more than {MAX_TEMPLATE_NODES:,} parts")
        if SIGN in read_constant(node):
            raise InvalidTemplate("writes a NUL, which is no text", node.lineno)


def walk_nodes(tree: Any) -> Iterator[Any]:
    """Yield a node and all nodes below it, in order."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(node.iter_child_nodes())))


def read_constant(node: Any) -> str:
    """Return the text of a constant node, or an empty string."""
    text = getattr(node, "value", None) or getattr(node, "data", None)
    return text if isinstance(text, str) else ""


@lru_cache(maxsize=1)
def make_environment() -> Any:
    """Create the environment of all templates: immutable, sandboxed, without a loader and with few callables."""
    from jinja2 import ChainableUndefined, pass_context
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """Exposes only attributes of placeholders and loops: a printed method would differ in each process."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            known = ATTRIBUTES if isinstance(obj, Placeholder) else LOOP if isinstance(obj, LoopContext) else ()
            return getattr(obj, attribute) if attribute in known else self.undefined(obj=obj, name=attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(obj, (str, list, tuple)) and isinstance(argument, int):
                return obj[argument] if -len(obj) <= argument < len(obj) else self.undefined(obj=obj)
            return self.getattr(obj, argument)

    # Not optimised: constants would be evaluated without counting steps.
    environment = Environment(undefined=ChainableUndefined, autoescape=False, optimized=False)
    plain = ImmutableSandboxedEnvironment(undefined=ChainableUndefined)

    def bind(name: str) -> Any:
        @pass_context
        def apply(context: Any, value: Any, *args: Any) -> Any:
            context[STEPS].take(len(value) // STEP_COST_UNIT if isinstance(value, str) else 0)
            return plain.call_filter(name, value, args)

        return apply

    @pass_context
    def counted(context: Any, items: Iterable[T], cost: int) -> Iterator[T]:
        return context[STEPS].count(items, cost)  # type: ignore[no-any-return]

    environment.globals.clear()
    environment.filters = {**{name: bind(name) for name in FILTERS}, COUNTED: counted}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment
