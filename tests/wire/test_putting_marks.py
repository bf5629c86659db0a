"""Claims about breakpoints in a finished request."""

from dataclasses import replace

import pytest
from letters import write

from foreword.envelope import set_breakpoints
from foreword.promptcache.cache_usage import Breakpoint
from foreword.promptcache.rules import list_blocks

CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "lamps", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "on"}]}


def make(at, ttl="5m"):
    """Make a breakpoint."""
    return Breakpoint(at=at, ttl=ttl, why="")


def test_a_mark_stands_where_the_cache_sees_it(tmp_path):
    """A breakpoint at any block of a request is found at that very block, and nothing else changes."""
    bare = set_breakpoints("anthropic", write(tmp_path, "anthropic").envelope().request, ())
    request = {**bare, "messages": [*bare["messages"], CALL, RESULT]}
    blocks = list_blocks("anthropic", request)
    assert not any(block.ttl for block in blocks)
    for at in range(len(blocks)):
        marked = list_blocks("anthropic", set_breakpoints("anthropic", request, (make(at, "1h"),)))
        assert [block.ttl for block in marked] == ["1h" if each == at else "" for each in range(len(blocks))]
        assert [block.key for block in marked] == [block.key for block in blocks]


def test_old_marks_go(tmp_path):
    """Existing breakpoints of a request are removed."""
    request = write(tmp_path, "anthropic").envelope().request
    twice = set_breakpoints("anthropic", set_breakpoints("anthropic", request, (make(0), make(1))), (make(2),))
    assert [at for at, block in enumerate(list_blocks("anthropic", twice)) if block.ttl] == [2]


@pytest.mark.parametrize(("ttl", "mark"), [("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})])
def test_lives(tmp_path, ttl, mark):
    """A TTL other than the default is written."""
    request = set_breakpoints("anthropic", write(tmp_path, "anthropic").envelope().request, (make(0, ttl),))
    assert request["tools"][0]["cache_control"] == mark


def test_breakpoints_are_data(tmp_path):
    """An envelope lists the breakpoints of its request."""
    envelope = write(tmp_path, "anthropic").envelope()
    blocks = list_blocks("anthropic", envelope.request)
    assert {one.at: one.ttl for one in envelope.breakpoints} == {
        at: block.ttl for at, block in enumerate(blocks) if block.ttl
    }
    assert envelope.breakpoints


def test_gpt(tmp_path):
    """GPT-5.6 has a breakpoint after each stable block; the service marks the newest message by itself."""
    from foreword.testing import make_workspace
    from foreword.turn import Turn

    ws = make_workspace(tmp_path / "gpt", {"SOUL.md": "Be kind to all.\n" * 400, "USER.md": "She keeps bees.\n" * 90})
    envelope = ws.assemble(Turn(user="alice", situation="dm", model="openai:gpt-5.6", message="Hi")).envelope("openai")
    parts = envelope.request["messages"][0]["content"]
    assert [part.get("prompt_cache_breakpoint") for part in parts] == [{"mode": "explicit"}] * 2
    assert {one.ttl for one in envelope.breakpoints} == {"30m"}
    older = ws.assemble(Turn(user="alice", situation="dm", model="openai:gpt-5.4", message="Hi")).envelope("openai")
    assert "".join(part["text"] for part in parts) == older.request["messages"][0]["content"]
    again = set_breakpoints("openai", envelope.request, envelope.breakpoints)
    assert again == envelope.request


def test_gpt_over_responses(tmp_path):
    """Instructions take no breakpoints, so GPT-5.6 gets its system part in a message that opens the input."""
    from foreword.testing import make_workspace
    from foreword.turn import Turn

    ws = make_workspace(tmp_path / "gpt", {"SOUL.md": "Be kind to all.\n" * 400, "USER.md": "She keeps bees.\n" * 90})
    turn = Turn(user="alice", situation="dm", model="openai-responses:gpt-5.6", message="Hi")
    envelope = ws.assemble(turn).envelope("responses")
    opening, newest = envelope.request["input"]
    assert "instructions" not in envelope.request
    assert (opening["role"], newest["role"]) == ("system", "user")
    assert [part.get("prompt_cache_breakpoint") for part in opening["content"]] == [{"mode": "explicit"}] * 2
    assert {part["type"] for part in opening["content"]} == {"input_text"}
    older = ws.assemble(replace(turn, model="openai-responses:gpt-5.4")).envelope("responses")
    assert "".join(part["text"] for part in opening["content"]) == older.request["instructions"]
    assert set_breakpoints("responses", envelope.request, envelope.breakpoints) == envelope.request
    assert not any(block.ttl for block in list_blocks("responses", set_breakpoints("responses", envelope.request, ())))
