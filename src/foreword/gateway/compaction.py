"""Compaction: a conversation that fills its window is folded, the oldest turns first, into a summary.

The agent's own model writes it. Where that fails, what was said is shortened by rule, so that a session always goes on.
"""

from collections.abc import Sequence
from datetime import datetime

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.frozen import frozen
from foreword.gateway.past import Kind, Piece, Row
from foreword.runtime.history import dump, say
from foreword.sources.builtin import read_prompt
from foreword.tokens import Meter
from foreword.turn import Message

FULL = 0.8  # of the room for a conversation; beyond it the oldest turns are folded
STAYS = 0.3  # of that room: what is newest and stays as it was said
SUMMARY = 0.1  # of that room: the most that a summary may weigh
TOLD = 0.6  # of that room: the most that is told to whoever sums up
END = "</conversation>"  # what nothing in a conversation may be
SHARE = 400  # characters of one message where no model sums up


@frozen
class Cut:
    """Which rows of a past are folded, and which stay."""

    folded: tuple[Row, ...]
    kept: tuple[Row, ...]

    @property
    def turns(self) -> int:
        """How many turns are folded."""
        return sum(row.kind is Kind.TURN for row in self.folded)


def is_full(past: Sequence[Row], message: int, room: int) -> bool:
    """Whether a conversation leaves too little room for what comes next."""
    return sum(row.tokens for row in past) + message > room * FULL


def choose_cut(past: Sequence[Row], room: int) -> Cut:
    """Choose what stays: the newest rows that weigh little enough together."""
    weight, start = 0, len(past)
    while start and weight + past[start - 1].tokens <= room * STAYS:
        start -= 1
        weight += past[start].tokens
    if start == 0:
        start = (len(past) + 1) // 2  # the provider says it is too long, whatever we counted
    return Cut(folded=tuple(past[:start]), kept=tuple(past[start:]))


def list_spoken(cut: Cut) -> list[Message]:
    """List what is folded as plain messages."""
    return [message for row in cut.folded for message in row.stretch.told]


def write_order(cut: Cut, meter: Meter, room: int) -> str:
    """Write what a model is asked: the conversation as text, and what to do with it."""
    most = int(room * TOLD)
    lines = [f"{message.role}: {message.text}" for message in list_spoken(cut)]
    if sum(map(meter.count, lines)) > most:
        share = max(SHARE, most * 2 // max(1, len(lines)))
        lines = [shorten(line, share) for line in lines]
    transcript = "\n\n".join(leave_out(lines, meter, most, after=1)).replace(END, END.replace("/", "/ "))
    return f"{read_prompt('gateway/summarise')}\n\n<conversation>\n{transcript}\n{END}"


def shorten_all(cut: Cut, meter: Meter, room: int) -> str:
    """Sum up by rule: what each said, cut to its beginning and end, the newest last; the oldest are left out first."""
    most = max(200, int(room * SUMMARY))
    lines = [f"{message.role}: {shorten(' '.join(message.text.split()), SHARE)}" for message in list_spoken(cut)]
    kept = leave_out(lines, meter, most)
    left_out = len(lines) - len(kept)
    first = [f"({left_out} earlier messages are left out.)"] if left_out else []
    return "\n".join([*first, *kept])


def leave_out(lines: Sequence[str], meter: Meter, most: int, *, after: int = 0) -> list[str]:
    """Leave out the oldest lines after the first so many, until the rest weighs little enough; one always stays."""
    weights = [meter.count(line) for line in lines]  # each once: a conversation may have thousands
    weight, start = sum(weights), after
    while weight > most and after + len(lines) - start > 1:
        weight -= weights[start]
        start += 1
    return [*lines[:after], *lines[start:]]


def shorten(text: str, most: int) -> str:
    """Cut a text to its beginning and its end."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} […] {text[-end:]}"


def write_summary(text: str, meter: Meter, now: datetime) -> Piece:
    """Write a summary as the messages that stand for what was folded."""
    told = f"{read_prompt('gateway/summary')}\n\n{text.strip()}"
    answer = ModelResponse(parts=[TextPart(content=read_prompt("gateway/understood"))], timestamp=now)
    return Piece(kind=Kind.SUMMARY, messages=dump([say(told), answer]), tokens=meter.count(told) + 10)
