"""Claims about the writing style of a message, by plain counting."""

import pytest

from foreword.engine.signal import MAX_STYLE_WORDS, WritingStyle, measure_style
from waiting import assert_linear


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("Could you please send me the report?", 1),
        ("Dear Reid, thank you for the report. Kind regards", 1),
        ("Könnten Sie mir bitte den Bericht schicken?", 1),
        ("Pourriez-vous, s'il vous plaît, vérifier cela ?", 1),
        ("hey, u seen the report lol", -1),
        ("Yeah cool!! 😀", -1),
        ("send it over when ready", -1),
        ("The report is due on Monday.", 0),
        ("Hey, could you please send it?", 1),
    ],
)
def test_tone(text, tone):
    """A message is formal or casual by the signs it has more of, and neither where none shows."""
    assert measure_style(text).tone == tone


def test_words_and_topics():
    """Words are counted, and what it may be about is each longer word once, in small letters."""
    assert measure_style("The Greenhouse needs glass, and the greenhouse needs a door.") == WritingStyle(
        words=10, tone=0, topics=("greenhouse", "glass", "door")
    )


@pytest.mark.parametrize(
    "theirs",
    [
        "```\nzeppelin = balloon()\n```",
        "`zeppelin`",
        "> the zeppelin wrote this",
        "https://zeppelin.example/zeppelin",
        "zeppelin@example.org",
        "zeppelin2",
        "my_zeppelin",
        "zeppelin-x7",
        "plan.zeppelin",
    ],
)
def test_only_own_words(theirs):
    """Code, quotes, addresses and parts of names are no words of the person."""
    assert measure_style(f"Look at the lighthouse here:\n{theirs}\n").topics == ("lighthouse",)


@pytest.mark.parametrize("label", ["[corrects an earlier message]", "[photo: of an album]", "[document: zeppelin.pdf]"])
def test_labels_are_nobodys_words(label):
    """The labels that a channel adds to a message do not count as words of the person."""
    assert measure_style(f"{label} the lighthouse") == measure_style("the lighthouse")


FORWARDED = ("[forwarded from Eve] The zeppelin", "[corrects an earlier message] [forwarded] [photo] The zeppelin")


@pytest.mark.parametrize("text", ["", "   ", "!!!", "> all quoted", "```\ncode\n", *FORWARDED])
def test_nothing_own(text):
    """A message without words by the person shows nothing."""
    assert measure_style(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The lighthouse opens with sk-ant-api03-Zq8kPmVx2LrT9wYb4NcJ7dHf here",
        "my password is lighthouse",
        "The passphrase would be correct horse battery lighthouse",
        "Use postgres://admin:lighthouse@db/house for it",
        "Das Passwort heißt Leuchtturm",
        "token: Bearer abcdefabcdef1234567890 lighthouse",
        "x " * 1_995 + "lighthouse AKIAIOSFODNN7QRTWXYZ",
    ],
)
def test_no_topics_beside_a_secret(text):
    """A message that may hold a secret has no topics; how long and how formal it is still counts."""
    manner = measure_style(text)
    assert manner.topics == ()
    assert manner.words > 0


def test_bounds():
    """A very long message counts for no more than a long one, and its time grows no faster than its length."""
    for piece in ("word ", "`", "a", "a@", "x://", "> \n"):
        manner = measure_style(piece * 200_000)
        assert manner is None or manner.words <= MAX_STYLE_WORDS
        assert_linear(lambda count, piece=piece: measure_style(piece * count), 200_000)
