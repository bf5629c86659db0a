"""Claims about toolsets: their order, and what a clearance may know of them."""

from pathlib import Path

import pytest

from foreword.errors import InputError
from foreword.testing import make_workspace
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Trust

B, A, C = Tool(name="b", trust=Trust.PUBLIC), Tool(name="a", trust=Trust.INNER), Tool(name="c")


def names(tools: Toolset) -> list[str]:
    """Name the tools in their order."""
    return [tool.name for tool in tools.tools]


def test_by_name() -> None:
    """Tools stand by their names, in whichever order they came."""
    assert names(Toolset([B, A, C])) == names(Toolset([C, B, A])) == ["a", "b", "c"]
    assert Toolset([B, A]) == Toolset([A, B])


def test_in_order() -> None:
    """A caller whose order is stable keeps it, and another order is another set."""
    assert names(Toolset.in_order([B, A, C])) == ["b", "a", "c"]
    assert Toolset.in_order([B, A]) == Toolset.in_order(iter([B, A]))
    assert Toolset.in_order([B, A]) != Toolset.in_order([A, B]) == Toolset([B, A])


def test_same_hash() -> None:
    """Sets that are equal have one hash, however they were made."""
    assert hash(Toolset.in_order([A, B])) == hash(Toolset([B, A]))


def test_allowed_keeps_the_order() -> None:
    """What a clearance may know of stands in the order of the whole."""
    tools = Toolset.in_order([C, B, A])
    assert [names(tools.allowed(level)) for level in Trust] == [["b"], ["b"], ["b", "a"], ["c", "b", "a"]]
    assert tools.allowed(Trust.INNER) is tools.allowed(Trust.INNER)


@pytest.mark.parametrize("make", [Toolset, Toolset.in_order])
def test_names_are_single(make) -> None:
    """Two tools of one name are refused, sorted or not, and every such name is told."""
    with pytest.raises(InputError, match="two tools have the same name: a, b"):
        make([B, A, C, A, B])


def test_empty() -> None:
    """No tools are a set, too, and one that is false."""
    assert not Toolset.in_order([])
    assert Toolset.in_order([]) == Toolset()
    assert "a" not in Toolset.in_order([])


def test_order_reaches_the_prompt_and_the_wire(tmp_path: Path) -> None:
    """The order of a set is that of the prompt and that of the request."""
    ws = make_workspace(tmp_path, {})
    for tools in (Toolset.in_order([C, B, A]), Toolset([C, B, A])):
        turn = Turn(user="alice", situation="dm", model="openai:gpt-5", blueprint="coop", tools=tools)
        assembly = ws.assemble(turn)
        assert [tool["function"]["name"] for tool in assembly.envelope().request["tools"]] == names(tools)
        text = assembly.prompt.text
        assert sorted(names(tools), key=lambda name: text.index(f"\n- {name}")) == names(tools)
