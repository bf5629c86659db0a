"""Claims about cache marks."""

from pathlib import Path

import pytest
from letters import write

from foreword.render import Block
from foreword.tokens import find
from foreword.wire import mark
from foreword.words import Pace, Placement

SONNET = find("anthropic:claude-sonnet-5", {})


def block(pace: Pace, tokens: int, placement: Placement = Placement.SYSTEM) -> Block:
    """Make a block of a pace and a weight."""
    return Block(pace=pace, placement=placement, text="x", tokens=tokens, spans=())


@pytest.mark.parametrize(
    ("blocks", "tools", "marks"),
    [
        ([(Pace.STATIC, 1024), (Pace.SESSION, 10)], 0, ("5m", "5m")),
        ([(Pace.STATIC, 1023), (Pace.SESSION, 10)], 0, (None, "5m")),
        ([(Pace.STATIC, 500), (Pace.SESSION, 500)], 0, (None, None)),
        ([(Pace.STATIC, 500), (Pace.SESSION, 500)], 524, ("5m", "5m")),
        ([(Pace.STATIC, 2000), (Pace.TURN, 10), (Pace.SESSION, 10)], 0, ("5m", None, None)),
        ([(Pace.TURN, 2000)], 0, (None,)),
        ([(Pace.STATIC, 2000), (Pace.SESSION, 1)] * 3, 0, (None, None, None, "5m", "5m", "5m")),
        ([], 0, ()),
    ],
)
def test_marks(blocks: list[tuple[Pace, int]], tools: int, marks: tuple[str | None, ...]) -> None:
    """Marks end the blocks of the leading stable run, from the provider's minimum on, and at most three."""
    assert mark([block(pace, tokens) for pace, tokens in blocks], SONNET, tools) == marks


@pytest.mark.parametrize("model", ["openai:gpt-5", "google:gemini-3-pro", "local:smollm2"])
def test_no_marks(model: str) -> None:
    """A provider that caches by itself gets no marks."""
    assert mark([block(Pace.STATIC, 9000)], find(model, {}), 0) == (None,)


def test_rows_tell(tmp_path: Path) -> None:
    """The report says of each section whether it is cached, and of what travels in the tail that it is not."""
    rows = {row.id: row for row in write(tmp_path, "anthropic").rows()}
    assert rows["soul"].cached
    assert rows["user"].cached
    assert not rows["time"].cached
