"""Compaction: choose the oldest turns of a long conversation, and write the prompt and text of their summary."""

from collections.abc import Sequence

from foreword.agent.conversation import (
    dump_messages,
    make_answer,
    make_user_message,
)
from foreword.assembly import Assembly
from foreword.engine.sources.documents import read_prompt
from foreword.gateway.session_state import (
    HistoryRow,
)
from foreword.storage.history import HistoryKind, HistoryPiece
from foreword.tokens.count import Meter
from foreword.turn import Message, Turn
from foreword.types import Mode

KEPT_SHARE = 0.3  # of that room: the newest turns, which stay unchanged
MAX_SUMMARY_SHARE = 0.1  # of that room: the largest summary
MAX_SUMMARISED_SHARE = 0.6  # of that room: the largest text to summarise
CONVERSATION_END = "</conversation>"  # must not occur in a conversation
MAX_SHORTENED_CHARS = 400  # characters per message if no model summarises


def choose_compacted(past: Sequence[HistoryRow], room: int) -> Sequence[HistoryRow]:
    """Choose the oldest rows to compact; the newest rows that fit are kept."""
    weight, start = 0, len(past)
    while start and weight + past[start - 1].tokens <= room * KEPT_SHARE:
        start -= 1
        weight += past[start].tokens
    if start == 0:
        start = (len(past) + 1) // 2  # the provider rejected the length, whatever our count says
    return past[:start]


def write_summary_prompt(messages: Sequence[Message], meter: Meter, room: int) -> str:
    """Write the model's prompt: the conversation as text, and the instruction."""
    most = int(room * MAX_SUMMARISED_SHARE)
    lines = [f"{message.role}: {message.text}" for message in messages]
    if sum(map(meter.count, lines)) > most:
        share = max(MAX_SHORTENED_CHARS, most * 2 // max(1, len(lines)))
        lines = [shorten_middle(line, share) for line in lines]
    transcript = "\n\n".join(drop_oldest(lines, meter, most, after=1)).replace(
        CONVERSATION_END, CONVERSATION_END.replace("/", "/ ")
    )
    return f"{read_prompt('gateway/summarise')}\n\n<conversation>\n{transcript}\n{CONVERSATION_END}"


def summarise_by_rule(messages: Sequence[Message], meter: Meter, room: int) -> str:
    """Summarise by rule: shorten each message to its beginning and end, and drop the oldest if there is no room."""
    most = max(200, int(room * MAX_SUMMARY_SHARE))
    lines = [
        f"{message.role}: {shorten_middle(' '.join(message.text.split()), MAX_SHORTENED_CHARS)}" for message in messages
    ]
    kept = drop_oldest(lines, meter, most)
    left_out = len(lines) - len(kept)
    first = [f"({left_out} earlier messages are left out.)"] if left_out else []
    return "\n".join([*first, *kept])


def drop_oldest(lines: Sequence[str], meter: Meter, most: int, *, after: int = 0) -> list[str]:
    """Drop the oldest lines after the first `after` ones until the rest fits; keep at least one."""
    weights = [meter.count(line) for line in lines]  # count each line once: a conversation may have thousands
    weight, start = sum(weights), after
    while weight > most and after + len(lines) - start > 1:
        weight -= weights[start]
        start += 1
    return [*lines[:after], *lines[start:]]


def shorten_middle(text: str, most: int) -> str:
    """Shorten a text to its beginning and its end."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} […] {text[-end:]}"


def make_summary_turn(assembly: Assembly, prompt: str) -> Turn:
    """Make the turn that writes a summary: without tools and history."""
    turn = assembly.turn
    return Turn(
        agent=turn.agent,
        user=turn.user,
        channel=turn.channel,
        room=turn.room,
        situation=turn.situation,
        session=turn.session,
        message=prompt,
        model=turn.model,
        ceiling=turn.ceiling,
        mode=Mode.NONE,
        now=turn.now,
    )


def make_summary_piece(text: str, meter: Meter) -> HistoryPiece:
    """Make the history piece that replaces the compacted rows."""
    question = f"{read_prompt('gateway/summary')}\n\n{text.strip()}"
    answer = make_answer(read_prompt("gateway/understood"))
    return HistoryPiece(
        kind=HistoryKind.SUMMARY,
        messages=dump_messages([make_user_message(question), answer]),
        tokens=meter.count(question) + 10,
    )
