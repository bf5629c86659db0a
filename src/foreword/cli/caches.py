"""Checks of the caches: sessions that are billed again and again for the same cause."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from foreword.cli.checks import Check, doubt
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.events.repeated import Repeated
    from foreword.workspace import Workspace

RECENT = timedelta(days=1)
SHORT = 8  # digits of an id that are enough to name it
MOST = 5  # sessions that are named
# What has another cause than these comes from pauses, from small prompts or from the provider.
REMEDIES = {
    "section": "take what changes out of it (foreword lint finds clocks), or let its edits wait with edits: append",
    "tools": "keep the tools of a session the same, such as those that an MCP server lists",
    "model": "let a session keep its model: each has a cache of its own",
    "history": "see which part rewrites what was said",
    "lookback": "let tools be called in smaller groups",
    "limit": "let tools be called in smaller groups",
}


def check_caches(workspace: "Workspace") -> Iterator[Check]:
    """Check whether some session has been billed again and again for the same cause within a day."""
    from foreword.events.asking import ask
    from foreword.events.reader import find_reader
    from foreword.events.repeated import find_repeated
    from foreword.trust import resolve
    from foreword.turn import Turn

    turn = Turn(user=workspace.config.owner, situation="dm")
    reader = find_reader(turn, resolve(turn, workspace.config).level, workspace.config)
    since = datetime.now(UTC) - RECENT
    try:
        found, note = ask(workspace.state, lambda log: find_repeated(log, reader, since, REMEDIES))
    except InputError as error:
        yield doubt("log", str(error))
        return
    if note:
        yield doubt("log", note)
    yield from (doubt(f"session {one.session[:SHORT]}", describe(one), advise(one)) for one in found[:MOST])


def describe(one: "Repeated") -> str:
    """Describe what a session was billed again for."""
    from foreword.events.line import show_cost

    cause = " ".join(filter(None, (one.cause, one.where)))
    lost = "" if one.usd is None else f" for {show_cost(one.usd)}"
    return f"its cache broke {one.breaks} times within a day by {cause}: {one.tokens:,} tokens again{lost}"


def advise(one: "Repeated") -> str:
    """Say what to do about it, and where it can be seen."""
    return f"{REMEDIES[one.cause]}; see foreword trace {one.turn[:SHORT]}"
