"""Sessions that an older version stored as the JSON of pydantic-ai: providers get the same bytes as before."""

import json
from itertools import chain
from pathlib import Path

import pytest
from conversation import KEYS, MODELS

from foreword.agent.conversation import dump_messages, load_messages
from foreword.agent.images import ImageFolder
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.segments import HistorySegment, MessageWriter, write_history
from foreword.storage.legacy_messages import convert_messages
from foreword.testing import make_workspace

OLD = json.loads((Path(__file__).parents[1] / "storage" / "old_messages.json").read_text(encoding="utf-8"))
SHAPES = tuple(OLD)


@pytest.fixture(params=SHAPES)
def shape(request):
    """Each wire shape."""
    return request.param


def convert(shape):
    """Convert the turns of a shape's session."""
    return [convert_messages(json.dumps(turn).encode()) for turn in OLD[shape]["stored"]]


def make_writer(shape, folder):
    """Make the writer for a shape's model."""
    with make_workspace(folder, {}) as workspace:
        meter = workspace.context.measure(MODELS[shape])
    opened = ModelClients({}, KEYS).find(MODELS[shape])
    return MessageWriter(wire=opened.wire, family=opened.family, meter=meter, images=ImageFolder(""))


def write(value):
    """Write messages as a request has them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_all_shapes_have_a_session():
    """There is a stored session of every shape."""
    assert set(SHAPES) == set(MODELS)


def test_sent_as_before(tmp_path, shape):
    """A converted session is sent byte for byte as the old version sent it."""
    writer = make_writer(shape, tmp_path)
    messages = chain.from_iterable(load_messages(turn) for turn in convert(shape))
    assert write(writer.write([*messages])) == write(OLD[shape]["sent"])


def test_sent_as_before_in_segments(tmp_path, shape):
    """The stored turns, each written once as a segment, are together the same bytes."""
    segments = write_history([HistorySegment(turn) for turn in convert(shape)], make_writer(shape, tmp_path), 0)
    joined = b"[" + b",".join(segment.written for segment in segments) + b"]"
    assert joined.decode() == write(OLD[shape]["sent"])
    assert segments[-1].end == len(OLD[shape]["sent"])


def test_converted_is_the_stored_form(shape):
    """The converted JSON is what this version stores for the same messages."""
    for turn in convert(shape):
        assert turn == dump_messages(load_messages(turn))
