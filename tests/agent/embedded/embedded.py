"""A workspace with a small prompt, and turns of it on the embedded model."""

import json
import urllib.request

from foreword.agent.agent_events import TextDelta
from foreword.agent.conversation import convert_to_texts
from foreword.agent.loop import AgentLoop, TurnInput, TurnLimits
from foreword.agent.providers.model_clients import open_models
from foreword.agent.retry import RetryPolicy
from foreword.agent.segments import make_segments
from foreword.events.event import EventType, find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder, make_workspace
from foreword.turn import Turn

MODEL = "local:smollm2"
CONFIG = """\
owner: alice
agents: {reid: {model: "local:smollm2"}}
users: {alice: {trust: full, timezone: UTC}}
models: {"local:smollm2": {window: 2048, history: true}}
"""


class Embedded:
    """Turns of several sessions on one engine."""

    def __init__(self, folder, environ, longest=8, **files):
        self.workspace = make_workspace(folder, {"foreword.yaml": CONFIG, "AGENTS.md": "Be brief.\n", **files})
        self.models = open_models(self.workspace.config, environ)
        self.heard = FakeRecorder()
        retrying = RetryPolicy(waits=(0.0, 0.0), sleep=self.sleep, chance=lambda: 0.0)
        bounds = TurnLimits(max_tokens=longest)
        self.loop = AgentLoop(
            self.workspace, self.models, EventStream(recorder=self.heard), bounds=bounds, retrying=retrying
        )
        self.histories = {}
        self.assembly = None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.models.close()

    async def sleep(self, _seconds):
        """Do not wait."""

    @property
    def engine(self):
        """The engine behind the model."""
        return self.models._engines[MODEL]

    async def say(self, session, message, first=None):
        """Run a turn of a session; `first` is called with the first words."""
        history = self.histories.get(session, ())
        turn = Turn(user="alice", situation="dm", session=session, message=message, history=convert_to_texts(history))
        outcome = await self.run(turn, history, first)
        self.histories[session] = (*history, *outcome.messages)
        return outcome

    async def run(self, turn, history=(), first=None, **more):
        """Run any turn; `first` is called with the first words."""
        self.assembly = self.workspace.assemble(turn)
        trace = Tracer(self.heard, find_context(self.assembly))
        with trace.step(EventType.MESSAGE_RECEIVED, length=len(turn.message)) as received:
            work = TurnInput(assembly=self.assembly, history=make_segments(history), **more)
            async for event in self.loop.run(work, received):
                if isinstance(event, TextDelta) and first:
                    first()
                    first = None
        return event


def goes_on(reply, before, after):
    """Return whether a turn read from the cache all that the previous turn sent, and nothing that was never evaluated.

    Of an answer it reads what has the tokens with which it was said: see test_read_again. Its last token is evaluated
    with what follows it, and a space at its beginning may be one with the template's.
    """
    sent, said = before.tokens_in, before.tokens_out
    return sent - reply[:1].isspace() <= after.cache_read < sent + said


def ask(running, path, body=None):
    """Send a request to an engine directly."""
    headers = {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(running.url + path, data, headers)) as answer:
        return json.load(answer)
