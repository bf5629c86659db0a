"""Designs of a prompt: how each writes the requests of a session, and where it marks them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from foreword.caching import Block
from foreword.frozen import frozen
from foreword.simulate.scenario import Scenario, Words
from foreword.simulate.session import Call, Said, Told
from foreword.words import Pace

NOTHING: Mapping[int, str] = {}


class Design(Protocol):
    """Writes requests."""

    def write(self, call: Call) -> Sequence[Block]:
        """Write the request of a call as blocks, with its marks."""
        ...


@frozen
class Stage:
    """What is the same in every design: the tools, and how things that were said look on the wire."""

    scenario: Scenario
    tools: tuple[Block, ...]

    def converse(
        self, said: Iterable[Said], tails: Mapping[int, str] = NOTHING, inserted: Mapping[int, str] = NOTHING
    ) -> Iterator[Block]:
        """Write a conversation; a turn's tail stands before the words of the person, its system message behind."""
        for one in said:
            role = "user" if one.kind in ("user", "result", "summary") else "assistant"
            if one.kind == "user" and tails.get(one.turn):
                yield make(f"{one.message} {role}", tails[one.turn])
            yield make(f"{one.message} {role}", one.text)
            if one.kind == "user" and inserted.get(one.turn):
                yield make(f"{one.message} system", inserted[one.turn])


@lru_cache(maxsize=8_192)
def make(place: str, text: str, ttl: str = "") -> Block:
    """Make a block."""
    return Block(key=f"{place} {text}", text=text, ttl=ttl, name=place)


def set_stage(scenario: Scenario) -> Stage:
    """Set the stage of a scenario."""
    words, equipped = Words(scenario.seed), scenario.tools
    tools = [make(f"tool tool_{at}", words.write(f"tool {at}", equipped.tokens)) for at in range(equipped.count)]
    return Stage(scenario=scenario, tools=tuple(tools))


def write_clock(call: Call, words: int, stage: Stage) -> str:
    """Write what changes with every turn: the time, and other facts of the moment."""
    more = Words(stage.scenario.seed).write(f"tail {call.turn}", max(12, words - 15))
    return f"It is {call.at:%A, %d %B %Y, %H:%M} (UTC).\n{more}"


def join(told: Iterable[Told]) -> str:
    """Join sections to one text."""
    return "\n\n".join(f"## {one.part.title or one.part.id}\n{one.text}" for one in told)


class OneString:
    """Everything in one system string, with a clock at its end; the newest message is marked."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def write(self, call: Call) -> Sequence[Block]:
        """Write a request: the clock is that of the turn, in the system string."""
        stage = self._stage
        system = make("system", f"{join(call.sections)}\n\n{write_clock(call, stage.scenario.tail, stage)}")
        blocks = [*stage.tools, system, *stage.converse(call.said)]
        return [*blocks[:-1], replace(blocks[-1], ttl="5m")]


class Split:
    """A static part with the one mark, and a dynamic part with the clock; the conversation is not marked."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def write(self, call: Call) -> Sequence[Block]:
        """Write a request."""
        stage = self._stage
        static = [one for one in call.sections if one.part.pace is Pace.STATIC]
        dynamic = [one for one in call.sections if one.part.pace is not Pace.STATIC]
        clock = write_clock(call, stage.scenario.tail, stage)
        return [
            *stage.tools,
            make("system", join(static), "5m"),
            make("system", f"{join(dynamic)}\n\n{clock}"),
            *stage.converse(call.said),
        ]
