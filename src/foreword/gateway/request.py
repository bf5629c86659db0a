"""A message as a row of the inbox has it: its words in one column, everything else about it as JSON in another."""

import json
from dataclasses import asdict, replace
from typing import Any

from foreword.gateway.message import ClientRequest, Errand, Incoming, Proof
from foreword.turn import Client
from foreword.words import Delivery, Mode, Trust


def write_request(incoming: Incoming) -> str:
    """Write everything about a message but its words."""
    return json.dumps(asdict(replace(incoming, text="")), ensure_ascii=False, separators=(",", ":"), default=str)


def read_request(text: str, request: str) -> Incoming:
    """Read a message that was written."""
    said: dict[str, Any] = json.loads(request)
    errand = read_errand(said["errand"]) if said.get("errand") else None
    proof = Proof(**said["proof"]) if said.get("proof") else None
    mode = Mode(said["mode"]) if said.get("mode") else None
    sent = ClientRequest(**said.get("request", {}))
    read = {"text": text, "client": Client(**said["client"]), "errand": errand, "proof": proof, "mode": mode}
    return Incoming(**said | read | {"shelves": tuple(said.get("shelves", ())), "request": sent})


def read_errand(said: dict[str, Any]) -> Errand:
    """Read what makes a message the run of a schedule."""
    home = said.get("home")
    levels = {"ceiling": Trust(said["ceiling"]), "home": None if home is None else Trust(home)}
    return Errand(**said | {"delivery": Delivery(said["delivery"]), **levels})
