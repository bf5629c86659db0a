"""A conversation with a fake provider: a workspace, a loop over it, and consecutive turns."""

import asyncio

from foreword.agent.agent_events import TurnCallbacks
from foreword.agent.conversation import convert_to_texts, make_segments
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.retry import RetryPolicy
from foreword.agent.tool_calls import AdditionalTools, Toolbox
from foreword.agent.tools.registry import BUILT_IN
from foreword.events.event import EventType, find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder, make_workspace
from foreword.turn import Tool, ToolAnswer, Toolset, Turn
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

    async def call(self, _assembly, _name, arguments):
        """Turn a lamp on."""
        self.asked.append(arguments)
        if self.errors and (error := self.errors.pop(0)):
            if isinstance(error, float):
                await asyncio.sleep(error)
            else:
                raise error
        text = f"The lamp in the {arguments['room']} is on."
        return ToolAnswer(text=text, tokens=8)


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
        self.asked = []
        self.allows = None

    async def sleep(self, seconds):
        """Record a wait without waiting."""
        self.slept.append(seconds)

    async def note_delta(self, delta):
        """Record a delta."""
        self.deltas.append(delta)

    async def note_step(self, messages):
        """Record a step."""
        self.steps.append(messages)

    async def note_begun(self, call, name):
        """Record that a call has begun; return whether it is new."""
        known = (call, name) in self.begun
        self.begun.add((call, name))
        return not known

    async def decide(self, asking):
        """Record the question and return the person's answer."""
        self.asked.append(asking)
        return self.allows

    def assemble(self, message, **facts):
        """Assemble a turn after the history so far."""
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
        ears = TurnCallbacks(delta=self.note_delta, step=self.note_step, ask=self.decide, begin=self.note_begun)
        try:
            with trace.step(EventType.MESSAGE_RECEIVED, length=len(message)) as received:
                past = make_segments(self.history) if self.past is None else self.past
                work = TurnInput(assembly=self.assembly, history=past, taken=taken)
                outcome = await loop.run(work, received, ears)
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


def equip(talk, lamps):
    """Add lamps to the tools of a conversation."""
    return Toolbox(talk.workspace, further=[AdditionalTools(tools=Toolset([LAMPS]), runs=lamps)])
