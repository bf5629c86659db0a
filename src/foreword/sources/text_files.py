"""Files held in memory: the texts of a turn that has no workspace folder."""

import os
from collections.abc import Iterable, Mapping

from foreword.sources.document import Document, Trouble, parse_document

NO_TEXTS: Mapping[str, str] = {}


class TextFiles:
    """Texts by their paths, with the methods of `Files`; the disk is never read.

    Paths are relative to the workspace. An absolute path is a file of a project.
    """

    root = below = ""
    generation = 0

    def __init__(self, texts: Mapping[str, str] = NO_TEXTS) -> None:
        self._texts = texts

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, or None."""
        text = self._texts.get(path)
        return None if text is None else parse_document(path, text)

    def read_text(self, path: str) -> str | Trouble | None:
        """Return the text at a path, or None."""
        return self._texts.get(path)

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, or those of one name."""
        below = [path for path in self._texts if folder and path.startswith(f"{folder}/")]
        wanted = [path for path in below if (os.path.basename(path) == name if name else path.endswith(".md"))]
        return tuple(sorted(wanted))

    def find(self, _path: str, _name: str | None = None) -> object:
        """Return the mark of a text, which is always the same: texts held in memory do not change."""
        return None

    def has(self, path: str) -> bool:
        """Whether there is a text at a path."""
        return path in self._texts

    def has_folder(self, place: str) -> bool:
        """Whether a project's folder, by its absolute path, holds a text."""
        return any(path.startswith(os.path.join(place, "")) for path in self._texts)

    def find_target(self, path: str) -> str:
        """Return the path itself: there are no links."""
        return path

    def stamp(self, _path: str) -> str:
        """Return an empty stamp: nothing changes here."""
        return ""

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Return an empty stamp for each path."""
        return dict.fromkeys(paths, "")

    def watch_link(self, path: str) -> None:
        """Do nothing: there are no links."""

    def visit(self, folder: str) -> "TextFiles":
        """Return the texts of another folder, by its absolute path."""
        below = os.path.join(folder, "")
        return TextFiles(
            {path.removeprefix(below): self._texts[path] for path in self._texts if path.startswith(below)}
        )

    def refresh(self, *, now: bool = False) -> int:  # noqa: ARG002 - it has the shape of files
        """Return the generation, which is always the same."""
        return self.generation
