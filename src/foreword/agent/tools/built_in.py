"""The parts of a built-in tool: its declaration, its function, and the call that the function gets."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from foreword.assembly import Assembly
from foreword.errors import InputError
from foreword.turn import Tool, ToolAnswer, Toolset, Turn
from foreword.types import Trust, frozen

if TYPE_CHECKING:
    from foreword.workspace import Workspace

MAX_READING_TOKENS = 2_000  # tokens of one excerpt
MAX_LINE_CHARS = 8_000  # characters of one line
TEXT: Mapping[str, Any] = {"type": "string"}
LINE_PARAMETERS: Mapping[str, Any] = {
    "from": {"type": "integer", "minimum": 1, "description": "The first line to read, counted from 1."},
    "lines": {"type": "integer", "minimum": 1, "description": "How many lines to read; all that fit if left out."},
}
JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}


@frozen(eq=True)
class TextExcerpt:
    """The requested lines, and the call that reads the rest."""

    text: str
    first: int
    last: int
    total: int
    tokens: int
    more: str = ""


@frozen
class ToolRun:
    """One call of a built-in tool; its arguments match the types in the tool's schema."""

    workspace: "Workspace"
    assembly: Assembly
    name: str
    arguments: Mapping[str, Any]

    @property
    def turn(self) -> Turn:
        """The turn that makes the call."""
        return self.assembly.turn

    @property
    def level(self) -> Trust:
        """The clearance of the turn."""
        return self.assembly.clearance.level

    def get_text(self, name: str) -> str:
        """Return a text argument; empty if it was left out."""
        return str(self.arguments.get(name, ""))

    def get_number(self, name: str, default: int | None) -> int | None:
        """Return a positive integer argument."""
        value = self.arguments.get(name, default)
        if value is not None and value < 1:
            raise InputError(f"{name!r} must be a whole number from 1 up")
        return value if value is None else int(value)

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return self.assembly.meter.count(text)

    def answer(self, text: str, store: str = "", count: int = 0) -> ToolAnswer:
        """Make an answer."""
        return ToolAnswer(text=text, tokens=self.count(text), store=store, count=count)

    def cut_lines(self, text: str, call: str) -> TextExcerpt:
        """Return the selected lines up to the token limit; `call` is the start of the call that reads the rest."""
        first, limit = self.get_number("from", 1) or 1, self.get_number("lines", None)
        every = [truncate_line(line) for line in text.split("\n")]
        if first > len(every):
            raise InputError(f"the last line is {len(every):,}")
        selected = every[first - 1 : first - 1 + limit if limit else None]
        taken: list[str] = []
        tokens = 0
        for line in selected:
            cost = self.count(line + "\n")
            if taken and tokens + cost > MAX_READING_TOKENS:
                break
            taken.append(line)
            tokens += cost
        last, missing = first - 1 + len(taken), len(selected) - len(taken)
        rest = f"from={last + 1}, lines={missing}" if limit else f"from={last + 1}"
        more = f"{call}, {rest})" if missing else ""
        return TextExcerpt(text="\n".join(taken), first=first, last=last, total=len(every), tokens=tokens, more=more)


ToolFunction = Callable[[ToolRun], TextExcerpt | ToolAnswer]


class ToolFamily:
    """Tools of one kind, with common settings."""

    def __init__(self, kind: str, trust: Trust, seconds: float, shown_in: tuple[str, ...] = ()) -> None:
        self._common: dict[str, Any] = {"kind": kind, "trust": trust, "seconds": seconds, "shown_in": shown_in}
        self._tools: list[Tool] = []
        self.functions: dict[str, ToolFunction] = {}

    def declare(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Any],
        required: tuple[str, ...] | None = (),
        *,
        closed: bool = False,
        **settings: Any,
    ) -> None:
        """Declare a tool; `settings` are further fields of `Tool`, and `closed` refuses other arguments."""
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        if required is not None:
            parameters["required"] = list(required)
        if closed:
            parameters["additionalProperties"] = False
        fields = {**self._common, **settings}
        self._tools.append(Tool(name=name, description=description, parameters=parameters, **fields))

    def tool(
        self, description: str, properties: Mapping[str, Any], required: tuple[str, ...] = (), **settings: Any
    ) -> Callable[[ToolFunction], ToolFunction]:
        """Declare the decorated function as the tool of the same name; the arguments are those of `declare`."""

        def register(function: ToolFunction) -> ToolFunction:
            self.declare(function.__name__, description, properties, required, **settings)
            self.functions[function.__name__] = function
            return function

        return register

    @property
    def toolset(self) -> Toolset:
        """The declarations."""
        return Toolset(self._tools)


def validate_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return the first error in the arguments, or an empty text; nested values are left to the tool."""
    properties = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in arguments]:
        return f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing"
    extra = [name for name in arguments if name not in properties]
    if schema.get("additionalProperties") is False and extra:
        return f"there is no {', '.join(map(repr, extra))}; there is {', '.join(sorted(properties)) or 'none'}"
    for name, value in arguments.items():
        if name in properties and (fault := validate_type(properties[name], value)):
            return f"{name!r} {fault}"
    return ""


def validate_type(schema: Any, value: Any) -> str:
    """Return an error if a value does not have the type of its schema, or an empty text."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    known = [each for each in kinds if each in JSON_TYPES]
    if not known or any(has_type(value, each) for each in known):
        return ""
    return f"is to be {' or '.join(known)}, not {json.dumps(value, default=str)[:60]}"


def has_type(value: Any, kind: str) -> bool:
    """Return whether a value has a JSON type; booleans are not numbers, and 3.0 is an integer."""
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, JSON_TYPES[kind]) or (
        kind == "integer" and isinstance(value, float) and value.is_integer()
    )


def truncate_line(line: str) -> str:
    """Truncate a very long line."""
    rest = len(line) - MAX_LINE_CHARS
    return f"{line[:MAX_LINE_CHARS]} [the line goes on for {rest:,} characters]" if rest > 0 else line
