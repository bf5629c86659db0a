"""Files as they would be: some have another text, or none; the disk is only read."""

import os
from collections.abc import Mapping

from foreword.sources.document import Trouble
from foreword.sources.files import Files, Seen


class Supposed(Files):
    """The files below a root, but for those that are supposed to be otherwise, by the place where each lies."""

    def __init__(self, root: str, texts: Mapping[str, str | None]) -> None:
        super().__init__(root)
        self._texts = texts

    def has(self, path: str) -> bool:
        """Whether a file is there, or is supposed to be."""
        place = os.path.realpath(os.path.join(self.root, path))
        return self._texts[place] is not None if place in self._texts else super().has(path)

    def visit(self, folder: str) -> Files:
        """Return the files of another folder, under the same supposition."""
        with self._lock:
            return self._visited.setdefault(folder, Supposed(folder, self._texts))

    def _read(self, path: str) -> Seen[str | Trouble | None]:
        place = os.path.realpath(self.locate(path)) if "\0" not in path else ""
        if place not in self._texts or not self._holds(place):
            return super()._read(path)
        return Seen(self._sign(path), self._texts[place], place=place)

    def _list(self, folder: str, name: str) -> Seen[tuple[str, ...]]:
        seen = super()._list(folder, name)
        base = os.path.join(self.root, folder, "")
        found = {path for path in seen.value if self._texts.get(os.path.realpath(self.locate(path)), "") is not None}
        for place, text in self._texts.items():
            file = os.path.basename(place)
            if text is not None and place.startswith(base) and (file == name if name else file.endswith(".md")):
                found.add(os.path.relpath(place, self.root).replace(os.sep, "/"))
        return Seen(seen.signature, tuple(sorted(found)), folders=seen.folders)


def suppose(root: str, texts: Mapping[str, str | None]) -> Supposed:
    """Suppose that files of a workspace, by their paths in it, have other texts; a link stands for where it leads."""
    return Supposed(root, {os.path.realpath(os.path.join(root, path)): text for path, text in texts.items()})
