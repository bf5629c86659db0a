"""The commands inside the chat: parse them, show the prompt, cost and memory, and change the session."""

import re
from collections.abc import Awaitable, Callable, Sequence
from sqlite3 import Connection
from typing import NamedTuple

from foreword.agent.tools.registry import record_memory_event
from foreword.assembly import show_tokens
from foreword.cli import log_commands, memory_commands, prompt_commands
from foreword.cli.chat.chat_session import ChatSession, describe_session, shorten_message
from foreword.cli.chat.renderer import MarkdownText, describe_end
from foreword.cli.output import clean_text, count, print_table, print_text
from foreword.engine.sources.documents import read_prompt
from foreword.errors import ConfigError, InputError, UnknownName, find_nearest
from foreword.events import lines, query, sent_prompts, totals
from foreword.events.event import find_context, format_timestamp
from foreword.events.log import EventLog
from foreword.events.tracer import Tracer
from foreword.gateway.reload import PREVIOUS_IN_USE, explain_fallback
from foreword.storage.sessions import PlanState
from foreword.storage.turns import HeldCall
from foreword.types import Pace, Trust, frozen

NO_TURNS_YET = "no turns yet"
STATUS_SIGNS = {"active": "→", "open": "○", "done": "✓"}
LOG_FLUSH_TIMEOUT_S = 2.0  # seconds to wait for the log to be written
MAX_LISTED_SESSIONS = 10  # sessions to list
SESSIONS_COMMAND_HINT = "/sessions lists them"
# A path such as /etc/hosts is not a command.
COMMAND_PATTERN = re.compile(r"/(?P<name>[A-Za-z?][A-Za-z-]*|)(?:\s+(?P<rest>.*))?\s*", re.DOTALL)


class SlashCommand(NamedTuple):
    """A command inside the chat; the docstring of its function is its help."""

    run: Callable[[ChatSession, str], Awaitable[str | None]]
    """Takes the arguments of the command; returns the next message to the agent, if there is one."""
    arguments: str = ""

    @property
    def about(self) -> str:
        """The help: the first line of the docstring, without capital and full stop."""
        line = str(self.run.__doc__).partition("\n")[0]
        return line[0].lower() + line[1:].rstrip(".")


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


def find_slash_command(typed: TypedCommand) -> SlashCommand:
    """Return the typed command, or raise InputError with the nearest name."""
    name = "help" if typed.name in ("", "?") else typed.name
    if name not in SLASH_COMMANDS:
        near = find_nearest(name, SLASH_COMMANDS)
        meant = f"; did you mean /{near}?" if near else "."
        raise InputError(
            f"unknown command /{name}{meant} /help lists the commands; to send a message that starts with /, type //"
        )
    return SLASH_COMMANDS[name]


async def allow_call(chat: ChatSession, rest: str) -> None:
    """List the calls that await approval; run the one named."""
    if rest:
        user, level, asks = chat.place.user, chat.found.clearance.level, chat.terminal.asks
        await chat.follow(await chat.gateway.allow_held(user, level, rest, asks=asks))
    else:
        await print_held_calls(chat)


async def deny_call(chat: ChatSession, rest: str) -> None:
    """List the calls that await approval; drop the one named."""
    if rest:
        held = await chat.gateway.held.deny(chat.place.user, chat.found.clearance.level, rest)
        chat.note(f"denied: {held.name}; nothing was done")
    else:
        await print_held_calls(chat)


async def print_held_calls(chat: ChatSession, *, if_none: str = "no calls await approval") -> None:
    """Show the calls of this person that await approval, each with the commands that allow and deny it."""
    held: Sequence[HeldCall] = await chat.gateway.held.list(chat.place.user, chat.found.clearance.level)
    for one in held:
        ways = f"/allow {one.id} runs it once, /deny {one.id} drops it"
        chat.note(f"awaiting approval: {clean_text(one.question)}\n{ways}")
    if not held and if_none:
        chat.note(if_none)


def open_chat_query(chat: ChatSession) -> log_commands.EventQuery:
    """Flush the log, and return the query context of this conversation."""
    recorder = chat.gateway.listeners.recorder
    if isinstance(recorder, EventLog):
        recorder.flush(LOG_FLUSH_TIMEOUT_S)
    return log_commands.make_event_query(chat.gateway.workspace, chat.assemble_bare().turn)


async def print_context(chat: ChatSession, rest: str) -> None:
    """Show the next prompt slot by slot (all: with absent slots), or the last one sent."""
    if rest == "last":
        if not chat.turn:
            raise InputError(f"{NO_TURNS_YET}; /context shows the next prompt")
        events = open_chat_query(chat)
        sent = events.run(lambda log: sent_prompts.find_prompts(log, events.reader, chat.turn))
        if not sent:
            raise InputError("no recorded prompt for the last turn")
        for prompt in sent:
            print_text(clean_text(prompt.explain()))
    elif rest not in ("", "all"):
        raise InputError("use /context or /context all for the next prompt, or /context last for the last one")
    else:
        assembly = await chat.preview_next()
        rows = list(assembly.rows(assembly.clearance.level))
        prompt_commands.print_explanation(chat.gateway.workspace, assembly, rows, "" if rest else "/context all")


async def print_why(chat: ChatSession, rest: str) -> None:
    """Explain a slot, or what the last turn did."""
    if rest:
        await explain_slot(chat, rest)
        return
    if not chat.turn:
        raise InputError(f"{NO_TURNS_YET}; /why SLOT explains a slot, and /context all lists the slots")
    reply = await chat.gateway.find(chat.turn)
    if reply and not reply.state.ended:
        print_text(clean_text(f"this message is {reply.state}: {describe_end(reply)}"))
    events = open_chat_query(chat)
    found = events.run(lambda log: query.find_turn_events(log, events.reader, chat.turn))
    for line in lines.explain_cache(found.records):
        print_text(clean_text(line))
    if found.records:
        log_commands.print_trace(found.records, events)
    else:
        print("no events recorded for the last turn")


async def explain_slot(chat: ChatSession, name: str) -> None:
    """Print the verdict of a slot and of each of its parts."""
    rows = list((await chat.preview_next()).rows())
    named = [row for row in rows if name in (row.id, row.id.partition(":")[0], row.id.partition(":")[2])]
    if not named:
        unknown = str(UnknownName("slot", name, [row.id for row in rows]))
        raise InputError(unknown if unknown.endswith("?") else f"{unknown}; /context all lists them")
    for row in named:
        source = f", from {row.source}" if row.source else ""
        reason = f"\n  {row.reason}" if row.reason else ""
        line = f"{row.id}: {row.verdict}, {show_tokens(row)} tokens, {row.pace}, needs {row.trust}{source}{reason}"
        print_text(clean_text(line))


async def print_chat_cost(chat: ChatSession, _: str) -> None:
    """Show the cost of this session and of today."""
    events, session = open_chat_query(chat), chat.session

    def find(log: Connection) -> tuple[totals.Spending | None, totals.Spending]:
        wanted = {"by": "session", "since": format_timestamp(session.created)} if session else None
        own = totals.find_spending(log, events.reader, wanted, events.now) if wanted else None
        return own, totals.find_spending(log, events.reader, {}, events.now)

    own, today = events.run(find)
    mine = [total for total in own.totals if session and total.name == session.id] if own else []
    print(f"this session: {totals.show_total(mine[0], 'day') if mine else NO_TURNS_YET}")
    log_commands.print_spending(today, events)


async def print_memory(chat: ChatSession, rest: str) -> None:
    """List memories, or search them."""
    assembly = memory_commands.give_memory_tools(chat.assemble_bare())
    name = "memory_search" if rest else "memory_list"
    answer = chat.gateway.workspace.call(assembly, name, {"query": rest} if rest else {})
    tracer = Tracer(chat.gateway.listeners.recorder, find_context(assembly))
    record_memory_event(tracer, name, answer)
    print_text(clean_text(answer.text))


async def print_tasks(chat: ChatSession, _: str) -> None:
    """List the tasks of this session."""
    tasks = await chat.gateway.sessions.list_tasks(chat.session.id) if chat.session else ()
    if not tasks:
        print("this session has no tasks")
    for task in tasks:
        print(clean_text(f"{STATUS_SIGNS.get(task.status, '·')} {task.title} ({task.status})"))
        for step in task.steps:
            print(clean_text(f"    {STATUS_SIGNS[step.status]} {step.text}"))


async def start_new_session(chat: ChatSession, _: str) -> None:
    """Start a new session."""
    await chat.begin()
    chat.note(await describe_session(chat))


async def print_sessions(chat: ChatSession, _: str) -> None:
    """List the sessions that can be resumed here."""
    rows = []
    for one in (await chat.list_sessions())[:MAX_LISTED_SESSIONS]:
        here = "this one" if chat.session and one.id == chat.session.id else ""
        times = (lines.show_time(moment, chat.zone) for moment in (one.created, one.used))
        rows.append((one.id[: lines.SHORT_ID_DIGITS], *times, "on" if one.plan else "", one.model, here))
    if rows:
        print_table(("session", "started", "used", "plan", "model", ""), rows)
    else:
        chat.note("no sessions yet")


async def resume_session(chat: ChatSession, rest: str) -> None:
    """Resume an earlier session."""
    if not rest:
        raise InputError(f"/resume needs an id; {SESSIONS_COMMAND_HINT}")
    await chat.resume(rest, SESSIONS_COMMAND_HINT)
    chat.note(await describe_session(chat))
    await chat.catch_up()


async def show_or_set_model(chat: ChatSession, rest: str) -> None:
    """Show or change this session's model; changing it retries queued messages."""
    retried = await chat.set_model(rest) if rest else 0
    chosen = chat.choose_model()
    chat.note(f"{chosen.model} ({chosen.reason})" if chosen.reason else chosen.model)
    if retried:
        chat.note(f"{count(retried, 'waiting message')} {'is' if retried == 1 else 'are'} being retried")


async def drop_messages(chat: ChatSession, rest: str) -> None:
    """Cancel a message that waits for its answer."""
    waiting = await chat.list_waiting()
    if not waiting:
        raise InputError("no message in this session waits for an answer")
    if rest == "all" or (not rest and len(waiting) == 1):
        chosen = waiting
    elif rest.isascii() and rest.isdigit() and 1 <= int(rest) <= len(waiting):
        chosen = [waiting[int(rest) - 1]]
    else:
        for number, one in enumerate(waiting, 1):
            chat.note(f"{number}  {shorten_message(one.asked)}")
        raise InputError(f"{count(len(waiting), 'message')} wait; use /drop NUMBER or /drop all")
    for one in chosen:
        dropped = await chat.gateway.stop(one.reply.turn)
        chat.note(f"{'dropped' if dropped else 'already answered'}: {shorten_message(one.asked)}")


async def run_plan_command(chat: ChatSession, rest: str) -> str | None:
    """Show plan mode and the stored plan; switch the mode, or run the plan."""
    if rest == "accept":
        accepted = await chat.accept_plan()
        chat.note(f"plan {accepted.id} accepted; plan mode is off")
        return read_prompt("chat/accepted")
    if rest not in ("", "on", "off"):
        raise InputError("use /plan, /plan on, /plan off or /plan accept")
    if rest:
        await chat.set_plan(on=rest == "on")
    session = chat.session
    on = bool(session and session.plan)
    how = "" if rest else f"; /plan {'off' if on else 'on'} switches it {'off' if on else 'on'}"
    chat.note(f"plan mode is {'on: the agent plans but does not act' if on else 'off'}{how}")
    for stored in list(await chat.gateway.sessions.list_plans(session.id))[:1] if session else ():
        how = "" if stored.state is PlanState.ACCEPTED else "; /plan accept runs it"
        chat.note(f"plan {stored.id}, {stored.state}{how}")
        chat.console.print(MarkdownText(stored.text))
    return None


async def reload_workspace(chat: ChatSession, _: str) -> None:
    """Reload the files of the workspace."""
    workspace, config = chat.gateway.workspace, chat.config
    restart = chat.gateway.reloading.look(now=True).restart
    changed = update_slot_hashes(chat)
    trusted = chat.found.clearance.level is Trust.FULL
    if fault := workspace.fault:
        many = f"{len(fault.faults)} faults:\n" if isinstance(fault, ConfigError) and len(fault.faults) > 1 else ""
        why = f": {many}{fault}" if trusted else " (/reload with full trust shows why)"
        raise InputError(f"the files are not valid; the previous configuration is used{why}")
    if workspace.config is not config:
        changed.insert(0, "foreword.yaml")
    chat.note(f"changed: {', '.join(changed)}" if changed else "no changes")
    if restart:
        chat.note(f"needs a restart: {', '.join(restart)}")
    if trusted:
        for path, problem in sorted(workspace.files.faults.items()):
            chat.note(f"{path} {problem.reason}; {PREVIOUS_IN_USE}")
        for path, problem in sorted(workspace.files.losses.items()):
            chat.note(f"{path} {problem.reason}; {explain_fallback(path, workspace.config)}")


def update_slot_hashes(chat: ChatSession) -> list[str]:
    """Record the current slots, and return the names of those that changed since the last call."""
    rows = (row for row in chat.assemble_bare().rows() if row.span and row.pace is not Pace.TURN)
    now = {row.id: row.sha256 for row in rows}
    before, chat.slot_hashes, chat.config = chat.slot_hashes, now, chat.gateway.workspace.config
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)] if before else []


async def quit_chat(_: ChatSession, __: str) -> None:
    """End the chat."""
    raise EOFError


async def show_help(_: ChatSession, __: str) -> None:
    """Show this list."""
    usages = {f"/{name} {one.arguments}".rstrip(): one.about for name, one in SLASH_COMMANDS.items()}
    width = max(map(len, usages))
    for usage, about in usages.items():
        print(f"{usage:{width}}  {about}")
    print("\nEnter sends, Alt-Enter adds a line, Ctrl-C stops an answer, Ctrl-D ends the chat.")


SLASH_COMMANDS = {
    "context": SlashCommand(print_context, "[all|last]"),
    "why": SlashCommand(print_why, "[SLOT]"),
    "cost": SlashCommand(print_chat_cost),
    "memory": SlashCommand(print_memory, "[WORDS]"),
    "tasks": SlashCommand(print_tasks),
    "plan": SlashCommand(run_plan_command, "[on|off|accept]"),
    "allow": SlashCommand(allow_call, "[ID]"),
    "deny": SlashCommand(deny_call, "[ID]"),
    "model": SlashCommand(show_or_set_model, "[NAME]"),
    "drop": SlashCommand(drop_messages, "[NUMBER|all]"),
    "new": SlashCommand(start_new_session),
    "sessions": SlashCommand(print_sessions),
    "resume": SlashCommand(resume_session, "ID"),
    "reload": SlashCommand(reload_workspace),
    "help": SlashCommand(show_help),
    "quit": SlashCommand(quit_chat),
}
