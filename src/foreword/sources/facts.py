"""Sources that put the facts of a session and of a moment into words."""

from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.document import one_line
from foreword.sources.registry import source
from foreword.sources.section import Item, Section, absent, tell
from foreword.sources.texts import round_tokens
from foreword.sources.view import SessionView, TurnView
from foreword.turn import Host, Sandbox, Task
from foreword.words import Pace

STORAGE = {"Files:": "files", "Instructions:": "instructions", "Memory:": "memory", "Schedules:": "schedule"}
# Not strftime's: those follow the locale of the process.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
SIGNS = {"active": "→", "open": "○", "done": "✓"}


@source("directories", Pace.SESSION)
def show_directories(view: SessionView, entry: Planned) -> Item:
    """Say where the agent may work."""
    directories = (*view.static.settings.directories, *view.directories)
    if not directories:
        return absent(entry, "the agent was given no directories")
    lines = [
        "You may work in these directories; look before you create something new.",
        *(f"- {one_line(d)}" for d in directories),
    ]
    return Section(entry=entry, text="\n".join(lines), origin="foreword.yaml")


@source("storage", Pace.SESSION)
def show_storage(view: SessionView, entry: Planned) -> Item:
    """Say where information belongs, naming only what the agent has."""
    kinds = {tool.kind for tool in view.static.tools.tools}
    lines = [
        line
        for line in read_builtin(entry.text).splitlines()
        if (label := line.partition(" ")[0]) in STORAGE and STORAGE[label] in kinds
    ]
    if not lines:
        return absent(entry, "the agent has no tool that keeps anything")
    return Section(entry=entry, text="\n".join(lines), origin=f"built-in {entry.text}")


@source("host", Pace.SESSION)
def show_host(view: SessionView, entry: Planned) -> Item:
    """Say on which machine the agent runs, how it is confined, and where its commands go."""
    lines = []
    if view.host:
        facts, client = view.static.meter.facts, view.client
        more = {
            "provider": facts.provider,
            "model": facts.name.rpartition(":")[2],
            "session": view.session,
            "timezone": view.zone,
            "language": client.language,
            "location": client.location,
        }
        lines.append(f"Host: {join_facts(view.host, more)}")
    if view.sandbox:
        lines.append(f"Sandbox(exec): {join_facts(view.sandbox, {})}")
        if any(tool.kind == "shell" for tool in view.static.tools.tools):
            lines.append(read_builtin("routing"))
    if not lines:
        return absent(entry, "no facts about the host were given")
    return Section(entry=entry, text="\n".join(lines), origin="host")


@source("time", Pace.TURN)
def tell_time(view: TurnView, entry: Planned) -> Item:
    """Tell the time to the minute, in the zone of whoever is asking."""
    text, note = spell_time(int(view.now.timestamp()) // 60, view.session.zone)
    return tell(entry, text, "clock", note)


@lru_cache(maxsize=4_096)
def spell_time(minute: int, name: str) -> tuple[str, str]:
    """Spell a minute out, and note a zone that is not known."""
    zone, note = find_zone(name)
    moment = datetime.fromtimestamp(minute * 60, zone)
    day = f"{DAYS[moment.weekday()]}, {moment.day} {MONTHS[moment.month - 1]} {moment.year}"
    return f"It is {day}, {moment.hour:02}:{moment.minute:02} ({zone.key}).", note


@source("environment", Pace.TURN)
def show_environment(view: TurnView, entry: Planned) -> Item:
    """Say which project is open, and in which state its repository is."""
    if not view.session.project:
        return absent(entry, "no project is open")
    lines = [f"Project: {one_line(view.session.project)}"]
    if view.git:
        changed = (
            f"{view.git.changed} changed file{'' if view.git.changed == 1 else 's'}" if view.git.changed else "clean"
        )
        commit = f", last commit {one_line(view.git.commit)}" if view.git.commit else ""
        lines.append(f"Git: branch {one_line(view.git.branch)}, {changed}{commit}")
    return Section(entry=entry, text="\n".join(lines), origin="project")


@source("plan", Pace.TURN)
def show_plan(view: TurnView, entry: Planned) -> Item:
    """Say what plan mode means, while it is on."""
    if not view.plan:
        return absent(entry, "plan mode is off")
    return Section(entry=entry, text=read_builtin("plan"), origin="built-in plan")


@source("task", Pace.TURN)
def show_task(view: TurnView, entry: Planned) -> Item:
    """Show the task that the session is bound to, with its steps."""
    if view.task is None:
        return absent(entry, "no task is bound")
    return Section(entry=entry, text="\n".join(describe_task(view.task)), origin=f"task {view.task.id}")


@source("background", Pace.TURN)
def show_background(view: TurnView, entry: Planned) -> Item:
    """Say what happens with the reply when nobody is waiting for it."""
    if view.background is None:
        return absent(entry, "somebody is waiting for the reply")
    text = read_builtin(f"background/{view.background}")
    if view.background.value == "never" and "notify_user" in view.static.tools:
        text += "\n" + read_builtin("background/notify")
    return Section(entry=entry, text=text, origin=f"built-in background/{view.background}")


@source("remaining", Pace.TURN)
def show_remaining(view: TurnView, entry: Planned) -> Item:
    """Say how much of the model's window is left for memory and work."""
    return tell(entry, f"Remaining budget: {round_tokens(view.remaining)} tokens.", "budget")


@source("runtime", Pace.TURN)
def show_runtime(view: TurnView, entry: Planned) -> Item:
    """Tell the moment, the model and the channel in a few lines."""
    zone, note = find_zone(view.session.zone)
    moment = view.now.astimezone(zone)
    lines = [
        f"Date: {DAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M} ({zone.key})",
        f"Model: {view.static.meter.facts.name or 'not named'}",
        f"Channel: {one_line(view.session.channel)}",
    ]
    return Section(entry=entry, text="\n".join(lines), origin="clock", note=note)


def find_zone(name: str) -> tuple[ZoneInfo, str]:
    """Return the zone of this name, or UTC and a note that it is not known."""
    try:
        return ZoneInfo(name or "UTC"), ""
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC"), f"time zone {name!r} is not known, so UTC is used"


def describe_task(task: Task) -> list[str]:
    """Put a task and its steps into lines."""
    lines = [
        f"You are working on task #{one_line(task.id)}. Stay with it until it has moved on.",
        f"Title: {one_line(task.title)}",
    ]
    if task.description:
        lines.append(f"Description: {one_line(task.description)}")
    lines.append(f"Status: {one_line(task.status)}")
    if task.steps:
        lines.append("Steps:")
    for number, step in enumerate(task.steps, 1):
        done = " (done)" if step.status == "done" else ""
        lines.append(f"{number}. {SIGNS[step.status]} {one_line(step.text)}{done}")
    return lines


def join_facts(facts: Host | Sandbox, more: dict[str, str]) -> str:
    """Join the facts that are known as key=value, in the order of their fields."""
    known = {field.name: getattr(facts, field.name) for field in fields(facts)} | more
    shown = {
        name: str(value).lower() if isinstance(value, bool) else one_line(str(value))
        for name, value in known.items()
        if value not in ("", None)
    }
    return " | ".join(f"{name}={value.replace('|', '/')}" for name, value in shown.items())
