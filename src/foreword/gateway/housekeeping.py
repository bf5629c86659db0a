"""Housekeeping of chat UIs: requests for titles, tags, follow-up questions and the like.

A chat UI sends them with the person's token, but the person did not write them. They are recognised by
`metadata.task`, by the prompt of a known UI, or by a pattern of the configuration. A known prompt must match from its
first words to its last: a message of a person that is mistaken for housekeeping would be missing from the
conversation. Housekeeping runs in prompt mode `none` with public trust and without tools, session, profile or memory.
Its cost belongs to the channel, within the limits of the person's budget.
"""

import re
from collections.abc import Awaitable, Callable, Sequence

from foreword.agent.agent_events import TurnSpending
from foreword.assembly import Assembly
from foreword.config.load import make_search
from foreword.events.event import Context, EventType, Usage
from foreword.gateway.bulletins import label_clearance
from foreword.gateway.gateway_context import GatewayContext
from foreword.turn import Turn
from foreword.types import Mode, Trust, frozen

MAX_ANSWER_TOKENS = 1_000  # the limit that Open WebUI sends for titles
TASK = "### Task:"
HISTORY = "\n### Chat History:\n<chat_history>\n"
COMPLETION_HISTORY = "\n### Context:\n<chat_history>\n"
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
OUTPUTS = {  # the key of the JSON that a task template of Open WebUI asks for
    "title": "title",
    "tags": "tags",
    "follow_ups": "follow-ups",
    "queries": "search queries",
    "prompt": "image prompt",
    "text": "autocompletion",
}
_OUTPUT = re.compile(rf'"({"|".join(OUTPUTS)})"\s*:')


@frozen
class KnownPrompt:
    """A known prompt: its first words, the markers in it, and its last words."""

    name: str
    begins: str
    holds: tuple[str, ...] = ()
    ends: str = ""
    role: str = ""
    """`system` for a system message; otherwise the prompt is the last message."""
    follows: bool = False
    """Whether it follows the conversation; otherwise it quotes it, and is the only message but for system messages."""


PROMPTS = (
    KnownPrompt(  # Open WebUI
        name="emoji",
        begins="Your task is to reflect the speaker's likely facial expression",
        holds=("\nMessage: ```",),
        ends="```",
    ),
    KnownPrompt(  # opencode
        name="title",
        begins="You are a title generator. You output ONLY a thread title. Nothing else.",
        holds=("<task>", "</task>", "<rules>", "</rules>", "<examples>", "</examples>"),
        role="system",
    ),
    KnownPrompt(  # NextChat
        name="title",
        begins="Please generate a four to five word title summarizing our conversation without any lead-in",
        ends="Remove enclosing quotation marks.",
        follows=True,
    ),
    KnownPrompt(  # LibreChat
        name="title",
        begins="Provide a concise, 5-word-or-less title for the conversation, using title case conventions. "
        "Only return the title itself.",
        holds=("\nConversation:\n",),
    ),
    KnownPrompt(  # LibreChat, with the language
        name="title",
        begins="Analyze this conversation and provide:\n1. The detected language of the conversation\n"
        "2. A concise title in the detected language",
    ),
    KnownPrompt(  # LibreChat, older
        name="title", begins="Please generate a concise, 5-word-or-less title for the conversation", ends="||>Title:"
    ),
)


@frozen
class ChatLine:
    """One message of a request."""

    role: str
    text: str

    @property
    def is_system(self) -> bool:
        """Whether it is an instruction of the client."""
        return self.role in ("system", "developer")


@frozen
class HousekeepingRequest:
    """The parts of a chat request that housekeeping depends on."""

    lines: Sequence[ChatLine]
    task: str = ""
    """The value of `metadata.task`."""
    max_tokens: int | None = None
    """The client's limit for the answer."""


def recognise_housekeeping(request: HousekeepingRequest, patterns: Sequence[str]) -> str:
    """Return the name of the housekeeping that a request asks for; empty for a message of a person."""
    last = request.lines[-1].text.strip()
    return (
        TASKS.get(request.task.lower().rpartition(".")[2], "")
        or find_task_template(request.lines)
        or next((prompt.name for prompt in PROMPTS if matches_prompt(prompt, request.lines)), "")
        or ("configured" if any(make_search(pattern)(last) for pattern in patterns) else "")
    )


def find_task_template(lines: Sequence[ChatLine]) -> str:
    """Return the task of a message that follows a task template of Open WebUI.

    The templates begin with a task, name the key of the JSON to return, and end with the chat history. Autocompletion
    adds the text to complete. The template for questions about documents begins in the same way, but has a context.
    """
    text = lines[-1].text.strip()
    if not text.startswith(TASK) or not is_alone(lines):
        return ""
    template, heading, rest = text.partition(HISTORY)
    if not heading:
        template, heading, rest = text.partition(COMPLETION_HISTORY)
    _, closed, after = rest.rpartition("</chat_history>")
    completes = after.strip().startswith("<type>") and after.endswith("#### Output:")
    output = _OUTPUT.search(template)
    if not output or not closed or bool(after) != (heading == COMPLETION_HISTORY) or (after and not completes):
        return ""
    if template.count(TASK) > 1 or "<context>" in template or "<source" in template:
        return ""
    return OUTPUTS[output[1]]


def matches_prompt(prompt: KnownPrompt, lines: Sequence[ChatLine]) -> bool:
    """Return whether a request has a known prompt in its place, from the first words to the last."""
    if prompt.role != "system" and not prompt.follows and not is_alone(lines):
        return False
    texts = [line.text for line in lines if line.is_system] if prompt.role == "system" else [lines[-1].text]
    return any(
        text.startswith(prompt.begins) and text.endswith(prompt.ends) and all(mark in text for mark in prompt.holds)
        for text in (text.strip() for text in texts)
    )


def is_alone(lines: Sequence[ChatLine]) -> bool:
    """Return whether all messages before the last are system messages."""
    return all(line.is_system for line in lines[:-1])


@frozen
class HousekeepingTask:
    """A housekeeping request to answer."""

    name: str
    agent: str
    channel: str
    user: str
    """The person whose token it has. Only the person's budget depends on it."""
    request: HousekeepingRequest
    clearance: Trust
    """Clearance of the quoted conversation; minimum to read the event."""
    request_id: str = ""
    response_format: str = ""


@frozen
class HousekeepingAnswer:
    """The answer to a housekeeping request."""

    id: str
    text: str
    usage: Usage
    cost_usd: float | None


@frozen
class Housekeeping:
    """Answers housekeeping requests."""

    context: GatewayContext
    choose: Callable[[str], Awaitable[str]]
    assemble: Callable[[Turn], Awaitable[Assembly]]
    ask: Callable[..., Awaitable[str]]

    async def answer(self, task: HousekeepingTask) -> HousekeepingAnswer:
        """Answer a request. Only its event and its cost are stored."""
        # Without user and session the event and the cost are the channel's.
        context = Context(trust=task.clearance, agent=task.agent, channel=task.channel, spender=task.user)
        trace = self.context.trace(context)
        message = write_message(task.request.lines)
        details = {"request_id": task.request_id} if task.request_id else {}
        spending = TurnSpending()
        with trace.step(EventType.MESSAGE_RECEIVED, length=len(message), housekeeping=task.name, **details) as step:
            turn = Turn(
                agent=task.agent,
                channel=task.channel,
                message=message,
                model=await self.choose(task.agent),
                mode=Mode.NONE,
                ceiling=Trust.PUBLIC,
                now=self.context.clock(),
            )
            assembly = label_clearance(await self.assemble(turn), task.clearance)
            limit = min(task.request.max_tokens or MAX_ANSWER_TOKENS, MAX_ANSWER_TOKENS)
            text = await self.ask(assembly, step, spending, response_format=task.response_format, max_tokens=limit)
        usage, usd = spending.total()
        return HousekeepingAnswer(id=trace.id, text=text, usage=usage, cost_usd=usd)


def write_message(lines: Sequence[ChatLine]) -> str:
    """Join the messages of a request into one user message; none of them reaches the system prompt."""
    written = [line for line in lines if line.text.strip()]
    if len(written) == 1:
        return written[0].text
    return "\n\n".join(f"{line.role}: {line.text}" for line in written)
