"""`foreword sessions`: past conversations, listed and shown."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from foreword.cli.command import Command, list_actions
from foreword.cli.events import Desk, add_reader_options, sit_down
from foreword.cli.output import count, print_json
from foreword.errors import InputError, show_name

if TYPE_CHECKING:
    from foreword.gateway.conversations import Conversation
    from foreword.gateway.message import State
    from foreword.gateway.transcript import Remark

ACTIONS = {"list": "the conversations, those used last first", "show": "SESSION: what was said in one"}
DEFAULT_LIMIT = 20
ID_CHARS = 8


def add_options(parser: ArgumentParser) -> None:
    """Add the action, the session, and who reads."""
    parser.add_argument(
        "action", metavar="ACTION", nargs="?", choices=ACTIONS, default="list", help=list_actions(ACTIONS)
    )
    parser.add_argument("session", metavar="SESSION", nargs="?", default="", help="with show: the id, or its beginning")
    parser.add_argument("--limit", metavar="N", type=int, default=DEFAULT_LIMIT, help=f"how many; else {DEFAULT_LIMIT}")
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """List conversations, or show one."""
    try:
        from foreword.gateway import conversations
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is needed to read conversations: pip install 'foreword[gateway]'") from None
    from foreword.store.state import use_state

    if args.limit < 1:
        raise InputError(f"--limit {args.limit} is no number of conversations; write 1 or more")
    if bool(args.session) is not (args.action == "show"):
        raise InputError("write foreword sessions list, or foreword sessions show SESSION")
    workspace, desk = sit_down(args)
    with workspace, use_state(workspace.state) as state:
        if args.action == "list":
            show_all(conversations.list_conversations(state, desk.reader, args.limit), desk, json=args.json)
            return 0
        if len(args.session) < conversations.MIN_ID_CHARS:
            raise InputError(f"a session is named by its id or the first {conversations.MIN_ID_CHARS} digits of it")
        found = conversations.find_conversations(state, desk.reader, args.session)
    if not found:
        raise InputError(f"there is no session {show_name(args.session)}; foreword sessions lists them")
    if len(found) > 1:
        raise InputError(f"several sessions begin with {show_name(args.session)}; write more of the id")
    show_one(found[0], desk, json=args.json)
    return 0


def show_all(found: "Sequence[Conversation]", desk: Desk, *, json: bool) -> None:
    """Show the list."""
    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.events.line import show_time

    if json:
        print_json([write(one) for one in found])
        return
    if not found:
        print("there are no conversations yet")
        return
    table = make_table("session", "agent", "with", "channel", "last used", "messages", "begins", right=("messages",))
    for one in found:
        lane = one.session.lane
        table.add_row(
            one.session.id[:ID_CHARS],
            cell(lane.agent),
            cell(name_company(one)),
            cell(lane.channel.partition(":")[0]),
            show_time(one.session.used, desk.zone),
            f"{one.messages:,}",
            cell(one.title),
        )
    draw(table, find_width())


def name_company(one: "Conversation") -> str:
    """Name the room of a conversation, or the person."""
    return one.session.lane.room or ", ".join(one.people)


def show_one(one: "Conversation", desk: Desk, *, json: bool) -> None:
    """Show what was said in a conversation; an indented line is always somebody's words."""
    from foreword.cli.chat.clean import clean, clean_line
    from foreword.events.line import show_time

    if json:
        print_json({**write(one), "transcript": [entry for said in one.remarks for entry in write_remark(one, *said)]})
        return
    lane = one.session.lane
    about = (f"session {one.session.id}", lane.agent, name_company(one), lane.channel, f"clearance {lane.clearance}")
    print(" · ".join((*map(clean_line, about), count(one.messages, "message"))))
    for state, remark in one.remarks:
        for entry in tell_remark(one, state, remark):
            print(f"\n{clean_line(entry['from'])}, {show_time(entry['moment'], desk.zone)}{entry['note']}")
            for line in clean(entry["text"]).splitlines():
                print(f"  {line}".rstrip())


def tell_remark(one: "Conversation", state: "State", remark: "Remark") -> Iterator[dict[str, Any]]:
    """Tell a message, then its reply or why there is none."""
    agent = one.session.lane.agent
    if not remark.told:
        note = "" if remark.reply else f" ({state})"
        yield {"role": "user", "from": remark.user, "moment": remark.received, "text": remark.text, "note": note}
    if remark.reply:
        note = " (by itself)" if remark.told else ""
        yield {"role": "assistant", "from": agent, "moment": remark.finished, "text": remark.reply, "note": note}


def write_remark(one: "Conversation", state: "State", remark: "Remark") -> Iterator[dict[str, Any]]:
    """Write a message and its reply as JSON-ready values."""
    from foreword.events.moment import stamp

    for entry in tell_remark(one, state, remark):
        yield {
            "role": entry["role"],
            "from": entry["from"],
            "time": stamp(entry["moment"]),
            "text": entry["text"],
            "state": str(state),
            "by_itself": remark.told,
        }


def write(one: "Conversation") -> dict[str, Any]:
    """Write a conversation as JSON-ready values."""
    from foreword.events.moment import stamp

    session, lane = one.session, one.session.lane
    return {
        "session": session.id,
        "agent": lane.agent,
        "people": list(filter(None, one.people)),
        "room": lane.room,
        "channel": lane.channel,
        "situation": session.situation,
        "clearance": str(lane.clearance),
        "title": one.title,
        "created": stamp(session.created),
        "used": stamp(session.used),
        "messages": one.messages,
    }


COMMAND = Command(
    name="sessions",
    arguments="[ACTION] [SESSION]",
    summary="list past conversations, and show one",
    description="List past conversations with their first words, and show what was said in one. At the shell the owner "
    "reads: the rooms, and their own private conversations. With --reader it is what that person may see: their own "
    "messages and the replies to them, in sessions not above their current clearance. A private conversation is shown "
    "to its person alone.",
    examples=(
        "foreword sessions",
        "foreword sessions show 5fa0da3c",
        "foreword sessions --reader bob",
        "foreword sessions show 5fa0da3c --json",
    ),
    add_options=add_options,
    run=run,
)
