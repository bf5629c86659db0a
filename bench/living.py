"""The living session through the running gateway: its HTTP requests, compared with the simulator.

A blueprint has the scenario's sections as files; edits change these files. The provider is the fake provider, which
applies the cache rules at the time of a clock that this benchmark moves. The simulator plays the same scenario with as
many tools as the gateway sent. The system parts must be equal, byte for byte and call by call. Tokens read and costs
may differ by the few tokens in which a real tool call differs from a scripted one.
"""

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bench.figure import Figure
from foreword.agent.tools.declaration import ToolRun
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.promptcache.designs import SessionCall, list_calls
from foreword.promptcache.ledger import find_part
from foreword.promptcache.recordings import CapturedRequest, count_recording
from foreword.promptcache.rules import CacheBlock, CacheUsage, Calibration, list_blocks
from foreword.promptcache.scenario import CALL_INTERVAL_S, Scenario, ScriptedTools, load_shipped_scenario
from foreword.promptcache.simulation import OURS, DesignComparison, compare_designs, compute_cost
from foreword.storage.turns import TurnState
from foreword.testing import FakeProvider, ManualClock, ScriptedCall, ScriptedReply, run_fake_provider
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import find_model
from foreword.turn import Tool, ToolAnswer
from foreword.types import Pace, Trust, frozen
from foreword.workspace import open_workspace

MODELS = ("anthropic:claude-sonnet-5", "openai:gpt-5.4", "openai:gpt-5.6")
FETCH = Tool(name="fetch", description="Fetch what is asked for.", trust=Trust.PUBLIC, parameters={
    "type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]})  # fmt: skip
HEAD = """\
name: living
description: the sections of a scenario
strict: true
rendering: markdown
marker: "[shortened: lines {first}–{last} of {lines}; {call}]"
marker_without_call: "[shortened: lines {first}–{last} of {lines}]"
budget: {system: 60000, window_share: 0.5, reserve: 4096, turn: 400}
stub: "[left out here: {total} tokens; {call}]"
stub_without_call: "[left out here: {total} tokens]"
slots:
"""
TIME = """\
  - id: time
    source: moment
    form: "It is {weekday}, {day} {month} {year}, {time} ({zone})."
    pace: turn
    placement: tail
    trust: public
    voice: system
"""
CONFIG = """\
owner: alice
agents: {living: {model: "%s", blueprint: living}}
users: {alice: {trust: full, timezone: UTC}}
"""


@frozen
class Played:
    """The requests of a session, as the gateway sent them."""

    shape: str
    requests: tuple[Mapping[str, Any], ...]
    counted: tuple[CacheUsage, ...]
    """The reported usage of each call, by the provider's count."""
    replayed: tuple[CacheUsage, ...]
    """The usage of each call by the cache rules and our count."""
    predicted: tuple[CacheUsage, ...]
    """The ledger's prediction for each call, in calibrated tokens."""
    factors: tuple[float, ...]
    """The calibration factor of each prediction."""
    ledger: tuple[Mapping[str, Any], ...]
    """The ledger's decisions."""


def run() -> Iterator[Figure]:
    """Play the living session in both, at the providers whose caches differ most."""
    for model in MODELS:
        yield from compare(load_shipped_scenario(), model)


def compare(scenario: Scenario, model: str) -> Iterator[Figure]:
    """Play a session in both."""
    with tempfile.TemporaryDirectory() as folder:
        played = play_through(folder, scenario, model)
    simulated = simulate(scenario, model, played)
    ours, theirs = compute_cost(played.replayed, simulated.service), simulated.results[OURS]
    share = compute_cost(played.counted, simulated.service).share
    yield Figure(
        name=f"{model}, not read",
        value=100 - ours.share * 100,
        unit="%",
        aim=3.0,
        baseline=f"the simulator: {100 - theirs.share * 100:.2f} %; the provider reports {100 - share * 100:.2f} %",
    )
    yield Figure(
        name=f"{model}, input", value=ours.usd or 0.0, unit="USD", baseline=f"the simulator: {theirs.usd or 0.0:.4f}"
    )
    calls = f"{len(played.requests)} calls in all"
    differing = sum(not same for same in compare_systems(played, simulated))
    yield Figure(name="calls whose system part is not the simulator's", value=differing, unit="", aim=0, baseline=calls)
    missed = sum(one != other for one, other in zip(played.predicted, correct(played, model), strict=True))
    yield Figure(name="calls that the ledger predicted wrong", value=missed, unit="", aim=0, baseline=calls)


def play_through(folder: str, scenario: Scenario, model: str) -> Played:
    """Play a scenario through a gateway with the fake provider."""
    calls = list_calls(scenario)
    clock = ManualClock(calls[0].at)
    write_house(Path(folder), calls[0], model)
    with run_fake_provider(clock=clock) as stand_in, open_workspace(folder, clock) as workspace:
        environ = {name: value for prefix in ("ANTHROPIC", "OPENAI") for name, value in address(prefix, stand_in)}
        player = Player(clock, stand_in, calls, Path(folder))
        options = GatewayOptions(clock=clock, tools=(replace(FETCH, function=player),))

        async def main() -> None:
            async with open_gateway(workspace, environ, options) as gateway:
                for call in calls:
                    if call.first:
                        player.prepare(call)
                        workspace.refresh(now=True)
                        accepted = await gateway.accept(RoutedMessage(text=call.said[-1].text, user="alice"))
                        reply = await gateway.wait(accepted.turn)
                        if reply.state is not TurnState.ANSWERED:
                            raise SystemExit(f"a turn was {reply.state}: {reply.text}")

        asyncio.run(main())
        return read_played(Path(folder), stand_in, calls, model)


def address(prefix: str, stand_in: FakeProvider) -> list[tuple[str, str]]:
    """Yield the environment variables that point a provider to the fake."""
    url = stand_in.url if prefix == "ANTHROPIC" else f"{stand_in.url}/v1"
    return [(f"{prefix}_API_KEY", "k"), (f"{prefix}_BASE_URL", url)]


class Player:
    """Moves the clock, edits the files, scripts the provider's answers, and returns the tool results."""

    def __init__(self, clock: ManualClock, stand_in: FakeProvider, calls: Sequence[SessionCall], folder: Path) -> None:
        self._clock = clock
        self._stand_in = stand_in
        self._calls = calls
        self._folder = folder
        self._results: list[str] = []

    def prepare(self, call: SessionCall) -> None:
        """Prepare the turn that begins with a call."""
        self._move(call.at)
        write_sections(self._folder, call)
        later = [one for one in self._calls if one.turn == call.turn][-1]
        following = next((one for one in self._calls if one.number == later.number + 1), None)
        said = [one for one in (following or later).said if one.turn == call.turn]
        self._results = [one.text for one in said if one.kind == "result"]
        lines, asked = [], []
        for one in said:
            if one.kind == "call":
                asked.append(ScriptedCall(name=FETCH.name, arguments={"words": one.text}))
            elif one.kind == "result" and asked:
                lines.append(ScriptedReply(text="", calls=tuple(asked)))
                asked = []
        answer = [one.text for one in said if one.kind == "answer"]
        self._stand_in.follow(*lines, ScriptedReply(text=answer[0] if answer else "So be it."))

    def _move(self, to: datetime) -> None:
        self._clock.move(max(0.0, (to - self._clock()).total_seconds()))

    def read(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the arguments."""
        return arguments

    async def call(self, run: ToolRun, arguments: Mapping[str, Any]) -> ToolAnswer:  # noqa: ARG002
        """Return the scripted result, a few seconds later."""
        self._move(self._clock() + timedelta(seconds=CALL_INTERVAL_S))
        text = self._results.pop(0)
        return run.answer(text)


def write_house(folder: Path, call: SessionCall, model: str) -> None:
    """Write the configuration, the blueprint and the initial sections."""
    slots = "".join(
        f"  - {{id: {one.part.id}, source: file, file: {one.part.id}.md, title: {one.part.title or one.part.id},"
        f" pace: {one.part.pace}, governs: {str(one.part.governs).lower()}, trust: public, tier: low}}\n"
        for one in sorted(call.sections, key=lambda one: one.part.pace is not Pace.STATIC)
    )
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "living.yaml").write_text(f"{HEAD}{slots}{TIME}", encoding="utf-8")
    (folder / "foreword.yaml").write_text(CONFIG % model, encoding="utf-8")
    write_sections(folder, call)


def write_sections(folder: Path, call: SessionCall) -> None:
    """Write the sections of a call."""
    for one in call.sections:
        file = folder / f"{one.part.id}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != one.text:
            file.write_text(one.text, encoding="utf-8")


def read_played(folder: Path, stand_in: FakeProvider, calls: Sequence[SessionCall], model: str) -> Played:
    """Read the captured requests and the events about them."""
    with closing(sqlite3.connect(folder / ".foreword" / "events.sqlite")) as log:
        asked = "SELECT event_type, metadata FROM events WHERE event_type IN ('api_call', 'prompt_built') ORDER BY id"
        told = [(kind, json.loads(facts)) for kind, facts in log.execute(asked)]
    captured = [
        CapturedRequest(at=call.at, model=model, shape=request.shape, request=request.body)
        for call, request in zip(calls, stand_in.requests, strict=True)
    ]
    return Played(
        shape=captured[0].shape,
        replayed=tuple(count_recording(captured)),
        requests=tuple(request.body for request in stand_in.requests),
        counted=tuple(request.counted for request in stand_in.requests),
        predicted=tuple(CacheUsage(**facts["cache"]["predicted"]) for kind, facts in told if kind == "api_call"),
        factors=tuple(facts["cache"]["factor"] for kind, facts in told if kind == "api_call"),
        ledger=tuple(facts["ledger"] for kind, facts in told if "ledger" in facts),
    )


def correct(played: Played, model: str) -> list[CacheUsage]:
    """Correct the computed usage of each call like the ledger did."""
    learned = (Calibration(model=model, calls=1, ratio=factor) for factor in played.factors)
    return [known.correct_usage(counted) for known, counted in zip(learned, played.replayed, strict=True)]


def simulate(scenario: Scenario, model: str, played: Played) -> DesignComparison:
    """Play the same scenario in the simulator, with tools as large as the gateway's."""
    tools = played.requests[0].get("tools", ())
    facts = find_model(model, {})
    weight = sum(Meter(facts, Counter(facts.tokenizer)).count(json.dumps(tool)) for tool in tools)
    equipped = ScriptedTools(count=len(tools), tokens=round(weight / max(1, len(tools))))
    return compare_designs(replace(scenario, tools=equipped), model, {}, oracle=False)


def compare_systems(played: Played, simulated: DesignComparison) -> list[bool]:
    """Compare the system part of each call with the simulator's."""
    theirs = [one.blocks for one in simulated.asked[OURS]]
    return [
        read_system(list_blocks(played.shape, request)) == read_system(other)
        for request, other in zip(played.requests, theirs, strict=True)
    ]


def read_system(blocks: Sequence[CacheBlock]) -> str:
    """Return the system part of a request."""
    return "".join(block.text for block in blocks if find_part(block.name) == "system")
