"""The lines of a script: how the fake provider answers one request, independent of the wire shape."""

import json
from collections.abc import Mapping
from typing import Any

from foreword.promptcache.rules import CacheUsage
from foreword.types import frozen


@frozen
class ScriptedCall:
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any] | str = ""
    """The arguments; a text is sent unchanged, even if it is not JSON."""
    id: str = ""
    """The id of the call; generated if empty."""

    @property
    def written(self) -> str:
        """The arguments as sent on the wire."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@frozen
class ScriptedReply:
    """The model answers with text, tool calls, or both."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    cut: bool = False
    """Whether the answer is truncated at the token limit."""


@frozen
class ScriptedError:
    """The provider answers with a status such as 429."""

    status: int = 429
    message: str = "too many requests"
    retry_after: float | None = None
    """The `Retry-After` header in seconds."""


@frozen
class ScriptedHang:
    """The server sends nothing for some seconds, then closes the connection."""

    seconds: float = 30.0
    text: str = ""
    """Text of a streamed answer that is sent before the pause."""


@frozen
class ScriptedGarbage:
    """The provider answers with status 200 and an invalid body."""

    text: str = "<html>Welcome to the proxy</html>"


@frozen
class ScriptedDisconnect:
    """The connection closes in the middle of the answer."""

    text: str = "It was a dark and stormy night, and"


ScriptLine = ScriptedReply | ScriptedError | ScriptedHang | ScriptedGarbage | ScriptedDisconnect


@frozen
class FakeAnswer:
    """One answer to send."""

    model: str
    text: str
    calls: tuple[tuple[str, ScriptedCall], ...]
    """Each call with its id."""
    counted: CacheUsage
    out: int
    """Output tokens."""
    cut: bool = False
    number: int = 1
    """The sequence number of the answer."""
    diagnosis: str = ""
    """The reason of a cache miss, if a diagnosis was requested."""
