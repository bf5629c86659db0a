"""The layout of one blueprint: how a section looks, heading, body and separator."""

import re
from collections.abc import Iterable

from foreword.blueprint import Blueprint, Slot
from foreword.blueprint.slot import Rendering, Voice
from foreword.frozen import frozen
from foreword.render.escape import Guard
from foreword.sources import Section
from foreword.sources.document import escape_attribute
from foreword.tokens import Meter
from foreword.words import Trust

INDENT = "  "  # of one of several elements in another
UPDATES = "Prompt Updates"  # the heading over what is said about the prompt in the course of a conversation


@frozen(eq=True)
class Place:
    """Whether a section is the first or the last of those who share a heading or a tag."""

    opens_group: bool = True
    opens_slot: bool = True
    closes_slot: bool = True
    ends: bool = True
    """Whether a separator follows; not where the same template goes on."""

    @property
    def opens(self) -> bool:
        """Whether it shows every heading that it has."""
        return self.opens_group and self.opens_slot


ALONE = Place()


class Layout:
    """Renders single sections, and weighs them as they will be rendered."""

    def __init__(self, blueprint: Blueprint, meter: Meter, listed: Iterable[str] = ()) -> None:
        menus = [f"Available Memory (trust: {level})" for level in Trust]
        own = [title for slot in blueprint.slots for title in (slot.title, slot.group)]
        titles = [*own, *menus, UPDATES, *listed]
        tags = [*map(make_tag, blueprint.slots), *(slot.item for slot in blueprint.slots), squeeze(UPDATES)]
        self.separator = blueprint.separator
        self._xml = blueprint.rendering is Rendering.XML
        self._plain = blueprint.rendering is Rendering.PLAIN
        self._guard = Guard(blueprint.rendering, filter(None, tags) if self._xml else titles)
        self.meter = meter

    def weigh(self, section: Section, body: str) -> int:
        """Return the tokens that this body of a section takes in the prompt."""
        return self.meter.count(self.draw(section, body))

    def draw(self, section: Section, body: str, place: Place = ALONE) -> str:
        """Render a section in its place: headings and tags belong to the first and the last of those who share them."""
        slot = section.slot
        text = self._guard.escape(
            section.before + body + section.after, Voice.OUTSIDE if section.outside else slot.voice
        )
        separator = self.separator if place.ends else ""
        if self._xml:
            return self._enclose(section, text, place)
        if self._plain:
            return (f"{section.title}\n" if section.title and section.opens else "") + text + separator
        return self._head(section, place) + text + separator

    def name(self, title: str) -> str:
        """Write a title where it is spoken of, in one line and without a tag of ours."""
        return self._guard.escape_tags(" ".join(title.split()))

    def announce(self, text: str) -> str:
        """Put what is said about the prompt under its own heading or tag; the sections in it are drawn already."""
        if self._xml:
            return f"<{squeeze(UPDATES)}>\n{text.rstrip()}\n</{squeeze(UPDATES)}>"
        return f"{'' if self._plain else '## '}{UPDATES}\n{text.rstrip()}"

    def _head(self, section: Section, place: Place) -> str:
        """Write the headings of a section, from those it shares down to its own."""
        slot = section.slot
        if not section.opens:
            return ""
        title = self._guard.escape_tags(section.title)
        heads = [slot.group if place.opens_group else "", slot.title if place.opens_slot else "", title]
        # A level counts wherever somebody has a heading there, not only for the one who shows it.
        levels = [bool(slot.group), bool(slot.title), bool(section.title)]
        return "".join(f"{'#' * (2 + sum(levels[:level]))} {head}\n" for level, head in enumerate(heads) if head)

    def _enclose(self, section: Section, text: str, place: Place) -> str:
        """Put a section between its tags; of several in one element, each has an element of its own inside."""
        slot = section.slot
        tag = make_tag(slot)
        if not slot.item:
            name = f' name="{escape_attribute(section.title)}"' if section.title else ""
            return f"<{tag}{name}>\n{text}\n</{tag}>{self.separator}"
        opening = f"<{tag}>\n" if place.opens_slot else ""
        closing = f"</{tag}>{self.separator}" if place.closes_slot else ""
        inner = "\n".join(f"{INDENT * 2}{line}".rstrip() for line in text.split("\n"))
        item = f'{INDENT}<{slot.item} title="{escape_attribute(section.title)}">\n{inner}\n{INDENT}</{slot.item}>\n'
        return f"{opening}{item}{closing}"


def make_tag(slot: Slot) -> str:
    """Make a tag of a slot's title, or of its name where it has none."""
    return squeeze(slot.title or slot.id.title())


def squeeze(title: str) -> str:
    """Make one word of a title."""
    return "".join(part for part in re.split(r"\W+", title) if part)
