"""Claims about cache breakpoints."""

from pathlib import Path

import pytest
from letters import write

from foreword.engine.render import PromptBlock
from foreword.envelope import choose_block_ttls
from foreword.testing import make_workspace
from foreword.tokens.models import find_model
from foreword.turn import Toolset, Turn
from foreword.types import Pace, Placement

SONNET = find_model("anthropic:claude-sonnet-5", {})


def block(pace: Pace, tokens: int, placement: Placement = Placement.SYSTEM) -> PromptBlock:
    """Make a block of a pace and a weight."""
    return PromptBlock(pace=pace, placement=placement, text="x", tokens=tokens, spans=())


@pytest.mark.parametrize(
    ("blocks", "tools", "marks"),
    [
        ([(Pace.STATIC, 1024), (Pace.SESSION, 10)], 0, ("5m", "5m")),
        ([(Pace.STATIC, 1023), (Pace.SESSION, 10)], 0, (None, "5m")),
        ([(Pace.STATIC, 500), (Pace.SESSION, 500)], 0, (None, None)),
        ([(Pace.STATIC, 500), (Pace.SESSION, 500)], 524, ("5m", "5m")),
        ([(Pace.STATIC, 2000), (Pace.TURN, 10), (Pace.SESSION, 10)], 0, ("5m", None, None)),
        ([(Pace.TURN, 2000)], 0, (None,)),
        ([(Pace.STATIC, 2000), (Pace.SESSION, 1)] * 3, 0, ("5m", None, None, None, "5m", "5m")),
        ([], 0, ()),
    ],
)
def test_marks(blocks: list[tuple[Pace, int]], tools: int, marks: tuple[str | None, ...]) -> None:
    """Breakpoints end the blocks of the leading stable run, from the minimum on: the first one and the last two."""
    assert choose_block_ttls([block(pace, tokens) for pace, tokens in blocks], SONNET, tools) == marks


@pytest.mark.parametrize("model", ["openai:gpt-5", "google:gemini-3-pro", "local:smollm2"])
def test_no_marks(model: str) -> None:
    """A provider that caches automatically gets no breakpoints."""
    assert choose_block_ttls([block(Pace.STATIC, 9000)], find_model(model, {}), 0) == (None,)


def test_lone_mark(tmp_path: Path) -> None:
    """A breakpoint at the end of the session's block also caches the text before it, and the report says so."""
    ws = make_workspace(
        tmp_path, {"SOUL.md": "Be kind.\n", "USER.md": "She keeps bees, and knows each by name.\n" * 90}
    )
    assembly = ws.assemble(Turn(user="alice", situation="dm", model="anthropic:claude-sonnet-5", tools=Toolset()))
    assert assembly.marks == (None, "5m", None)
    rows = {row.id: row for row in assembly.rows()}
    assert (rows["soul"].cached, rows["user"].cached, rows["time"].cached) == (True, True, False)
    assert " in 1 cached block " in assembly.summary


def test_no_mark_is_no_cache(tmp_path: Path) -> None:
    """A prompt below the provider's minimum is not cached, and no row says it is."""
    ws = make_workspace(tmp_path, {"SOUL.md": "Be kind.\n"})
    for model in ("anthropic:claude-sonnet-5", "openai:gpt-5"):
        assembly = ws.assemble(Turn(user="alice", situation="dm", model=model, tools=Toolset()))
        assert not any(row.cached for row in assembly.rows())


def test_rows_tell(tmp_path: Path) -> None:
    """The report says for each section whether it is cached; sections in the tail are not."""
    rows = {row.id: row for row in write(tmp_path, "anthropic").rows()}
    assert rows["soul"].cached
    assert rows["user"].cached
    assert not rows["time"].cached
