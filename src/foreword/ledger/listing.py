"""Listings: the menu of memories is one section of many files, and what holds for a file holds for its line there."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from foreword.frozen import frozen
from foreword.ledger.line import Base, Line
from foreword.ledger.wanted import Wanted, find_policy
from foreword.words import Policy

PRICE = re.compile(r" \([0-9,]+ tok\)(?= — |$)")  # behind the path, which may have brackets of its own
STORES = "memory/"  # the folder that lines of a menu leave out


@frozen(eq=True)
class Waiting:
    """A file whose line on a menu is not what the file would have it be, since its edits wait."""

    section: str
    path: str
    what: str
    """changed or added."""
    policy: Policy


def list_entries(text: str) -> dict[str, str]:
    """List what a listing names, each with its line; of two that cannot be told apart the second is its whole line."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("- "):
            name = PRICE.split(line[2:], maxsplit=1)[0]
            found[line if name in found else name] = line
    return found


def hold_entries(told: Mapping[str, Line], wanted: Wanted, *, warm: bool) -> tuple[Wanted, tuple[Waiting, ...]]:
    """Keep the lines of files whose edits wait as they were told; what is gone is gone."""
    if not any(policy in (Policy.COLD, Policy.NEXT_SESSION) for policy in wanted.policies.values()):
        return wanted, ()
    waiting = {
        line.id: found
        for line in wanted.base.lines
        if line.id in wanted.listings and line.id in told
        if (found := tuple(list_waiting(told[line.id], line, wanted, warm=warm)))
    }
    if not waiting:
        return wanted, ()
    blocks = tuple(
        tuple(keep(told[line.id], line, waiting[line.id], wanted) if line.id in waiting else line for line in lines)
        for lines in wanted.base.blocks
    )
    return replace(wanted, base=Base(blocks=blocks)), tuple(one for found in waiting.values() for one in found)


def list_waiting(before: Line, after: Line, wanted: Wanted, *, warm: bool) -> Iterator[Waiting]:
    """List the entries of a listing whose new lines wait."""
    told = list_entries(before.text)
    for name, line in list_entries(after.text).items():
        policy = find_entry_policy(wanted.policies, name)
        if told.get(name) != line and (policy is Policy.NEXT_SESSION or (policy is Policy.COLD and warm)):
            yield Waiting(section=after.id, path=name, what="changed" if name in told else "added", policy=policy)


def keep(before: Line, after: Line, waiting: tuple[Waiting, ...], wanted: Wanted) -> Line:
    """Keep the lines of those that wait."""
    told, now = list_entries(before.text), list_entries(after.text)
    lines = {now[one.path]: told.get(one.path) for one in waiting}
    text, piece = (put(one, lines) for one in (after.text, after.piece))
    return replace(after, text=text, piece=piece, tokens=wanted.layout.meter.count(piece))


def put(text: str, lines: Mapping[str, str | None]) -> str:
    """Put other lines into the places of some, or nothing."""
    kept = (lines.get(line, line) for line in text.split("\n"))
    return "\n".join(line for line in kept if line is not None)


def find_listing_policy(before: Line, after: Line, wanted: Wanted) -> Policy:
    """Find what holds for a change of a listing: now if that holds for one line of it, append if for all."""
    told, now = list_entries(before.text), list_entries(after.text)
    names = (name for name in {**told, **now} if told.get(name) != now.get(name))
    found = {find_entry_policy(wanted.policies, name) for name in names}
    return Policy.NOW if Policy.NOW in found else Policy.APPEND if found == {Policy.APPEND} else after.policy


def find_entry_policy(policies: Mapping[str, Policy], name: str) -> Policy:
    """Find what holds for the file of an entry; those of stores are named without their folder."""
    known = find_policy(policies, name)
    return find_policy(policies, f"{STORES}{name}") if known is Policy.AUTO else known
