"""Profiles: how people write, learned from their own messages, for each person and clearance by itself.

What was learned at a clearance is read at that clearance or above. It is sums and counts; no message is kept.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field

from foreword.frozen import frozen
from foreword.signal.manner import Manner, read_manner
from foreword.store.instructions import stamp
from foreword.turn import Communication
from foreword.words import Trust

LEAST = 3  # messages before anything is said of a person, and in which a word is a topic
HALVED = 200  # messages after which what was learned counts half, so that a profile follows the person
WORDS = 60  # words that are counted, the most frequent ones
TOPICS = 5  # topics that are told
CLEAR = 0.3  # the mean tone from which a person counts as formal, or as casual
SHORT, LONG = 15, 60  # words of a short message, and of one that is not long
ROUNDED = 5  # words to which a usual length is rounded
READ = "SELECT learned FROM profiles WHERE user_id = ? AND clearance <= ? ORDER BY clearance"
FIND = "SELECT learned FROM profiles WHERE user_id = ? AND clearance = ?"
KEEP = (
    "INSERT INTO profiles (user_id, clearance, learned, messages, updated) VALUES (?, ?, ?, 1, ?)"
    " ON CONFLICT (user_id, clearance) DO UPDATE"
    " SET learned = excluded.learned, messages = messages + 1, updated = excluded.updated"
)


@frozen(eq=True)
class Learned:
    """What messages have shown: how many they were, and sums over them."""

    messages: int = 0
    words: int = 0
    tone: int = 0
    topics: Mapping[str, int] = field(default_factory=dict)
    """In how many messages a word was, those that were met last at the end."""

    def take_in(self, manner: Manner) -> "Learned":
        """Add what one more message shows."""
        topics = dict(self.topics)
        for word in manner.topics:
            topics[word] = topics.pop(word, 0) + 1
        known = Learned(
            messages=self.messages + 1,
            words=self.words + manner.words,
            tone=self.tone + manner.tone,
            topics=bound(topics),
        )
        return known.halve() if known.messages >= HALVED else known

    def halve(self) -> "Learned":
        """Let all of it count half."""
        topics = {word: count // 2 for word, count in self.topics.items() if count > 1}
        return Learned(messages=self.messages // 2, words=self.words // 2, tone=int(self.tone / 2), topics=topics)


def bound(topics: Mapping[str, int]) -> dict[str, int]:
    """Keep the most frequent words; of equals those that were met last, so that a new topic can come up."""
    if len(topics) <= WORDS:
        return dict(topics)
    order = {word: at for at, word in enumerate(topics)}
    kept = sorted(topics, key=lambda word: (topics[word], order[word]))[-WORDS:]
    return {word: topics[word] for word in sorted(kept, key=order.__getitem__)}


def learn(state: sqlite3.Connection, user: str, clearance: Trust, message: str) -> bool:
    """Learn from a message that a person wrote themselves; return whether it showed anything."""
    manner = read_manner(message)
    if manner is None:
        return False
    row = state.execute(FIND, (user, int(clearance))).fetchone()
    known = (read_learned(row[0]) if row else Learned()).take_in(manner)
    state.execute(KEEP, (user, int(clearance), write_learned(known), stamp()))
    return True


def read_profile(state: sqlite3.Connection, user: str, clearance: Trust) -> Communication | None:
    """Read how a person writes, by what a clearance may know of that; None while too little is known."""
    return describe(read_learned(raw) for (raw,) in state.execute(READ, (user, int(clearance))))


def describe(learned: Iterable[Learned]) -> Communication | None:
    """Describe how a person writes, by all that was learned together."""
    known = list(learned)
    messages = sum(one.messages for one in known)
    if messages < LEAST:
        return None
    topics: Counter[str] = Counter()
    for one in known:
        topics.update(one.topics)
    common = sorted((word for word, count in topics.items() if count >= LEAST), key=lambda word: (-topics[word], word))
    return Communication(
        formality=tell_tone(sum(one.tone for one in known) / messages),
        length=tell_length(sum(one.words for one in known) / messages),
        topics=tuple(common[:TOPICS]),
    )


def tell_tone(mean: float) -> str:
    """Tell how formal somebody is."""
    if mean >= CLEAR:
        return "formal"
    return "casual" if mean <= -CLEAR else "neutral"


def tell_length(mean: float) -> str:
    """Tell how long somebody's messages are, in round numbers."""
    size = "short" if mean <= SHORT else "medium" if mean <= LONG else "long"
    return f"{size}, about {max(ROUNDED, round(mean / ROUNDED) * ROUNDED)} words"


def write_learned(known: Learned) -> str:
    """Write what was learned as JSON."""
    value = {"messages": known.messages, "words": known.words, "tone": known.tone, "topics": known.topics}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_learned(raw: str) -> Learned:
    """Read what was learned from JSON."""
    return Learned(**json.loads(raw))
