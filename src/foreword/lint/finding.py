"""Findings: one thing that is wrong, where it stands, and how to mend it."""

from foreword.frozen import frozen
from foreword.words import Word


class Level(Word):
    """How bad a finding is: an error breaks a promise, a warning costs something."""

    ERROR = "error"
    WARNING = "warning"


@frozen(eq=True)
class Finding:
    """One thing that is wrong in a file of the workspace."""

    file: str
    line: int
    rule: str
    level: Level
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.level} {self.rule}: {self.message} ({self.remedy})"


def show(name: str) -> str:
    """Show a name from the disk so that it can be printed anywhere."""
    return name if name.isprintable() else ascii(name)[1:-1]
