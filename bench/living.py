"""The living session through the running gateway: what left it as HTTP, beside the same session in the simulator.

A blueprint has the scenario's sections as files; edits are edits of these files. The provider is the stand-in, which
keeps its cache by the rules, at the time of a clock that this bench moves. The simulator plays the same scenario by
itself, with as many tools as the gateway sent. The system part has to be the same, byte for byte and call by call; what
is read and what it costs may differ by the few tokens in which a written-out tool call differs from a scripted one.
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
from foreword.assembly import Assembly
from foreword.caching import Block, list_blocks
from foreword.caching.cache import Counted
from foreword.frozen import frozen
from foreword.gateway.message import Incoming, State
from foreword.gateway.opening import Options, open_gateway
from foreword.ledger.calibration import Calibration
from foreword.ledger.state import find_part
from foreword.runtime.toolbox import Further
from foreword.simulate import find_living, set_side_by_side
from foreword.simulate.captured import Recorded
from foreword.simulate.recorded import replay
from foreword.simulate.run import bill
from foreword.simulate.scenario import LOOP, Equipped, Scenario
from foreword.simulate.session import Call, play
from foreword.simulate.side import OURS, Comparison
from foreword.testing import Called, MovedClock, Says, StandIn, listen
from foreword.tokens import Counter, Meter, find
from foreword.tools import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Pace, Trust
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
    """A session as it left the gateway."""

    shape: str
    requests: tuple[Mapping[str, Any], ...]
    counted: tuple[Counted, ...]
    """What the provider reported of each, by the tokens that it counts."""
    replayed: tuple[Counted, ...]
    """What its rules say of each, by the tokens that we count."""
    predicted: tuple[Counted, ...]
    """What the ledger had said before, in tokens as it thought that they are billed."""
    factors: tuple[float, ...]
    """By what it had corrected our counts for that."""
    ledger: tuple[Mapping[str, Any], ...]
    """What it did about changes."""


def run() -> Iterator[Figure]:
    """Play the living session in both, at providers whose caches differ most."""
    for model in MODELS:
        yield from compare(find_living(), model)


def compare(scenario: Scenario, model: str) -> Iterator[Figure]:
    """Play a session in both."""
    with tempfile.TemporaryDirectory() as folder:
        played = play_through(folder, scenario, model)
    simulated = simulate(scenario, model, played)
    ours, theirs = bill(played.replayed, simulated.service), simulated.results[OURS]
    share = bill(played.counted, simulated.service).share
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
    """Play a scenario through a gateway, whose provider is the stand-in."""
    calls = play(scenario)
    clock = MovedClock(calls[0].at)
    write_house(Path(folder), calls[0], model)
    with listen(clock=clock) as stand_in, open_workspace(folder, clock) as workspace:
        environ = {name: value for prefix in ("ANTHROPIC", "OPENAI") for name, value in address(prefix, stand_in)}
        player = Player(clock, stand_in, calls, Path(folder))
        options = Options(clock=clock, further=(Further(tools=Toolset([FETCH]), runs=player),))

        async def main() -> None:
            async with open_gateway(workspace, environ, options) as gateway:
                for call in calls:
                    if call.first:
                        player.prepare(call)
                        workspace.refresh(now=True)
                        accepted = await gateway.accept(Incoming(text=call.said[-1].text, user="alice"))
                        reply = await gateway.wait(accepted.turn)
                        if reply.state is not State.ANSWERED:
                            raise SystemExit(f"a turn was {reply.state}: {reply.text}")

        asyncio.run(main())
        return read_played(Path(folder), stand_in, calls, model)


def address(prefix: str, stand_in: StandIn) -> list[tuple[str, str]]:
    """Name the address of the stand-in as a provider's own variables do."""
    url = stand_in.url if prefix == "ANTHROPIC" else f"{stand_in.url}/v1"
    return [(f"{prefix}_API_KEY", "k"), (f"{prefix}_BASE_URL", url)]


class Player:
    """Moves the clock, edits the files, has the provider say what the script says, and fetches what it calls for."""

    def __init__(self, clock: MovedClock, stand_in: StandIn, calls: Sequence[Call], folder: Path) -> None:
        self._clock = clock
        self._stand_in = stand_in
        self._calls = calls
        self._folder = folder
        self._results: list[str] = []

    def prepare(self, call: Call) -> None:
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
                asked.append(Called(name=FETCH.name, arguments={"words": one.text}))
            elif one.kind == "result" and asked:
                lines.append(Says(text="", calls=tuple(asked)))
                asked = []
        answer = [one.text for one in said if one.kind == "answer"]
        self._stand_in.follow(*lines, Says(text=answer[0] if answer else "So be it."))

    def _move(self, to: datetime) -> None:
        self._clock.move(max(0.0, (to - self._clock()).total_seconds()))

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:  # noqa: ARG002
        """Fetch what the script has, a few seconds later."""
        self._move(self._clock() + timedelta(seconds=LOOP))
        text = self._results.pop(0)
        return Answer(text=text, tokens=assembly.terms.meter.count(text))


def write_house(folder: Path, call: Call, model: str) -> None:
    """Write the configuration, the blueprint and the sections as they are at first."""
    slots = "".join(
        f"  - {{id: {one.part.id}, source: file, file: {one.part.id}.md, title: {one.part.title or one.part.id},"
        f" pace: {one.part.pace}, governs: {str(one.part.governs).lower()}, trust: public, tier: low}}\n"
        for one in sorted(call.sections, key=lambda one: one.part.pace is not Pace.STATIC)
    )
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "living.yaml").write_text(f"{HEAD}{slots}{TIME}", encoding="utf-8")
    (folder / "foreword.yaml").write_text(CONFIG % model, encoding="utf-8")
    write_sections(folder, call)


def write_sections(folder: Path, call: Call) -> None:
    """Write the sections as they are true before a call."""
    for one in call.sections:
        file = folder / f"{one.part.id}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != one.text:
            file.write_text(one.text, encoding="utf-8")


def read_played(folder: Path, stand_in: StandIn, calls: Sequence[Call], model: str) -> Played:
    """Read what was captured, and what was told of it."""
    with closing(sqlite3.connect(folder / ".foreword" / "events.sqlite")) as log:
        asked = "SELECT event_type, metadata FROM events WHERE event_type IN ('api_call', 'prompt_built') ORDER BY id"
        told = [(kind, json.loads(facts)) for kind, facts in log.execute(asked)]
    captured = [
        Recorded(at=call.at, model=model, shape=request.shape, request=request.body)
        for call, request in zip(calls, stand_in.requests, strict=True)
    ]
    return Played(
        shape=captured[0].shape,
        replayed=tuple(replay(captured)),
        requests=tuple(request.body for request in stand_in.requests),
        counted=tuple(request.counted for request in stand_in.requests),
        predicted=tuple(Counted(**facts["cache"]["predicted"]) for kind, facts in told if kind == "api_call"),
        factors=tuple(facts["cache"]["factor"] for kind, facts in told if kind == "api_call"),
        ledger=tuple(facts["ledger"] for kind, facts in told if "ledger" in facts),
    )


def correct(played: Played, model: str) -> list[Counted]:
    """Correct what the rules say of each call as the ledger did."""
    learned = (Calibration(model=model, calls=1, ratio=factor) for factor in played.factors)
    return [known.correct_all(counted) for known, counted in zip(learned, played.replayed, strict=True)]


def simulate(scenario: Scenario, model: str, played: Played) -> Comparison:
    """Play the same scenario in the simulator, with tools that weigh what the gateway sent."""
    tools = played.requests[0].get("tools", ())
    facts = find(model, {})
    weight = sum(Meter(facts, Counter(facts.tokenizer)).count(json.dumps(tool)) for tool in tools)
    equipped = Equipped(count=len(tools), tokens=round(weight / max(1, len(tools))))
    return set_side_by_side(replace(scenario, tools=equipped), model, {}, oracle=False)


def compare_systems(played: Played, simulated: Comparison) -> list[bool]:
    """Say of each call whether the gateway sent the system part that the simulator has."""
    theirs = [one.blocks for one in simulated.asked[OURS]]
    return [
        read_system(list_blocks(played.shape, request)) == read_system(other)
        for request, other in zip(played.requests, theirs, strict=True)
    ]


def read_system(blocks: Sequence[Block]) -> str:
    """Read the system part of a request."""
    return "".join(block.text for block in blocks if find_part(block.name) == "system")
