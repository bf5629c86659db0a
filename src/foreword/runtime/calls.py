"""Calls of tools in the text of a model that has no other way: fenced `tool_call` blocks, read as they stream in.

A call ends where its JSON object ends, so that a fence inside one of its strings is no end of it. What is no call is
handed on as text at once, except a line that may still become the beginning of a block.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from foreword.frozen import frozen

OPENING = "```tool_call"
FENCE = "```"
CLOSING = re.compile(r"\n[ \t]{0,3}```[ \t]*(?=\n|$)")
LONGEST = 50_000  # characters of one block; a model that has lost its way writes forever
MEANT = 'a block is {"tool": "NAME", "arguments": {…}} between ```tool_call and ```'


@frozen(eq=True)
class Asked:
    """A call that the model made."""

    name: str
    arguments: Mapping[str, Any]


@frozen(eq=True)
class Malformed:
    """A block that is no call, and why, in words for the model."""

    reason: str


Found = str | Asked | Malformed


class Fences:
    """Reads one answer of a model letter by letter, so that nothing depends on how it was cut."""

    def __init__(self) -> None:
        self._read: Callable[[str], Iterable[Found]] = self._read_line
        self._held = ""
        """What is not certain yet: the beginning of a line, or the inside of a block."""
        self._depth = 0
        self._quoted = self._escaped = False

    def feed(self, piece: str) -> Iterator[Found]:
        """Take a piece of the answer; give what is certain by now: text, calls, and blocks that are none."""
        text = ""
        for sign in piece:
            for found in self._read(sign):
                if isinstance(found, str):
                    text += found
                    continue
                if text:
                    yield text
                text = ""
                yield found
        if text:
            yield text

    def finish(self) -> Iterator[Found]:
        """Give what was held back, once nothing more comes."""
        while self._read in (self._read_object, self._read_other, self._read_opened):
            body, end = self._held, CLOSING.search(self._held)
            self._begin_line()
            if end is None:
                yield Malformed(reason=f"the block has no end; {MEANT}")
                return
            yield read_block(body[: end.start()])
            yield from self.feed(body[end.end() :].removeprefix("\n"))
        if self._held and self._read == self._read_line:
            yield self._held
        self._begin_line()

    def _begin_line(self) -> Iterable[Found]:
        self._read, self._held = self._read_line, ""
        return ()

    def _read_line(self, sign: str) -> Iterable[Found]:
        """Hold the beginning of a line back as long as it may open a block."""
        line = self._held.lstrip(" ")
        if line == OPENING and sign in " \t\r\n{":
            self._read, self._held = self._read_opened, ""
            return self._read_opened(sign)
        self._held += sign
        if OPENING.startswith(self._held.lstrip(" ")) and len(self._held) < len(OPENING) + 4:
            return ()
        text, self._held = self._held, ""
        self._read = self._read_line if sign == "\n" else self._read_text
        return (text,)

    def _read_text(self, sign: str) -> Iterable[Found]:
        if sign == "\n":
            self._read = self._read_line
        return (sign,)

    def _read_opened(self, sign: str) -> Iterable[Found]:
        """Find out whether a block holds an object."""
        self._held += sign
        if not sign.isspace():
            self._depth, self._quoted, self._escaped = 0, False, False
            self._read = self._read_object if sign == "{" else self._read_other
            self._held = self._held[:-1]
            return self._read(sign)
        return ()

    def _read_other(self, sign: str) -> Iterable[Found]:
        """Read a block that holds no object up to the line that closes it."""
        self._held += sign
        last = max(0, self._held.rfind("\n", 0, len(self._held) - 1))
        if sign != "\n" or not (end := CLOSING.search(self._held, last)):
            return self._bound()
        inner = self._held[: end.start()]
        self._begin_line()
        return (read_block(inner),)

    def _read_object(self, sign: str) -> Iterable[Found]:
        """Read an object up to its end; outside of its strings a fence ends it before."""
        self._held += sign
        if self._quoted:
            self._escaped, self._quoted = sign == "\\" and not self._escaped, sign != '"' or self._escaped
        elif sign == '"':
            self._quoted = True
        elif sign in "{[":
            self._depth += 1
        elif sign in "}]":
            self._depth -= 1
            if self._depth == 0:
                inner, self._read, self._held = self._held, self._read_after, ""
                return (read_block(inner),)
        elif sign == "`":
            self._read = self._read_other
        return self._bound()

    def _read_after(self, sign: str) -> Iterable[Found]:
        """Pass the end of a block; a further object in the same block is a further call."""
        if sign == "{" and not self._held:
            self._read = self._read_opened
            return self._read_opened(sign)
        if self._held == FENCE and sign in " \t\r":
            return ()
        if self._held == FENCE and sign == "\n":
            return self._begin_line()
        if sign.isspace() and not self._held:
            return ()
        if sign == "`" and self._held != FENCE:
            self._held += sign
            return ()
        before, self._held, self._read = self._held, "", self._read_line
        return [found for each in before + sign for found in self._read(each)]

    def _bound(self) -> Iterable[Found]:
        if len(self._held) <= LONGEST:
            return ()
        self._begin_line()
        return (Malformed(reason=f"the block is longer than {LONGEST:,} characters"),)


def read_block(text: str) -> Asked | Malformed:
    """Read the inside of a block."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return Malformed(reason=f"the block is no JSON ({error}); {MEANT}")
    name = value.get("tool") if isinstance(value, dict) else None
    arguments = value.get("arguments", {}) if isinstance(value, dict) else None
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return Malformed(reason=f"the block is no call; {MEANT}")
    return Asked(name=name, arguments=arguments)


def read_calls(text: str) -> list[Asked | Malformed]:
    """Read the calls of a whole answer."""
    return [found for found in read_all([text]) if not isinstance(found, str)]


def strip_calls(text: str) -> str:
    """Return the words of a whole answer without its calls."""
    return "".join(found for found in read_all([text]) if isinstance(found, str))


def read_all(pieces: Iterable[str]) -> Iterator[Found]:
    """Read an answer that comes in pieces."""
    fences = Fences()
    for piece in pieces:
        yield from fences.feed(piece)
    yield from fences.finish()
