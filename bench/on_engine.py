"""A scripted session on the embedded engine: each design's requests go the way of the runtime's, answers are real.

What a call is sent is written by a design of the simulator, with what the engine itself has answered before in the
place of the script's answers. Tools stand as text before the system part, and their results go back as messages, as
for every model without tools of its own.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from urllib.request import Request, urlopen

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from foreword.caching import Block
from foreword.local.engine import Engine, Running
from foreword.local.setup import locate, prepare
from foreword.runtime.calling import read_piece
from foreword.runtime.choosing import EMBEDDED
from foreword.runtime.history import Messages, list_said, read_text, say
from foreword.runtime.models import Models, Opened
from foreword.runtime.own import Sending
from foreword.runtime.wire import sending
from foreword.simulate.design import Design
from foreword.simulate.session import Call
from foreword.tokens import find
from foreword.wire import Envelope

ANSWERS = ("answer", "call")  # what the engine says itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One call that was made: what it had to evaluate at least, what it did, and when its first word came."""

    turn: int
    new: int
    """Tokens of the newest message with its tail and its updates, and of what the template puts around it."""
    tokens: int
    read: int
    first: float
    """Seconds until the first word."""

    @property
    def evaluated(self) -> int:
        """Tokens that were evaluated, as the engine reports it."""
        return self.tokens - self.read


async def play_all(
    calls: Sequence[Call], designs: Mapping[str, Design], environ: Mapping[str, str], longest: int
) -> dict[str, tuple[Done, ...]]:
    """Play a session in several designs, call by call one after the other, each in a slot of its own."""
    locate(prepare(find(EMBEDDED, {}), environ))  # what is fetched once is no part of any turn
    models = Models({}, environ)
    try:
        opened = await models.start(EMBEDDED)
        engine = models._engines[EMBEDDED]  # noqa: SLF001 - asked for its own template and tokenizer
        players = [Player(name, design, opened, engine, longest) for name, design in designs.items()]
        for call in calls:
            for player in players:
                await player.play(call)
    finally:
        await models.close()
    return {player.name: tuple(player.done) for player in players}


def divide(done: Sequence[Done]) -> float:
    """What was evaluated as a multiple of what was new."""
    return sum(one.evaluated for one in done) / sum(one.new for one in done)


def by_turn(done: Sequence[Done]) -> list[list[Done]]:
    """List calls turn by turn."""
    turns = sorted({one.turn for one in done})
    return [[one for one in done if one.turn == turn] for turn in turns]


class Player:
    """Plays the calls of one session in one design."""

    def __init__(self, name: str, design: Design, opened: Opened, engine: Engine, longest: int) -> None:
        self.name = name
        self.done: list[Done] = []
        self._design = design
        self._opened = opened
        self._engine = engine
        self._longest = longest
        self._answers: dict[int, str] = {}

    async def play(self, call: Call) -> Done:
        """Make one call, and keep what was answered."""
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
        """Ask as the runtime does, and note when the first word comes."""
        system, *conversation = messages
        history: Messages = tuple(
            say(*texts) if role == "user" else ModelResponse(parts=[TextPart(content="".join(texts))])
            for role, texts in conversation
        )
        request = {"model": self.name, "messages": [{"role": "system", "content": "".join(system[1])}]}
        what = Sending(
            envelope=Envelope(shape=self._opened.shape, model=self.name, request=request),
            said=list_said(history),
            max_tokens=self._longest,
            cache_key=self.name,
        )
        settings, first, begin = ModelSettings(max_tokens=self._longest), 0.0, time.perf_counter()
        with sending(what):
            async with self._opened.model.request_stream(list(history), settings, ModelRequestParameters()) as stream:
                async for event in stream:
                    if read_piece(event) and not first:
                        first = time.perf_counter() - begin
                return stream.get(), first or time.perf_counter() - begin


def group(blocks: Sequence[Block]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Group blocks to messages: tools and system are the first, everything else has the number of its message."""
    for place, run in groupby(blocks, key=lambda block: block.name if block.name[:1].isdigit() else "system"):
        yield (
            place.rpartition(" ")[2],
            tuple(f"{block.text}\n\n" if block.name.startswith("tool ") else block.text for block in run),
        )


def count_newest(running: Running, messages: Sequence[tuple[str, tuple[str, ...]]]) -> int:
    """Count what stands behind the last answer, by the engine's own template and tokenizer."""
    body = [
        {
            "role": role,
            "content": [{"type": "text", "text": text} for text in texts] if role == "user" else "".join(texts),
        }
        for role, texts in messages
    ]
    whole = ask(running, "/apply-template", {"messages": body})["prompt"]
    # Ending with an answer, it ends with the very words of it, so that they could be gone on with.
    known = ask(running, "/apply-template", {"messages": body[:-1]})["prompt"] if len(body) > 2 else ""
    if not whole.startswith(known):
        raise ValueError("the template rewrites what was said before")
    told = ask(running, "/tokenize", {"content": whole[len(known) :], "parse_special": True})
    return len(told["tokens"])


def ask(running: Running, path: str, body: object) -> dict[str, str]:
    """Ask the engine for something beside its answers."""
    headers = {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}
    with urlopen(Request(running.url + path, json.dumps(body).encode(), headers)) as answer:
        found: dict[str, str] = json.load(answer)
    return found
