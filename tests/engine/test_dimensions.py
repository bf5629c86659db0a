"""Claims about the result of a classification."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from foreword.engine.signal import classify
from foreword.errors import InputError
from foreword.turn import Genre, Signal, SignalFormat, SignalMode, SignalType

SIGNAL = Signal(
    mode=SignalMode.BUILD, genre=Genre.DIRECT, type=SignalType.QUESTION, format=SignalFormat.COMMAND, weight=0.5
)  # fmt: skip


def test_words() -> None:
    """Every dimension has exactly these words, and each is shown as written."""
    assert [*map(str, SignalMode)] == ["build", "execute", "analyze", "maintain", "assist"]
    assert [*map(str, Genre)] == ["direct", "commit", "decide", "express", "inform"]
    assert [*map(str, SignalType)] == ["question", "issue", "scheduling", "summary", "general"]
    assert [*map(str, SignalFormat)] == ["command", "message", "notification", "document"]


def test_equality() -> None:
    """Signals with the same fields are equal and have the same hash; any other field makes another signal."""
    assert replace(SIGNAL) == SIGNAL
    assert {SIGNAL, replace(SIGNAL), classify("hello")} == {SIGNAL, classify("hello")}
    others = {
        "mode": SignalMode.ASSIST,
        "genre": Genre.INFORM,
        "type": SignalType.ISSUE,
        "format": SignalFormat.MESSAGE,
    }
    for name, value in {**others, "weight": 0.6}.items():
        assert replace(SIGNAL, **{name: value}) != SIGNAL


def test_frozen() -> None:
    """A signal cannot be changed, and a copy of it is equal to it."""
    with pytest.raises(FrozenInstanceError):
        SIGNAL.weight = 1.0
    assert copy.deepcopy(SIGNAL) == pickle.loads(pickle.dumps(SIGNAL)) == SIGNAL


@pytest.mark.parametrize("weight", [-0.001, 1.001, 7, float("nan"), float("inf")])
def test_weight_out_of_range(weight: float) -> None:
    """A weight that is not from 0 to 1 is refused."""
    with pytest.raises(InputError, match="the weight of a signal must be from 0 to 1"):
        replace(SIGNAL, weight=weight)


@pytest.mark.parametrize("weight", [0, 0.0, 1, 1.0])
def test_weight_at_its_bounds(weight: float) -> None:
    """The bounds themselves are weights."""
    assert replace(SIGNAL, weight=weight).weight == weight


@pytest.mark.parametrize("field", ["mode", "genre", "type", "format"])
@pytest.mark.parametrize("value", [None, "build", SignalType])
def test_words_of_another_kind(field: str, value: object) -> None:
    """A dimension takes its own words only, and no plain text."""
    with pytest.raises(InputError, match="a SignalMode, a Genre, a SignalType and a SignalFormat"):
        replace(SIGNAL, **{field: value})
