"""Fenced tool calls in streamed answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.reply_stream import FencedCallParser, MalformedCall, ToolCall, parse_calls, parse_reply

ONE = '```tool_call\n{"tool": "lamps", "arguments": {"room": "hall"}}\n```'
LAMPS = ToolCall(name="lamps", arguments={"room": "hall"})


def join(found):
    """Join adjacent texts, so that the comparison ignores how they were split."""
    joined = []
    for one in found:
        if isinstance(one, str) and joined and isinstance(joined[-1], str):
            joined[-1] += one
        elif one != "":
            joined.append(one)
    return joined


CASES = {
    "a call": (ONE, [LAMPS]),
    "text around": (f"Let me see.\n{ONE}\nDone.", ["Let me see.\n", LAMPS, "Done."]),
    "two calls": (f"{ONE}\n{ONE}\n", [LAMPS, LAMPS]),
    "two calls apart": (f"{ONE}\n\n{ONE}\n", [LAMPS, "\n", LAMPS]),
    "the first one not closed": (f"{ONE[:-4]}\n{ONE}\n", [LAMPS, LAMPS]),
    "two in one block": (
        '```tool_call\n{"tool": "a"}\n{"tool": "b"}\n```\n',
        [ToolCall(name="a", arguments={}), ToolCall(name="b", arguments={})],
    ),
    "no end": ('```tool_call\n{"tool": "a"}', [ToolCall(name="a", arguments={})]),
    "on one line": ('```tool_call {"tool": "a"} ```\nyes', [ToolCall(name="a", arguments={}), "yes"]),
    "indented": ('  ```tool_call\n  {"tool": "a"}\n  ```\nyes', [ToolCall(name="a", arguments={}), "yes"]),
    "other code": ("```python\nprint(1)\n```\n", ["```python\nprint(1)\n```\n"]),
    "not at the beginning of a line": ("write ```tool_call {} to", ["write ```tool_call {} to"]),
    "another word": ("```tool_calls\n{}\n```", ["```tool_calls\n{}\n```"]),
    "only text": ("Two ticks `` and\n``", ["Two ticks `` and\n``"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_found(name, size):
    """Calls and the text around them are found in any split of the stream."""
    text, found = CASES[name]
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert join(parse_reply(pieces)) == found


def test_a_fence_inside_a_string():
    """A fence inside a string of a call does not end it, escaped or raw."""
    for text in ("```python\nprint(1)\n```", "a ``` b"):
        call = json.dumps({"tool": "note", "arguments": {"text": text}})
        assert parse_calls(f"```tool_call\n{call}\n```\n") == [ToolCall(name="note", arguments={"text": text})]
        raw = call.replace("\\n", "\n")
        assert parse_calls(f"```tool_call\n{raw}\n```\n") == [ToolCall(name="note", arguments={"text": text})]


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ('{"tool": "a", }', "no JSON"),
        ("lamps(room=hall)", "no JSON"),
        ('["a"]', "no call"),
        ('{"name": "a"}', "no call"),
        ('{"tool": "a", "arguments": [1]}', "no call"),
        ('{"tool": 3}', "no call"),
        ('{"tool": "a", "arguments": {"x": "y}', "no JSON"),
        ('{"tool": "a"', "no JSON"),
        ("{" * 5_000, "no JSON"),
    ],
)
def test_malformed(inside, words):
    """A malformed block is reported with the expected form, and parsing continues after it."""
    bad, *rest = parse_calls(f"```tool_call\n{inside}\n```\nand\n{ONE}\n")
    assert isinstance(bad, MalformedCall)
    assert words in bad.reason
    assert "```tool_call" in bad.reason
    assert rest == [LAMPS]


def test_a_block_without_an_end():
    """A block without an end is reported as such."""
    (bad,) = parse_calls('```tool_call\n{"tool": "a", "argu')
    assert bad == MalformedCall(reason=bad.reason)
    assert "no end" in bad.reason


def test_text_comes_at_once():
    """Text is passed on at once, except a line that may open a block."""
    fences = FencedCallParser()
    assert list(fences.feed("Let me")) == ["Let me"]
    assert list(fences.feed(" see.\n``")) == [" see.\n"]
    assert list(fences.feed("`python\n")) == ["```python\n"]
    assert list(fences.feed("```tool_ca")) == []
    assert list(fences.feed('ll\n{"tool": "a"}')) == [ToolCall(name="a", arguments={})]
    assert list(fences.feed("\n```")) == []
    assert list(fences.finish()) == []


@given(st.lists(st.sampled_from(["```tool_call\n", "```", "\n", '{"tool": "a"}', "{", '"', "x ", "```py\n"])))
def test_pieces_do_not_matter(parts):
    """The result does not depend on the split of the stream, and no text outside blocks is lost."""
    text = "".join(parts)
    whole = join(parse_reply([text]))
    assert join(parse_reply(list(text))) == whole
    if "```tool_call" not in text:
        assert whole == ([text] if text else [])
