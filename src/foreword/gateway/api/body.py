"""Bodies: read whole and within bounds, and known to be JSON before anything else looks at them."""

import asyncio
import json
from typing import Any, NoReturn

from starlette.types import Message, Receive

from foreword.frozen import frozen
from foreword.gateway.api.faults import Fault

MOST = 4 * 1024 * 1024  # bytes; a client that keeps no session sends its whole conversation each time
DRAINED = 4 * MOST  # read and thrown away, so that who sends too much can read why it is refused
HUNG_UP = "hung_up"  # the name in a request's state
SLOWEST = 30.0  # seconds in which a body has to be there


@frozen
class Declared:
    """What the headers say about a body."""

    kind: str = ""
    coding: str = ""


async def read_body(receive: Receive) -> bytes:
    """Read the body of a request, or refuse it as too large or too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(SLOWEST):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message.get("body", b"")
                size += len(part)
                if size <= MOST:
                    parts.append(part)
                if not message.get("more_body") or size > DRAINED:
                    break
    except TimeoutError:
        raise Fault(408, f"the body did not come within {SLOWEST:g} seconds") from None
    if size > MOST:
        raise Fault(413, f"a body has {MOST:,} bytes at most")
    return b"".join(parts)


class Gone(Exception):
    """Who asked has gone before the request was whole."""


def check_json(body: bytes, declared: Declared) -> None:
    """Refuse a body that is not declared as JSON in UTF-8, or is none."""
    kind, _, options = declared.kind.lower().partition(";")
    charset = options.replace(" ", "").replace('"', "").partition("charset=")[2] or "utf-8"
    if (
        kind.strip() != "application/json"
        or charset not in ("utf-8", "utf8")
        or declared.coding not in ("", "identity")
    ):
        raise Fault(415, "send the body as JSON: Content-Type: application/json, in UTF-8 and not compressed")
    try:
        parsed = json.loads(body.decode("utf-8"), parse_constant=refuse_constant)
        if b"\\u" in body:  # half a pair of surrogates can be written so, and is no text
            write(parsed).encode("utf-8")
    except RecursionError:
        raise Fault(400, "the body is nested too deeply") from None
    except UnicodeEncodeError:
        raise Fault(400, r"the body has half of a surrogate pair (\ud800 to \udfff), which is no character") from None
    except UnicodeError:
        raise Fault(400, "the body is not UTF-8") from None
    except ValueError as error:
        raise Fault(400, f"the body is not JSON: {error}") from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which are not JSON."""
    raise ValueError(f"{name} is no number")


def write(value: Any) -> str:
    """Write a value as JSON for a wire: everything as it is, and nothing between."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def hand_on(body: bytes, receive: Receive, state: dict[str, Any]) -> Receive:
    """Return a `receive` that replays the buffered body, then delegates and notes a client that hangs up."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            message = await receive()
            state[HUNG_UP] = message["type"] == "http.disconnect"
            return message
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
