"""Claims about silent replies: the word of silence is shown to nobody, and every other word is."""

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
    """A reply that is only the word, however it is dressed up, is no reply."""
    written = text.replace("{}", NO_REPLY_TOKEN)
    assert strip_no_reply_token(written) == ""
    assert NO_REPLY_TOKEN in find_suppression_reason(written)


@pytest.mark.parametrize("text", KEPT)
def test_stays(text):
    """Amid a sentence the word stays, and what is another word stays everywhere."""
    written = text.replace("{}", NO_REPLY_TOKEN)
    assert strip_no_reply_token(written) == written


@pytest.mark.parametrize(("text", "left"), CUT.items())
def test_at_an_edge(text, left):
    """At the beginning or the end of a reply the word is cut off."""
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
    """Heard piece by piece, a reply is what it is as a whole, however it is cut into pieces."""
    text = "".join(pieces)
    hush = NoReplyFilter()
    said = [hush.add(text[at : at + size]) for at in range(0, len(text), size)]
    assert ("".join(said) + hush.end()).strip() == strip_no_reply_token(text).strip()


def test_said_at_once():
    """Words that cannot become the word of silence are passed on at once."""
    hush = NoReplyFilter()
    assert [hush.add(piece) for piece in ("Good", " morning", ", Alice")] == ["Good", " morning", ", Alice"]
    assert [hush.add(piece) for piece in (" NO", "_ACTION", "S today")] == [" ", "", "NO_ACTIONS today"]


def test_ends_soon():
    """However long and odd a text is, it is looked through quickly."""
    for text in ("* " * 20_000, "*" * 40_000, " " * 50_000, "x" + " " * 50_000, f"{NO_REPLY_TOKEN} " * 2_000):
        strip_no_reply_token(text)
