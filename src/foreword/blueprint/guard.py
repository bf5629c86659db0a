"""The least clearance of any file, by its path: for links, and for what the configuration lists."""

import re
from functools import cache

from foreword.blueprint.slot import Blueprint
from foreword.config.schema import Config
from foreword.words import Trust

NAME = re.compile(r"\\\{\w+\\\}")


class FileGuard:
    """Knows what a file needs that is reached by another name than its own."""

    def __init__(self, blueprint: Blueprint, config: Config) -> None:
        self.blueprint = blueprint
        self.listed = {entry.path: entry.trust for entry in config.prompt.files}
        self._stores = config.stores
        self._overlays = {situation.prompt_overlay for situation in config.situations.values()}
        self._slots = [slot for slot in blueprint.slots if not slot.per_user and slot.file != "{overlay}"]

    def find_least(self, path: str) -> Trust:
        """Return the least clearance that may see a file; what nothing lists is for `full`."""
        if path in self.listed:
            return self.listed[path]
        if path in self._overlays:
            return Trust.PUBLIC
        top, _, rest = path.partition("/")
        if top == "memory":
            store = self._stores.get(rest.partition("/")[0])
            return store.trust if store else Trust.FULL
        if top == "agents":
            return self.find_least(rest.partition("/")[2]) if rest.count("/") else Trust.FULL
        files = [slot for slot in self._slots if slot.file and open_names(slot.file).fullmatch(path)]
        folders = [slot for slot in self._slots if slot.folder and open_names(f"{slot.folder}/").match(path)]
        matches = [*(slot.file_least for slot in files), *(slot.trust for slot in folders)]
        return max(matches, default=Trust.FULL)


@cache
def open_names(template: str) -> re.Pattern[str]:
    """Let every name in a template stand for any name."""
    return re.compile(NAME.sub("[^/]+", re.escape(template)))
