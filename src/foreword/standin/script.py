"""The lines of a script: what the stand-in does with one request."""

import json
from collections.abc import Mapping
from typing import Any

from foreword.frozen import frozen


@frozen
class Called:
    """A call of a tool that the model makes."""

    name: str
    arguments: Mapping[str, Any] | str = ""
    """What the tool is given; a text goes out as it is, also where it is no JSON."""
    id: str = ""
    """The id of the call; made up where there is none."""

    @property
    def written(self) -> str:
        """The arguments as they are written on the wire."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@frozen
class Says:
    """The model answers: a text, calls of tools, or both."""

    text: str = ""
    calls: tuple[Called, ...] = ()
    cut: bool = False
    """Whether the answer ends because it became too long."""


@frozen
class Refuses:
    """The provider answers with a status such as 429."""

    status: int = 429
    message: str = "too many requests"
    retry_after: float | None = None
    """The seconds that the answer asks the caller to wait."""


@frozen
class Hangs:
    """Nothing comes for so many seconds, then the connection closes."""

    seconds: float = 30.0
    text: str = ""
    """Words with which a streamed answer begins before nothing more comes."""


@frozen
class Garbles:
    """The provider answers with a status of success and something that is no answer."""

    text: str = "<html>Welcome to the proxy</html>"


@frozen
class Breaks:
    """The answer begins and the connection closes in the middle of it."""

    text: str = "It was a dark and stormy night, and"


Line = Says | Refuses | Hangs | Garbles | Breaks
