"""Chat commands that change the session, its model or the loaded files.

Tool calls that await approval: list, allow and deny them. Chat commands that show the prompt, its reasons, cost,
memory and tasks, at the clearance of the session. Parse commands inside the chat; the table of commands is in
`commands`. The table of commands inside the chat, used for help and completion.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from foreword.assembly import ReportRow, show_tokens
from foreword.cli import log_commands, memory_command, prompt_commands
from foreword.cli.chat.chat_session import ChatSession, describe_session, format_model, shorten_message
from foreword.cli.chat.renderer import MarkdownText, describe_end
from foreword.cli.log_commands import EventQuery, make_event_query
from foreword.cli.output import clean_text, count, print_text
from foreword.engine.sources.documents import read_prompt
from foreword.errors import ConfigError, InputError, UnknownName, find_nearest
from foreword.gateway.held_calls import HeldCall
from foreword.gateway.reload import PREVIOUS_IN_USE, explain_fallback
from foreword.storage.tasks import PlanState
from foreword.types import Pace, Trust, frozen
from foreword.workspace import Workspace

if TYPE_CHECKING:
    import sqlite3

    from foreword.events.sent_prompts import SentPrompt
    from foreword.events.totals import Spending


NO_CALLS_AWAITING = "no calls await approval"


async def allow_call(talk: ChatSession, rest: str) -> str:
    """Run the held call with this id and show the answer; without an id, list the waiting calls."""
    if not rest:
        return await print_held_choices(talk)
    accepted = await talk.gateway.held.allow(talk.place.user, talk.found.clearance.level, rest, asks=talk.asks)
    await talk.follow(accepted)
    return ""


async def deny_call(talk: ChatSession, rest: str) -> str:
    """Drop the held call with this id; without an id, list the waiting calls."""
    if not rest:
        return await print_held_choices(talk)
    held = await talk.gateway.held.deny(talk.place.user, talk.found.clearance.level, rest)
    talk.note(f"denied: {held.name}; nothing was done")
    return ""


async def list_held_calls(talk: ChatSession) -> Sequence[HeldCall]:
    """List the waiting calls of this person."""
    return await talk.gateway.held.list(talk.place.user, talk.found.clearance.level)


async def print_held_choices(talk: ChatSession) -> str:
    """Show the waiting calls, or a note that there are none."""
    waiting = await list_held_calls(talk)
    print_approval_hints(talk, waiting)
    if not waiting:
        talk.note(NO_CALLS_AWAITING)
    return ""


def print_approval_hints(talk: ChatSession, waiting: Sequence[HeldCall]) -> None:
    """Show calls, each with the commands that allow and deny it."""
    for one in waiting:
        talk.note(
            f"awaiting approval: {clean_text(one.question)}\n/allow {one.id} runs it once, /deny {one.id} drops it"
        )


NO_TURNS_YET = "no turns yet"
STATUS_SIGNS = {"active": "→", "open": "○", "done": "✓"}
LOG_FLUSH_TIMEOUT_S = 2.0  # seconds to wait for the log to be written


def open_chat_query(talk: ChatSession) -> EventQuery:
    """Flush the log, and return the query context of this conversation."""
    from foreword.events.log import EventLog

    listeners = talk.gateway.listeners
    if isinstance(listeners.recorder, EventLog):
        listeners.recorder.flush(LOG_FLUSH_TIMEOUT_S)
    return make_event_query(talk.gateway.workspace, talk.look().turn)


async def print_context(talk: ChatSession, rest: str) -> str:
    """Show the next prompt slot by slot, or the last one sent."""
    if rest == "last":
        for sent in find_last_prompts(talk):
            print_text(clean_text(sent.explain()))
    elif rest not in ("", "all"):
        raise InputError("use /context or /context all for the next prompt, or /context last for the last one")
    else:
        assembly = await talk.foresee()
        rows = list(assembly.rows(assembly.clearance.level))
        prompt_commands.print_explanation(talk.gateway.workspace, assembly, rows, "" if rest else "/context all")
    return ""


def find_last_prompts(talk: ChatSession) -> "list[SentPrompt]":
    """Return the prompts of the last turn."""
    from foreword.events.sent_prompts import find_prompts

    if not talk.turn:
        raise InputError(f"{NO_TURNS_YET}; /context shows the next prompt")
    desk = open_chat_query(talk)
    sent = desk.ask(lambda log: find_prompts(log, desk.reader, talk.turn))
    if not sent:
        raise InputError("no recorded prompt for the last turn")
    return sent


async def print_why(talk: ChatSession, rest: str) -> str:
    """Explain a slot; without one, explain the last turn: its state, its cache, and its events."""
    if rest:
        for line in explain_slot(list((await talk.foresee()).rows()), rest):
            print_text(clean_text(line))
        return ""
    from foreword.events.lines import explain_cache
    from foreword.events.query import find_turn_events, lay_out_turn

    if not talk.turn:
        raise InputError(f"{NO_TURNS_YET}; /why SLOT explains a slot, and /context all lists the slots")
    reply = await talk.gateway.find(talk.turn)
    if reply and not reply.state.ended:
        print_text(clean_text(f"this message is {reply.state}: {describe_end(reply)}"))
    desk = open_chat_query(talk)
    found = desk.ask(lambda log: find_turn_events(log, desk.reader, talk.turn))
    for line in explain_cache(found.records):
        print_text(clean_text(line))
    if found.records:
        log_commands.print_trace(list(lay_out_turn(found.records)), found.records, desk)
    else:
        print("no events recorded for the last turn")
    return ""


def explain_slot(rows: list[ReportRow], name: str) -> list[str]:
    """Explain the verdict of a slot and of each of its parts."""
    wanted = [row for row in rows if name in (row.id, row.id.partition(":")[0], row.id.partition(":")[2])]
    if not wanted:
        unknown = str(UnknownName("slot", name, [row.id for row in rows]))
        raise InputError(unknown if unknown.endswith("?") else f"{unknown}; /context all lists them")
    return [
        f"{row.id}: {row.verdict}, {show_tokens(row)} tokens, {row.pace}, needs {row.trust}"
        + (f", from {row.source}" if row.source else "")
        + (f"\n  {row.reason}" if row.reason else "")
        for row in wanted
    ]


async def print_chat_cost(talk: ChatSession, _: str) -> str:
    """Show the cost of this session and of today."""
    from foreword.events.period import format_timestamp
    from foreword.events.totals import find_spending, show_total

    desk = open_chat_query(talk)

    def find(log: "sqlite3.Connection") -> "tuple[Spending | None, Spending]":
        since = format_timestamp(talk.session.created) if talk.session else ""
        own = find_spending(log, desk.reader, {"by": "session", "since": since}, desk.now) if since else None
        return own, find_spending(log, desk.reader, {}, desk.now)

    own, today = desk.ask(find)
    mine = [total for total in own.totals if talk.session and total.name == talk.session.id] if own else []
    print(f"this session: {show_total(mine[0], 'day')}" if mine else f"this session: {NO_TURNS_YET}")
    log_commands.print_spending(today, desk)
    return ""


async def print_memory(talk: ChatSession, rest: str) -> str:
    """List or search memories at the clearance of the session, without a model."""
    from foreword.agent.tools.registry import record_memory_event
    from foreword.events.query import find_context
    from foreword.events.tracer import Tracer

    assembly = memory_command.give_memory_tools(talk.look())
    name = "memory_search" if rest else "memory_list"
    answer = talk.gateway.workspace.call(assembly, name, {"query": rest} if rest else {})
    record_memory_event(Tracer(talk.gateway.listeners.recorder, find_context(assembly)), name, answer)
    print_text(clean_text(answer.text))
    return ""


async def print_tasks(talk: ChatSession, _: str) -> str:
    """List the tasks of this session with their steps."""
    tasks = await talk.gateway.sessions.list_tasks(talk.session.id) if talk.session else ()
    if not tasks:
        print("this session has no tasks")
    for task in tasks:
        print(clean_text(f"{STATUS_SIGNS.get(task.status, '·')} {task.title} ({task.status})"))
        for step in task.steps:
            print(clean_text(f"    {STATUS_SIGNS[step.status]} {step.text}"))
    return ""


# A path such as /etc/hosts is not a command.
COMMAND_PATTERN = re.compile(r"/(?P<name>[A-Za-z?][A-Za-z-]*|)(?:\s+(?P<rest>.*))?\s*", re.DOTALL)


@frozen
class SlashCommand:
    """A command inside the chat."""

    name: str
    arguments: str = ""
    about: str
    run: "Callable[[ChatSession, str], Awaitable[str]]"
    """Takes the arguments of the command; returns the next message to the agent, or an empty string."""


@frozen(eq=True)
class TypedCommand:
    """A parsed command line."""

    name: str
    rest: str = ""


def parse_input(text: str) -> TypedCommand | str:
    """Parse input as a command or a message; `//` starts a message that begins with a slash."""
    stripped = text.strip()
    if stripped.startswith("//"):
        return stripped[1:]
    if not (found := COMMAND_PATTERN.fullmatch(stripped)):
        return text
    return TypedCommand(name=found["name"].lower(), rest=(found["rest"] or "").strip())


def find_slash_command(typed: TypedCommand, commands: Mapping[str, SlashCommand]) -> SlashCommand:
    """Return the typed command, or raise InputError with the nearest name."""
    name = "help" if typed.name in ("", "?") else typed.name
    if name not in commands:
        near = find_nearest(name, commands)
        meant = f"; did you mean /{near}?" if near else "."
        raise InputError(
            f"unknown command /{name}{meant} /help lists the commands; to send a message that starts with /, type //"
        )
    return commands[name]


MAX_LISTED_SESSIONS = 10  # sessions to list
SESSIONS_COMMAND_HINT = "/sessions lists them"


async def start_new_session(talk: ChatSession, _: str) -> str:
    """Start a new session; the old one can be resumed."""
    await talk.begin()
    talk.note(await describe_session(talk))
    return ""


async def print_sessions(talk: ChatSession, _: str) -> str:
    """List the sessions that can be resumed here."""
    from foreword.cli.table import find_width, make_table, print_table
    from foreword.events.lines import SHORT_ID_DIGITS, show_time

    zone = talk.zone
    table = make_table("session", "started", "used", "plan", "model", "")
    for one in (await talk.list_sessions())[:MAX_LISTED_SESSIONS]:
        here = "this one" if talk.session and one.id == talk.session.id else ""
        begun, used = show_time(one.created, zone), show_time(one.used, zone)
        table.add_row(one.id[:SHORT_ID_DIGITS], begun, used, "on" if one.plan else "", one.model, here)
    if table.rows:
        print_table(table, find_width())
    else:
        talk.note("no sessions yet")
    return ""


async def resume_session(talk: ChatSession, rest: str) -> str:
    """Resume an earlier session."""
    if not rest:
        raise InputError(f"/resume needs an id; {SESSIONS_COMMAND_HINT}")
    await talk.resume(rest, SESSIONS_COMMAND_HINT)
    talk.note(await describe_session(talk))
    await talk.catch_up()
    return ""


async def show_or_set_model(talk: ChatSession, rest: str) -> str:
    """Show the model, or switch this session to another one and retry its queued messages."""
    retried = await talk.set_model(rest) if rest else 0
    talk.note(format_model(talk))
    if retried:
        talk.note(f"{count(retried, 'waiting message')} {'is' if retried == 1 else 'are'} being retried")
    return ""


async def drop_messages(talk: ChatSession, rest: str) -> str:
    """Cancel a waiting message: the only one, one by its number, or all."""
    waiting = await talk.list_waiting()
    if not waiting:
        raise InputError("no message in this session waits for an answer")
    if rest == "all" or (not rest and len(waiting) == 1):
        chosen = waiting
    elif rest.isascii() and rest.isdigit() and 1 <= int(rest) <= len(waiting):
        chosen = [waiting[int(rest) - 1]]
    else:
        for number, one in enumerate(waiting, 1):
            talk.note(f"{number}  {shorten_message(one.asked)}")
        raise InputError(f"{count(len(waiting), 'message')} wait; use /drop NUMBER or /drop all")
    for one in chosen:
        dropped = await talk.gateway.stop(one.reply.turn)
        talk.note(
            f"dropped: {shorten_message(one.asked)}" if dropped else f"already answered: {shorten_message(one.asked)}"
        )
    return ""


async def run_plan_command(talk: ChatSession, rest: str) -> str:
    """Show plan mode and the stored plan, switch the mode, or accept the plan and run it."""
    if rest == "accept":
        accepted = await talk.accept_plan()
        talk.note(f"plan {accepted.id} accepted; plan mode is off")
        return read_prompt("chat/accepted")
    if rest not in ("", "on", "off"):
        raise InputError("use /plan, /plan on, /plan off or /plan accept")
    if rest:
        await talk.set_plan(on=rest == "on")
    session = talk.session
    on = bool(session and session.plan)
    how = "" if rest else f"; /plan {'off' if on else 'on'} switches it {'off' if on else 'on'}"
    talk.note(f"plan mode is {'on: the agent plans but does not act' if on else 'off'}{how}")
    for stored in list(await talk.gateway.sessions.list_plans(session.id))[:1] if session else ():
        how = "" if stored.state is PlanState.ACCEPTED else "; /plan accept runs it"
        talk.note(f"plan {stored.id}, {stored.state}{how}")
        talk.console.print(MarkdownText(stored.text))
    return ""


async def reload_workspace(talk: ChatSession, _: str) -> str:
    """Reload the workspace, and report changes in the prompt or problems."""
    workspace = talk.gateway.workspace
    config = talk.config
    restart = talk.gateway.reloading.look(now=True).restart
    changed = update_seen_slots(talk)
    if (fault := workspace.fault) and talk.found.clearance.level is not Trust.FULL:
        raise InputError(
            "the files are not valid; the previous configuration is used (/reload with full trust shows why)"
        )
    if fault:
        many = f"{len(fault.faults)} faults:\n" if isinstance(fault, ConfigError) and len(fault.faults) > 1 else ""
        raise InputError(f"the files are not valid; the previous configuration is used: {many}{fault}")
    if workspace.config is not config:
        changed.insert(0, "foreword.yaml")
    talk.note(f"changed: {', '.join(changed)}" if changed else "no changes")
    if restart:
        talk.note(f"needs a restart: {', '.join(restart)}")
    if talk.found.clearance.level is Trust.FULL:
        for line in list_spoiled_files(workspace):
            talk.note(line)
    return ""


def list_spoiled_files(workspace: Workspace) -> list[str]:
    """List the unusable files and their replacements."""
    files, config = workspace.files, workspace.config
    held = [f"{path} {trouble.reason}; {PREVIOUS_IN_USE}" for path, trouble in sorted(files.faults.items())]
    lost = sorted(files.losses.items())
    return [*held, *(f"{path} {trouble.reason}; {explain_fallback(path, config)}" for path, trouble in lost)]


def update_seen_slots(talk: ChatSession) -> list[str]:
    """Record the current slots, and return the names of those that changed since the last call."""
    rows = (row for row in talk.look().rows() if row.span and row.pace is not Pace.TURN)
    now = {row.id: row.sha256 for row in rows}
    before, talk.seen, talk.config = talk.seen, now, talk.gateway.workspace.config
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)] if before else []


async def quit_chat(_: ChatSession, __: str) -> str:
    """End the chat."""
    raise EOFError


async def show_help(_: ChatSession, __: str) -> str:
    """List the commands."""
    width = max(len(f"/{one.name} {one.arguments}".rstrip()) for one in SLASH_COMMANDS.values())
    for one in SLASH_COMMANDS.values():
        print(f"{f'/{one.name} {one.arguments}'.rstrip():{width}}  {one.about}")
    print("\nEnter sends, Alt-Enter adds a line, Ctrl-C stops an answer, Ctrl-D ends the chat.")
    return ""


SLASH_COMMANDS: Mapping[str, SlashCommand] = {
    one.name: one
    for one in (
        SlashCommand(
            name="context",
            arguments="[all|last]",
            about="show the next prompt slot by slot (all: with absent slots), or the last one sent",
            run=print_context,
        ),
        SlashCommand(name="why", arguments="[SLOT]", about="explain a slot, or what the last turn did", run=print_why),
        SlashCommand(name="cost", about="show the cost of this session and of today", run=print_chat_cost),
        SlashCommand(
            name="memory",
            arguments="[WORDS]",
            about="list memories, or search them",
            run=print_memory,
        ),
        SlashCommand(name="tasks", about="list the tasks of this session", run=print_tasks),
        SlashCommand(
            name="plan",
            arguments="[on|off|accept]",
            about="show plan mode and the stored plan; switch the mode, or run the plan",
            run=run_plan_command,
        ),
        SlashCommand(
            name="allow",
            arguments="[ID]",
            about="list the calls that await approval; run the one named",
            run=allow_call,
        ),
        SlashCommand(
            name="deny", arguments="[ID]", about="list the calls that await approval; drop the one named", run=deny_call
        ),
        SlashCommand(
            name="model",
            arguments="[NAME]",
            about="show or change this session's model; changing it retries queued messages",
            run=show_or_set_model,
        ),
        SlashCommand(
            name="drop", arguments="[NUMBER|all]", about="cancel a message that waits for its answer", run=drop_messages
        ),
        SlashCommand(name="new", about="start a new session", run=start_new_session),
        SlashCommand(name="sessions", about="list the sessions that can be resumed here", run=print_sessions),
        SlashCommand(name="resume", arguments="ID", about="resume an earlier session", run=resume_session),
        SlashCommand(name="reload", about="reload the files of the workspace", run=reload_workspace),
        SlashCommand(name="help", about="show this list", run=show_help),
        SlashCommand(name="quit", about="end the chat", run=quit_chat),
    )
}
