"""Fenced tool calls and suppressed replies in streamed answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.reply_stream import (
    NO_REPLY_TOKEN,
    FencedCallParser,
    MalformedCall,
    NoReplyFilter,
    ToolCall,
    find_suppression_reason,
    parse_calls,
    parse_reply,
    strip_no_reply_token,
)

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


SILENT = [
    "{}", "  {}\n", "**{}**", "*{}*", "_{}_", "__{}__", "`{}`", "```\n{}\n```", '"{}"', "“{}”", "({})", "[{}]", "{}.",
    "{}!", "**{}.**", "{} {}", "- {}",
]  # fmt: skip
KEPT = [
    "What does {} mean?", "{}_NOW", "x{}", "{}x", "no_action_needed", "No action needed.", "", "NO", "Say NO_ACTION",
    "NO_ACTION_NEEDE", "The word {} is for silence.", "**Hello**", "  hi  ",
]  # fmt: skip
CUT = {
    "{}\n\nHello.": "Hello.",
    "Hello. {}": "Hello.",
    "Hello.\n\n**{}**\n": "Hello.",
    "{}: Hello": "Hello",
    "{} **Hello**": "**Hello**",
    "Use `this` {}": "Use `this`",
    "{}\nHello\n{}": "Hello",
}


@pytest.mark.parametrize("text", [*SILENT, "NO\\_ACTION\\_NEEDED"])
def test_nothing_but_the_word(text):
    """A reply that consists of the token, in any decoration, is suppressed."""
    written = text.replace("{}", NO_REPLY_TOKEN)
    assert strip_no_reply_token(written) == ""
    assert NO_REPLY_TOKEN in find_suppression_reason(written)


@pytest.mark.parametrize("text", KEPT)
def test_stays(text):
    """The token within a sentence stays, and so does any similar word."""
    written = text.replace("{}", NO_REPLY_TOKEN)
    assert strip_no_reply_token(written) == written


@pytest.mark.parametrize(("text", "left"), CUT.items())
def test_at_an_edge(text, left):
    """The token at the start or end of a reply is removed."""
    assert strip_no_reply_token(text.replace("{}", NO_REPLY_TOKEN)) == left
    assert find_suppression_reason(text.replace("{}", NO_REPLY_TOKEN)) == ""


PIECES = st.lists(
    st.sampled_from(
        [
            NO_REPLY_TOKEN,
            NO_REPLY_TOKEN[:5],
            NO_REPLY_TOKEN[5:],
            "NO_",
            " ",
            "\n",
            "**",
            "`",
            ".",
            "Hello",
            "word ",
            "_",
            "\\_",
        ]
    )
    | st.text(max_size=4),
    max_size=8,
)


@given(PIECES, st.integers(1, 7))
def test_as_it_is_said(pieces, size):
    """The streamed result equals the result for the whole text, for any split."""
    text = "".join(pieces)
    hush = NoReplyFilter()
    said = [hush.add(text[at : at + size]) for at in range(0, len(text), size)]
    assert ("".join(said) + hush.end()).strip() == strip_no_reply_token(text).strip()


def test_said_at_once():
    """Text that cannot become the token is passed on at once."""
    hush = NoReplyFilter()
    assert [hush.add(piece) for piece in ("Good", " morning", ", Alice")] == ["Good", " morning", ", Alice"]
    assert [hush.add(piece) for piece in (" NO", "_ACTION", "S today")] == [" ", "", "NO_ACTIONS today"]


def test_ends_soon():
    """Long and odd texts are filtered quickly."""
    for text in ("* " * 20_000, "*" * 40_000, " " * 50_000, "x" + " " * 50_000, f"{NO_REPLY_TOKEN} " * 2_000):
        strip_no_reply_token(text)
