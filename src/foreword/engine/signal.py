"""Classify a message by its words, find messages that need no model, and measure how a user writes."""

import re
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import TypeVar

from foreword.resources import read_words
from foreword.secret import find_possible_secrets
from foreword.turn import Genre, Signal, SignalFormat, SignalMode, SignalType
from foreword.types import frozen

# A word matches every word that starts with it; a word with a star matches exactly. ? matches anywhere, ! at the end.
MODES = {
    SignalMode.BUILD: "build, create, generate, make, scaffold, design, new*",
    SignalMode.EXECUTE: "run, execute, trigger, sync, send, import, export",
    SignalMode.ANALYZE: "analyze, report, dashboard, metrics, trend, compare, kpi",
    SignalMode.MAINTAIN: "update, upgrade, migrate, fix, health, backup, restore, rollback, version",
}
GENRES = {
    Genre.DIRECT: "please, run, make, create, send, do*, !",
    Genre.COMMIT: "i will, i'll, let me, i promise, i commit",
    Genre.DECIDE: "approve, reject, cancel, confirm, decide, set*",
    Genre.EXPRESS: "thanks, love, hate, great, terrible, wow",
}
TYPES = {
    SignalType.QUESTION: "?, what, how, why, when, where",
    SignalType.ISSUE: "error, bug, broken, fail, crash",
    SignalType.SCHEDULING: "remind, schedule, later, tomorrow",
    SignalType.SUMMARY: "summarize, summary, brief, recap",
}
FORMATS = {
    "terminal": SignalFormat.COMMAND,
    "cli": SignalFormat.COMMAND,
    "webhook": SignalFormat.NOTIFICATION,
    "schedule": SignalFormat.NOTIFICATION,
    "scheduled": SignalFormat.NOTIFICATION,
    "file": SignalFormat.DOCUMENT,
    "files": SignalFormat.DOCUMENT,
    "filesystem": SignalFormat.DOCUMENT,
}
URGENCY = "urgent, asap, critical, emergency, immediately, now*"
SMALL_TALK = "hello, thanks, lol, haha, hi*, ok*, hey*, sure*"

# Like \w, plus the combining accents of decomposed text: no word starts after the é of "préfixe" in either form.
LETTER_PATTERN = r"[\w\u0300-\u036f]"

Outcome = TypeVar("Outcome")
Rules = tuple[tuple[Outcome, frozenset[str]], ...]


def list_words(line: str) -> frozenset[str]:
    """Split a line into its words, without stars."""
    return frozenset(word.rstrip("*") for word in line.split(", "))


def list_rules(lines: Mapping[Outcome, str]) -> Rules[Outcome]:
    """Build the rules of a dimension, in order."""
    return tuple((outcome, list_words(line)) for outcome, line in lines.items())


@cache
def compile_words() -> re.Pattern[str]:
    """Compile the words of all rules into one pattern, so that a message is scanned once.

    Words are grouped by first letter, and a lookahead skips other letters; this is three times as fast.
    """
    lines = [*MODES.values(), *GENRES.values(), *TYPES.values(), URGENCY, SMALL_TALK]
    words = {word for line in lines for word in line.split(", ") if word[0].isalpha()}
    branches = {
        first: "|".join(re.escape(word[1:]).replace(r"\*", f"(?!{LETTER_PATTERN})") for word in group)
        for first, group in groupby(sorted(words), key=lambda word: word[0])
    }
    either = "|".join(f"{first}(?:{rest})" for first, rest in branches.items())
    return re.compile(f"(?=[{''.join(branches)}])(?<!{LETTER_PATTERN})(?:{either})")


BY_MODE, BY_GENRE, BY_TYPE = list_rules(MODES), list_rules(GENRES), list_rules(TYPES)
URGENT, CHATTY = list_words(URGENCY), list_words(SMALL_TALK)


def classify(message: str, channel: str = "terminal") -> Signal:
    """Classify a message by the rules; the same message and channel always give the same signal."""
    text = normalise_message(message)
    found = find_rule_words(text)
    return Signal(
        mode=choose_outcome(BY_MODE, found, SignalMode.ASSIST),
        genre=choose_outcome(BY_GENRE, found, Genre.INFORM),
        type=choose_outcome(BY_TYPE, found, SignalType.GENERAL),
        format=FORMATS.get(channel.partition(":")[0], SignalFormat.MESSAGE),
        weight=compute_weight(len(message.strip()), found),
    )


def normalise_message(message: str) -> str:
    """Normalise case, white space and apostrophes, so that each word has one spelling."""
    return " ".join(message.casefold().replace("’", "'").split())


def find_rule_words(text: str) -> set[str]:
    """Find the words and signs of the rules in a normalised text."""
    found = set(compile_words().findall(text))
    if "?" in text:
        found.add("?")
    if text.endswith("!"):
        found.add("!")
    return found


def choose_outcome(rules: Rules[Outcome], found: set[str], otherwise: Outcome) -> Outcome:
    """Return the outcome of the first rule with a matching word."""
    return next((outcome for outcome, words in rules if not words.isdisjoint(found)), otherwise)


def compute_weight(length: int, found: set[str]) -> float:
    """Compute the weight of a message: 0.5, plus length, question mark and urgency, minus small talk.

    The sum is in thousandths to avoid rounding errors. It is capped at 1 and never falls below 0.2.
    """
    points = 500 + min(2 * length, 200)
    if "?" in found:
        points += 150
    if not URGENT.isdisjoint(found):
        points += 200
    if not CHATTY.isdisjoint(found):
        points -= 300
    return min(points, 1_000) / 1_000


CORRECTION_LABEL = "[corrects an earlier message]"
FORWARD_LABEL_START = "[forwarded"  # the start of the label; the author may follow
_LABELS = re.compile(r"\s*(?:\[[^\[\]\n]{1,120}\]\s*)+")


def drop_labels(text: str) -> str:
    """Return a message without its labels; a forwarded message gives an empty text, as it has another author."""
    labels = _LABELS.match(text)
    if labels is None:
        return text
    return "" if FORWARD_LABEL_START in labels[0] else text[labels.end() :]


def drop_correction_label(text: str) -> str:
    """Return a message without the label of a correction."""
    return text.removeprefix(CORRECTION_LABEL).lstrip()


MAX_STYLE_CHARS = 4_000  # the maximum characters of a message that are read
MAX_STYLE_WORDS = 400  # the maximum words a message counts for; a longer message is probably pasted

# Text by others: code, quoted lines, addresses.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|[A-Za-z][\w+.-]{1,20}://\S*|[\w.+-]{1,64}@\S*", re.DOTALL)
_QUOTED = re.compile(r"^[ \t]*>[^\n]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_TOPIC = re.compile(r"(?<![\w'’.-])[^\W\d_]{4,24}(?![\w'’-]|\.\w)")  # whole words, not parts of keys or file names
_FORMAL = re.compile(
    r"\b(?:please|kindly|(?:would|could|may|might) (?:you|i)|thank you|dear|sincerely|regards|i would"
    r"|bitte|könnten sie|würden sie|vous|s'il vous|por favor|usted|cordialement|freundlichen)\b"
)
_CASUAL = re.compile(
    r"\b(?:hey+|hi|yo|lo+l|lmao|(?:ha){2,}h?|thx|pls|plz|u|ur|gonna|wanna|gotta|dunno|kinda|yeah|yep|yup|nope|nah|btw"
    r"|idk|imo|cool|dude|guys|ok|okay|omg|wtf|sup)\b|!{2,}|\?{2,}|[:;]-?[)(DPp]|[\U0001f300-\U0001faff\u2600-\u27bf]"
)
# A sentence may state a password that matches no pattern of a secret.
_CONFIDED = re.compile(r"pass(?:word|wort|phrase|code|wd)|\bpwd\b|\bpin\b|secret|credential|geheim|contraseña")


@frozen(eq=True)
class WritingStyle:
    """The style of one message."""

    words: int
    tone: int
    """1 if it is formal, -1 if it is casual, 0 if neither."""
    topics: tuple[str, ...] = ()
    """Its possible topics, each once; empty if it may hold a secret."""


def measure_style(message: str) -> WritingStyle | None:
    """Measure the style of one message, or return None if the user wrote none of its text."""
    # Labels, quotes, code and addresses were not written by the user.
    own = _CODE.sub(" ", _QUOTED.sub(" ", drop_labels(message[:MAX_STYLE_CHARS])))
    words = _WORD.findall(own)
    if not words:
        return None
    tone, topics = find_tone(own, len(words)), find_topics(own, message)
    return WritingStyle(words=min(len(words), MAX_STYLE_WORDS), tone=tone, topics=topics)


def find_tone(text: str, words: int) -> int:
    """Return whether a text is formal or casual, by which of the two has more matches."""
    lower = text.casefold()
    formal, casual = len(_FORMAL.findall(lower)), len(_CASUAL.findall(lower))
    if words > 2 and text.lstrip()[:1].islower():
        casual += 1
    return (formal > casual) - (formal < casual)


def find_topics(own: str, message: str) -> tuple[str, ...]:
    """Return the possible topics of a text; none if the message may hold a secret."""
    seen = message[: MAX_STYLE_CHARS * 2]  # more than is read, so that no secret is cut in two
    if _CONFIDED.search(seen.casefold()) or next(find_possible_secrets(seen), None):
        return ()
    found = dict.fromkeys(word.casefold() for word in _TOPIC.findall(own))
    common = read_words("common_words")
    return tuple(word for word in found if word not in common)


MIN_MESSAGE_CHARS = 3
MIN_WEIGHT = 0.3
MAX_GREETING_CHARS = 200  # the maximum characters of a greeting; a longer message has content

GREETING = (
    r"hello+|hi+|hey+|hiya|howdy|greetings|good (?:morning|afternoon|evening|night|day)|bye+|goodbye|see you|welcome"
    r"|thanks+|thank (?:you|u)|many thanks|thx|ty|cheers|ok+|okay|sure|alright|lo+l|lmao|(?:ha){2,}h?|(?:he){2,}h?"
)
COMPANY = r"there|all|everyone|everybody|folks|team|again|then|so much|very much|a lot"
NOTHING_ELSE = re.compile(rf"\W*+(?:(?:{GREETING})\b\W*+)(?:(?:{GREETING}|{COMPANY})\b\W*+)*+")


def is_noise(message: str, signal: Signal | None = None) -> bool:
    """Return whether a message is noise; `find_noise` names the rule."""
    return find_noise(message, signal) != ""


def find_noise(message: str, signal: Signal | None = None) -> str:
    """Return why a message is noise, or an empty string if it is not.

    1. A message of fewer than three characters is noise, not counting outer white space, even "no" and "go".
    2. Any other question is not noise, not even "hello?".
    3. A greeting or a thank-you and nothing else is noise, with any punctuation and emoji.
    4. A weight under 0.3 is noise: small talk under 50 characters that is not urgent. The exception is a message
       that asks for something, such as "hi, please fix the login bug".

    Without a signal, the message is classified first.
    """
    text = message.strip()
    if len(text) < MIN_MESSAGE_CHARS:
        return f"it has fewer than {MIN_MESSAGE_CHARS} characters"
    known = signal or classify(text)
    if known.type is SignalType.QUESTION:
        return ""
    if len(text) <= MAX_GREETING_CHARS and NOTHING_ELSE.fullmatch(normalise_message(text)):
        return "it is a greeting and nothing else"
    is_talk = known.genre in (Genre.INFORM, Genre.EXPRESS) and known.type is SignalType.GENERAL
    if known.weight < MIN_WEIGHT and is_talk and known.mode is SignalMode.ASSIST:
        return f"its weight of {known.weight:.3g} is under {MIN_WEIGHT}"
    return ""
