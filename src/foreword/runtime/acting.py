"""Runs the tools that a model calls: each within its time, and what goes wrong is answered to the model in words."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Protocol

from foreword.assembly import Assembly
from foreword.errors import Forbidden, InputError, suggest
from foreword.events.event import EventType, Level
from foreword.events.trace import Step, Teller, describe_error
from foreword.frozen import frozen
from foreword.runtime.arguments import judge
from foreword.runtime.calls import Asked, Malformed
from foreword.runtime.consent import Call, Objection, find_objection
from foreword.runtime.ears import Ears
from foreword.runtime.failing import ToolFailed
from foreword.sources.own_memory import hide_own_paths
from foreword.store.schema import StoreError
from foreword.tools import Answer, Reading
from foreword.tools.telling import tell_answer
from foreword.turn import Tool
from foreword.workspace import Workspace

LONGEST = 40_000  # characters of one result
LONGEST_NAME = 100
LONGEST_REASON = 300  # characters of a reason in the event log
MIN_HIDDEN_CHARS = 3  # a shorter argument says too little to be hidden, and hides too much of a reason
PRIVATE_KINDS = ("memory", "reading")  # tools whose arguments are the words and paths of a person's own memory
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
WORD = re.compile(r"\w{3,}")
HERE: ContextVar[Teller] = ContextVar("here")
"""Where in the trace a tool is called, for those that run something below it."""


class Tools(Protocol):
    """Where the tools of a turn are run; raise InputError for what the model can mend."""

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        """Run one tool at the clearance of its turn."""


class BuiltIn:
    """Runs the built-in tools of a workspace, in a thread, since they read files."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        """Run one tool."""
        return await asyncio.to_thread(self._workspace.call, assembly, name, arguments)


@frozen
class Result:
    """What goes back to the model, and whether the tool did what it was asked."""

    text: str
    done: bool


@frozen
class TimeLimits:
    """How long a tool may take, in seconds; some may have their own."""

    usual: float = 60.0
    named: Mapping[str, float] = field(default_factory=dict)

    def find(self, tool: Tool) -> float:
        """Find how long a tool may take: what is set here for its name, else its own time, else the usual one."""
        return self.named.get(tool.name, self.usual if tool.seconds is None else tool.seconds)


@frozen
class Bench:
    """What all calls of one turn have in common."""

    assembly: Assembly
    tools: Tools
    limits: TimeLimits
    ears: Ears
    records_arguments: bool = False
    """Whether the event log gets the arguments of each call, as `events.arguments` says."""


async def act(turn: Teller, bench: Bench, asked: Asked | Malformed, call: str) -> Result:
    """Run what a model asked for under an id that stays the same, and record it as a step of the turn.

    A call that is not made because of a rule, or because it is malformed, is a refusal: a warning with its reason. A
    tool that runs and cannot do its work is an error.
    """
    name = asked.name[:LONGEST_NAME] if isinstance(asked, Asked) else ""
    with turn.step(EventType.TOOL_CALL, name=name, **list_arguments(bench, asked)) as step:
        tool = find_tool(bench.assembly, asked)
        if isinstance(tool, str) or isinstance(asked, Malformed):
            objection = Objection(words=str(tool))
        elif found := await find_objection(step, bench.ears, Call(id=call, tool=tool, asked=asked)):
            objection = found
        else:
            return await attempt(step, bench, asked, bench.limits.find(tool))
        return refuse(step, objection.words, hide_arguments(objection.words, bench, asked), objection.status)


def list_arguments(bench: Bench, asked: Asked | Malformed) -> dict[str, Any]:
    """Return the arguments of a call as facts of its event, where the owner has them recorded."""
    if not isinstance(asked, Asked) or not records(bench, asked):
        return {}
    return {"arguments": dict(asked.arguments)}


def records(bench: Bench, asked: Asked) -> bool:
    """Whether the event log gets the arguments of a call.

    It gets none of memory tools in a private conversation, nor of a name that no tool has: others read the log.
    """
    kind = next((tool.kind for tool in bench.assembly.terms.tools.tools if tool.name == asked.name), None)
    private = bool(bench.assembly.audience.person) and kind in (None, *PRIVATE_KINDS)
    return bench.records_arguments and not private


def hide_arguments(reason: str, bench: Bench, asked: Asked | Malformed) -> str:
    """Hide the arguments that a reason quotes, unless they are recorded: they may hold what people said.

    A path of a person's own memory is always hidden.
    """
    reason = hide_own_paths(reason)
    if not isinstance(asked, Asked) or records(bench, asked):
        return reason
    texts = sorted(
        {text for text in list_texts(asked.arguments) if len(text) >= MIN_HIDDEN_CHARS}, key=len, reverse=True
    )
    for text in texts:
        reason = reason.replace(text, "…")
    # A quotation may be cut or escaped, so that it is no whole argument any more.
    return QUOTED.sub(lambda found: "'…'" if any(is_part(found[0], text) for text in texts) else found[0], reason)


def list_texts(value: object) -> Iterator[str]:
    """List every text in the arguments of a call."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from list_texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from list_texts(one)


def is_part(quotation: str, text: str) -> bool:
    """Whether a quotation shares a word with a text."""
    return not set(WORD.findall(quotation)).isdisjoint(WORD.findall(text))


def find_tool(assembly: Assembly, asked: Asked | Malformed) -> Tool | str:
    """Find the tool of a call, or say why it cannot be made, in words for the model."""
    if isinstance(asked, Malformed):
        return f"Nothing was called: {asked.reason}."
    tools = assembly.terms.tools
    tool = next((tool for tool in tools.tools if tool.name == asked.name), None)
    if tool is None:
        return f"There is no tool {asked.name[:LONGEST_NAME]!r} here{suggest(asked.name, sorted(tools.names))}."
    if tool.changes and assembly.turn.plan:
        return f"{tool.name} was not called: plan mode is on, in which nothing is changed. Put it into the plan."
    fault = judge(tool.parameters, asked.arguments)
    return f"{tool.name} was not called: {fault}." if fault else tool


async def attempt(step: Step, bench: Bench, asked: Asked, seconds: float) -> Result:
    """Run a tool; the model gets the words of expected errors only, the log gets those of every error."""
    here = HERE.set(step)
    try:
        async with asyncio.timeout(seconds):
            answer = await bench.tools.call(bench.assembly, asked.name, asked.arguments)
    except StoreError as error:  # it names a file of this machine, and the model cannot mend it
        return fail(step, asked.name, error)
    except Forbidden as error:
        return refuse(step, f"{asked.name} refused: {error}", hide_arguments(str(error), bench, asked))
    except (InputError, ToolFailed) as error:
        reason = hide_arguments(str(error), bench, asked)
        step.note(status="failed", error=reason[:LONGEST_REASON] or type(error).__name__)
        return Result(text=f"{asked.name} failed: {error}", done=False)
    except TimeoutError:
        step.note(error=f"no answer within {seconds:g} s")
        return Result(text=f"{asked.name} did not answer within {seconds:g} seconds.", done=False)
    except Exception as error:  # noqa: BLE001 - a tool may be anybody's code
        return fail(step, asked.name, error)
    finally:
        HERE.reset(here)
    tell_answer(step, asked.name, answer, list_arguments(bench, asked))
    step.note(status="ok")
    return Result(text=show(answer), done=True)


def refuse(step: Step, text: str, reason: str, status: str = "refused") -> Result:
    """Record a refusal with its reason, and answer the model."""
    step.note(status=status, level=Level.WARN, reason=reason[:LONGEST_REASON])
    return Result(text=text, done=False)


def fail(step: Step, name: str, error: Exception) -> Result:
    """Record an unexpected error, and tell the model that there was one."""
    step.note(**describe_error(error))
    return Result(text=f"{name} failed ({type(error).__name__}); the log has the details.", done=False)


def show(answer: Reading | Answer) -> str:
    """Show an answer to the model, no longer than it can use."""
    more = f"\n(more: {answer.more})" if isinstance(answer, Reading) and answer.more else ""
    text = (
        answer.text
        if len(answer.text) <= LONGEST
        else f"{answer.text[:LONGEST]}\n(cut: {len(answer.text):,} characters)"
    )
    return f"{text}{more}" or "(nothing)"
