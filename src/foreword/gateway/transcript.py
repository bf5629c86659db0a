"""A transcript: what was said in a session as Markdown, in which nobody's words can look like anybody else's.

Only plain messages are in it, none of what tools were asked or found.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from foreword.frozen import frozen
from foreword.gateway.message import State
from foreword.gateway.moment import read_moment
from foreword.gateway.room import name_speaker
from foreword.gateway.session import Session
from foreword.gateway.speakers import name_person, open_message
from foreword.memory.entry import write_head
from foreword.render.escape import HEADING, UNDERLINE
from foreword.runtime.history import load, recount
from foreword.sources.document import normalise

SAID = "history JOIN turns ON turns.id = history.turn_id AND history.kind IN ('turn', 'room')"
"""The rows of a history that a transcript has; what was only overheard in a room is in none."""
SPOKEN = f"""
SELECT history.position, iif(history.kind = 'room', history.messages, NULL),
    turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM {SAID} WHERE history.session_id = ? ORDER BY history.position"""
TITLE = 40  # characters of a file's name that come from the agent's
WORD = re.compile(r"[a-z0-9]+")
TAG = re.compile(r"<(?=[A-Za-z/!?])")


@frozen(eq=True)
class Remark:
    """One message, and the words that it was answered with, if it was."""

    user: str
    text: str
    reply: str
    received: datetime
    finished: datetime
    told: bool = False
    """Whether nobody wrote anything here: the agent sent its words by itself, in a run of which only they are known."""


@frozen
class Transcript:
    """What was said in a session, up to a place in its history."""

    session: Session
    exchanges: tuple[Remark, ...]
    upto: int = 0

    @property
    def people(self) -> tuple[str, ...]:
        """Who speaks in it, as they are known."""
        return tuple(dict.fromkeys(one.user for one in self.exchanges if one.user))


def read_transcript(state: sqlite3.Connection, session: Session) -> Transcript:
    """Read what was said in a session, what a summary stands for among it."""
    rows = state.execute(SPOKEN, (session.id,)).fetchall()
    exchanges = tuple(read_exchange(row[1:]) for row in rows)
    return Transcript(session=session, exchanges=exchanges, upto=rows[-1][0] if rows else 0)


def read_exchange(row: Sequence[Any]) -> Remark:
    """Read a turn, or what a session was told of one that it did not have: of that nothing else was read there."""
    beside, user, text, reply, became, received, finished = row
    began, ended = read_moment(received), read_moment(finished or received)
    if beside is not None:
        messages = recount(load(beside))
        if name_speaker(user, text) not in [one.text for one in messages]:
            sent = "\n\n".join(one.text for one in messages if one.role == "assistant")
            return Remark(user="", text="", reply=sent, received=ended, finished=ended, told=True)
    answer = (reply or "") if became == str(State.ANSWERED) else ""
    return Remark(user=user, text=text, reply=answer, received=began, finished=ended)


def write_transcript(transcript: Transcript, zone: ZoneInfo) -> str:
    """Write a transcript, in the time of its people."""
    session, exchanges = transcript.session, transcript.exchanges
    lane = session.lane
    head = {
        "agent": lane.agent,
        "room": lane.room,
        "channel": lane.channel,
        "from": show_moment(exchanges[0].received, zone),
        "to": show_moment(exchanges[-1].finished, zone),
        "clearance": str(lane.clearance),
        "people": ", ".join(map(name_person, transcript.people)),
        "turns": f"{len(exchanges)}",
        "session": session.id,
    }
    title = f"# Conversation with {name_person(lane.agent)}\n"
    return write_head(head) + "\n".join([title, *write_exchanges(exchanges, lane.agent, zone)])


def write_exchanges(exchanges: Sequence[Remark], agent: str, zone: ZoneInfo) -> Iterator[str]:
    """Write each message under who said it, as a quotation."""
    for one in exchanges:
        if not one.told:
            yield f"{open_message(one.user, show_moment(one.received, zone))}\n\n{quote(one.text)}\n"
        if one.reply:
            opening = open_message(agent, show_moment(one.finished, zone), agent=True)
            yield f"{opening}\n\n{quote(one.reply)}\n"
        else:
            yield "(not answered)\n"


def quote(text: str) -> str:
    """Quote words so that no line of them is a heading, a tag or the beginning of another's words."""
    plain = "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in normalise(text)).strip("\n")
    tame = UNDERLINE.sub(r"\1\\\2", HEADING.sub(r"\1\\\2", TAG.sub(r"\\<", plain)))
    return "\n".join(f"> {line}".rstrip() for line in tame.split("\n"))


def name_file(transcript: Transcript, zone: ZoneInfo, mark: str) -> str:
    """Name the file of a transcript: its day, its agent and a mark of its own; no word of anybody is in a name."""
    day = transcript.exchanges[0].received.astimezone(zone).strftime("%Y-%m-%d")
    title = "-".join(WORD.findall(transcript.session.lane.agent.casefold()))[:TITLE].strip("-") or "agent"
    return f"{day}-{title}-{mark}.md"


def show_moment(moment: datetime, zone: ZoneInfo) -> str:
    """Show a time with its day and its distance from UTC."""
    return moment.astimezone(zone).isoformat(sep=" ", timespec="seconds")
