"""Manner: how a message is written, by plain counting, whatever it is about.

Nothing here asks a model, and nothing here keeps anything.
"""

import re
from functools import cache

from foreword.frozen import frozen
from foreword.secret import suspect_secrets
from foreword.shipped import read_shipped
from foreword.signal.labels import drop_labels

READ = 4_000  # characters of a message that are looked at
LONGEST = 400  # words that a message counts for; who writes more has pasted something

# What is somebody else's: code, quoted lines, addresses.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|[A-Za-z][\w+.-]{1,20}://\S*|[\w.+-]{1,64}@\S*", re.DOTALL)
_QUOTED = re.compile(r"^[ \t]*>[^\n]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_TOPIC = re.compile(r"(?<![\w'’.-])[^\W\d_]{4,24}(?![\w'’-]|\.\w)")  # whole words: no part of a key or a name of a file
_FORMAL = re.compile(
    r"\b(?:please|kindly|(?:would|could|may|might) (?:you|i)|thank you|dear|sincerely|regards|i would"
    r"|bitte|könnten sie|würden sie|vous|s'il vous|por favor|usted|cordialement|freundlichen)\b"
)
_CASUAL = re.compile(
    r"\b(?:hey+|hi|yo|lo+l|lmao|(?:ha){2,}h?|thx|pls|plz|u|ur|gonna|wanna|gotta|dunno|kinda|yeah|yep|yup|nope|nah|btw"
    r"|idk|imo|cool|dude|guys|ok|okay|omg|wtf|sup)\b|!{2,}|\?{2,}|[:;]-?[)(DPp]|[\U0001f300-\U0001faff\u2600-\u27bf]"
)
# Somebody may say what a password is in a whole sentence, which no shape of a secret tells.
_CONFIDED = re.compile(r"pass(?:word|wort|phrase|code|wd)|\bpwd\b|\bpin\b|secret|credential|geheim|contraseña")


@frozen(eq=True)
class Manner:
    """How one message is written."""

    words: int
    tone: int
    """1 if it is formal, -1 if it is casual, 0 where neither shows."""
    topics: tuple[str, ...] = ()
    """The words that it may be about, each once; none where it may hold a secret."""


def read_manner(message: str) -> Manner | None:
    """Read how a person writes from one message of theirs; None where nothing in it is their own."""
    own = keep_own(message[:READ])
    words = _WORD.findall(own)
    if not words:
        return None
    return Manner(words=min(len(words), LONGEST), tone=find_tone(own, len(words)), topics=find_topics(own, message))


def keep_own(text: str) -> str:
    """Keep what a person wrote themselves, as far as that shows."""
    return _CODE.sub(" ", _QUOTED.sub(" ", drop_labels(text)))


def find_tone(text: str, words: int) -> int:
    """Find whether a text is formal or casual, by which of the two has more signs."""
    lower = text.casefold()
    formal, casual = len(_FORMAL.findall(lower)), len(_CASUAL.findall(lower))
    if words > 2 and text.lstrip()[:1].islower():
        casual += 1
    return (formal > casual) - (formal < casual)


def find_topics(own: str, message: str) -> tuple[str, ...]:
    """Find what a text may be about; one that may hold a secret says nothing."""
    seen = message[: READ * 2]  # beyond what is read, so that no secret is cut in two
    if _CONFIDED.search(seen.casefold()) or next(suspect_secrets(seen), None):
        return ()
    found = dict.fromkeys(word.casefold() for word in _TOPIC.findall(own))
    common = list_common()
    return tuple(word for word in found if word not in common)


@cache
def list_common() -> frozenset[str]:
    """List the words that no message is about."""
    lines = (read_shipped("data", "common_words.txt") or "").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
