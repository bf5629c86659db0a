"""Sources of what a run is for: its delivery, where things belong, and what the agent has taken on."""

from collections.abc import Container

from foreword.blueprint import Planned
from foreword.config.schema import Responsibility
from foreword.sources.builtin import read_builtin
from foreword.sources.character import KNOWN_FROM
from foreword.sources.document import normalise, one_line
from foreword.sources.registry import source
from foreword.sources.section import STORE, Item, Missing, Section, absent
from foreword.sources.view import SessionView, StaticView, TurnView
from foreword.words import Pace

STORAGE = {"Files:": "files", "Instructions:": "instructions", "Memory:": "memory", "Schedules:": "schedule"}


@source("responsibilities", Pace.STATIC)
def list_responsibilities(view: StaticView, entry: Planned) -> tuple[Item, ...] | Item:
    """Give what the agent has taken on, each under its title."""
    items: list[Item] = []
    for one in view.settings.responsibilities:
        title = one_line(one.title)
        if text := normalise(one.content).strip():
            items.append(Section(entry=entry, name=title, title=title, text=text, origin="foreword.yaml"))
        else:
            items.append(Missing(entry=entry, name=title, reason="its content is blank"))
    if view.clearance >= KNOWN_FROM:
        given = {item.name.casefold() for item in items}
        items += [show_taken(entry, given, one, at) for at, one in enumerate(view.kept.responsibilities, 1)]
    return tuple(items) or absent(entry, "the agent has taken on nothing in particular")


def show_taken(entry: Planned, given: Container[str], one: Responsibility, number: int) -> Item:
    """Show what an agent has taken on while it runs; what the configuration says under the same title counts.

    It is numbered: its title is somebody's words, and ids go into logs and sums.
    """
    name = f"taken-on-{number}"
    if one.title.casefold() in given:
        return Missing(entry=entry, name=name, reason="the configuration has a responsibility of the same title")
    return Section(entry=entry, name=name, title=one.title, text=one.content, origin=STORE, outside=True)


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


@source("background", Pace.TURN)
def show_background(view: TurnView, entry: Planned) -> Item:
    """Say what happens with the reply when nobody is waiting for it."""
    if view.background is None:
        return absent(entry, "somebody is waiting for the reply")
    text = read_builtin(f"background/{view.background}")
    if view.background.value == "never" and "notify_user" in view.static.tools:
        text += "\n" + read_builtin("background/notify")
    return Section(entry=entry, text=text, origin=f"built-in background/{view.background}")
