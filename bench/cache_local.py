"""The living session on the embedded engine: the tokens it evaluates per turn, and the time to the first word.

The session is a small version of the one in `foreword bench cache`, so that a model with 8,192 tokens can play it: 12
turns instead of 60, a twelfth of the prompt, 8 tool calls, and all 8 edits. It is played with our ledger and, turn by
turn on the same engine, with everything in one system string that ends with a clock.

The new tokens of a call are those that any append-only design must evaluate: the newest message with its tail and its
updates, and the template text around it, starting after the previous answer. The engine's own template and tokenizer
count them. Two unavoidable kinds are not counted as new: the last token of a truncated answer, which the engine has
generated but not evaluated, and an answer whose text tokenizes differently from how it was generated. A rebase has no
allowance: the figure includes everything it evaluates again.
"""

import asyncio
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.figure import Figure
from bench.on_engine import Done, by_turn, divide, play_all
from foreword.agent.providers.model_discovery import EMBEDDED_MODEL
from foreword.promptcache.designs import LedgerDesign, OneStringDesign, list_calls, make_simulated_model, make_stage
from foreword.promptcache.ledger import PrefixDecision
from foreword.promptcache.scenario import Scenario, read_scenario
from foreword.tokens.models import find_model

LONGEST = 12  # maximum tokens of an answer
MOST = 1.05  # maximum ratio of evaluated to new tokens
SMALL = """
name: living session in small
seed: 8
tools: {count: 4, tokens: 60}
sections:
  - {id: core, title: Core, tokens: 48, governs: true}
  - {id: soul, title: Soul, tokens: 84}
  - {id: agents, title: Instructions, tokens: 240}
  - {id: rules, title: Rules, tokens: 84}
  - {id: skills, title: Available Skills, tokens: 48}
  - {id: user, title: The Person You Are Speaking With, pace: session, tokens: 48}
  - {id: instructions, title: Their Standing Instructions, pace: session, tokens: 36}
  - {id: overlay, title: Situation, pace: session, tokens: 24, governs: true}
  - {id: project, title: Project Context, pace: session, tokens: 108}
  - {id: menu, title: Available Memory, pace: session, tokens: 48}
turns: 12
pauses: [{turn: 4, seconds: 720}, {turn: 7, seconds: 1080}, {turn: 10, seconds: 1500}]
work: [{turn: 2, calls: 1}, {turn: 4, calls: 2}, {turn: 6, calls: 1}, {turn: 8, calls: 1}, {turn: 10, calls: 3}]
message: 36
result: 36
edits:
  - {turn: 2, section: menu, grow: 12}
  - {turn: 3, section: soul}
  - {turn: 5, section: menu, grow: 12}
  - {turn: 6, section: user}
  - {turn: 7, section: agents}
  - {turn: 8, section: instructions}
  - {turn: 10, section: menu, grow: 12}
  - {turn: 11, section: rules}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A session played in both designs."""

    ours: tuple[Done, ...]
    string: tuple[Done, ...]
    decisions: tuple[PrefixDecision, ...]
    """The ledger's decisions, per turn."""


def run() -> Iterator[Figure]:
    """Play the session, and compare evaluated with new tokens."""
    played = asyncio.run(play_both(read_scenario(SMALL, "small.yaml")))
    ours, string = (list(later(side)) for side in (played.ours, played.string))
    yield Figure(
        name="evaluated of what is new, after turn 1",
        value=divide(ours),
        unit="×",
        aim=MOST,
        baseline=f"one string with a clock: {divide(string):,.2f} ×",
    )
    yield Figure(
        name="the same, worst turn",
        value=max(map(divide, by_turn(ours))),
        unit="×",
        aim=MOST,
        baseline=f"one string with a clock: {max(map(divide, by_turn(string))):,.2f} ×",
    )
    evaluated = [sum(one.evaluated for one in side) for side in (ours, string)]
    yield Figure(
        name=f"evaluated in {len(ours)} calls",
        value=evaluated[0],
        unit="tok",
        baseline=f"one string with a clock: {evaluated[1]:,} tok",
    )
    firsts = [statistics.median(turn[0].first for turn in by_turn(side)) for side in (ours, string)]
    yield Figure(
        name="first word of a turn, p50",
        value=firsts[0],
        unit="s",
        baseline=f"one string with a clock: {firsts[1]:,.2f} s",
    )


async def play_both(scenario: Scenario) -> Played:
    """Play a session with our ledger, and with everything in one string."""
    stage = make_stage(scenario)
    kept = LedgerDesign(stage, make_simulated_model(find_model(EMBEDDED_MODEL, {}), None))
    done = await play_all(
        list_calls(scenario), {"ours": kept, "string": OneStringDesign(stage=stage)}, os.environ, LONGEST
    )
    return Played(ours=done["ours"], string=done["string"], decisions=tuple(kept.decisions))


def later(done: Sequence[Done]) -> Iterator[Done]:
    """List the calls after the first turn."""
    return (one for one in done if one.turn > 1)


def draw(played: Played) -> str:
    """Format a session turn by turn: new, evaluated and read tokens, and the time to the first word."""
    lines = [f"{'':34}{'ours':38}one string with a clock"]
    lines.append(f"{'turn':6}{'calls':7}{'ledger':21}" + f"{'new':>6}{'evaluated':>11}{'read':>7}{'first':>8}    " * 2)
    for ours, string, decision in zip(by_turn(played.ours), by_turn(played.string), played.decisions, strict=True):
        edits = ",".join(f"{one.action} {one.section}" for one in decision.decisions)
        lines.append(f"{ours[0].turn:<6}{len(ours):<7}{edits:21}" + "".join(draw_side(side) for side in (ours, string)))
    return "\n".join(line.rstrip() for line in lines)


def draw_side(turn: Sequence[Done]) -> str:
    """Format one turn of one design."""
    new, evaluated, read = (sum(getattr(one, name) for one in turn) for name in ("new", "evaluated", "read"))
    return f"{new:>6,}{evaluated:>11,}{read:>7,}{turn[0].first:>6.2f} s    "


if __name__ == "__main__":
    print(draw(asyncio.run(play_both(read_scenario(SMALL, "small.yaml")))))
    sys.exit(0)
