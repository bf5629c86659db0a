"""Profiles (how users write, as sums and counts without messages) and bulletins (short summaries of memory)."""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, field

from foreword.engine.signal import WritingStyle, measure_style
from foreword.storage.database import stamp
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column, fetch_one
from foreword.turn import Bulletin, Communication
from foreword.types import Trust, frozen

STORE_PROFILE = (
    "INSERT INTO profiles (user_id, clearance, learned, messages, updated) VALUES (?, ?, ?, 1, ?)"
    " ON CONFLICT (user_id, clearance) DO UPDATE"
    " SET learned = excluded.learned, messages = messages + 1, updated = excluded.updated"
)


@frozen(eq=True)
class BulletinOrigin:
    """Creation time, input and author of a bulletin."""

    moment: str = ""
    source: str = ""
    author: str = ""


NO_BULLETIN = BulletinOrigin()


def read_bulletins(state: sqlite3.Connection, agent: str, clearance: Trust, policy: str) -> tuple[Bulletin, ...]:
    """Read the bulletins of an agent that are visible at a clearance and were made under the current policy."""
    query = (
        "SELECT clearance AS trust, text FROM bulletins WHERE agent = ? AND clearance <= ? AND text != ''"
        " AND substr(source, 1, length(?)) = ? ORDER BY clearance"
    )
    return tuple(fetch_all(Bulletin, state, query, agent, clearance, policy, policy))


def find_bulletin_origin(state: sqlite3.Connection, agent: str, clearance: Trust) -> BulletinOrigin:
    """Return when and from what the current bulletin was made."""
    query = "SELECT made AS moment, source, author FROM bulletins WHERE agent = ? AND clearance = ?"
    return fetch_one(BulletinOrigin, state, query, agent, clearance) or NO_BULLETIN


def claim_bulletin(state: sqlite3.Connection, agent: str, clearance: Trust, now: str, before: BulletinOrigin) -> bool:
    """Claim the creation of a bulletin unless another process has. The old text stays until the new one is stored."""
    query = (
        "INSERT INTO bulletins (agent, clearance, text, author, made) VALUES (?, ?, '', '', ?)"
        " ON CONFLICT (agent, clearance) DO UPDATE SET made = excluded.made WHERE made = ?"
    )
    return state.execute(query, (agent, clearance, now, before.moment)).rowcount == 1


def store_bulletin(state: sqlite3.Connection, agent: str, bulletin: Bulletin, made: BulletinOrigin) -> None:
    """Store the new text, unless a memory that it may contain was forgotten meanwhile."""
    query = "UPDATE bulletins SET text = ?, author = ?, source = ? WHERE agent = ? AND clearance = ? AND made = ?"
    state.execute(query, (bulletin.text, made.author, made.source, agent, bulletin.trust, made.moment))


def clear_bulletins(state: sqlite3.Connection) -> None:
    """Clear all texts, since they may contain a forgotten memory. New ones are then due."""
    state.execute("UPDATE bulletins SET text = '', source = '', made = ''")


MIN_MESSAGES = 3  # messages before a profile is used, and in which a word must occur to be a topic
HALVING_MESSAGES = 200  # messages after which all counts are halved, so that a profile follows the user
MAX_COUNTED_WORDS = 60  # most frequent words that are counted
MAX_TOPICS = 5  # topics in a profile
TONE_THRESHOLD = 0.3  # mean tone from which a user counts as formal, or casual if negative
MAX_SHORT_WORDS, MAX_MEDIUM_WORDS = 15, 60  # words of a short message, and of a medium one
LENGTH_STEP_WORDS = 5  # words to which the mean length is rounded


@frozen(eq=True)
class StyleCounts:
    """Sums and counts over a user's messages."""

    messages: int = 0
    words: int = 0
    tone: int = 0
    topics: Mapping[str, int] = field(default_factory=dict)
    """Number of messages that contain a word, most recently seen last."""

    def take_in(self, manner: WritingStyle) -> "StyleCounts":
        """Add one message."""
        topics = dict(self.topics)
        for word in manner.topics:
            topics[word] = topics.pop(word, 0) + 1
        known = StyleCounts(
            messages=self.messages + 1,
            words=self.words + manner.words,
            tone=self.tone + manner.tone,
            topics=limit_topics(topics),
        )
        return known.halve() if known.messages >= HALVING_MESSAGES else known

    def halve(self) -> "StyleCounts":
        """Halve all counts."""
        topics = {word: count // 2 for word, count in self.topics.items() if count > 1}
        return StyleCounts(messages=self.messages // 2, words=self.words // 2, tone=int(self.tone / 2), topics=topics)


def limit_topics(topics: Mapping[str, int]) -> dict[str, int]:
    """Keep the most frequent words. Of equals keep the most recent, so that new topics can appear."""
    if len(topics) <= MAX_COUNTED_WORDS:
        return dict(topics)
    order = {word: at for at, word in enumerate(topics)}
    kept = sorted(topics, key=lambda word: (topics[word], order[word]))[-MAX_COUNTED_WORDS:]
    return {word: topics[word] for word in sorted(kept, key=order.__getitem__)}


def learn_style(state: sqlite3.Connection, user: str, clearance: Trust, message: str) -> bool:
    """Learn from a message that a user wrote. Return whether it had any features."""
    manner = measure_style(message)
    if manner is None:
        return False
    before = fetch_cell(str, state, "SELECT learned FROM profiles WHERE user_id = ? AND clearance = ?", user, clearance)
    known = StyleCounts(**json.loads(before or "{}")).take_in(manner)
    learned = json.dumps(asdict(known), ensure_ascii=False, separators=(",", ":"))
    state.execute(STORE_PROFILE, (user, clearance, learned, stamp()))
    return True


def read_profile(state: sqlite3.Connection, user: str, clearance: Trust) -> Communication | None:
    """Return a user's profile at a clearance, or None with too few messages."""
    query = "SELECT learned FROM profiles WHERE user_id = ? AND clearance <= ? ORDER BY clearance"
    known = [StyleCounts(**json.loads(raw)) for raw in fetch_column(state, query, user, clearance)]
    messages = sum(one.messages for one in known)
    if messages < MIN_MESSAGES:
        return None
    topics = sum((Counter(one.topics) for one in known), Counter[str]())
    common = [
        word for word, count in sorted(topics.items(), key=lambda one: (-one[1], one[0])) if count >= MIN_MESSAGES
    ]
    return Communication(
        formality=classify_tone(sum(one.tone for one in known) / messages),
        length=describe_length(sum(one.words for one in known) / messages),
        topics=tuple(common[:MAX_TOPICS]),
    )


def classify_tone(mean: float) -> str:
    """Classify the mean tone."""
    if mean >= TONE_THRESHOLD:
        return "formal"
    return "casual" if mean <= -TONE_THRESHOLD else "neutral"


def describe_length(mean: float) -> str:
    """Describe the mean length of messages, rounded."""
    size = "short" if mean <= MAX_SHORT_WORDS else "medium" if mean <= MAX_MEDIUM_WORDS else "long"
    return f"{size}, about {max(LENGTH_STEP_WORDS, round(mean / LENGTH_STEP_WORDS) * LENGTH_STEP_WORDS)} words"
