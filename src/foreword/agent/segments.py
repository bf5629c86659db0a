"""The history before a turn in segments: each is written once in the shape of its model, and sent again as bytes."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from foreword.agent.conversation import Answer, HistoryMessage, Messages, convert_to_texts, dump_messages, load_messages
from foreword.envelope import Segment, write_segment
from foreword.tokens.count import Meter
from foreword.turn import Message
from foreword.types import frozen

if TYPE_CHECKING:
    from foreword.agent.providers.provider import Body, WireShape


@frozen
class MessageWriter:
    """Writes messages for one model."""

    wire: "WireShape"
    family: str
    """The provider that owns the ids and signatures of the model's answers."""
    meter: Meter

    def write(self, messages: Sequence[HistoryMessage]) -> "list[Body]":
        """Write messages in the wire shape.

        A model that accepts no system messages within a conversation gets none that an earlier model was sent: the
        prompt contains their text.
        """
        written = list(chain.from_iterable(self.wire.write_message(message, self.family) for message in messages))
        if self.meter.facts.cache.system_messages:
            return written
        return [one for one in written if one.get("role") != "system"]

    def write_segment(self, messages: Sequence[HistoryMessage], start: int) -> Segment:
        """Write messages as a segment; `start` messages of the request come before them."""
        facts = self.meter.facts.cache
        return write_segment(self.wire.name, self.write(messages), start, facts, self.meter.count)


class HistorySegment:
    """One or more stored turns, with their cached derived forms."""

    __slots__ = ("_meter", "_segment", "_texts", "drops_thinking", "stored")

    def __init__(self, stored: bytes) -> None:
        self.stored = stored
        self.drops_thinking = False
        """Whether an answer in it must not bring back its thoughts; known once it is written."""
        self._texts: tuple[Message, ...] | None = None
        self._segment: Segment | None = None
        self._meter: Meter | None = None

    @property
    def messages(self) -> Messages:
        """The messages; they are large, so they are not kept."""
        return load_messages(self.stored)

    @property
    def texts(self) -> tuple[Message, ...]:
        """The messages as plain texts."""
        if self._texts is None:
            self._texts = convert_to_texts(self.messages)
        return self._texts

    def write(self, writer: MessageWriter, start: int) -> Segment:
        """Return the messages as written for a request with `start` messages before them."""
        known = self._segment
        if known is None or self._meter is not writer.meter or known.start != start:
            messages = self.messages
            self._segment = known = writer.write_segment(messages, start)
            self._meter = writer.meter
            self.drops_thinking = any(message.drops_thinking for message in messages if isinstance(message, Answer))
        return known


def make_segments(messages: Messages) -> tuple[HistorySegment, ...]:
    """Make a history of messages that were not stored; empty if there are none."""
    return (HistorySegment(dump_messages(messages)),) if messages else ()


def convert_segments_to_texts(history: Sequence[HistorySegment]) -> tuple[Message, ...]:
    """Return a history as plain texts; consecutive messages of one role become one message."""
    texts = [one.texts for one in history if one.texts]
    if any(one[-1].role == other[0].role for one, other in pairwise(texts)):
        return convert_to_texts([message for one in history for message in one.messages])
    return tuple(chain.from_iterable(texts))


def write_history(history: Sequence[HistorySegment], writer: MessageWriter, start: int) -> tuple[Segment, ...]:
    """Write a history as segments; `start` messages open the request."""
    segments: list[Segment] = []
    for one in history:
        segments.append(one.write(writer, start))
        start = segments[-1].end
    return tuple(segments)
