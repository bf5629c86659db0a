"""The least clearance of any file, by its path: for links, for hooks, and for what the configuration lists."""

import re
from functools import cache

from foreword.blueprint.slot import SKILLS, Blueprint, Slot
from foreword.config.load import is_hidden
from foreword.config.schema import Config
from foreword.words import Trust

NAME = re.compile(r"\\\{\w+\\\}")
OTHERS = "users"  # the folder of what belongs to one person each
PARTICULAR = ("{group}", "{user}")  # a place with such a name is some people's, and only its own slot knows whose


class FileGuard:
    """Knows what a file needs that is reached by another name than its own."""

    def __init__(self, blueprint: Blueprint, config: Config) -> None:
        self.blueprint = blueprint
        self.listed = {entry.path: entry.trust for entry in config.prompt.files}
        self._owner = config.owner
        self._stores = config.stores
        self._overlays = {situation.prompt_overlay for situation in config.situations.values()}
        self._slots = [slot for slot in blueprint.slots if not slot.per_user and is_shared(slot)]
        own = [slot.file for slot in blueprint.slots if slot.per_user and slot.file]
        self._own = [open_names(file) for file in own]
        self._own += [open_names(entry.path) for entry in config.prompt.files if entry.per_user]

    def find_person(self, path: str) -> str:
        """Return whose own file a path is, or nothing; each person's slot finds it beneath their name."""
        top, _, rest = path.partition("/")
        if top == OTHERS:
            return rest.partition("/")[0]
        return self._owner if any(own.fullmatch(path) for own in self._own) else ""

    def may_lead(self, path: str, target: str) -> bool:
        """Whether a link may lead to a file: nobody's own file is reached from a place that is not theirs."""
        person = self.find_person(target)
        return not person or person == self.find_person(path)

    def find_least(self, path: str) -> Trust:
        """Return the least clearance that may see a file; what nothing lists, or is one person's, is for `full`."""
        if is_hidden(path) or self.find_person(path):
            return Trust.FULL
        if path in self.listed:
            return self.listed[path]
        if path in self._overlays:
            return Trust.PUBLIC
        top, _, rest = path.partition("/")
        if top == "memory":
            store = self._stores.get(rest.partition("/")[0]) if path.endswith(".md") else None
            return store.trust if store else Trust.FULL
        if top == "agents":
            return self.find_least(rest.partition("/")[2]) if rest.count("/") else Trust.FULL
        files = [slot for slot in self._slots if slot.file and open_names(slot.file).fullmatch(path)]
        folders = [slot for slot in self._slots if slot.folder and lists(slot, path)]
        matches = [*(slot.file_least for slot in files), *(slot.trust for slot in folders)]
        return max(matches, default=Trust.FULL)


def is_shared(slot: Slot) -> bool:
    """Whether the place of a slot is the same for everybody who may see it; the overlay has a rule of its own."""
    place = slot.file or slot.folder
    return place != "{overlay}" and not any(name in place for name in PARTICULAR)


def lists(slot: Slot, path: str) -> bool:
    """Whether the source of a slot would find a file in its folder."""
    last = "/SKILL.md" if slot.source == SKILLS else ".md"
    return path.endswith(last) and open_names(f"{slot.folder}/").match(path) is not None


@cache
def open_names(template: str) -> re.Pattern[str]:
    """Let every name in a template stand for any name."""
    return re.compile(NAME.sub("[^/]+", re.escape(template)))
