"""The held calls of the person at the terminal: listed, allowed and denied."""

from collections.abc import Sequence

from foreword.cli.chat.clean import clean
from foreword.cli.chat.talk import Talk
from foreword.gateway.held_calls import HeldCall

NOTHING = "no calls are waiting for approval"


async def show_held(talk: Talk) -> None:
    """Show the waiting calls, if there are any."""
    note_waiting(talk, await list_waiting(talk))


async def allow(talk: Talk, rest: str) -> str:
    """Run the held call with this id, and show the answer; without an id only list the waiting calls."""
    if not rest:
        return await show_choices(talk)
    accepted = await talk.gateway.held.allow(talk.place.user, talk.found.clearance.level, rest, asks=talk.asks)
    await talk.follow(accepted)
    return ""


async def deny(talk: Talk, rest: str) -> str:
    """Drop the held call with this id; without an id only list the waiting calls."""
    if not rest:
        return await show_choices(talk)
    held = await talk.gateway.held.deny(talk.place.user, talk.found.clearance.level, rest)
    talk.note(f"{held.name} is denied; nothing was done")
    return ""


async def list_waiting(talk: Talk) -> Sequence[HeldCall]:
    """List the waiting calls of this person."""
    return await talk.gateway.held.list(talk.place.user, talk.found.clearance.level)


async def show_choices(talk: Talk) -> str:
    """Show the waiting calls, or that there are none."""
    waiting = await list_waiting(talk)
    note_waiting(talk, waiting)
    if not waiting:
        talk.note(NOTHING)
    return ""


def note_waiting(talk: Talk, waiting: Sequence[HeldCall]) -> None:
    """Show calls, each with the commands that decide about it."""
    for one in waiting:
        talk.note(f"awaiting approval: {clean(one.question)}\n/allow {one.id} runs it once, /deny {one.id} drops it")
