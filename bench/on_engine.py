"""A scripted session on the embedded engine: requests pass through the runtime, and answers are real.

A design of the simulator writes the request of each call, with the engine's earlier answers instead of the script's.
Tools are text before the system part, and their results are messages, as for every model without native tools.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from urllib.request import Request, urlopen

from foreword.agent.providers.transport import OutgoingPrompt, use_prompt
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from foreword.agent.conversation import Messages, list_user_messages, make_user_message, read_text
from foreword.agent.model_call import read_delta_text
from foreword.agent.providers.embedded_engine import EmbeddedEngine, RunningEngine
from foreword.agent.providers.embedded_weights import find_weights_file, make_engine_settings
from foreword.agent.providers.model_clients import ModelClients, OpenModel
from foreword.agent.providers.model_discovery import EMBEDDED_MODEL
from foreword.envelope import Envelope
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
        response, first = await self._ask(messages)
        used = response.usage
        new = count_newest(self._engine.start(), messages)
        done = Done(turn=call.turn, new=new, tokens=used.input_tokens, read=used.cache_read_tokens, first=first)
        self._answers[call.said[-1].message + 1] = read_text(response) or "…"
        self.done.append(done)
        return done

    async def _ask(self, messages: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[ModelResponse, float]:
        """Send a request like the runtime, and record the time of the first word."""
        system, *conversation = messages
        history: Messages = tuple(
            make_user_message(*texts) if role == "user" else ModelResponse(parts=[TextPart(content="".join(texts))])
            for role, texts in conversation
        )
        request = {"model": self.name, "messages": [{"role": "system", "content": "".join(system[1])}]}
        what = OutgoingPrompt(
            envelope=Envelope(shape=self._opened.shape, model=self.name, request=request),
            user_messages=list_user_messages(history),
            max_tokens=self._longest,
            cache_key=self.name,
        )
        settings, first, begin = ModelSettings(max_tokens=self._longest), 0.0, time.perf_counter()
        with use_prompt(what):
            async with self._opened.model.request_stream(list(history), settings, ModelRequestParameters()) as stream:
                async for event in stream:
                    if read_delta_text(event) and not first:
                        first = time.perf_counter() - begin
                return stream.get(), first or time.perf_counter() - begin


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
