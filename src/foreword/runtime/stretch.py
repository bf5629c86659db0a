"""Stretches of a conversation that are over: read once, told once, and written once for all requests that follow.

before = Before(history, shape="anthropic", meter=meter, opening=0)
messages = (*before.list_unwritten(), *own)      what a library has to write
request, segments = before.take(owned)           what it wrote of this turn, and all that was said before it
"""

from collections.abc import Sequence
from itertools import chain, pairwise

from pydantic_ai.messages import ModelMessage, ModelResponse, ThinkingPart

from foreword.caching.blocks import LISTS
from foreword.frozen import frozen
from foreword.runtime.history import Messages, dump, list_said, load, recount
from foreword.runtime.own import Body, NotOurs, Owned
from foreword.tokens import Meter
from foreword.turn import Message
from foreword.wire import Segment, write_segment


@frozen
class Written:
    """A stretch as it stands in the requests of one shape, weighed by one meter."""

    shape: str
    meter: Meter
    segment: Segment
    binds: bool
    """Whether a library writes what follows otherwise than without it."""


class Stretch:
    """One or more turns, as they were stored; what is made of them is remembered with it."""

    __slots__ = ("_messages", "_told", "_written", "stored")

    def __init__(self, stored: bytes) -> None:
        self.stored = stored
        self._messages: Messages | None = None
        self._told: tuple[Message, ...] | None = None
        self._written: Written | None = None

    @property
    def messages(self) -> Messages:
        """What was said, as messages of the library; they are large, and remembered only until they are written."""
        if self._written:
            return load(self.stored)
        if self._messages is None:
            self._messages = load(self.stored)
        return self._messages

    @property
    def told(self) -> tuple[Message, ...]:
        """What was said, as plain texts."""
        if self._told is None:
            self._told = recount(self.messages)
        return self._told

    def find(self, shape: str, meter: Meter, start: int) -> Written | None:
        """Find how it stands in a request in which so many messages stand before it, if that is known."""
        known = self._written
        fits = known and known.shape == shape and known.meter is meter and known.segment.start == start
        return known if fits else None

    def keep(self, written: Written) -> None:
        """Remember how it stands in requests."""
        self._written, self._messages = written, None


def stretch(messages: Messages) -> tuple[Stretch, ...]:
    """Make the history of messages that nobody has stored; none where nothing was said."""
    return (Stretch(dump(messages)),) if messages else ()


def tell(history: Sequence[Stretch]) -> tuple[Message, ...]:
    """Tell a history as plain texts: words of one speaker that follow each other are one message."""
    told = [one.told for one in history if one.told]
    if any(one[-1].role == other[0].role for one, other in pairwise(told)):
        return recount([message for one in history for message in one.messages])
    return tuple(chain.from_iterable(told))


class Before:
    """What was said before a turn: of its stretches those that are written already are not written again."""

    def __init__(self, history: Sequence[Stretch], shape: str, meter: Meter, opening: int) -> None:
        self._history = tuple(history)
        self._shape = shape
        self._meter = meter
        self._opening = opening
        self._known: list[Segment] = []
        self._counts: list[int] = []

    def list_unwritten(self) -> Messages:
        """List what a library has to write; the newest stretch is among it, since libraries look at the last answer."""
        self._known, at = [], self._opening
        for one in self._history[:-1]:
            written = one.find(self._shape, self._meter, at)
            if written is None or written.binds:
                break
            self._known.append(written.segment)
            at = written.segment.end
        rest = [one.messages for one in self._history[len(self._known) :]]
        # One that begins with no words of a person cannot be told from the one before it.
        cut = all(messages and list_said(messages[:1]) for messages in rest)
        self._counts = [len(list_said(messages)) for messages in rest] if cut else []
        return tuple(message for messages in rest for message in messages)

    def take(self, owned: Owned) -> tuple[Body, tuple[Segment, ...]]:
        """Take what was said before out of a request that a library wrote, and remember it as it stands there."""
        field = LISTS[self._shape].field
        said = owned.request[field][self._opening :]
        fresh = self._history[len(self._known) :] if self._counts else ()
        at, begin, segments = 0, 0, list(self._known)
        for one, count in zip(fresh, self._counts, strict=bool(fresh)):
            at += count
            if at >= len(owned.said):
                raise NotOurs("the request has lost a message of the user; it was not sent")
            end = owned.said[at]
            start = segments[-1].end if segments else self._opening
            written = one.find(self._shape, self._meter, start)
            if written is None:
                written = self._write(one, said[begin:end], start)
                one.keep(written)
            segments.append(written.segment)
            begin = end
        opening = owned.request[field][: self._opening]
        return {**owned.request, field: [*opening, *said[begin:]]}, tuple(segments)

    def _write(self, one: Stretch, messages: Sequence[Body], start: int) -> Written:
        segment = write_segment(self._shape, messages, start, self._meter.facts.cache, self._meter.count)
        binds = any(is_binding(self._shape, message) for message in one.messages)
        return Written(shape=self._shape, meter=self._meter, segment=segment, binds=binds)


def is_binding(shape: str, message: ModelMessage) -> bool:
    """Whether Pydantic AI looks at an earlier answer to write what follows it.

    In a chat it learns from thoughts which field a call of a tool must have; Anthropic's models that dropped thoughts
    are told so in every later request.
    """
    if not isinstance(message, ModelResponse):
        return False
    if shape == "anthropic":
        return "input_transformations" in (message.provider_details or {})
    return shape == "openai" and any(isinstance(part, ThinkingPart) for part in message.parts)
