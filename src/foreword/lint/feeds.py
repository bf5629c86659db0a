"""Feeds: which slots may read which files."""

import re
from collections.abc import Iterable, Iterator, Mapping

from foreword.blueprint import Blueprint, Slot
from foreword.blueprint.slot import LISTED, SKILLS
from foreword.config.schema import Config
from foreword.frozen import frozen


@frozen(eq=True)
class Feed:
    """A slot that a file is read for, and the agent whose prompt that slot is in."""

    agent: str
    blueprint: Blueprint
    slot: Slot


def find_feeds(
    config: Config, blueprints: Mapping[str, Blueprint], names: Iterable[str]
) -> Mapping[str, tuple[Feed, ...]]:
    """Find for every file the slots that may read it."""
    feeds: dict[str, list[Feed]] = {}
    for agent, blueprint in blueprints.items():
        for slot, pattern in find_patterns(agent, blueprint, config):
            fits = re.compile(pattern).fullmatch
            for name in filter(fits, names):
                feeds.setdefault(name, []).append(Feed(agent=agent, blueprint=blueprint, slot=slot))
    return {name: tuple(found) for name, found in feeds.items()}


def find_patterns(agent: str, blueprint: Blueprint, config: Config) -> Iterator[tuple[Slot, str]]:
    """Say for every slot which paths it may read, as a pattern."""
    listed = {entry.path: entry for entry in config.prompt.files}
    per_user = {slot.file: slot.per_user for slot in blueprint.slots if slot.file}
    for slot in blueprint.slots:
        if slot.source == LISTED:
            for path, entry in listed.items():
                if path not in per_user or per_user[path] < entry.per_user:
                    yield slot, spell(re.escape(path), agent, per_user=entry.per_user)
        elif slot.file:
            yield slot, spell(open_template(slot.file, config), agent, per_user=slot.per_user)
        elif slot.folder:
            last = "SKILL" if slot.source == SKILLS else ""
            yield slot, rf"{open_template(slot.folder, config)}/.*{last}\.md"


def spell(path: str, agent: str, *, per_user: bool) -> str:
    """Spell the places where a file may lie, as the selection of slots looks for it."""
    return f"(?:users/[^/]+/)?{path}" if per_user else f"(?:agents/{re.escape(agent)}/)?{path}"


def open_template(template: str, config: Config) -> str:
    """Let every name in a template stand for all the names it could be."""
    overlays = [re.escape(each.prompt_overlay) for each in config.situations.values() if each.prompt_overlay]
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template.replace("{overlay}", "\0")))
    return pattern.replace(re.escape("\0"), f"(?:{'|'.join(overlays) or '(?!)'})")
