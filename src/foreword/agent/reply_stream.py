"""Tool calls as fenced `tool_call` blocks, for models without native tool calls; parsed while they stream.

A call ends where its JSON object ends, so a fence inside a string does not end it. Other text is passed on at once,
except a line that may still open a block.

Suppressed replies: an agent without anything to say answers with a token that is never shown. The text of a turn as
streamed: a blank line separates the answers before and after a tool call.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from foreword.agent.agent_events import AgentEvent, CallRestarted, TextDelta, ToolStarted
from foreword.types import frozen

OPENING_FENCE = "```tool_call"
FENCE = "```"
CLOSING_FENCE = re.compile(r"\n[ \t]{0,3}```[ \t]*(?=\n|$)")
MAX_BLOCK_CHARS = 50_000  # characters of one block; a confused model may never close it
BLOCK_HINT = 'a block is {"tool": "NAME", "arguments": {…}} between ```tool_call and ```'


@frozen(eq=True)
class ToolCall:
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any]


@frozen(eq=True)
class MalformedCall:
    """A block that is not a valid call, and the reason for the model."""

    reason: str


ReplyPart = str | ToolCall | MalformedCall


class FencedCallParser:
    """Parses one answer character by character, so the result does not depend on how the stream was split."""

    def __init__(self) -> None:
        self._read: Callable[[str], Iterable[ReplyPart]] = self._read_line
        self._held = ""
        """Undecided text: the start of a line, or the inside of a block."""
        self._depth = 0
        self._quoted = self._escaped = False

    def feed(self, piece: str) -> Iterator[ReplyPart]:
        """Parse a piece of the answer; yield text, calls and malformed blocks once they are certain."""
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

    def finish(self) -> Iterator[ReplyPart]:
        """Yield the held text at the end of the answer."""
        while self._read in (self._read_object, self._read_other, self._read_opened):
            body, end = self._held, CLOSING_FENCE.search(self._held)
            self._begin_line()
            if end is None:
                yield MalformedCall(reason=f"the block has no end; {BLOCK_HINT}")
                return
            yield parse_block(body[: end.start()])
            yield from self.feed(body[end.end() :].removeprefix("\n"))
        if self._held and self._read == self._read_line:
            yield self._held
        self._begin_line()

    def _begin_line(self) -> Iterable[ReplyPart]:
        self._read, self._held = self._read_line, ""
        return ()

    def _read_line(self, sign: str) -> Iterable[ReplyPart]:
        """Hold back the start of a line while it may open a block."""
        line = self._held.lstrip(" ")
        if line == OPENING_FENCE and sign in " \t\r\n{":
            self._read, self._held = self._read_opened, ""
            return self._read_opened(sign)
        self._held += sign
        if OPENING_FENCE.startswith(self._held.lstrip(" ")) and len(self._held) < len(OPENING_FENCE) + 4:
            return ()
        text, self._held = self._held, ""
        self._read = self._read_line if sign == "\n" else self._read_text
        return (text,)

    def _read_text(self, sign: str) -> Iterable[ReplyPart]:
        if sign == "\n":
            self._read = self._read_line
        return (sign,)

    def _read_opened(self, sign: str) -> Iterable[ReplyPart]:
        """Decide whether a block contains an object."""
        self._held += sign
        if not sign.isspace():
            self._depth, self._quoted, self._escaped = 0, False, False
            self._read = self._read_object if sign == "{" else self._read_other
            self._held = self._held[:-1]
            return self._read(sign)
        return ()

    def _read_other(self, sign: str) -> Iterable[ReplyPart]:
        """Read a block without an object up to its closing line."""
        self._held += sign
        last = max(0, self._held.rfind("\n", 0, len(self._held) - 1))
        if sign != "\n" or not (end := CLOSING_FENCE.search(self._held, last)):
            return self._bound()
        inner = self._held[: end.start()]
        self._begin_line()
        return (parse_block(inner),)

    def _read_object(self, sign: str) -> Iterable[ReplyPart]:
        """Read an object up to its end; a fence outside its strings ends it early."""
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
                return (parse_block(inner),)
        elif sign == "`":
            self._read = self._read_other
        return self._bound()

    def _read_after(self, sign: str) -> Iterable[ReplyPart]:
        """Skip the end of a block; another object in the same block is another call."""
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

    def _bound(self) -> Iterable[ReplyPart]:
        if len(self._held) <= MAX_BLOCK_CHARS:
            return ()
        self._begin_line()
        return (MalformedCall(reason=f"the block is longer than {MAX_BLOCK_CHARS:,} characters"),)


def parse_block(text: str) -> ToolCall | MalformedCall:
    """Parse the inside of a block."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return MalformedCall(reason=f"the block is no JSON ({error}); {BLOCK_HINT}")
    name = value.get("tool") if isinstance(value, dict) else None
    arguments = value.get("arguments", {}) if isinstance(value, dict) else None
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return MalformedCall(reason=f"the block is no call; {BLOCK_HINT}")
    return ToolCall(name=name, arguments=arguments)


def parse_calls(text: str) -> list[ToolCall | MalformedCall]:
    """Return the calls of a whole answer."""
    return [found for found in parse_reply([text]) if not isinstance(found, str)]


def strip_calls(text: str) -> str:
    """Return the text of a whole answer without its calls."""
    return "".join(found for found in parse_reply([text]) if isinstance(found, str))


def parse_reply(pieces: Iterable[str]) -> Iterator[ReplyPart]:
    """Parse an answer given in pieces."""
    fences = FencedCallParser()
    for piece in pieces:
        yield from fences.feed(piece)
    yield from fences.finish()


NO_REPLY_TOKEN = "NO_ACTION_NEEDED"  # noqa: S105 - not a secret
MAX_HELD_CHARS = 200  # characters that are held back

_OPEN, _CLOSE = r"[*_`~\"'“”‘’(\[]", r"[*_`~\"'“”‘’)\]]"
_SIGNS = r"[.!:;,…—–-]"
_BROAD = r"[\s*_`~\"'“”‘’()\[\].!:;,…—–-]"
_LETTERS = [rf"\\?{sign}" if sign == "_" else sign for sign in NO_REPLY_TOKEN]  # Markdown writes \_ for it
_WORD = "".join(_LETTERS)
_BEGUN = "".join(f"(?:{letter}" for letter in _LETTERS) + ")?" * len(NO_REPLY_TOKEN)
_END = rf"{_CLOSE}*+{_SIGNS}*+"

_ONLY = re.compile(rf"{_BROAD}*?{_WORD}{_BROAD}*+")
_MAYBE_ONLY = re.compile(rf"{_BROAD}*?(?:{_WORD}{_BROAD}*+|{_BEGUN}\\?)")
_FIRST = re.compile(rf"\s*{_OPEN}*?{_WORD}{_END}(?!\w)\s*")
_LAST = re.compile(rf"\s*{_OPEN}*?{_WORD}{_END}\s*")
_MAYBE_LAST = re.compile(rf"(?<!\w)\s*+(?:{_OPEN}*?(?:{_WORD}{_END}\s*+|{_BEGUN}\\?))\Z")


class NoReplyFilter:
    """Filters the token from a streamed reply; passes text on as soon as it cannot be part of the token."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""  # the character before the held text; empty until text was passed on

    def add(self, text: str) -> str:
        """Add a piece of the reply, and return the text that may be passed on."""
        self._held += text
        while not self._last:
            if _MAYBE_ONLY.fullmatch(self._held) and len(self._held) <= MAX_HELD_CHARS:
                return ""
            if not (first := _FIRST.match(self._held)):
                break
            self._held = self._held[first.end() :]
        before = len(self._last)
        found = _MAYBE_LAST.search(self._last + self._held, before)
        start = found.start() - before if found else len(self._held)
        return self._pass_on(start if len(self._held) - start <= MAX_HELD_CHARS else len(self._held))

    def end(self) -> str:
        """End the reply, and return held text that is not the token."""
        silent = (_LAST if self._last else _ONLY).fullmatch(self._held)
        rest = "" if silent else self._pass_on(len(self._held))
        self._held = self._last = ""
        return rest

    def _pass_on(self, end: int) -> str:
        passed, self._held = self._held[:end], self._held[end:]
        self._last = passed[-1:] or self._last
        return passed


def find_suppression_reason(text: str) -> str:
    """Return why a reply is suppressed; empty if it is shown."""
    if not text.strip():
        return "nothing was said after the tools"
    return "" if strip_no_reply_token(text) else f"the reply was {NO_REPLY_TOKEN}"


def strip_no_reply_token(text: str) -> str:
    """Remove the token from the edges of a reply; a reply that is only the token becomes empty."""
    hush = NoReplyFilter()
    cut = hush.add(text) + hush.end()
    return text if cut == text else cut.strip()


SEPARATOR = "\n\n"


class StreamedText:
    """Collects the text of a turn."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._apart = False

    @property
    def text(self) -> str:
        """Return all text shown so far."""
        return "".join(self._pieces)

    def add(self, delta: AgentEvent) -> str:
        """Add a delta; return the text to show for it, with a separator if needed."""
        if isinstance(delta, CallRestarted | ToolStarted):
            self._apart = True
        if not isinstance(delta, TextDelta):
            return ""
        text = f"{SEPARATOR}{delta.text}" if self._apart and self._pieces else delta.text
        self._apart = False
        self._pieces.append(text)
        return text
