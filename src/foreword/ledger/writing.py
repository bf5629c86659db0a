"""The ledger as JSON: a state per session, and bases by their hash, since many sessions and turns share one."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

from foreword.errors import InputError
from foreword.ledger.line import Base, Channel, Gate, Kind, Line, Update
from foreword.ledger.state import Alive, Frozen, Heard, Identity, Piece, Sent
from foreword.words import Pace, Policy, Trust

VERSION = 1


def dump(value: Any) -> str:
    """Write a value as JSON, always the same for the same value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def name_base(base: Base) -> str:
    """Name a base by its hash."""
    return sha256(write_base(base).encode("utf-8", "surrogatepass")).hexdigest()


def write_base(base: Base) -> str:
    """Write a base."""
    return dump([[show_line(line) for line in block] for block in base.blocks])


def read_base(text: str) -> Base:
    """Read a base."""
    return Base(blocks=tuple(tuple(map(make_line, block)) for block in json.loads(text)))


def write(frozen: Frozen) -> str:
    """Write the state of a session, without its base."""
    last = frozen.last
    return dump(
        {
            "version": VERSION,
            "clearance": str(frozen.identity.clearance),
            "model": frozen.identity.model,
            "tools": frozen.identity.tools,
            "updates": [show_update(update) for update in frozen.updates],
            "settled": [show_update(update) for update in frozen.settled],
            "heard": [frozen.heard.count, frozen.heard.sha],
            "last": {
                "model": last.model,
                "at": last.at.isoformat(),
                "turn": last.turn,
                "answer": last.answer,
                "pieces": last.pieces,  # each is written as the tuple that it is
            },
            "alive": [[one.at, one.until.isoformat(), one.seconds] for one in frozen.alive],
            "gaps": list(frozen.gaps),
            "calls": frozen.calls,
            "turns": frozen.turns,
        }
    )


def read(text: str, base: Base) -> Frozen:
    """Read the state of a session with this base, or raise InputError where it is damaged."""
    try:
        return make_frozen(json.loads(text), base)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"the ledger of this session is damaged: {type(error).__name__}: {error}") from None


def make_frozen(held: Mapping[str, Any], base: Base) -> Frozen:
    """Make the state of a session again."""
    if held.get("version") != VERSION:
        raise InputError(f"the ledger of this session is of version {held.get('version')}, and {VERSION} is understood")
    last = held["last"]
    return Frozen(
        identity=Identity(clearance=Trust[held["clearance"].upper()], model=held["model"], tools=held["tools"]),
        base=base,
        updates=tuple(map(make_update, held["updates"])),
        settled=tuple(map(make_update, held["settled"])),
        heard=Heard(count=held["heard"][0], sha=held["heard"][1]),
        last=Sent(
            model=last["model"],
            at=datetime.fromisoformat(last["at"]),
            turn=last["turn"],
            answer=last["answer"],
            pieces=make_pieces(last["pieces"]),
        ),
        alive=tuple(
            Alive(at=at, until=datetime.fromisoformat(until), seconds=seconds) for at, until, seconds in held["alive"]
        ),
        gaps=tuple(held["gaps"]),
        calls=held["calls"],
        turns=held["turns"],
    )


def make_pieces(written: Sequence[Sequence[Any]]) -> tuple[Piece, ...]:
    """Make pieces again; there may be thousands, so each is made of its list without being looked at."""
    if any(length != len(Piece._fields) for length in set(map(len, written))):
        raise ValueError("a piece has other fields than these")
    return tuple(map(partial(tuple.__new__, Piece), written))


def show_line(line: Line) -> dict[str, Any]:
    """Show a line; a piece that is the same as its text is not written twice."""
    shown: dict[str, Any] = {
        "id": line.id,
        "title": line.title,
        "pace": str(line.pace),
        "text": line.text,
        "tokens": line.tokens,
        "governs": line.governs,
        "policy": str(line.policy),
        "gated": str(line.gated),
    }
    return shown if line.piece == line.text else {**shown, "piece": line.piece}


def make_line(shown: Mapping[str, Any]) -> Line:
    """Make a line again."""
    return Line(
        id=shown["id"],
        title=shown["title"],
        pace=Pace[shown["pace"].upper()],
        text=shown["text"],
        piece=shown.get("piece", shown["text"]),
        tokens=shown["tokens"],
        governs=shown["governs"],
        policy=Policy(shown["policy"]),
        gated=Gate(shown["gated"]),
    )


def show_update(update: Update) -> dict[str, Any]:
    """Show an update."""
    return {
        "id": update.id,
        "title": update.title,
        "kind": str(update.kind),
        "channel": str(update.channel),
        "said": update.said,
        "tokens": update.tokens,
        "line": show_line(update.line) if update.line else None,
    }


def make_update(shown: Mapping[str, Any]) -> Update:
    """Make an update again."""
    return Update(
        id=shown["id"],
        title=shown["title"],
        kind=Kind(shown["kind"]),
        channel=Channel(shown["channel"]),
        said=shown["said"],
        tokens=shown["tokens"],
        line=make_line(shown["line"]) if shown["line"] else None,
    )
