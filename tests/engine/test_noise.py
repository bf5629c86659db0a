"""Claims about messages that no model needs to see."""

from dataclasses import replace

import pytest

from foreword.engine.signal import classify, find_noise, is_noise
from foreword.turn import SignalType

SHORT = "it has fewer than 3 characters"
GREETING = "it is a greeting and nothing else"


@pytest.mark.parametrize("message", ["", " ", "\n\n\n\n", "a", "no", "go", " ok  \n", "?", "👍🏽", "日本"])
def test_short(message: str) -> None:
    """A message of fewer than three characters is noise, not counting white space around it."""
    assert find_noise(message) == SHORT


@pytest.mark.parametrize("message", ["yes", "run", "why", "stop", "wtf", "日本語", "1+1"])
def test_short_enough(message: str) -> None:
    """Three characters are enough to say something."""
    assert find_noise(message) == ""


@pytest.mark.parametrize(
    "message",
    [
        *("hello", "Hello!", "HI THERE!", "hi there!", "hey 👋", "👋🏽 hey", "Heyyy", "hiii", "hello, hello everyone"),
        *("ok thanks", "Ok. Thanks!", "okay", "OK then", "sure", "alright", "thanks a lot", "thank you so much 🙏"),
        *(
            "lol",
            "looool",
            "haha",
            "Hahahaha!!",
            "hehe",
            "good morning",
            "Good  evening,\nall",
            "bye",
            "thx",
            "…hello…",
        ),
    ],
)
def test_greetings(message: str) -> None:
    """A greeting or a thank-you and nothing else is noise, with whatever signs and emoji are around it."""
    assert find_noise(message) == GREETING


@pytest.mark.parametrize(
    "message",
    [
        *("stop", "yes", "continue", "morning", "all", "there", "then again", "good", "good idea", "thank the team"),
        *("highlight", "hedge", "okra", "cheerful", "goodbyes are hard", "welcomed", "team all there", "👍👍👍", "..."),
    ],
)
def test_no_greetings(message: str) -> None:
    """A word that is no greeting is not noise, though it may begin like one or go with one."""
    assert find_noise(message) == ""


@pytest.mark.parametrize(
    "message", ["hello?", "hi?", "ok?", "hey what is up", "hi, where are you", "thanks, how so", "hey ??"]
)
def test_questions(message: str) -> None:
    """A question of three characters or more is not noise, however it begins."""
    assert find_noise(message) == ""


@pytest.mark.parametrize(
    ("message", "weight"), [("hey Reid", "0.216"), ("lol that was odd", "0.232"), ("hello".ljust(49, "x"), "0.298")]
)
def test_light(message: str, weight: str) -> None:
    """A weight under 0.3 is noise, and the reason names it."""
    assert find_noise(message) == f"its weight of {weight} is under 0.3"


def test_weight_at_the_bound() -> None:
    """A weight of 0.3 is not under 0.3."""
    assert find_noise("hello".ljust(50, "x")) == ""


def test_urgent_small_talk() -> None:
    """An urgent message is not noise, even if it begins with small talk."""
    assert find_noise("hey urgent") == ""


def test_given_signal() -> None:
    """A signal from the caller is used unchanged, for any message."""
    light, plain = replace(classify("a stone"), weight=0.299), classify("a stone")
    assert find_noise("a stone", light) == "its weight of 0.299 is under 0.3"
    assert find_noise("hey Reid", plain) == ""
    assert find_noise("a stone", replace(light, type=SignalType.QUESTION)) == ""
    assert find_noise("hello", replace(plain, weight=1.0)) == GREETING
    assert find_noise("no", replace(plain, weight=1.0)) == SHORT


@pytest.mark.parametrize("message", ["", "no", "hello", "hey Reid", "stop", "hello?", "deploy the new version"])
def test_whether_and_why(message: str) -> None:
    """A message is noise exactly if there is a reason for it."""
    assert is_noise(message) is bool(find_noise(message))
    assert is_noise(message, classify(message)) is is_noise(message)


def test_long_greetings() -> None:
    """Two hundred characters of greetings are noise, and more of them are not."""
    assert find_noise("hi ".ljust(200, "!")) == GREETING
    assert find_noise("hi ".ljust(201, "!")) == ""
    assert find_noise("ha" * 500_000) == find_noise("hi " * 300_000) == ""
