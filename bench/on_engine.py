"""A scripted session on the embedded engine: requests pass through the runtime, and answers are real.

A design of the simulator writes the request of each call, with the engine's earlier answers instead of the script's.
Tools are text before the system part, and their results are messages, as for every model without native tools.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain, groupby
from urllib.request import Request, urlopen

from foreword.agent.agent_events import TextDelta
from foreword.agent.conversation import make_answer, make_user_message
from foreword.agent.providers.embedded_engine import EmbeddedEngine, RunningEngine
from foreword.agent.providers.embedded_weights import find_weights_file, make_engine_settings
from foreword.agent.providers.model_clients import ModelClients, OpenModel
from foreword.agent.providers.model_discovery import EMBEDDED_MODEL
from foreword.agent.providers.provider import AnswerDone, RequestOptions
from foreword.envelope import Envelope
from foreword.events.event import Usage
from foreword.promptcache.designs import Design, SessionCall
from foreword.promptcache.rules import CacheBlock
from foreword.tokens.models import find_model

ANSWERS = ("answer", "call")  # items that the engine generates


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One call: the tokens it had to evaluate, those it did evaluate, and the time to its first word."""

    turn: int
    new: int
    """Tokens of the newest message with its tail and its updates, and of the template text around it."""
    tokens: int
    read: int
    first: float
    """Seconds until the first word."""

    @property
    def evaluated(self) -> int:
        """Tokens evaluated, as reported by the engine."""
        return self.tokens - self.read


async def play_all(
    calls: Sequence[SessionCall], designs: Mapping[str, Design], environ: Mapping[str, str], longest: int
) -> dict[str, tuple[Done, ...]]:
    """Play a session in several designs, alternating call by call, each in its own slot."""
    find_weights_file(make_engine_settings(find_model(EMBEDDED_MODEL, {}), environ))  # download before timing
    models = ModelClients({}, environ)
    try:
        opened = await models.start(EMBEDDED_MODEL)
        engine = models._engines[EMBEDDED_MODEL]  # noqa: SLF001 - asked for its own template and tokenizer
        players = [Player(name, design, opened, engine, longest) for name, design in designs.items()]
        for call in calls:
            for player in players:
                await player.play(call)
    finally:
        await models.close()
    return {player.name: tuple(player.done) for player in players}


def divide(done: Sequence[Done]) -> float:
    """Return evaluated tokens as a multiple of new ones."""
    return sum(one.evaluated for one in done) / sum(one.new for one in done)


def by_turn(done: Sequence[Done]) -> list[list[Done]]:
    """Group calls by turn."""
    turns = sorted({one.turn for one in done})
    return [[one for one in done if one.turn == turn] for turn in turns]


class Player:
    """Plays the calls of one session in one design."""

    def __init__(self, name: str, design: Design, opened: OpenModel, engine: EmbeddedEngine, longest: int) -> None:
        self.name = name
        self.done: list[Done] = []
        self._design = design
        self._opened = opened
        self._engine = engine
        self._longest = longest
        self._answers: dict[int, str] = {}

    async def play(self, call: SessionCall) -> Done:
        """Make one call and store its answer."""
        said = tuple(replace(one, text=self._answers[one.message]) if one.kind in ANSWERS else one for one in call.said)
        messages = list(group(self._design.write(replace(call, said=said))))
        answered, first = await self._ask(messages)
        used = answered.usage or Usage()
        new = count_newest(self._engine.start(), messages)
        done = Done(turn=call.turn, new=new, tokens=used.tokens_in, read=used.cache_read, first=first)
        self._answers[call.said[-1].message + 1] = answered.answer.text or "…"
        self.done.append(done)
        return done

    async def _ask(self, messages: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[AnswerDone, float]:
        """Send a request like the runtime, and record the time of the first word."""
        system, *conversation = messages
        wire, family = self._opened.wire, self._opened.family
        written = chain.from_iterable(
            wire.write_message(make_user_message(*texts) if role == "user" else make_answer("".join(texts)), family)
            for role, texts in conversation
        )
        request = {"model": self.name, "messages": [{"role": "system", "content": "".join(system[1])}, *written]}
        options = RequestOptions(max_tokens=self._longest, cache_key=self.name)
        envelope = Envelope(shape=wire.name, model=self.name, request=wire.complete(request, options))
        first, begin = 0.0, time.perf_counter()
        async with aclosing(self._opened.provider.stream(envelope)) as events:
            async for event in events:
                if isinstance(event, TextDelta) and not first:
                    first = time.perf_counter() - begin
                elif isinstance(event, AnswerDone):
                    return event, first or time.perf_counter() - begin
        raise AssertionError("a provider's stream ends with the answer or an error")


def group(blocks: Sequence[CacheBlock]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Group blocks into messages: tools and system come first, other blocks have their message number."""
    for place, run in groupby(blocks, key=lambda block: block.name if block.name[:1].isdigit() else "system"):
        yield (
            place.rpartition(" ")[2],
            tuple(f"{block.text}\n\n" if block.name.startswith("tool ") else block.text for block in run),
        )


def count_newest(running: RunningEngine, messages: Sequence[tuple[str, tuple[str, ...]]]) -> int:
    """Count the tokens after the last answer, with the engine's own template and tokenizer."""
    body = [
        {
            "role": role,
            "content": [{"type": "text", "text": text} for text in texts] if role == "user" else "".join(texts),
        }
        for role, texts in messages
    ]
    whole = ask(running, "/apply-template", {"messages": body})["prompt"]
    # A prompt that ends with an answer ends with its exact text, so that it could be continued.
    known = ask(running, "/apply-template", {"messages": body[:-1]})["prompt"] if len(body) > 2 else ""
    if not whole.startswith(known):
        raise ValueError("the template rewrites earlier messages")
    told = ask(running, "/tokenize", {"content": whole[len(known) :], "parse_special": True})
    return len(told["tokens"])


def ask(running: RunningEngine, path: str, body: object) -> dict[str, str]:
    """Send a request to another endpoint of the engine."""
    headers = {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}
    with urlopen(Request(running.url + path, json.dumps(body).encode(), headers)) as answer:
        found: dict[str, str] = json.load(answer)
    return found
