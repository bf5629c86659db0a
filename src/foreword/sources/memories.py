"""Sources of what is remembered: facts that all agents share, and the parts of a file that a message is about."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache

from foreword.blueprint import Planned
from foreword.sources.document import Document, normalise, one_line
from foreword.sources.registry import source
from foreword.sources.section import Item, Section, absent, lament
from foreword.sources.texts import find_document, missing
from foreword.sources.view import StaticView, TurnView
from foreword.words import Pace

FACTS = "memories.json"  # the file of facts that all agents share
FACT_STORE = "facts"  # the store that this file is by itself, for inner and above
MAIN = "MEMORY.md"  # the long-term memory that people keep by hand
MAIN_STORE = "main"  # the store that this file is by itself, for full unless the configuration lists it lower
NO_FACTS = f"{FACTS} holds no list of texts in JSON"
LONGEST = 200  # characters of a fact
MOST = 4  # parts of a file that are recalled
WORD = re.compile(r"\w{3,}")
HEADING = "## "
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
COMMON = frozenset(
    [
        "about",
        "after",
        "again",
        "all",
        "also",
        "and",
        "any",
        "are",
        "ask",
        "been",
        "but",
        "can",
        "could",
        "did",
        "does",
        "done",
        "for",
        "from",
        "get",
        "give",
        "good",
        "had",
        "has",
        "have",
        "her",
        "him",
        "his",
        "how",
        "into",
        "its",
        "just",
        "know",
        "let",
        "like",
        "make",
        "may",
        "more",
        "most",
        "need",
        "not",
        "now",
        "off",
        "one",
        "our",
        "out",
        "over",
        "please",
        "same",
        "say",
        "see",
        "she",
        "should",
        "some",
        "such",
        "tell",
        "than",
        "thank",
        "thanks",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "too",
        "use",
        "very",
        "want",
        "was",
        "way",
        "well",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "yes",
        "yet",
        "you",
        "your",
    ]
)


@source("facts", Pace.STATIC)
def list_facts(view: StaticView, entry: Planned) -> Item:
    """List the facts of a JSON file, one line each, none twice."""
    found = find_document(view, entry)
    if found.document is None:
        return missing(entry, found)
    path = found.document.path
    facts = load_facts(found.document)
    if facts is None:
        return lament(entry, f"{path} holds no list of texts in JSON")
    lines = list(dict.fromkeys(map(shorten, facts)))
    long = sum(len(fact) > LONGEST for fact in facts)
    note = f"{long:,} of them cut at {LONGEST} characters" if long else ""
    if not lines:
        return absent(entry, f"{path} holds no facts")
    text = "\n".join(f"- {line}" for line in lines)
    return Section(entry=entry, text=text, origin=path, sha256=found.document.sha256, note=note)


def load_facts(document: Document) -> list[str] | None:
    """Load the facts of a JSON file, each on one line and none twice, or None where it holds no list of texts."""
    try:
        # Not strict: a document's unusual line breaks are plain ones by now, also inside a text.
        facts = read_facts(json.loads(document.body, strict=False))
    except (ValueError, RecursionError):
        return None
    return None if facts is None else list(dict.fromkeys(one_line(fact) for fact in facts if fact.strip()))


def read_facts(value: object) -> list[str] | None:
    """Take the facts out of a JSON value: a list of texts, or of objects with a text, or an object that holds one."""
    if isinstance(value, dict):
        value = value.get("memories")
    if not isinstance(value, list):
        return None
    facts = [next(find_texts(one), None) for one in value]
    return None if None in facts else [normalise(fact).replace("\0", "") for fact in facts if fact is not None]


def find_texts(value: object) -> Iterator[str]:
    """Find the text of one fact."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (value[key] for key in ("text", "content", "memory", "fact") if isinstance(value.get(key), str))


def shorten(fact: str) -> str:
    """Keep a fact to at most 200 characters."""
    return fact if len(fact) <= LONGEST else fact[: LONGEST - 1].rstrip() + "…"


@source("matching", Pace.TURN)
def recall_parts(view: TurnView, entry: Planned) -> Item:
    """Give the parts of a file that share words with the message; where none does, nothing at all."""
    found = find_document(view.static, entry)
    if found.document is None:
        return missing(entry, found)
    words = find_words(view.message)
    parts = find_parts(found.document.body)
    scores = [(len(words & about), at) for at, (_, about) in enumerate(parts)]
    best = sorted([(-score, at) for score, at in scores if score])[:MOST]
    if not best:
        return absent(entry, f"no part of {found.document.path} is about the message")
    text = "\n\n".join(f"### {parts[at][0]}" for _, at in sorted(best, key=lambda one: one[1]))
    return Section(entry=entry, text=text, origin=found.document.path, sha256=found.document.sha256, note=found.note)


@lru_cache(maxsize=64)
def find_parts(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Split a text at its second headings, none of which stands in a block of code, and find the words of each part."""
    parts: list[list[str]] = []
    fence = ""
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            fence = ""
        if not fence and line.startswith(HEADING):
            parts.append([line.removeprefix(HEADING)])
        elif parts:
            parts[-1].append(line)
    texts = ["\n".join(part).strip() for part in parts]
    return tuple([(part, find_words(part)) for part in texts])


def find_words(text: str) -> frozenset[str]:
    """Find the words of a text that say what it is about."""
    return frozenset(WORD.findall(text.lower())) - COMMON
