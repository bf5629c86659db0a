"""Transcripts of sessions: archived as Markdown files, if configured, and listed for readers who may see them.

A conversation is archived when its session key has a newer session, when it was compacted, or after a day without
messages. If it continues, its file is rewritten. A session has exactly one file, also after a crash.
"""

import asyncio
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from foreword.agent.conversation import convert_to_texts, load_messages
from foreword.config.schema import Config
from foreword.engine.render import HEADING, UNDERLINE
from foreword.engine.sources.documents import join_lines, normalise_lines
from foreword.engine.trust import CONVERSATIONS
from foreword.errors import InputError
from foreword.events.event import EventType, Reader, may_read_text, sees_all
from foreword.events.tracer import describe_error
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.messages import prefix_author
from foreword.host import load_zone
from foreword.memory.entry import drafted, write_head
from foreword.storage import history
from foreword.storage.database import format_moment, open_state_read_only, parse_moment
from foreword.storage.sessions import (
    Archive,
    Session,
    SessionKey,
    record_written,
    reserve_path,
)
from foreword.storage.turns import TurnState
from foreword.turn import check_name
from foreword.types import frozen

MAX_AUTHOR_CHARS = 64  # characters of a name
AUTHOR_SIGNS = " ._@:+-"  # allowed besides letters and digits; no name can look like a generated label


def clean_author(name: str) -> str:
    """Reduce a name to letters, digits and a few signs on one line."""
    plain = "".join(sign for sign in join_lines(normalise_lines(name)) if sign.isalnum() or sign in AUTHOR_SIGNS)
    return join_lines(plain)[:MAX_AUTHOR_CHARS].strip() or "somebody"


MAX_TITLE_CHARS = 40  # characters of the file name that come from the agent's name
WORD = re.compile(r"[a-z0-9]+")
TAG = re.compile(r"<(?=[A-Za-z/!?])")


@frozen(eq=True)
class TranscriptEntry:
    """A message and its reply, if it has one."""

    user: str
    text: str
    reply: str
    received: datetime
    finished: datetime
    told: bool = False
    """Whether the agent sent the text on its own, for example in a scheduled run; there is no message then."""


@frozen
class Transcript:
    """The messages of a session up to a position in its history."""

    session: Session
    exchanges: tuple[TranscriptEntry, ...]
    upto: int = 0

    @property
    def people(self) -> tuple[str, ...]:
        """Return the users who wrote in it."""
        return tuple(dict.fromkeys(entry.user for entry in self.exchanges if entry.user))


def read_transcript(state: sqlite3.Connection, session: Session) -> Transcript:
    """Read the messages of a session, including those that a summary replaces."""
    rows = history.list_transcript_rows(state, session.id)
    exchanges = tuple(read_exchange(row[1:]) for row in rows)
    return Transcript(session=session, exchanges=exchanges, upto=rows[-1][0] if rows else 0)


def read_exchange(row: Sequence[Any]) -> TranscriptEntry:
    """Read a turn from its row, or the text that an agent added to the session on its own."""
    added, user, text, reply, state, received, finished = row
    start, end = parse_moment(received), parse_moment(finished or received)
    if added is not None:
        messages = convert_to_texts(load_messages(added))
        if prefix_author(user, text) not in [message.text for message in messages]:
            sent = "\n\n".join(message.text for message in messages if message.role == "assistant")
            return TranscriptEntry(user="", text="", reply=sent, received=end, finished=end, told=True)
    answer = (reply or "") if state == str(TurnState.ANSWERED) else ""
    return TranscriptEntry(user=user, text=text, reply=answer, received=start, finished=end)


def write_transcript(transcript: Transcript, zone: ZoneInfo) -> str:
    """Render a transcript in a time zone."""
    session, exchanges = transcript.session, transcript.exchanges
    key = session.key
    head = {
        "agent": key.agent,
        "room": key.room,
        "channel": key.channel,
        "from": format_time(exchanges[0].received, zone),
        "to": format_time(exchanges[-1].finished, zone),
        "clearance": str(key.clearance),
        "people": ", ".join(map(clean_author, transcript.people)),
        "turns": f"{len(exchanges)}",
        "session": session.id,
    }
    title = f"# Conversation with {clean_author(key.agent)}\n"
    return write_head(head) + "\n".join([title, *write_exchanges(exchanges, key.agent, zone)])


def write_exchanges(exchanges: Sequence[TranscriptEntry], agent: str, zone: ZoneInfo) -> Iterator[str]:
    """Render each message as a quote below the name of its author."""
    for entry in exchanges:
        if not entry.told:
            author, moment = clean_author(entry.user), format_time(entry.received, zone)
            yield f"## {author}, {moment}\n\n{quote_message(entry.text)}\n"
        if entry.reply:
            author, moment = clean_author(agent), format_time(entry.finished, zone)
            yield f"## {author} (agent), {moment}\n\n{quote_message(entry.reply)}\n"
        else:
            yield "(not answered)\n"


def quote_message(text: str) -> str:
    """Quote a text so that no line of it is a heading, a tag or the start of another message."""
    signs = (sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in normalise_lines(text))
    plain = "".join(signs).strip("\n")
    escaped = UNDERLINE.sub(r"\1\\\2", HEADING.sub(r"\1\\\2", TAG.sub(r"\\<", plain)))
    return "\n".join(f"> {line}".rstrip() for line in escaped.split("\n"))


def name_file(transcript: Transcript, zone: ZoneInfo, mark: str) -> str:
    """Name the file of a transcript by its day, its agent and part of its id; it contains no message text."""
    day = transcript.exchanges[0].received.astimezone(zone).strftime("%Y-%m-%d")
    title = "-".join(WORD.findall(transcript.session.key.agent.casefold()))[:MAX_TITLE_CHARS].strip("-") or "agent"
    return f"{day}-{title}-{mark}.md"


def format_time(moment: datetime, zone: ZoneInfo) -> str:
    """Format a time with its date and UTC offset."""
    return moment.astimezone(zone).isoformat(sep=" ", timespec="seconds")


MAX_ROOM_CHARS = 100
ROOM_SIGNS = "._:+@-"
SHORT_ID_CHARS = 8  # digits of the session id in the file name; distinguishes transcripts of one agent and day
TRANSCRIPT_MODE = 0o600  # only the owner of the process may read it


def find_archive_folder(key: SessionKey, config: Config) -> str:
    """Return the folder for the transcripts of a session key; empty if they are not archived."""
    if key.user:
        return f"users/{key.user}/{CONVERSATIONS}" if key.user in config.users else ""
    settings = config.rooms.get(key.room)
    if not key.room or (settings is None and key.room.startswith("(")):  # an unnamed group or an anonymous session
        return ""
    group = (settings.group if settings else "") or key.room
    if len(group) > MAX_ROOM_CHARS or check_name(group.lstrip("_+@-"), ROOM_SIGNS):
        group = f"room-{sha256(group.encode(errors='replace')).hexdigest()[:12]}"
    return f"groups/{group}/{CONVERSATIONS}"


def find_timezone(key: SessionKey, config: Config) -> ZoneInfo:
    """Return the time zone of the room or person of a session key."""
    room, user = config.rooms.get(key.room), config.users.get(key.user)
    own = (room.timezone if room else "") or (user.timezone if user else "")
    return load_zone(own or config.host.timezone)[0]


def describe_archive(transcript: Transcript, config: Config) -> Archive:
    """Describe the archive file of a transcript."""
    key = transcript.session.key
    return Archive(
        path=find_archive_path(transcript, config, transcript.session.id[:SHORT_ID_CHARS]),
        session=transcript.session.id,
        agent=key.agent,
        channel=key.channel,
        room=key.room,
        user=key.user,
        clearance=key.clearance,
        people=transcript.people,
        upto=transcript.upto,
    )


def find_archive_path(transcript: Transcript, config: Config, mark: str) -> str:
    """Return the path of a transcript in the workspace; `mark` is the session id or its beginning."""
    key = transcript.session.key
    return f"{find_archive_folder(key, config)}/{name_file(transcript, find_timezone(key, config), mark)}"


def render_transcript(transcript: Transcript, config: Config) -> str:
    """Render a transcript in the time zone of its people."""
    return write_transcript(transcript, find_timezone(transcript.session.key, config))


def write_transcript_file(root: str, path: str, text: str) -> None:
    """Write a transcript atomically, replacing an earlier one; raise InputError for a symlinked folder."""
    place = os.path.join(root, *path.split("/"))
    folder = os.path.dirname(place)
    if os.path.realpath(folder) != folder:
        raise InputError(f"{path} is behind a symbolic link; transcripts are not written through links")
    os.makedirs(folder, exist_ok=True)
    with drafted(place, text.encode("utf-8", "replace").decode()) as draft:
        os.chmod(draft, TRANSCRIPT_MODE)
        os.replace(draft, place)


ARCHIVE_INTERVAL_S = 5.0  # seconds between two checks
IDLE_PERIOD = timedelta(days=1)  # a conversation without messages for this long is finished
CLOCK_TOLERANCE = timedelta(hours=1)  # allowed clock difference between processes


class Archiver:
    """Writes the transcripts of a workspace."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._since = ""
        """Sessions last used before this time are archived already, or never will be."""
        self._failed: set[str] = set()

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Check every session again if archiving was switched on or the users changed."""
        if after.archive and (not before.archive or before.users != after.users):
            self._since = ""
        return ()

    async def keep(self) -> None:
        """Write due transcripts until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(ARCHIVE_INTERVAL_S)

    async def look(self) -> None:
        """Write the transcripts that are due and delete old overheard messages; log errors and retry later."""
        try:
            now = self._context.clock()
            if await self._context.writer.read(lambda state: history.has_expired_overheard(state, now)):
                await self._context.writer.write(lambda state: history.delete_expired_overheard(state, now))
            await self.archive()
        except sqlite3.Error:
            pass  # the disk is full or the state is locked; retry later
        except Exception as error:  # noqa: BLE001 - a transcript error must not stop conversations
            self._report("archive", error)

    async def archive(self) -> int:
        """Write the transcripts that are due; return their number."""
        if not self._context.workspace.config.archive:
            return 0
        now, written, failed = self._context.clock(), 0, False
        for session in await asyncio.to_thread(self._find_due, now):
            try:
                written += await self._archive(session)
            except (OSError, InputError) as error:
                failed = True
                self._report(session.id, error)
        if not failed:
            self._since = format_moment(now - IDLE_PERIOD - CLOCK_TOLERANCE)
        return written

    def _find_due(self, now: datetime) -> list[Session]:
        """Find the finished sessions whose transcript is incomplete; runs in a thread."""
        config = self._context.workspace.config
        with closing(open_state_read_only(self._context.workspace.state)) as state:
            found = history.list_sessions_to_archive(state, self._since, now - IDLE_PERIOD)
        return [session for session in found if find_archive_folder(session.key, config)]

    async def _archive(self, session: Session) -> bool:
        """Write the transcript of a session: reserve its path in the state, write the file, then mark it as written."""
        config, root = self._context.workspace.config, self._context.workspace.files.root
        transcript = await self._context.writer.read(lambda state: read_transcript(state, session))
        if not transcript.exchanges:
            return False
        archive = describe_archive(transcript, config)
        path = await self._context.writer.write(
            lambda state: reserve_path(state, archive, find_archive_path(transcript, config, session.id))
        )
        archive = replace(archive, path=path)
        await asyncio.to_thread(write_transcript_file, root, path, render_transcript(transcript, config))
        await self._context.writer.write(
            lambda state: record_written(state, archive, format_moment(self._context.clock()))
        )
        return True

    def _report(self, transcript: str, error: Exception) -> None:
        """Log an error once per session."""
        if transcript not in self._failed:
            self._failed.add(transcript)
            fields = {**describe_error(error), "transcript": transcript}
            self._context.trace().emit(EventType.CHANNEL_ERROR, **fields)


MAX_SESSIONS = 200
TITLE_CHARS = 60
MIN_ID_CHARS = 4


@frozen
class Conversation:
    """A session, and the part of it that its reader may see."""

    session: Session
    remarks: tuple[tuple[TurnState, TranscriptEntry], ...]
    """The messages and replies, with the state of each turn, the oldest first."""

    @property
    def people(self) -> tuple[str, ...]:
        """The people who wrote in it."""
        return tuple(dict.fromkeys(one.user for _, one in self.remarks if one.user)) or (self.session.key.user,)

    @property
    def messages(self) -> int:
        """The number of messages, those of the agent included."""
        return sum(bool(text) for _, one in self.remarks for text in (one.text, one.reply))

    @property
    def title(self) -> str:
        """The beginning of its first message, on one line."""
        first = next((text for _, one in self.remarks if (text := " ".join((one.text or one.reply).split()))), "")
        return first if len(first) <= TITLE_CHARS else f"{first[: TITLE_CHARS - 1].rstrip()}…"


def list_conversations(state: sqlite3.Connection, reader: Reader, limit: int) -> list[Conversation]:
    """List the conversations that a reader may see, the most recently used first."""
    found = (read_conversation(state, reader, session) for session in list_readable(state, reader))
    return list(islice((one for one in found if one.remarks), min(limit, MAX_SESSIONS)))


def find_conversations(state: sqlite3.Connection, reader: Reader, beginning: str) -> list[Conversation]:
    """Find conversations by the beginning of their session id; those above the reader are left out."""
    named = [one for one in list_readable(state, reader) if one.id.startswith(beginning.lower())]
    found = [read_conversation(state, reader, one) for one in named]
    return [one for one in found if one.remarks or sees_all(reader) or one.session.key.user == reader.user]


def list_readable(state: sqlite3.Connection, reader: Reader) -> Sequence[Session]:
    """List the sessions that a reader may know of, the most recently used first."""
    found = history.list_visible_sessions(
        state, reader.clearance, reader.room, reader.user, everything=sees_all(reader)
    )
    return [one for one in found if may_read_text(reader, one.key.person)]


def read_conversation(state: sqlite3.Connection, reader: Reader, session: Session) -> Conversation:
    """Read the messages of a session that a reader may see: all, or theirs and the replies to them."""
    own = session.key.user == reader.user and not reader.room
    only = "" if own or sees_all(reader) else reader.user or "\x00"
    rows = history.list_shown_rows(state, session.id, only)
    return Conversation(session=session, remarks=tuple((TurnState(row[4]), read_exchange(row)) for row in rows))
