"""Commands that steer: the session, its model, and what is read from the disk."""

from foreword.cli.chat.greeting import SHORT, show_model, tell_session
from foreword.cli.chat.later import shorten
from foreword.cli.chat.page import Page
from foreword.cli.chat.talk import Talk
from foreword.cli.output import count
from foreword.errors import ConfigError, InputError
from foreword.events.reloads import STILL, tell_instead
from foreword.sources.builtin import read_prompt
from foreword.store.plans import PlanState
from foreword.words import Pace, Trust
from foreword.workspace import Workspace

SHOWN = 10  # sessions of one list
LISTED = "/sessions lists them"


async def begin_anew(talk: Talk, _: str) -> str:
    """Begin a new session; the old one can be resumed."""
    await talk.begin()
    talk.note(await tell_session(talk))
    return ""


async def show_sessions(talk: Talk, _: str) -> str:
    """List the sessions that this conversation could go on with."""
    from foreword.cli.table import draw, find_width, make_table
    from foreword.events.line import show_time

    zone = talk.zone
    table = make_table("session", "begun", "used", "plan", "model", "")
    for one in (await talk.list_sessions())[:SHOWN]:
        here = "this one" if talk.session and one.id == talk.session.id else ""
        begun, used = show_time(one.created, zone), show_time(one.used, zone)
        table.add_row(one.id[:SHORT], begun, used, "on" if one.plan else "", one.model, here)
    if table.rows:
        draw(table, find_width())
    else:
        talk.note("there is no session yet")
    return ""


async def resume(talk: Talk, rest: str) -> str:
    """Go on with an earlier session."""
    if not rest:
        raise InputError(f"write /resume ID; {LISTED}")
    await talk.resume(rest, LISTED)
    talk.note(await tell_session(talk))
    await talk.catch_up()
    return ""


async def choose_model(talk: Talk, rest: str) -> str:
    """Show the model, or switch to another one for this session, which retries the messages that wait."""
    retried = await talk.set_model(rest) if rest else 0
    talk.note(show_model(talk))
    if retried:
        talk.note(f"{count(retried, 'waiting message')} {'is' if retried == 1 else 'are'} tried again now")
    return ""


async def drop(talk: Talk, rest: str) -> str:
    """Give up a message that waits for its answer: the only one, one by its number, or all."""
    waiting = await talk.list_waiting()
    if not waiting:
        raise InputError("no message of this session waits for an answer")
    if rest == "all" or (not rest and len(waiting) == 1):
        chosen = waiting
    elif rest.isascii() and rest.isdigit() and 1 <= int(rest) <= len(waiting):
        chosen = [waiting[int(rest) - 1]]
    else:
        for number, one in enumerate(waiting, 1):
            talk.note(f"{number}  {shorten(one.asked)}")
        raise InputError(f"{count(len(waiting), 'message')} wait; write /drop NUMBER or /drop all")
    for one in chosen:
        dropped = await talk.gateway.stop(one.reply.turn)
        talk.note(f"dropped: {shorten(one.asked)}" if dropped else f"answered already: {shorten(one.asked)}")
    return ""


async def plan(talk: Talk, rest: str) -> str:
    """Show plan mode and the stored plan, switch it on or off, or accept the plan and have it done."""
    if rest == "accept":
        accepted = await talk.accept_plan()
        talk.note(f"plan {accepted.id} is accepted, and plan mode is off")
        return read_prompt("chat/accepted")
    if rest not in ("", "on", "off"):
        raise InputError("write /plan, /plan on, /plan off or /plan accept")
    if rest:
        await talk.set_plan(on=rest == "on")
    session = talk.session
    on = bool(session and session.plan)
    how = "" if rest else f"; /plan {'off' if on else 'on'} switches it {'off' if on else 'on'}"
    talk.note(f"plan mode is {'on: the agent plans and does nothing' if on else 'off'}{how}")
    for stored in list(await talk.gateway.sessions.list_plans(session.id))[:1] if session else ():
        how = "" if stored.state is PlanState.ACCEPTED else "; /plan accept runs it"
        talk.note(f"plan {stored.id}, {stored.state}{how}")
        talk.console.print(Page(stored.text))
    return ""


async def reload(talk: Talk, _: str) -> str:
    """Read the workspace now, and say what changed in what the agent is told, or what is wrong."""
    workspace = talk.gateway.workspace
    config = talk.config
    restart = talk.gateway.reloading.look(now=True).restart
    changed = note_slots(talk)
    if (fault := workspace.fault) and talk.found.clearance.level is not Trust.FULL:
        raise InputError("what is on the disk is not valid, so the old configuration is used; /reload at full says why")
    if fault:
        many = f"{len(fault.faults)} faults:\n" if isinstance(fault, ConfigError) and len(fault.faults) > 1 else ""
        raise InputError(f"what is on the disk is not valid, so the old configuration is used: {many}{fault}")
    if workspace.config is not config:
        changed.insert(0, "foreword.yaml")
    talk.note(f"changed: {', '.join(changed)}" if changed else "nothing has changed")
    if restart:
        talk.note(f"needs a restart: {', '.join(restart)}")
    if talk.found.clearance.level is Trust.FULL:
        for line in tell_spoiled(workspace):
            talk.note(line)
    return ""


def tell_spoiled(workspace: Workspace) -> list[str]:
    """Say which files cannot be used, and what is used instead."""
    files, config = workspace.files, workspace.config
    held = [f"{path} {trouble.reason}; {STILL}" for path, trouble in sorted(files.faults.items())]
    lost = sorted(files.losses.items())
    return [*held, *(f"{path} {trouble.reason}; {tell_instead(path, config)}" for path, trouble in lost)]


def note_slots(talk: Talk) -> list[str]:
    """Note what the slots are made of now, and name those that differ from the last time."""
    rows = (row for row in talk.look().rows() if row.span and row.pace is not Pace.TURN)
    now = {row.id: row.sha256 for row in rows}
    before, talk.seen, talk.config = talk.seen, now, talk.gateway.workspace.config
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)] if before else []


async def leave(_: Talk, __: str) -> str:
    """End the chat."""
    raise EOFError
