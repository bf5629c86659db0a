"""Housekeeping of chat UIs: titles, tags, follow-up questions and the like, which no person has asked for.

A chat UI sends such a request with the person's token beside the conversation. It is recognised by the prompts of
known UIs, by what they say about it, or by a pattern of the configuration. It runs without the person: in prompt mode
`none`, as a stranger, without tools, session, profile or memory, and its cost belongs to the channel.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

from foreword.assembly import Assembly
from foreword.config.pattern import make_search
from foreword.events.event import Context, EventType, Recorder, Usage
from foreword.events.trace import Step, Timepiece, Trace
from foreword.frozen import frozen
from foreword.gateway.bulletins import label
from foreword.gateway.inbox import Spent
from foreword.runtime.calling import SPENT
from foreword.turn import Turn
from foreword.words import Mode, Trust

MAX_ANSWER_TOKENS = 1_000  # what Open WebUI asks for, and far more than a title needs
TASK = "### Task:"
HISTORY = "<chat_history>"
TASKS = {  # the names in `metadata.task` of Open WebUI
    "title_generation": "title",
    "tags_generation": "tags",
    "emoji_generation": "emoji",
    "follow_up_generation": "follow-ups",
    "query_generation": "search queries",
    "image_prompt_generation": "image prompt",
    "autocomplete_generation": "autocompletion",
    "function_calling": "choice of tools",
}
OUTPUTS = {  # the key of the JSON that a task prompt of Open WebUI asks for
    "title": "title",
    "tags": "tags",
    "follow_ups": "follow-ups",
    "queries": "search queries",
    "prompt": "image prompt",
    "text": "autocompletion",
}
_OUTPUT = re.compile(rf'"({"|".join(OUTPUTS)})"\s*:')
OPENINGS = {  # how the last message or the system message of a request begins
    "Your task is to reflect the speaker's likely facial expression": "emoji",  # Open WebUI
    "You are a title generator.": "title",  # opencode
    "Please generate a four to five word title summarizing our conversation": "title",  # NextChat
    "Please generate a concise, 5-word-or-less title for the conversation": "title",  # LibreChat
    "Provide a concise, 5-word-or-less title for the conversation": "title",  # LibreChat
    "Analyze this conversation and provide:\n1. The detected language": "title",  # LibreChat
}


@frozen
class Line:
    """One message of a request."""

    role: str
    text: str


@frozen
class Request:
    """A request as far as it matters here."""

    lines: Sequence[Line]
    task: str = ""
    """What the client calls it."""
    max_tokens: int | None = None
    """The longest answer that the client wants."""
    streamed: bool = False


def recognise(request: Request, patterns: Sequence[str]) -> str:
    """Name the housekeeping that a request is; nothing where a person speaks."""
    last = request.lines[-1].text.strip()
    named = TASKS.get(request.task.lower().rpartition(".")[2], "")
    return (
        named
        or find_task_prompt(last, request)
        or find_opening(request.lines)
        or ("configured" if any(make_search(pattern)(last) for pattern in patterns) else "")
    )


def find_task_prompt(last: str, request: Request) -> str:
    """Name the task of a prompt in the form of Open WebUI.

    Its own templates quote the conversation. One that an admin has rewritten is known by its first line together with
    a short limit and an answer that is not streamed.
    """
    if not last.startswith(TASK):
        return ""
    short = request.max_tokens is not None and request.max_tokens <= MAX_ANSWER_TOKENS and not request.streamed
    if HISTORY not in last and not short:
        return ""
    found = _OUTPUT.search(last)
    return OUTPUTS[found[1]] if found else "task"


def find_opening(lines: Sequence[Line]) -> str:
    """Name the housekeeping whose prompt begins in a way that is known."""
    told = [line.text.strip() for line in lines if line.role in ("system", "developer")] + [lines[-1].text.strip()]
    return next((name for opening, name in OPENINGS.items() for text in told if text.startswith(opening)), "")


class Asks(Protocol):
    """Asks a model once, outside any turn."""

    async def __call__(
        self, assembly: Assembly, above: Step, *, response_format: str = "", max_tokens: int | None = None
    ) -> str:
        """Return what the model says."""


@frozen
class Task:
    """A request of a chat UI that is to be answered."""

    name: str
    agent: str
    channel: str
    request: Request
    clearance: Trust
    """That of the person whose conversation it quotes: nobody below it reads what is recorded."""
    request_id: str = ""
    response_format: str = ""


@frozen
class Answer:
    """What came of a request of a chat UI."""

    id: str
    text: str
    usage: Usage
    cost_usd: float | None


class Housekeeping:
    """Answers requests of chat UIs."""

    def __init__(
        self,
        choose: Callable[[str], Awaitable[str]],
        assemble: Callable[[Turn], Awaitable[Assembly]],
        ask: Asks,
        recorder: Recorder,
        clock: Callable[[], datetime],
    ) -> None:
        self._choose = choose
        self._assemble = assemble
        self._ask = ask
        self._recorder = recorder
        self._timepiece = Timepiece(now=clock)

    async def answer(self, task: Task) -> Answer:
        """Answer a request; nothing of it is kept but its event and its cost."""
        # No user and no session: the row is the channel's.
        context = Context(trust=task.clearance, agent=task.agent, channel=task.channel)
        trace = Trace(self._recorder, context, self._timepiece)
        message = write_message(task.request.lines)
        told = {"request_id": task.request_id} if task.request_id else {}
        SPENT.set([])
        with trace.step(EventType.MESSAGE_RECEIVED, length=len(message), housekeeping=task.name, **told) as step:
            turn = Turn(
                agent=task.agent,
                channel=task.channel,
                message=message,
                model=await self._choose(task.agent),
                mode=Mode.NONE,
                ceiling=Trust.PUBLIC,
                now=self._timepiece.now(),
            )
            assembly = label(await self._assemble(turn), task.clearance)
            limit = min(task.request.max_tokens or MAX_ANSWER_TOKENS, MAX_ANSWER_TOKENS)
            text = await self._ask(assembly, step, response_format=task.response_format, max_tokens=limit)
        spent = Spent()
        for usage, usd in SPENT.get():
            spent = spent.add(usage, usd)
        return Answer(id=trace.id, text=text, usage=spent.usage, cost_usd=spent.cost_usd)


def write_message(lines: Sequence[Line]) -> str:
    """Write the messages of a request as one: none of them reaches the system prompt."""
    said = [line for line in lines if line.text.strip()]
    if len(said) == 1:
        return said[0].text
    return "\n\n".join(f"{line.role}: {line.text}" for line in said)
