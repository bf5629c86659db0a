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
OPENING = re.compile(rf"^ {{0,3}}{OPENING_FENCE}(?=[ \t\r\n{{])", re.MULTILINE)
CLOSING = re.compile(r"\n[ \t]{0,3}```[ \t]*\n")
CLOSING_AT_END = re.compile(r"\n[ \t]{0,3}```[ \t]*(?:\n|\Z)")
AFTER_CALL = re.compile(r"\s*(?:(?P<next>(?=\{))|```[ \t\r]*\n|(?P<text>(?=.)))", re.DOTALL)
OPEN_END = re.compile(r"\s*`{0,2}\Z|\s*```[ \t\r]*\Z")
BLOCK_ENDS = frozenset("}`\n")  # one of these ends a block
MAX_BLOCK_CHARS = 50_000  # characters of one block; a confused model may never close it
BLOCK_HINT = 'a block is {"tool": "NAME", "arguments": {…}} between ```tool_call and ```'
DECODER = json.JSONDecoder(strict=False)


@frozen(eq=True)
class ToolCall:
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any]


@frozen(eq=True)
class MalformedCall:
    """A call that cannot be read, and the reason for the model."""

    reason: str


ReplyPart = str | ToolCall | MalformedCall


class FencedCallParser:
    """Parses an answer that arrives in pieces; the result does not depend on how it was split."""

    def __init__(self) -> None:
        self._buffer = ""
        """The text that is not decided yet."""
        self._read: Callable[[], ReplyPart | None] = self._read_text
        self._at_line_start = True
        self._ended = False

    def feed(self, piece: str) -> Iterator[ReplyPart]:
        """Add a piece of the answer; yield text, calls and malformed blocks once they are certain."""
        self._buffer += piece
        # A block ends with a brace or a fence; decoding it after every piece would take quadratic time.
        may_end = self._ended or len(self._buffer) > MAX_BLOCK_CHARS or not BLOCK_ENDS.isdisjoint(piece)
        if self._read == self._read_block and not may_end:
            return
        while (part := self._read()) is not None:
            if part:
                yield part

    def finish(self) -> Iterator[ReplyPart]:
        """Yield the rest at the end of the answer."""
        self._ended = True
        yield from self.feed("")
        if self._read == self._read_block:
            yield MalformedCall(reason=f"the block has no end; {BLOCK_HINT}")
        elif self._read == self._read_text and self._buffer:
            yield self._buffer

    def _read_text(self) -> ReplyPart | None:
        """Return the text before a block; hold back the last line while it may open one."""
        buffer = self._buffer
        start = 0 if self._at_line_start else buffer.find("\n") + 1 or len(buffer)
        if opening := OPENING.search(buffer, start):
            self._read, self._buffer = self._read_block, buffer[opening.end() :]
            return buffer[: opening.start()]
        last = max(start, buffer.rfind("\n") + 1)
        may_open = len(buffer) - last < len(OPENING_FENCE) + 4 and OPENING_FENCE.startswith(buffer[last:].lstrip(" "))
        text, self._buffer = (buffer[:last], buffer[last:]) if may_open else (buffer, "")
        self._at_line_start = text.endswith("\n") if text else self._at_line_start
        return text or None

    def _read_block(self) -> ReplyPart | None:
        """Return the call of a block: it ends where its JSON object ends, or else at the closing fence."""
        body = self._buffer[:MAX_BLOCK_CHARS]
        start, in_string, failed_at = len(body) - len(body.lstrip()), False, 0
        if body.startswith("{", start):
            try:
                end = DECODER.raw_decode(body, start)[1]
            except (ValueError, RecursionError) as error:
                in_string = str(error).startswith("Unterminated string")
                failed_at = getattr(error, "pos", 0)  # a fence before it may be inside a string
            else:
                self._read, self._buffer = self._read_after, self._buffer[end:]
                return parse_block(body[start:end])
        fences = list((CLOSING_AT_END if self._ended else CLOSING).finditer(body))
        if fences and (self._ended or (not in_string and fences[-1].end() > failed_at)):
            return self._end_block(fences[0].end(), parse_block(body[: fences[0].start()]))
        if len(self._buffer) > MAX_BLOCK_CHARS:
            reason = f"the block is longer than {MAX_BLOCK_CHARS:,} characters"
            return self._end_block(MAX_BLOCK_CHARS, MalformedCall(reason=reason))
        return None

    def _read_after(self) -> ReplyPart | None:
        """Skip the end of a block; another object in the same block is another call."""
        if OPEN_END.match(self._buffer):
            return None
        if not (found := AFTER_CALL.match(self._buffer)):
            return None
        if found["next"] is None:
            return self._end_block(found.end(), "")
        self._read, self._buffer = self._read_block, self._buffer[found.end() :]
        return ""

    def _end_block(self, end: int, part: ReplyPart) -> ReplyPart:
        """Continue with the text after a block."""
        self._read, self._buffer, self._at_line_start = self._read_text, self._buffer[end:], True
        return part


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


def parse_reply(pieces: Iterable[str]) -> Iterator[ReplyPart]:
    """Parse an answer given in pieces."""
    fences = FencedCallParser()
    for piece in pieces:
        yield from fences.feed(piece)
    yield from fences.finish()


def parse_calls(text: str) -> list[ToolCall | MalformedCall]:
    """Return the calls of a whole answer."""
    return [found for found in parse_reply([text]) if not isinstance(found, str)]


def strip_calls(text: str) -> str:
    """Return the text of a whole answer without its calls."""
    return "".join(found for found in parse_reply([text]) if isinstance(found, str))


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
        is_token = (_LAST if self._last else _ONLY).fullmatch(self._held)
        rest = "" if is_token else self._pass_on(len(self._held))
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
    token_filter = NoReplyFilter()
    cut = token_filter.add(text) + token_filter.end()
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
