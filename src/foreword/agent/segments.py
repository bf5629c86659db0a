"""The history before a turn in segments: each is written once in the shape of its model, and sent again as bytes."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from foreword.agent.conversation import (
    Answer,
    HistoryMessage,
    ImagePart,
    InlineImage,
    Messages,
    TextPart,
    UserMessage,
    convert_to_texts,
    dump_messages,
    list_images,
    load_messages,
)
from foreword.agent.images import ImageFolder
from foreword.envelope import Segment, write_segment
from foreword.tokens.count import Meter
from foreword.turn import Message
from foreword.types import frozen

if TYPE_CHECKING:
    from foreword.agent.providers.provider import Body, WireShape

IMAGE_PART = b'"type":"image"'  # in the stored messages of a segment with images
UNSUPPORTED_IMAGE = "[image left out: this model does not take it]"
MISSING_IMAGE = "[image left out: its file is missing]"


@frozen
class MessageWriter:
    """Writes messages for one model."""

    wire: "WireShape"
    family: str
    """The provider that owns the ids and signatures of the model's answers."""
    meter: Meter
    images: ImageFolder
    """The stored images of the workspace."""

    def write(self, messages: Sequence[HistoryMessage]) -> "list[Body]":
        """Write messages in the wire shape.

        A model that accepts no system messages within a conversation gets none that an earlier model was sent: the
        prompt contains their text.
        """
        loaded = map(self._load_images, messages)
        written = list(chain.from_iterable(self.wire.write_message(message, self.family) for message in loaded))
        if self.meter.facts.cache.system_messages:
            return written
        return [one for one in written if one.get("role") != "system"]

    def _load_images(self, message: HistoryMessage) -> HistoryMessage:
        """Replace the references to images by their bytes, or by a note that says why an image is left out."""
        if not isinstance(message, UserMessage) or not message.images:
            return message
        parts = (self._load_image(part) if isinstance(part, ImagePart) else part for part in message.parts)
        return replace(message, parts=tuple(parts))

    def _load_image(self, image: ImagePart) -> InlineImage | TextPart:
        if not self.meter.facts.images or image.media_type not in self.wire.image_types:
            return TextPart(text=UNSUPPORTED_IMAGE)
        content = self.images.read(image.sha256)
        if content is None:
            return TextPart(text=MISSING_IMAGE)
        return InlineImage(media_type=image.media_type, base64=b64encode(content).decode())

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
        """The messages, parsed each time, because they are large."""
        return load_messages(self.stored)

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The references to its images."""
        return list_images(self.messages) if IMAGE_PART in self.stored else ()

    @property
    def texts(self) -> tuple[Message, ...]:
        """The messages as plain texts."""
        if self._texts is None:
            self._texts = convert_to_texts(self.messages)
        return self._texts

    def write(self, writer: MessageWriter, start: int) -> Segment:
        """Return the messages as written for a request with `start` messages before them.

        A segment with images is written again each time: its bytes are megabytes that an idle session must not hold.
        """
        known = self._segment
        if known is None or self._meter is not writer.meter or known.start != start:
            messages = self.messages
            known = writer.write_segment(messages, start)
            self._segment, self._meter = known if IMAGE_PART not in self.stored else None, writer.meter
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
