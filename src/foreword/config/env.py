"""Secrets from the environment and `.env`, in a type whose repr does not show them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from foreword.errors import ConfigError, ConfigFault

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?', re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s+)#.*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Secrets:
    """Secret values by name; the environment overrides `.env`. The repr shows no values."""

    environ: Mapping[str, str]
    """The environment of the process."""
    dotenv: Mapping[str, str]
    """The values of the file."""

    @classmethod
    def read(cls, dotenv_text: str, environ: Mapping[str, str], file: str = ".env") -> "Secrets":
        """Parse the text of a `.env` file; raise ConfigError with all malformed lines."""
        return cls(environ=dict(environ), dotenv=_read_lines(dotenv_text, file))

    def get(self, name: str) -> str | None:
        """Return the value of a name, or None."""
        return self.environ.get(name, self.dotenv.get(name))

    def origin(self, name: str) -> Literal["environment", ".env"] | None:
        """Return where the value of a name comes from."""
        if name in self.environ:
            return "environment"
        return ".env" if name in self.dotenv else None

    def __repr__(self) -> str:
        return f"Secrets(<{len(self.dotenv)} from .env>)"


def _read_lines(text: str, file: str) -> dict[str, str]:
    values: dict[str, str] = {}
    faults: list[ConfigFault] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        # Do not quote the line in the message: a malformed line may be a secret.
        if not (assignment := _ASSIGNMENT.fullmatch(content)):
            faults.append(ConfigFault(file=file, line=number, message="this line is not NAME=value"))
        elif (value := _read_value(assignment[2])) is None:
            faults.append(ConfigFault(file=file, line=number, message="the quotes around the value do not close"))
        else:
            values[assignment[1]] = value
    if faults:
        raise ConfigError(faults)
    return values


def _read_value(written: str) -> str | None:
    """Parse the text after the equals sign; return None if its quotes do not match."""
    if written.startswith("'"):
        return found[1] if (found := _SINGLE.fullmatch(written)) else None
    if written.startswith('"'):
        found = _DOUBLE.fullmatch(written)
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found[1]) if found else None
    return _COMMENT.sub("", written, count=1)
