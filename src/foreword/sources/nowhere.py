"""Nowhere: the files of a turn that has no workspace."""

from collections.abc import Iterable

from foreword.sources.document import Document, Trouble


class Nowhere:
    """A place without files; everything looked for in it is absent."""

    root = below = ""
    generation = 0

    def read(self, _path: str) -> Document | Trouble | None:
        """Return that there is no such document."""
        return None

    def read_text(self, _path: str) -> str | Trouble | None:
        """Return that there is no such text."""
        return None

    def list(self, _folder: str, _name: str = "") -> tuple[str, ...]:
        """Return that a folder is empty."""
        return ()

    def find(self, _path: str, _name: str | None = None) -> object:
        """Return the mark of what is not there."""
        return None

    def has(self, _path: str) -> bool:
        """Return that no file is there."""
        return False

    def find_target(self, path: str) -> str:
        """Return the path itself, which leads nowhere."""
        return path

    def stamp(self, _path: str) -> str:
        """Return that nothing can be told of a file that is not there."""
        return ""

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Return that nothing can be told of any of them."""
        return dict.fromkeys(paths, "")

    def watch_link(self, path: str) -> None:
        """Watch nothing."""

    def visit(self, _folder: str) -> "Nowhere":
        """Return another place without files."""
        return self

    def refresh(self, *, now: bool = False) -> int:  # noqa: ARG002 - it has the shape of files
        """Return that nothing has changed."""
        return self.generation
