"""The least clearance of any file, by its path: for links, and for what the configuration lists."""

import re

from foreword.blueprint import Blueprint
from foreword.config.schema import Config
from foreword.words import Trust

NAME = re.compile(r"\\\{\w+\\\}")


class FileGuard:
    """Knows what a file needs that is reached by another name than its own."""

    def __init__(self, blueprint: Blueprint, config: Config) -> None:
        self.listed = {entry.path: entry.trust for entry in config.prompt.files}
        self._stores = config.stores
        self._overlays = {situation.prompt_overlay for situation in config.situations.values()}
        slots = [slot for slot in blueprint.slots if not slot.per_user and slot.file != "{overlay}"]
        self._files = [(open_names(slot.file), slot.file_trust or slot.trust) for slot in slots if slot.file]
        self._folders = [(open_names(slot.folder + "/"), slot.trust) for slot in slots if slot.folder]

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
        matches = [trust for pattern, trust in self._files if pattern.fullmatch(path)]
        matches += [trust for pattern, trust in self._folders if pattern.match(path)]
        return max(matches, default=Trust.FULL)


def open_names(template: str) -> re.Pattern[str]:
    """Let every name in a template stand for any name."""
    return re.compile(NAME.sub("[^/]+", re.escape(template)))
