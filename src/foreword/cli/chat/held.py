"""The held calls of the person at the terminal: shown when the chat begins, allowed and denied."""

from collections.abc import Sequence

from foreword.cli.chat.clean import clean
from foreword.cli.chat.talk import Talk
from foreword.gateway.held_calls import HeldCall

NOTHING = "no call waits for your yes"


async def show_held(talk: Talk) -> None:
    """Show the calls that wait, if there are any."""
    if waiting := await talk.gateway.held.list(talk.place.user, talk.found.clearance.level):
        note_waiting(talk, waiting)


async def allow(talk: Talk, rest: str) -> str:
    """Allow a held call and show what comes of it; without an id the only one, or the list."""
    if held := await choose(talk, rest):
        level = talk.found.clearance.level
        accepted = await talk.gateway.held.allow(talk.place.user, level, held.id, asks=talk.asks)
        await talk.follow(accepted)
    return ""


async def deny(talk: Talk, rest: str) -> str:
    """Deny a held call; without an id the only one, or the list."""
    if held := await choose(talk, rest):
        await talk.gateway.held.deny(talk.place.user, talk.found.clearance.level, held.id)
        talk.note(f"{held.name} is denied; nothing was done")
    return ""


async def choose(talk: Talk, named: str) -> HeldCall | None:
    """Find the call that is meant; else list those that wait."""
    found = await talk.gateway.held.choose(talk.place.user, talk.found.clearance.level, named)
    if isinstance(found, HeldCall):
        return found
    if found:
        note_waiting(talk, found)
    else:
        talk.note(NOTHING)
    return None


def note_waiting(talk: Talk, waiting: Sequence[HeldCall]) -> None:
    """List calls that wait, each with the commands that decide about it."""
    for one in waiting:
        talk.note(f"waits for your yes: {clean(one.question)}\n/allow {one.id} runs it once, /deny {one.id} drops it")
