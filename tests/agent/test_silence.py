"""Suppressed replies: the token is never shown, and all other text is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.reply_stream import NO_REPLY_TOKEN, NoReplyFilter, find_suppression_reason, strip_no_reply_token

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
