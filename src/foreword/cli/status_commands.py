"""The commands that show what happened lately: `sessions` for past conversations, `status` for everything at once."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from foreword.cli.inputs import add_options
from foreword.cli.log_commands import EventQuery, add_reader_options, open_event_query, print_records
from foreword.cli.output import Cell, clean_line, clean_text, count, pick, print_json, print_table, to_plain, warn
from foreword.engine.trust import Audience
from foreword.errors import InputError, quote_name
from foreword.events.event import Reader
from foreword.events.lines import SHORT_ID_DIGITS, show_time
from foreword.events.status import Status, find_status, show_left_out
from foreword.memory.index_sync import Stock
from foreword.storage import database, state_reader
from foreword.types import Trust
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.gateway.transcripts import Conversation

DEFAULT_SESSIONS_LIMIT = 20
MAX_NEXT_RUNS = 5  # next runs to show


def add_sessions_options(parser: ArgumentParser) -> None:
    """Add the action, the session and the reader."""
    about = "list: list conversations, most recently used first; show SESSION: print one conversation"
    parser.add_argument("action", metavar="ACTION", nargs="?", choices=("list", "show"), default="list", help=about)
    add_options(parser, {"session SESSION": "with show: the id or the start of it"}, nargs="?", default="")
    limit = {"--limit N": f"list at most N (default: {DEFAULT_SESSIONS_LIMIT})"}
    add_options(parser, limit, type=int, default=DEFAULT_SESSIONS_LIMIT)
    add_reader_options(parser)


def run_sessions(args: Namespace) -> int:
    """List past conversations with their first words, or print one.

    By default the owner reads: all rooms and the owner's private conversations. With --reader, that person reads:
    their own messages and the replies to them, in sessions up to their current clearance. A private conversation is
    shown only to its own person.

    Examples:
        foreword sessions
        foreword sessions show 5fa0da3c
        foreword sessions show 5fa0da3c --json
    """
    from foreword.gateway import transcripts  # late: `status` does not need the gateway

    if args.limit < 1:
        raise InputError(f"--limit must be 1 or more, not {args.limit}")
    if bool(args.session) is not (args.action == "show"):
        raise InputError("use foreword sessions list, or foreword sessions show SESSION")
    workspace, events = open_event_query(args)
    with workspace, database.use_state(workspace.state) as state:
        if args.action == "list":
            print_conversations(transcripts.list_conversations(state, events.reader, args.limit), events, args)
            return 0
        if len(args.session) < transcripts.MIN_ID_CHARS:
            raise InputError(f"give the id of a session, or at least its first {transcripts.MIN_ID_CHARS} digits")
        found = transcripts.find_conversations(state, events.reader, args.session)
    if not found:
        raise InputError(f"unknown session {quote_name(args.session)}; foreword sessions lists them")
    if len(found) > 1:
        raise InputError(f"several session ids start with {quote_name(args.session)}; give more digits")
    if args.json:
        print_json({**conversation_to_dict(found[0]), "transcript": [one for one, _ in list_messages(found[0])]})
    else:
        print_conversation(found[0], events)
    return 0


def print_conversations(found: Sequence["Conversation"], events: EventQuery, args: Namespace) -> None:
    """Print the list of conversations."""
    if args.json:
        print_json([conversation_to_dict(one) for one in found])
    elif not found:
        print("no conversations yet")
    else:
        rows = []
        for one in found:
            session, key = one.session, one.session.key
            place = (key.agent, key.room or ", ".join(one.people), key.channel.partition(":")[0])
            used = show_time(session.used, events.zone)
            rows.append((session.id[:SHORT_ID_DIGITS], *place, used, f"{one.messages:,}", one.title))
        heads = ("session", "agent", "with", "channel", "last used", "messages", "begins")
        print_table(heads, rows, right=("messages",))


def print_conversation(one: "Conversation", events: EventQuery) -> None:
    """Print a conversation; message text is always indented."""
    key = one.session.key
    place = (f"session {one.session.id}", key.agent, key.room or ", ".join(one.people), key.channel)
    print(" · ".join((*map(clean_line, place), f"clearance {key.clearance}", count(one.messages, "message"))))
    for message, note in list_messages(one):
        print(f"\n{clean_line(message['from'])}, {show_time(message['time'], events.zone)}{note}")
        for line in clean_text(message["text"]).splitlines():
            print(f"  {line}".rstrip())


def list_messages(one: "Conversation") -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each message and its reply, with a note about an unanswered message or an unprompted one."""
    agent = one.session.key.agent
    for state, entry in one.remarks:
        shared = {"state": str(state), "by_itself": entry.told}
        if not entry.told:
            message = {"role": "user", "from": entry.user, "time": entry.received, "text": entry.text}
            yield message | shared, "" if entry.reply else f" ({state})"
        if entry.reply:
            message = {"role": "assistant", "from": agent, "time": entry.finished, "text": entry.reply}
            yield message | shared, " (by itself)" if entry.told else ""


def conversation_to_dict(one: "Conversation") -> dict[str, Any]:
    """Return a conversation as JSON-ready values."""
    session, key = one.session, one.session.key
    return {
        "session": session.id,
        "agent": key.agent,
        "people": [*filter(None, one.people)],
        **pick(key, "room", "channel"),
        "situation": session.situation,
        "clearance": key.clearance,
        "title": one.title,
        **pick(session, "created", "used"),
        "messages": one.messages,
    }


add_status_options = add_reader_options


def run_status(args: Namespace) -> int:
    """Print channels, sessions, memory, errors and next runs.

    Shows each channel with its last message and its errors of the last day, the sessions of the last day, the number
    of memories and how many of them are indexed up to date, the last ten errors, and the next scheduled runs.

    Examples:
        foreword status
        foreword status --reader bob --json
    """
    workspace, events = open_event_query(args)
    reader = events.reader
    with workspace:
        status = events.run(lambda log: find_status(log, reader, events.now))
        audience = Audience(clearance=reader.clearance, person="" if reader.room else reader.user)
        stock = workspace.memory.count_stocks(audience)
        if workspace.memory.notice:
            warn(workspace.memory.notice)
        planned = list_next_runs(workspace, events)
    if args.json:
        runs = [{"schedule": one.id, "name": one.title, "user": one.user, "due": one.due} for one in planned]
        print_json({**status_to_dict(status, stock, reader), "next_runs": runs})
        return 0
    print_status(status, stock, events)
    if planned:
        print()
        rows = [(show_time(one.due, events.zone), one.title, one.user) for one in planned]
        print_table(("next run", "schedule", "user"), rows)
    return 0


def list_next_runs(workspace: Workspace, events: EventQuery) -> Sequence[state_reader.PendingSchedule]:
    """Return the next runs that the reader may see: their own, or all at full trust; writes nothing."""
    reader = events.reader
    with closing(state_reader.StateReader(workspace.state)) as state:
        found = state.list_planned()
    sees_all = reader.clearance is Trust.FULL and not reader.room
    visible = (one for one in found if one.clearance <= reader.clearance and (sees_all or one.user == reader.user))
    return [one for one in visible if not reader.room or one.room == reader.room][:MAX_NEXT_RUNS]


def status_to_dict(status: Status, stock: Sequence[Stock], reader: Reader) -> Any:
    """Return the status as JSON-ready values."""
    errors = [record.to_dict(reader) for record in status.errors]
    shown = pick(status, "since", "channels", "sessions", "latest")
    return to_plain({**shown, "memory": [*stock], "errors": errors})


def print_status(status: Status, stock: Sequence[Stock], events: EventQuery) -> None:
    """Print the status as tables, with a sentence for each empty one."""
    zone = events.zone
    counted = f"{count(status.sessions, 'session')}{show_left_out(status)}"
    print(f"since {show_time(status.since, zone)} ({zone.key}): {counted}\n")
    channels = [
        (one.name, show_time(one.last_message, zone) if one.last_message else "–", f"{one.errors:,}")
        for one in status.channels
    ]
    sessions = [(one.id, one.agent, one.channel, show_time(one.last, zone)) for one in status.latest]
    stores = [(one.store, f"{one.documents:,}", f"{one.indexed:,}", f"{one.unreviewed:,}") for one in stock]
    tables: tuple[tuple[Sequence[str], Sequence[Sequence[Cell]], str], ...] = (
        (("channel", "last message", "errors"), channels, "no messages on any channel"),
        (("session", "agent", "channel", "last activity"), sessions, "no sessions yet"),
        (("memory", "documents", "indexed", "unreviewed"), stores, "no memory"),
    )
    for heads, rows, empty in tables:
        if rows:
            print_table(heads, rows, right=("errors", "documents", "indexed", "unreviewed"))
        else:
            print(f" {empty}")
        print()
    if status.errors:
        print(f"last {count(len(status.errors), 'error')}:")
        print_records(status.errors[::-1], zone)
    else:
        print("no errors recorded")
