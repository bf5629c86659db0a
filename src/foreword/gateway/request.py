"""A message as a row of the inbox has it: its words in one column, everything else about it as JSON in another."""

import json
from dataclasses import asdict, replace
from typing import Any

from foreword.gateway.message import Incoming
from foreword.turn import Client


def write_request(incoming: Incoming) -> str:
    """Write everything about a message but its words."""
    return json.dumps(asdict(replace(incoming, text="")), ensure_ascii=False, separators=(",", ":"))


def read_request(text: str, request: str) -> Incoming:
    """Read a message that was written."""
    said: dict[str, Any] = json.loads(request)
    return Incoming(**said | {"text": text, "client": Client(**said["client"])})
