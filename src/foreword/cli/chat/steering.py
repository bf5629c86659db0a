"""Commands that steer: the session, its model, and what is read from the disk."""

from foreword.cli.chat.greeting import SHORT, show_model, tell_session
from foreword.cli.chat.page import Page
from foreword.cli.chat.talk import Talk
from foreword.errors import ConfigError, InputError
from foreword.sources.builtin import read_prompt
from foreword.words import Pace, Trust

SHOWN = 10  # sessions of one list


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
        raise InputError("write /resume ID; /sessions lists them")
    await talk.resume(rest)
    talk.note(await tell_session(talk))
    await talk.catch_up()
    return ""


async def choose_model(talk: Talk, rest: str) -> str:
    """Show the model, or switch to another one for this session."""
    if rest:
        await talk.set_model(rest)
    talk.note(show_model(talk))
    return ""


async def plan(talk: Talk, rest: str) -> str:
    """Turn plan mode on or off and show the plan that is stored, or have it done."""
    if rest == "accept":
        accepted = await talk.accept_plan()
        talk.note(f"plan {accepted.id} is accepted, and plan mode is off")
        return read_prompt("chat/accepted")
    if rest not in ("", "on", "off"):
        raise InputError("write /plan, /plan on, /plan off or /plan accept")
    on = rest == "on" if rest else not (talk.session and talk.session.plan)
    await talk.set_plan(on=on)
    talk.note("plan mode is on: the agent plans and does nothing" if on else "plan mode is off")
    session = await talk.hold()
    for stored in list(await talk.gateway.sessions.list_plans(session.id))[:1]:
        talk.note(f"plan {stored.id}, {stored.state}; /plan accept has it done")
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
    return ""


def note_slots(talk: Talk) -> list[str]:
    """Note what the slots are made of now, and name those that differ from the last time."""
    rows = (row for row in talk.look().rows() if row.span and row.pace is not Pace.TURN)
    now = {row.id: row.sha256 for row in rows}
    before, talk.seen, talk.config = talk.seen, now, talk.gateway.workspace.config
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)] if before else []


async def leave(_: Talk, __: str) -> str:
    """End the chat."""
    raise EOFError
