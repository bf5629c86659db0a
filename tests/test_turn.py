"""Claims about toolsets: their order, and which tools a clearance can see."""

from pathlib import Path

import pytest

from foreword.errors import InputError
from foreword.testing import make_workspace
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Trust

B, A, C = Tool(name="b", trust=Trust.PUBLIC), Tool(name="a", trust=Trust.INNER), Tool(name="c")


def names(tools: Toolset) -> list[str]:
    """List the names of the tools in order."""
    return [tool.name for tool in tools.tools]


def test_by_name() -> None:
    """Tools are sorted by name, independent of the given order."""
    assert names(Toolset([B, A, C])) == names(Toolset([C, B, A])) == ["a", "b", "c"]
    assert Toolset([B, A]) == Toolset([A, B])


def test_in_order() -> None:
    """`in_order` keeps the caller's order, and sets with different orders are not equal."""
    assert names(Toolset.in_order([B, A, C])) == ["b", "a", "c"]
    assert Toolset.in_order([B, A]) == Toolset.in_order(iter([B, A]))
    assert Toolset.in_order([B, A]) != Toolset.in_order([A, B]) == Toolset([B, A])


def test_same_hash() -> None:
    """Equal sets have equal hashes, however they were created."""
    assert hash(Toolset.in_order([A, B])) == hash(Toolset([B, A]))


def test_allowed_keeps_the_order() -> None:
    """The tools visible at a clearance keep the order of the set."""
    tools = Toolset.in_order([C, B, A])
    assert [names(tools.allowed(level)) for level in Trust] == [["b"], ["b"], ["b", "a"], ["c", "b", "a"]]
    assert tools.allowed(Trust.INNER) is tools.allowed(Trust.INNER)


@pytest.mark.parametrize("make", [Toolset, Toolset.in_order])
def test_names_are_single(make) -> None:
    """Duplicate tool names are refused, sorted or not, and the error lists them."""
    with pytest.raises(InputError, match="two tools have the same name: a, b"):
        make([B, A, C, A, B])


def test_empty() -> None:
    """A set without tools is valid and false."""
    assert not Toolset.in_order([])
    assert Toolset.in_order([]) == Toolset()
    assert "a" not in Toolset.in_order([])


def test_order_reaches_the_prompt_and_the_wire(tmp_path: Path) -> None:
    """The prompt and the request have the order of the set."""
    ws = make_workspace(tmp_path, {})
    for tools in (Toolset.in_order([C, B, A]), Toolset([C, B, A])):
        turn = Turn(user="alice", situation="dm", model="openai:gpt-5", blueprint="coop", tools=tools)
        assembly = ws.assemble(turn)
        assert [tool["function"]["name"] for tool in assembly.envelope().request["tools"]] == names(tools)
        text = assembly.prompt.text
        assert sorted(names(tools), key=lambda name: text.index(f"\n- {name}")) == names(tools)
