"""Groups that became supergroups: Telegram gives them new ids, and they stay the rooms that they were.

Anybody who runs a group can have it moved. Were the new id a new place, the ceiling that the owner gave the room would
be gone with the old one.
"""

import json
import os

from foreword.errors import InputError

FILE = "telegram.json"


class Moves:
    """Old and new ids, kept in a file."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._new: dict[int, int] = {}
        if path and os.path.exists(path):
            try:
                with open(path, encoding="utf-8") as file:
                    self._new = {int(old): int(new) for old, new in json.load(file)["moved"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{path} says which groups have moved, and cannot be read ({error}); mend it, or delete it and "
                    "give those groups their new ids under rooms in foreword.yaml"
                ) from None
        self._old = {new: old for old, new in self._new.items()}

    def add(self, old: int, new: int) -> bool:
        """Keep a move; return whether it was news."""
        if self._new.get(old) == new or self.find_first(old) == new:
            return False
        moved = self._new | {old: new}
        if self._path:
            beside = f"{self._path}.new"
            with open(beside, "w", encoding="utf-8") as file:
                json.dump({"moved": {str(one): other for one, other in moved.items()}}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        self._new, self._old[new] = moved, old  # what could not be written is news when it is heard again
        return True

    def find_last(self, chat: int) -> int:
        """Find the id under which a chat is reached now."""
        while chat in self._new:
            chat = self._new[chat]
        return chat

    def find_first(self, chat: int) -> int:
        """Find the id under which a chat was first known."""
        while chat in self._old:
            chat = self._old[chat]
        return chat
