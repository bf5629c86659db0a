"""Secrets from the environment and from `.env`, in a value that does not show them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from foreword.errors import ConfigError, Fault

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?', re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s+)#.*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Secrets:
    """Values by name, where the environment wins over `.env`; printing it shows no value."""

    environ: Mapping[str, str]
    """What the process was started with."""
    dotenv: Mapping[str, str]
    """What the file says."""

    @classmethod
    def read(cls, dotenv_text: str, environ: Mapping[str, str], file: str = ".env") -> "Secrets":
        """Read the text of a `.env` beside an environment, or raise ConfigError with every malformed line."""
        return cls(environ=dict(environ), dotenv=_read_lines(dotenv_text, file))

    def get(self, name: str) -> str | None:
        """Return the value of this name, or None."""
        return self.environ.get(name, self.dotenv.get(name))

    def origin(self, name: str) -> Literal["environment", ".env"] | None:
        """Tell where the value of this name comes from."""
        if name in self.environ:
            return "environment"
        return ".env" if name in self.dotenv else None

    def __repr__(self) -> str:
        return f"Secrets(<{len(self.dotenv)} from .env>)"


def _read_lines(text: str, file: str) -> dict[str, str]:
    values: dict[str, str] = {}
    faults: list[Fault] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        # Nothing of the line is quoted in a message: a malformed line may be a secret and nothing else.
        if not (assignment := _ASSIGNMENT.fullmatch(content)):
            faults.append(Fault(file=file, line=number, message="this line is not NAME=value"))
        elif (value := _read_value(assignment[2])) is None:
            faults.append(Fault(file=file, line=number, message="the quotes around the value do not close"))
        else:
            values[assignment[1]] = value
    if faults:
        raise ConfigError(faults)
    return values


def _read_value(written: str) -> str | None:
    """Read what stands after the equals sign, or return None if its quotes do not fit."""
    if written.startswith("'"):
        return found[1] if (found := _SINGLE.fullmatch(written)) else None
    if written.startswith('"'):
        found = _DOUBLE.fullmatch(written)
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found[1]) if found else None
    return _COMMENT.sub("", written, count=1)
