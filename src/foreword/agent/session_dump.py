"""Sessions as JSON, for a caller that stores them: who speaks, the history, the ledger and a turn under way."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from itertools import chain
from typing import Any

from foreword.agent.conversation import Messages, dump_messages, load_messages
from foreword.errors import InputError
from foreword.events.event import TracePosition
from foreword.promptcache.ledger import LedgerState
from foreword.promptcache.ledger_json import (
    PARSE_ERRORS,
    TEXT_TYPES,
    check_types,
    dump_ledger,
    dump_prefix,
    hash_prefix_text,
    parse_ledger,
    parse_stored_prefix,
)
from foreword.promptcache.rules import Calibration
from foreword.turn import Turn
from foreword.types import Delivery, Mode, TextEnum, Trust, frozen

DUMP_VERSION = 1
PLAIN_TYPES = (str, bool, tuple, TextEnum, Trust)  # types of turn fields that a dump has; others are given again
OBJECT_FIELDS = ("history", "extensions", "message")  # tuples of objects, and the text of one turn
READERS: Mapping[str, Callable[[Any], Any]] = {
    "ceiling": lambda level: Trust[level.upper()],
    "mode": Mode,
    "background": Delivery,
    "directories": tuple,
}
"""How the fields of a turn are read that are no plain JSON values."""


@frozen(eq=True)
class OpenTurnDump:
    """A turn under way: its message, its messages so far, and the results of calls that wait for others."""

    message: str
    position: TracePosition
    """Where its events continue."""
    messages: Messages = ()
    results: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


@frozen
class SessionDump:
    """Everything that a session remembers."""

    turn: Mapping[str, Any]
    """The fields of its turns that are JSON values."""
    tools: tuple[str, ...] = ()
    """The names of the tools it was given."""
    clearance: Trust | None = None
    history: tuple[bytes, ...] = ()
    """The messages of each turn, in their stored form."""
    ledger_state: LedgerState | None = None
    calibrations: tuple[Calibration, ...] = ()
    replies: tuple[str, ...] = ()
    """Hashes of the newest replies."""
    open: OpenTurnDump | None = None


def list_plain_fields(turn: Turn) -> Mapping[str, Any]:
    """Return the fields of a turn that differ from their defaults and are JSON values."""
    bare = Turn()
    return {
        one.name: str(value) if isinstance(value, TextEnum | Trust) else value
        for one in fields(turn)
        if one.name not in OBJECT_FIELDS
        and isinstance(value := getattr(turn, one.name), PLAIN_TYPES)
        and value != getattr(bare, one.name)
    }


def read_plain_fields(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a turn."""
    return {name: READERS[name](value) if name in READERS else value for name, value in shown.items()}


def dump_session(session: SessionDump) -> str:
    """Serialize a session."""
    known, turn = session.ledger_state, session.open
    shown = {
        "foreword_session": DUMP_VERSION,
        "turn": dict(session.turn),
        "tools": session.tools,
        "clearance": None if session.clearance is None else str(session.clearance),
        "history": [json.loads(stored) for stored in session.history],
        "ledger": None if known is None else [dump_ledger(known), dump_prefix(known.prefix)],
        "calibrations": [[one.model, one.calls, one.ratio, one.raw, one.error] for one in session.calibrations],
        "replies": session.replies,
        "open": None
        if turn is None
        else {
            "message": turn.message,
            "trace": [turn.position.trace, turn.position.span],
            "messages": json.loads(dump_messages(turn.messages)),
            "results": dict(turn.results),
        },
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def parse_session(text: str | bytes) -> SessionDump:
    """Parse a session; raise InputError if it is damaged or was dumped by another version."""
    try:
        shown = json.loads(text)
        version = shown["foreword_session"]
    except PARSE_ERRORS:
        raise InputError("this is no dump of a session; give what session.dump() returned") from None
    if version != DUMP_VERSION:
        raise InputError(f"this session was dumped in version {version!r}; this release reads {DUMP_VERSION}")
    try:
        return build_session(shown)
    except PARSE_ERRORS as error:
        raise InputError(f"the dump of this session is damaged: {type(error).__name__}: {error}") from None


def build_session(shown: Mapping[str, Any]) -> SessionDump:
    """Build a session from JSON."""
    turn, ledger, replies = shown["open"], shown["ledger"], shown["replies"]
    check_types(TEXT_TYPES, *shown["tools"], *replies)
    return SessionDump(
        turn=read_plain_fields(shown["turn"]),
        tools=tuple(shown["tools"]),
        clearance=None if shown["clearance"] is None else Trust[shown["clearance"].upper()],
        history=tuple(dump_messages(read_messages(messages)) for messages in shown["history"]),
        ledger_state=parse_ledger(ledger[0], parse_stored_prefix(ledger[1], hash_prefix_text(ledger[1])))
        if ledger
        else None,
        calibrations=tuple(read_calibration(*one) for one in shown["calibrations"]),
        replies=tuple(replies),
        open=None if turn is None else read_open_turn(**turn),
    )


def read_open_turn(
    message: str, trace: tuple[str, str], messages: Sequence[Any], results: Mapping[str, tuple[str, bool]]
) -> OpenTurnDump:
    """Read a turn under way."""
    check_types(TEXT_TYPES, message, *trace, *(text for text, _ in results.values()))
    known = {call: (text, bool(failed)) for call, (text, failed) in results.items()}
    position = TracePosition(trace=trace[0], span=trace[1])
    return OpenTurnDump(message=message, position=position, messages=read_messages(messages), results=known)


def read_messages(shown: Sequence[Any]) -> Messages:
    """Read messages, and check the type of each of their fields."""
    messages = load_messages(json.dumps(shown))
    for one in chain.from_iterable((message, *message.parts) for message in messages):
        for each in fields(one):
            if each.name != "parts" and type(getattr(one, each.name)) is not type(each.default):
                raise TypeError(f"the field {each.name} of a message has an unexpected type")
    return messages


def read_calibration(model: str, calls: int, ratio: float, raw: float, error: float) -> Calibration:
    """Read the token calibration of a model."""
    check_types(TEXT_TYPES, model)
    check_types(frozenset({int, float}), calls, ratio, raw, error)
    return Calibration(model=model, calls=calls, ratio=ratio, raw=raw, error=error)
