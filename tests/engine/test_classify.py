"""Claims about the classification of messages."""

import random
import time

import pytest

from foreword.engine.signal import classify
from foreword.turn import Genre, Signal, SignalFormat, SignalMode, SignalType

MODES = {
    "build": "build create generate make scaffold design new",
    "execute": "run execute trigger sync send import export",
    "analyze": "analyze report dashboard metrics trend compare kpi",
    "maintain": "update upgrade migrate fix health backup restore rollback version",
}
GENRES = {
    "direct": "please run make create send do",
    "commit": "i_will i'll i’ll let_me i_promise i_commit",
    "decide": "approve reject cancel confirm decide set",
    "express": "thanks love hate great terrible wow",
}
TYPES = {
    "question": "? what how why when where",
    "issue": "error bug broken fail crash",
    "scheduling": "remind schedule later tomorrow",
    "summary": "summarize summary brief recap",
}
URGENT = ("urgent", "asap", "critical", "emergency", "immediately", "now")
SMALL_TALK = ("hello", "thanks", "lol", "haha", "hi", "ok", "hey", "sure")


def pair(rules: dict[str, str]) -> list[tuple[str, str]]:
    """List every word of a dimension with its outcome."""
    return [(word.replace("_", " "), outcome) for outcome, words in rules.items() for word in words.split()]


def rank(rules: dict[str, str]) -> list[tuple[str, str, str]]:
    """Pair a word of each outcome with one of each later outcome, and return the earlier outcome."""
    first = [(outcome, words.split()[0].replace("_", " ")) for outcome, words in rules.items()]
    return [(early, late, outcome) for at, (outcome, early) in enumerate(first) for _, late in first[at + 1 :]]


@pytest.mark.parametrize(("word", "mode"), pair(MODES))
def test_mode(word: str, mode: str) -> None:
    """Every word of a mode selects it, in any position and spelling."""
    for message in (word, f"we {word} it", f"THE {word.upper()}", f"we\n{word}"):
        assert str(classify(message).mode) == mode


@pytest.mark.parametrize(("word", "genre"), pair(GENRES))
def test_genre(word: str, genre: str) -> None:
    """Every word of a genre selects it, in any position and spelling."""
    for message in (word, f"so {word} it", f"THE {word.upper()}", f"so\n{word}"):
        assert str(classify(message).genre) == genre


@pytest.mark.parametrize(("word", "kind"), pair(TYPES))
def test_type(word: str, kind: str) -> None:
    """Every word of a type selects it, in any position and spelling."""
    for message in (word, f"so {word} it", f"THE {word.upper()}", f"so\n{word}"):
        assert str(classify(message).type) == kind


@pytest.mark.parametrize(("early", "late", "mode"), rank(MODES))
def test_order_of_modes(early: str, late: str, mode: str) -> None:
    """The mode that is first in the rules wins, regardless of the order of words in the message."""
    assert {str(classify(f"{early} {late}").mode), str(classify(f"{late} {early}").mode)} == {mode}


@pytest.mark.parametrize(("early", "late", "genre"), rank(GENRES))
def test_order_of_genres(early: str, late: str, genre: str) -> None:
    """The genre that is first in the rules wins, regardless of the order of words in the message."""
    assert {str(classify(f"{early} {late}").genre), str(classify(f"{late} {early}").genre)} == {genre}


@pytest.mark.parametrize(("early", "late", "kind"), rank(TYPES))
def test_order_of_types(early: str, late: str, kind: str) -> None:
    """The type that is first in the rules wins, regardless of the order of words in the message."""
    assert {str(classify(f"{early} {late}").type), str(classify(f"{late} {early}").type)} == {kind}


@pytest.mark.parametrize(
    "message", ["", "a stone", "renew it", "undo", "unversioned", "prefix", "analyzing", "creating"]
)
def test_neither(message: str) -> None:
    """A message without any of the words has mode assist, genre inform and the general type."""
    signal = classify(message)
    assert (signal.mode, signal.genre, signal.type) == (SignalMode.ASSIST, Genre.INFORM, SignalType.GENERAL)


def test_examples_of_modes() -> None:
    """To create a dashboard is to build; words count from their start, and `new` as a whole."""
    assert classify("create a dashboard").mode is SignalMode.BUILD
    assert classify("the dashboard").mode is SignalMode.ANALYZE
    assert classify("she creates it").mode is SignalMode.BUILD
    assert classify("a new one").mode is SignalMode.BUILD
    assert classify("the news").mode is SignalMode.ASSIST
    assert classify("rerun it").mode is SignalMode.ASSIST


def test_examples_of_genres() -> None:
    """Approving is deciding, resetting is not, and a plain report informs."""
    assert classify("APPROVE changes now").genre is Genre.DECIDE
    assert classify("reset the counter").genre is Genre.INFORM
    assert classify("set the counter").genre is Genre.DECIDE
    assert classify("the settings").genre is Genre.INFORM
    assert classify("deployment completed successfully").genre is Genre.INFORM
    assert classify("a document, done").genre is Genre.INFORM


def test_exclamation() -> None:
    """A message that ends in an exclamation mark is direct, and one that has it elsewhere is not."""
    assert classify("to the harbour!").genre is Genre.DIRECT
    assert classify("approve!  \n").genre is Genre.DIRECT
    assert classify("approve! it is late").genre is Genre.DECIDE


@pytest.mark.parametrize("channel", ["terminal", "terminal:1", "cli", "cli:a:b"])
def test_commands(channel: str) -> None:
    """Input typed in a terminal is a command."""
    assert classify("x", channel).format is SignalFormat.COMMAND


@pytest.mark.parametrize("channel", ["webhook", "webhook:github", "schedule", "scheduled", "scheduled:daily"])
def test_notifications(channel: str) -> None:
    """Input that no person typed at that moment is a notification."""
    assert classify("x", channel).format is SignalFormat.NOTIFICATION


@pytest.mark.parametrize("channel", ["file", "files", "filesystem", "file:/a/b.md", "files:inbox"])
def test_documents(channel: str) -> None:
    """A file is a document."""
    assert classify("x", channel).format is SignalFormat.DOCUMENT


@pytest.mark.parametrize(
    "channel",
    ["web", "telegram", "telegram:terminal", "signal", "discord", "slack", "whatsapp", "matrix", "email", "zulip", ""],
)
def test_messages(channel: str) -> None:
    """Input from any other channel is a message; the text after the first colon does not count."""
    assert classify("x", channel).format is SignalFormat.MESSAGE


def test_channel_changes_the_format_alone() -> None:
    """Without a channel a message comes from the terminal, and a channel changes only the format."""
    assert classify("run it") == classify("run it", "terminal")
    one, other = classify("run it", "web"), classify("run it", "file")
    assert (one.mode, one.genre, one.type, one.weight) == (other.mode, other.genre, other.type, other.weight)


@pytest.mark.parametrize(
    ("length", "weight"),
    [(0, 0.5), (1, 0.502), (25, 0.55), (50, 0.6), (99, 0.698), (100, 0.7), (101, 0.7), (500, 0.7), (100_000, 0.7)],
)
def test_length(length: int, weight: float) -> None:
    """Length adds a five-hundredth for each character, and 0.2 at most."""
    assert classify("x" * length).weight == weight


@pytest.mark.parametrize("message", ["", " ", "\n\t ", "\u3000" * 500])
def test_blank(message: str) -> None:
    """A blank message weighs one half."""
    assert classify(message).weight == 0.5


def test_space_around() -> None:
    """White space around a message does not count, and white space within it does."""
    assert classify("  \n x \t ") == classify("x")
    assert classify("x  x").weight == 0.508


def test_question_mark() -> None:
    """A question mark adds 0.15, once; a question without one adds nothing."""
    assert classify("x" * 100 + "?").weight == classify("?" * 100).weight == 0.85
    assert classify("why " + "x" * 96).weight == 0.7


@pytest.mark.parametrize("word", URGENT)
def test_urgency(word: str) -> None:
    """Every urgent word adds 0.2, and several add no more than one."""
    assert classify(word.ljust(100, ".")).weight == 0.9
    assert classify(f"asap {word} NOW".ljust(100, ".")).weight == 0.9


@pytest.mark.parametrize("word", SMALL_TALK)
def test_small_talk(word: str) -> None:
    """Every word of small talk subtracts 0.3, and several subtract no more than one."""
    assert classify(word.ljust(100, ".")).weight == 0.4
    assert classify(f"lol {word} Hello".ljust(100, ".")).weight == 0.4


@pytest.mark.parametrize("word", ["nowhere", "known", "this", "high", "book", "okay", "they", "surely", "ensure", "lo"])
def test_weightless_words(word: str) -> None:
    """A word that merely contains an urgent or a chatty one has no weight."""
    assert classify(word.ljust(100, ".")).weight == 0.7


def test_clamp() -> None:
    """A long, urgent question would weigh 1.05, and weighs 1."""
    assert classify("urgent? ".ljust(100, ".")).weight == 1.0
    assert classify("urgent? hello ".ljust(100, ".")).weight == 0.75


def test_sharp_bounds() -> None:
    """Weights at 0.3 and 0.8 are exactly these numbers, regardless of the order of the sum."""
    assert classify("hello".ljust(50, ".")).weight == 0.3
    assert classify("hello".ljust(49, ".")).weight == 0.298
    assert classify("asap".ljust(50, ".")).weight == 0.8
    assert classify("?".ljust(75, ".")).weight == 0.8
    assert classify("asap".ljust(51, ".")).weight == 0.802


VOCABULARY = (
    *(word for rules in (MODES, GENRES, TYPES) for words in rules.values() for word in words.replace("_", " ").split()),
    *URGENT,
    *SMALL_TALK,
    *("I", "the", "of", "harbour", "Straße", "naïve", "reset", "renew", "creating", "42", "_", "'ll"),
    *("ΣΊΣΥΦΟΣ", "日本語", "مرحبا", "👋🏽", "é", "e\u0301", "\u200b", "\ud800", "İ"),
    *".,;:!?()[]{}*&%$#@-–—…\"'’",
)
SPACES = (" ", " ", " ", "", "\n", "\t", "\r\n", "\u00a0")


def generate(seed: int, count: int) -> list[tuple[str, str]]:
    """Generate messages, each with a channel."""
    chance = random.Random(seed)
    channels = ("terminal", "web", "webhook:x", "file", "telegram:1", "")
    messages = []
    for _ in range(count):
        words = chance.choices(VOCABULARY, k=int(chance.expovariate(0.2)))
        text = "".join(chance.choice((str, str.upper, str.title))(word) + chance.choice(SPACES) for word in words)
        messages.append((text, chance.choice(channels)))
    return messages


def test_any_message() -> None:
    """Any message has a weight from 0 to 1 in thousandths, the same signal twice, and every word occurs."""
    messages = generate(7, 10_000)
    signals = [classify(*message) for message in messages]
    assert signals == [classify(*message) for message in generate(7, 10_000)]
    assert all(0 <= signal.weight <= 1 and signal.weight == round(signal.weight, 3) for signal in signals)
    assert {signal.mode for signal in signals} == {*SignalMode}
    assert {signal.genre for signal in signals} == {*Genre}
    assert {signal.type for signal in signals} == {*SignalType}
    assert {signal.format for signal in signals} == {*SignalFormat}
    assert len({signal.weight for signal in signals}) > 200


def test_any_message_in_capitals() -> None:
    """Case and the kind of white space change nothing about a message."""
    for message, channel in generate(11, 1_000):
        plain = "".join(sign if sign.isascii() else "x" for sign in message)
        swapped = plain.swapcase().replace(" ", "\t")
        assert classify(plain, channel) == classify(swapped, channel)


def measure(message: str) -> float:
    """Return the least of a few times that the processor takes to classify a message."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        classify(message)
        times.append(time.thread_time() - begin)
    return min(times)


@pytest.mark.parametrize("part", ["i ", "i" + " " * 1_000, "let ", "a", "set", "e\u0301\u0323", "👋", "?!", "run now "])
def test_long_messages(part: str) -> None:
    """Eight times the length takes far less than sixty-four times the time, for any content."""
    short, long = (part * (size // len(part)) for size in (50_000, 400_000))
    assert measure(long) < 32 * measure(short)
    assert isinstance(classify(long), Signal)
