"""Noise: messages that no model needs to see."""

import re

from foreword.signal.classify import classify, fold
from foreword.signal.dimensions import Genre, Kind, Signal, SignalMode

SHORTEST = 3  # characters
LIGHTEST = 0.3  # weight
LONGEST = 200  # characters of a greeting; who writes more says something

GREETING = (
    r"hello+|hi+|hey+|hiya|howdy|greetings|good (?:morning|afternoon|evening|night|day)|bye+|goodbye|see you|welcome"
    r"|thanks+|thank (?:you|u)|many thanks|thx|ty|cheers|ok+|okay|sure|alright|lo+l|lmao|(?:ha){2,}h?|(?:he){2,}h?"
)
COMPANY = r"there|all|everyone|everybody|folks|team|again|then|so much|very much|a lot"
NOTHING_ELSE = re.compile(rf"\W*+(?:(?:{GREETING})\b\W*+)(?:(?:{GREETING}|{COMPANY})\b\W*+)*+")


def is_noise(message: str, signal: Signal | None = None) -> bool:
    """Whether a message is noise; `find_noise` says by which rule."""
    return find_noise(message, signal) != ""


def find_noise(message: str, signal: Signal | None = None) -> str:
    """Say why a message is noise, or nothing if it is none.

    1. Under three characters it is noise, white space around it not counted; this holds for "no" and "go" too.
    2. A question is none from there on, not even "hello?".
    3. A greeting or a thank-you and nothing else is noise, with whatever signs and emoji are around it.
    4. A weight under 0.3 is noise: small talk in a message of less than 50 characters that is not urgent. Not where
       the message wants something all the same, such as "hi, please fix the login bug".

    A signal that the caller has already is taken at its word; otherwise the message is classified.
    """
    text = message.strip()
    if len(text) < SHORTEST:
        return f"it has fewer than {SHORTEST} characters"
    known = signal or classify(text)
    if known.type is Kind.QUESTION:
        return ""
    if len(text) <= LONGEST and NOTHING_ELSE.fullmatch(fold(text)):
        return "it is a greeting and nothing else"
    if known.weight < LIGHTEST and not wants_something(known):
        return f"its weight of {known.weight:.3g} is under {LIGHTEST}"
    return ""


def wants_something(signal: Signal) -> bool:
    """Whether a signal is more than talk: some work, an order, a decision, a promise or a trouble."""
    talk = signal.genre in (Genre.INFORM, Genre.EXPRESS)
    return signal.mode is not SignalMode.ASSIST or not talk or signal.type is not Kind.GENERAL
