"""The declaration of a tool: the decorator `foreword.tool`, what a tool's function gets, and what it returns.

    @foreword.tool(trust="familiar", seconds=10)
    def find_train(start: str, end: str) -> str:
        \"\"\"Find the next train.\"\"\"

The signature and the docstring give the name, the description and the schema. The result is a `Tool`, which holds its
function: a turn's `Toolset` is the registry in which its calls are looked up.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, overload

from foreword.agent.tools.arguments import read_arguments
from foreword.assembly import Assembly
from foreword.errors import InputError, ToolError, UnknownName
from foreword.events.tracer import TraceNode
from foreword.resources import read_resource
from foreword.turn import MAX_ARGUMENT_CHARS, Tool, ToolAnswer, Turn
from foreword.types import Trust, frozen

if TYPE_CHECKING:
    from foreword.agent.agent_events import TurnSpending
    from foreword.agent.loop import AgentLoop
    from foreword.workspace import Workspace

MAX_READING_TOKENS = 2_000  # tokens of one excerpt
MAX_LINE_CHARS = 8_000  # characters of one line
CO_COROUTINE, CO_VARKEYWORDS = 0x80, 0x08  # flags of `async def` and `**others`, as in `inspect`
MAX_NAME_CHARS = 64  # characters that every provider accepts
LEVELS = {str(level): level for level in Trust}


@frozen(eq=True)
class TextExcerpt(ToolAnswer):
    """The requested lines, and the call that reads the rest."""

    first: int
    last: int
    total: int
    more: str = ""


@frozen
class ToolRun:
    """One call of a tool: the turn that makes it, and helpers for its answer.

    A function that has a parameter with this hint gets it; the model does not see that parameter.
    """

    workspace: "Workspace"
    assembly: Assembly
    name: str
    node: TraceNode | None = None
    """The position of the call in the trace; None outside an agent's turn."""
    loop: "AgentLoop | None" = None
    """Runs the turns of subagents; None outside an agent's turn."""
    spending: "TurnSpending | None" = None
    """Adds up the calls of the turn."""

    @property
    def turn(self) -> Turn:
        """The turn that makes the call."""
        return self.assembly.turn

    @property
    def level(self) -> Trust:
        """The clearance of the turn."""
        return self.assembly.clearance.level

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return self.assembly.meter.count(text)

    def answer(self, text: str, store: str = "", count: int = 0) -> ToolAnswer:
        """Make an answer."""
        return ToolAnswer(text=text, tokens=self.count(text), store=store, count=count)

    def cut_lines(self, text: str, call: str, first: int, limit: int) -> TextExcerpt:
        """Return lines from `first` on, up to the token limit and to `limit` lines unless it is 0.

        `call` is the start of the call that reads the rest.
        """
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


def truncate_line(line: str) -> str:
    """Truncate a very long line."""
    rest = len(line) - MAX_LINE_CHARS
    return f"{line[:MAX_LINE_CHARS]} [the line goes on for {rest:,} characters]" if rest > 0 else line


class PythonFunction:
    """A Python function that runs a tool; its signature says how arguments are read."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._run_parameter = find_run_parameter(function)

    @property
    def is_ours(self) -> bool:
        """Whether it is part of this package; its arguments are plain JSON values, and need no conversion."""
        return self._function.__module__.startswith("foreword.")

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function; any other runs in a thread."""
        return bool(self._function.__code__.co_flags & CO_COROUTINE)

    def bind(self, owner: object) -> "PythonFunction":
        """Return the method of an object."""
        return PythonFunction(self._function.__get__(owner))

    def describe(self) -> tuple[str, Mapping[str, Any]]:
        """Return the description and the parameters that the docstring and the signature give."""
        try:
            from foreword.agent.tools.signature import describe_function
        except ModuleNotFoundError as error:
            raise InputError(f"foreword.tool needs the package {error.name}: pip install 'foreword[gateway]'") from None
        return describe_function(self._function, self._run_parameter)

    def read(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check and convert the arguments of a call; raise InputError that names the wrong one."""
        code = self._function.__code__
        takes_others = bool(code.co_flags & CO_VARKEYWORDS)
        if takes_others:  # of which none may have the name of a parameter that is no argument
            parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            hidden = {*parameters} - {*tool.parameters["properties"]}
            arguments = {name: value for name, value in arguments.items() if name not in hidden}
        values = read_arguments(tool, arguments, takes_others=takes_others)
        if self.is_ours:
            return {f"{name}_" if iskeyword(name) else name: value for name, value in values.items()}
        from foreword.agent.tools.signature import convert_arguments

        return convert_arguments(self._function, values, self._run_parameter)

    def call_now(self, run: ToolRun, values: Mapping[str, Any]) -> ToolAnswer:
        """Run a function that is not a coroutine function."""
        returned = self._start(run, values)
        return returned if isinstance(returned, ToolAnswer) else make_answer(run, returned)

    async def call(self, run: ToolRun, values: Mapping[str, Any]) -> ToolAnswer:
        """Run the function: a coroutine function in the event loop, any other in a thread."""
        import asyncio

        if not self.is_async:
            return await asyncio.to_thread(self.call_now, run, values)
        try:
            returned = await self._start(run, values)
        except SystemExit as error:
            raise ToolError("it tried to end the process") from error
        return returned if isinstance(returned, ToolAnswer) else await asyncio.to_thread(make_answer, run, returned)

    def _start(self, run: ToolRun, values: Mapping[str, Any]) -> Any:
        given = {**values, self._run_parameter: run} if self._run_parameter else values
        try:
            return self._function(**given)
        except StopIteration as error:  # a thread cannot pass it on
            raise RuntimeError("StopIteration") from error
        except SystemExit as error:
            raise ToolError("it tried to end the process") from error


def find_run_parameter(function: Callable[..., Any]) -> str:
    """Return the name of the parameter that gets the `ToolRun`; empty if the function has none."""
    hints = function.__annotations__
    return next((name for name, hint in hints.items() if hint in (ToolRun, "ToolRun", "foreword.ToolRun")), "")


def make_answer(run: ToolRun, returned: Any) -> ToolAnswer:
    """Make an answer of any other value that a function returned."""
    from foreword.agent.tools.signature import write_result

    return run.answer(write_result(returned))


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    trust: Trust | str = Trust.FULL,
    kind: str = "",
    changes: bool = False,
    confirm: bool = True,
    seconds: float | None = None,
    guidance: str = "",
    max_argument_chars: int = MAX_ARGUMENT_CHARS,
    shown_in: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    trust: Trust | str = Trust.FULL,
    **settings: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Declare the decorated function as a tool; the options are the fields of `Tool`."""

    def declare(function: Callable[..., Any]) -> Tool:
        if not hasattr(function, "__code__"):
            raise InputError(f"{function!r} is not a Python function; only functions and methods can be tools")
        called = name or function.__name__
        if not is_accepted_name(called):
            raise InputError(
                f"{called!r} is not a name that every provider accepts; give the tool a name of at most "
                f"{MAX_NAME_CHARS} letters, digits, _ and -, a letter or _ first"
            )
        runs = PythonFunction(function)
        ours = list_shipped_declarations().get(called) if runs.is_ours else None
        text, parameters = (ours["description"], ours["parameters"]) if ours else runs.describe()
        return Tool(
            name=called,
            description=description or text,
            parameters=parameters,
            trust=parse_trust(trust),
            function=runs,
            **settings,
        )

    return declare(function) if function else declare


def is_accepted_name(name: str) -> bool:
    """Return whether every provider accepts a tool name."""
    plain = name.replace("-", "_")
    return name.isascii() and plain.isidentifier() and not name.startswith("-") and len(name) <= MAX_NAME_CHARS


def parse_trust(level: Trust | str) -> Trust:
    """Return a level of trust given by its name."""
    if isinstance(level, str) and level not in LEVELS:
        raise UnknownName("level", level, LEVELS)
    return LEVELS[level] if isinstance(level, str) else level


@cache
def list_shipped_declarations() -> Mapping[str, Mapping[str, Any]]:
    """Return descriptions and parameters of the tools in this package, by name; `make docs` writes the file."""
    declared: Mapping[str, Mapping[str, Any]] = json.loads(read_resource("data", "tools.json") or "{}")
    return declared


def list_tools(owner: type) -> Iterator[Tool]:
    """Yield the tools that a class declares as methods."""
    return (value for value in vars(owner).values() if isinstance(value, Tool))


def bind_tools(owner: object) -> list[Tool]:
    """Return the tools that an object's class declares as methods, bound to the object."""
    return [
        replace(one, function=one.function.bind(owner))
        for one in list_tools(type(owner))
        if isinstance(one.function, PythonFunction)
    ]
