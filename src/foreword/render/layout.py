"""The layout of one blueprint: how a section looks, heading, body and separator."""

import re
from collections.abc import Iterable

from foreword.blueprint import Blueprint, Slot
from foreword.blueprint.slot import Rendering, Voice
from foreword.render.escape import Guard
from foreword.sources import Section
from foreword.sources.document import escape_attribute, normalise
from foreword.tokens import Meter
from foreword.words import Trust

SEPARATOR = "\n\n"


class Layout:
    """Renders single sections, and weighs them as they will be rendered."""

    def __init__(self, blueprint: Blueprint, meter: Meter, listed: Iterable[str] = ()) -> None:
        menus = [f"Available Memory (trust: {level})" for level in Trust]
        titles = [*(slot.title for slot in blueprint.slots), *menus, *listed]
        tags = [make_tag(slot) for slot in blueprint.slots]
        self._xml = blueprint.rendering is Rendering.XML
        self._plain = blueprint.rendering is Rendering.PLAIN
        self._guard = Guard(blueprint.rendering, tags if self._xml else titles)
        self.meter = meter

    def weigh(self, section: Section, body: str) -> int:
        """Return the tokens that this body of a section takes in the prompt."""
        return self.meter.count(self.draw(section, body))

    def guard(self, message: str) -> str:
        """Keep a person's own words from looking like one of our sections; the rest of their Markdown stays."""
        if message.isprintable() and "<" not in message and "#" not in message:
            return message
        return self._guard.escape(normalise(message), Voice.OWNER)

    def draw(self, section: Section, body: str, *, opens: bool = True) -> str:
        """Render a section; `opens` says whether it is the first of its slot and carries the slot's heading."""
        slot = section.slot
        text = self._guard.escape(body, slot.voice)
        if self._plain:
            return (f"{section.title}\n" if section.title else "") + text + SEPARATOR
        if self._xml:
            tag = make_tag(slot)
            name = f' name="{escape_attribute(section.title)}"' if section.title else ""
            return f"<{tag}{name}>\n{text}\n</{tag}>{SEPARATOR}"
        heading = f"## {slot.title}\n" if slot.title and opens else ""
        if section.title:
            heading += f"{'###' if slot.title else '##'} {section.title}\n"
        return heading + text + SEPARATOR


def make_tag(slot: Slot) -> str:
    """Make a tag of a slot's title, or of its name where it has none."""
    return "".join(part for part in re.split(r"\W+", slot.title or slot.id.title()) if part)
