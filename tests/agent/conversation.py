"""A conversation with a fake provider: a workspace, a loop over it, and consecutive turns."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import foreword
from foreword.agent.agent_events import ApprovalNeeded, CallBegins, CallSettled, Finished, StepDone
from foreword.agent.conversation import convert_to_texts
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.retry import RetryPolicy
from foreword.agent.segments import make_segments
from foreword.agent.tools.declaration import ToolRun
from foreword.agent.tools.registry import BUILT_IN
from foreword.errors import UnknownName
from foreword.events.event import EventType, find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder, make_workspace
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Trust

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {alice: {trust: full, timezone: UTC}}
models:
  "ollama:tiny": {native_tools: false, window: 32000}
  "google:gemini-3-pro": {input_usd: 2, output_usd: 12, cache_read_usd: 0.2}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "AGENTS.md": "".join(f"{number}. Ask before you buy anything, and keep the receipt.\n" for number in range(450)),
    "USER.md": "She keeps bees.\n",
    "memory/private/garden.md": "The plum tree was planted in 2019 by the east wall.\n",
}
MODELS = {
    "anthropic": "anthropic:claude-sonnet-5",
    "openai": "openai:gpt-5",
    "responses": "openai-responses:gpt-5",
    "gemini": "google:gemini-3-pro",
}
KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k"}
LAMPS = Tool(
    name="lamps",
    description="Turns lamps on and off.",
    parameters={"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
    trust=Trust.PUBLIC,
)


def address(url):
    """Write the addresses of a fake provider as a configuration has them."""
    plain, versioned = ("anthropic", "google"), ("openai", "openai-responses", "ollama")
    return {**dict.fromkeys(plain, url), **dict.fromkeys(versioned, f"{url}/v1")}


class Lamps:
    """A tool that records its calls."""

    def __init__(self, *errors):
        self.asked = []
        self.errors = list(errors)

        @foreword.tool(name="lamps")
        async def turn_on(room: str) -> str:
            return await self.turn_on({"room": room})

        self.function = turn_on.function

    async def turn_on(self, arguments):
        """Turn a lamp on."""
        self.asked.append(arguments)
        if self.errors and (error := self.errors.pop(0)):
            if isinstance(error, float):
                await asyncio.sleep(error)
            else:
                raise error
        return f"The lamp in the {arguments['room']} is on."


class Conversation:
    """Consecutive turns of alice's."""

    def __init__(self, folder, url, model=MODELS["anthropic"], listeners=None, files=FILES, **options):
        self.heard = FakeRecorder()
        self.workspace = make_workspace(folder, files)
        self.listeners = listeners or EventStream(recorder=self.heard)
        self.model = model
        self.slept = []
        self.url = url
        self.options = options
        self.history = ()
        self.past = None  # the history as segments, where a session stores them
        self.deltas = []
        self.steps = []
        self.assembly = None
        self.silence = 5.0
        self.begun = set()
        self.settled = []
        self.asked = []
        self.allows = None
        self.lamps = None  # what runs the tool `lamps`

    async def sleep(self, seconds):
        """Record a wait without waiting."""
        self.slept.append(seconds)

    async def take(self, event):
        """Record an event of a turn, and answer a question."""
        match event:
            case StepDone():
                self.steps.append(event.messages)
            case CallBegins():
                self.begun.add(event.id)
            case ApprovalNeeded():
                self.asked.append(event)
                if self.allows is not None:
                    event.decide(allowed=self.allows)
            case CallSettled():
                self.settled.append(event)
            case _:
                self.deltas.append(event)

    def assemble(self, message, **facts):
        """Assemble a turn after the history so far."""
        if self.lamps and "tools" in facts:
            tools, function = facts["tools"].tools, self.lamps.function
            facts["tools"] = Toolset(replace(one, function=function) if one.name == "lamps" else one for one in tools)
        known = {"user": "alice", "situation": "dm", "session": "abc", "message": message, "model": self.model}
        return self.workspace.assemble(Turn(**{**known, "history": convert_to_texts(self.history), **facts}))

    def run(self, message, taken=(), **facts):
        """Run one turn; its outcome is the history of the next."""
        return asyncio.run(self.say(message, taken, **facts))

    async def say(self, message, taken=(), **facts):
        """Run one turn in a new event loop."""
        models = ModelClients(address(self.url), KEYS, self.silence)
        retrying = RetryPolicy(sleep=self.sleep, chance=lambda: 0.0)
        loop = AgentLoop(self.workspace, models, self.listeners, **{"retrying": retrying, **self.options})
        self.assembly = self.assemble(message, **facts)
        trace = Tracer(self.listeners.recorder, find_context(self.assembly))
        try:
            with trace.step(EventType.MESSAGE_RECEIVED, length=len(message)) as received:
                past = make_segments(self.history) if self.past is None else self.past
                begun = frozenset(self.begun) if taken else ()
                work = TurnInput(assembly=self.assembly, history=past, taken=taken, begun=begun)
                async with aclosing(loop.run(work, received)) as events:
                    async for event in events:
                        if isinstance(event, Finished):
                            outcome = event
                        else:
                            await self.take(event)
        finally:
            await models.close()
        if outcome.end.value != "queued":
            self.history = (*self.history, *outcome.messages)
        return outcome

    def pick(self, kind):
        """Pick the events of a kind."""
        return [event for event in self.heard.events if event.type is kind]


def with_tools(*tools):
    """Make the facts of a turn that has these tools in addition to the built-in ones."""
    return {"tools": Toolset([*BUILT_IN.tools, *tools])}


async def call_tool(workspace, assembly, name, arguments):
    """Call a tool of a turn; return its answer."""
    tool = assembly.tools.find(name)
    if tool is None:
        raise UnknownName("tool", name, assembly.tools.names)
    run = ToolRun(workspace=workspace, assembly=assembly, name=name)
    return await tool.function.call(run, tool.function.read(tool, arguments))
