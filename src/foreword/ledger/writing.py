"""The ledger as JSON: a state per session, and bases by their hash, since many sessions and turns share one."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import chain
from math import isfinite
from typing import Any, TypeVar

from foreword.errors import InputError
from foreword.ledger.line import Base, Channel, Gate, Kind, Line, Update
from foreword.ledger.state import Alive, Frozen, Heard, Identity, Piece, Sent
from foreword.words import Pace, Policy, Trust

VERSION = 1
NAMES = frozenset({str})
NUMBERS = frozenset({int})
FIELDS = [str, int, int, str, str, str]  # of a piece, in their order
SPOILT = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What making values again may raise of JSON that is not as it was written."""

T = TypeVar("T")


def dump(value: Any) -> str:
    """Write a value as JSON, always the same for the same value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def name_base(base: Base) -> str:
    """Name a base by its hash."""
    return name_text(write_base(base))


def name_text(text: str) -> str:
    """Name a base by the hash of what is written of it."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_base(base: Base) -> str:
    """Write a base."""
    return dump([[show_line(line) for line in block] for block in base.blocks])


def read_base(text: str, name: str) -> Base:
    """Read the base of this name, or raise InputError where it is damaged: nothing else has its name."""
    return understand(lambda: make_base(text, name))


def make_base(text: str, name: str) -> Base:
    """Make a base again."""
    if name_text(text) != name:
        raise ValueError("its base has another text than its name says")
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
    return understand(lambda: make_frozen(json.loads(text), base))


def understand(make: Callable[[], T]) -> T:
    """Make something again of what is kept, or raise InputError where that is damaged."""
    try:
        return make()
    except SPOILT as error:
        raise InputError(f"the ledger of this session is damaged: {type(error).__name__}: {error}") from None


def make_frozen(held: Mapping[str, Any], base: Base) -> Frozen:
    """Make the state of a session again."""
    if held.get("version") != VERSION:
        raise InputError(f"the ledger of this session is of version {held.get('version')}, and {VERSION} is understood")
    last, (count, sha), gaps = held["last"], held["heard"], tuple(held["gaps"])
    check(NAMES, held["model"], held["tools"], sha, last["model"], last["turn"], last["answer"])
    check(NUMBERS, count, held["calls"], held["turns"])
    if not all(map(isfinite, gaps)):
        raise ValueError("a gap between calls has no end")
    pieces = make_pieces(last["pieces"])
    return Frozen(
        identity=Identity(clearance=Trust[held["clearance"].upper()], model=held["model"], tools=held["tools"]),
        base=base,
        updates=tuple(map(make_update, held["updates"])),
        settled=tuple(map(make_update, held["settled"])),
        heard=Heard(count=count, sha=sha),
        last=Sent(
            model=last["model"],
            at=make_time(last["at"]),
            turn=last["turn"],
            answer=last["answer"],
            pieces=pieces,
        ),
        alive=tuple(make_alive(one, len(pieces)) for one in held["alive"]),
        gaps=gaps,
        calls=held["calls"],
        turns=held["turns"],
    )


def check(kinds: frozenset[type], *values: object) -> None:
    """Check that values are of these kinds."""
    if others := set(map(type, values)) - kinds:
        raise TypeError(f"{', '.join(sorted(kind.__name__ for kind in others))} in the place of something else")


def make_time(written: str) -> datetime:
    """Make a time again; one without a zone cannot be compared with now."""
    made = datetime.fromisoformat(written)
    if made.tzinfo is None:
        raise ValueError(f"{written} is in no time zone")
    return made


def make_alive(written: Sequence[Any], pieces: int) -> Alive:
    """Make a prefix again that ends with one of so many pieces."""
    at, until, seconds = written
    check(NUMBERS, at, seconds)
    if not 0 <= at < pieces:
        raise IndexError(f"there is no piece {at}")
    return Alive(at=at, until=make_time(until), seconds=seconds)


def make_pieces(written: Sequence[Sequence[Any]]) -> tuple[Piece, ...]:
    """Make pieces again; there may be thousands, so all of them are looked at together."""
    if any(length != len(FIELDS) for length in set(map(len, written))) or set(map(type, written)) - {list}:
        raise ValueError("a piece has other fields than these")
    if list(map(type, chain.from_iterable(written))) != FIELDS * len(written):
        raise TypeError("a field of a piece is of another kind")
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
    check(NAMES, shown["id"], shown["title"], shown["text"], shown.get("piece", ""))
    check(NUMBERS, shown["tokens"])
    return Line(
        id=shown["id"],
        title=shown["title"],
        pace=Pace[shown["pace"].upper()],
        text=shown["text"],
        piece=shown.get("piece", shown["text"]),
        tokens=shown["tokens"],
        governs=bool(shown["governs"]),
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
    check(NAMES, shown["id"], shown["title"], shown["said"])
    check(NUMBERS, shown["tokens"])
    return Update(
        id=shown["id"],
        title=shown["title"],
        kind=Kind(shown["kind"]),
        channel=Channel(shown["channel"]),
        said=shown["said"],
        tokens=shown["tokens"],
        line=make_line(shown["line"]) if shown["line"] else None,
    )
