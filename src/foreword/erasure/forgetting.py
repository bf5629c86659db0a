"""Forgetting a person: what is theirs goes everywhere, and only what a second look no longer finds is called gone."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby

from foreword.erasure.archived import Archives
from foreword.erasure.busy import list_running, wait_for_others, wait_for_turns
from foreword.erasure.holding import Bases, Holding, changing, open_bases
from foreword.erasure.holdings import HOLDINGS
from foreword.erasure.house import House
from foreword.erasure.knowing import know
from foreword.erasure.ledgered import Ledgers
from foreword.erasure.logged import Sections
from foreword.erasure.person import Person, list_known
from foreword.erasure.remembered import Retold
from foreword.erasure.rewriting import rewrite
from foreword.erasure.room import Quotes
from foreword.erasure.scrubbing import scrub
from foreword.erasure.staying import list_staying
from foreword.errors import InputError, UnknownName, show_name
from foreword.frozen import frozen
from foreword.store.schema import PATIENCE, guard, make

PENDING = "forgetting"  # the file that names whom an interrupted run was about
ROUNDS = 3  # what is written while somebody is forgotten, such as the last event of a turn, goes in the next one
REST = 0.3  # seconds, at most, in which a gateway writes what it still has of a turn that has ended
LONGEST_NAME = 1_000
LATE = frozenset({Quotes().name, Archives().name, Sections().name, Retold().name, Ledgers().name})


@frozen(eq=True)
class Line:
    """What became of one holding."""

    name: str
    where: str
    found: int
    removed: int = 0
    left: int = 0
    """What a second look still found."""


@frozen(eq=True)
class Report:
    """What was found of a person and removed, and what stays and why; counts and places, and no word of theirs."""

    user: str
    lines: tuple[Line, ...]
    stays: tuple[str, ...] = ()
    done: bool = False
    """Whether a second look found nothing, and no file holds a byte of what was removed."""
    trouble: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        """How much there was of them."""
        return sum(line.found for line in self.lines)


def look(house: House, user: str) -> Report:
    """Say what there is of a person, and change nothing."""
    with open_bases(house.root, house.folder, house.config) as bases:
        check(house, bases, user)
        person = know(bases, user)
        lines = [Line(name=one.name, where=place(one, user), found=one.find(bases, person)) for one in HOLDINGS]
        return Report(user=user, lines=tuple(lines), stays=tuple(list_staying(house.text, bases, person)))


def forget(house: House, user: str, patience: float = 30.0, holdings: Sequence[Holding] = HOLDINGS) -> Report:
    """Remove what there is of a person, look again, and say what came of it.

    It can be interrupted at any moment, and begun again. A turn of theirs that is under way is stopped; no row of the
    state is removed while one goes on that would bring their words back.
    """
    with open_bases(house.root, house.folder, house.config) as bases:
        check(house, bases, user)
        with alone(house.folder, user, patience):
            person = know(bases, user)
            stays = tuple(list_staying(house.text, bases, person))
            lines: list[Line] = []
            begun = list_running(bases.state) if bases.state else set()
            for number in range(ROUNDS):
                lines = add_up(lines, go_through(bases, user, patience, holdings))
                if not any(line.left for line in lines):
                    break
                time.sleep(REST * number)  # the log of a gateway gathers its rows
            trouble = (*sweep(bases, person, begun, patience), *scrub(bases, patience))
            done = not trouble and not any(line.left for line in lines)
            if done:
                os.unlink(os.path.join(house.folder, PENDING))
            return Report(user=user, lines=tuple(lines), stays=stays, done=done, trouble=trouble)


def go_through(bases: Bases, user: str, patience: float, holdings: Sequence[Holding]) -> list[Line]:
    """Go through all holdings once: those of one base change together, or not at all."""
    person = know(bases, user)
    found = [one.find(bases, person) for one in holdings]
    removed: list[int] = []
    for base, group in groupby(holdings, key=lambda one: one.base):
        connection = bases.get(base)
        if connection is not None and connection is bases.state:
            removed += forget_in_state(bases, person, list(group), patience)
            continue
        with changing(connection):
            removed += [one.forget(bases, person) for one in group]
    time.sleep(min(REST, patience / 100))
    again = know(bases, user)
    left = [one.find(bases, again) for one in holdings]
    return [
        # What went with another holding is gone all the same.
        Line(name=one.name, where=place(one, user), found=there, removed=max(gone, there - still), left=still)
        for one, there, gone, still in zip(holdings, found, removed, left, strict=True)
    ]


def forget_in_state(bases: Bases, person: Person, holdings: Sequence[Holding], patience: float) -> list[int]:
    """Remove a person's rows at a moment at which no turn that has their words is under way."""
    with wait_for_turns(bases, person, patience):
        # What was said until this moment is theirs, too.
        person = know(bases, person.name)
        return [one.forget(bases, person) for one in holdings]


def sweep(bases: Bases, person: Person, begun: set[str], patience: float) -> Iterator[str]:
    """Blot what turns of others still wrote that were under way: their prompts may have had this person's memories."""
    if bases.state is None or not (begun or list_running(bases.state)):
        return
    ended = wait_for_others(bases.state, patience)
    for holding in HOLDINGS:
        if holding.name in LATE:
            with changing(bases.get(holding.base)):
                holding.forget(bases, person)
    if not ended:
        yield "a turn of somebody else is still under way, and may quote a memory of theirs; look at its answer"


def add_up(before: list[Line], now: list[Line]) -> list[Line]:
    """Add up what several rounds found and removed."""
    if not before:
        return now
    return [
        Line(name=new.name, where=new.where, found=old.found, removed=old.removed + new.removed, left=new.left)
        for old, new in zip(before, now, strict=True)
    ]


def place(holding: Holding, user: str) -> str:
    """Say where a holding lies, for this person."""
    return holding.where.replace("NAME", user)


def check(house: House, bases: Bases, user: str) -> None:
    """Refuse a name that nobody has, and the owner, whose workspace it is."""
    check_known(house, bases, user)
    if user == house.config.owner:
        raise InputError(
            f"{user} owns this workspace and is not forgotten in it; name another owner in foreword.yaml first, "
            "or remove the whole folder"
        )


def check_known(house: House, bases: Bases, user: str) -> None:
    """Refuse a name that nobody has and of whom nothing is kept."""
    if not user.strip() or len(user) > LONGEST_NAME or not user.isprintable():
        raise InputError(f"{show_name(user)} is no name of a person")
    if user not in (known := list_known(bases)) and user != read_pending(house.folder):
        raise UnknownName("user", user, known)


@contextmanager
def alone(folder: str, user: str, patience: float) -> Iterator[None]:
    """Forget one person at a time, and note whom, so that an interrupted run can be begun again."""
    os.makedirs(folder, 0o700, exist_ok=True)
    path = os.path.join(folder, PENDING)
    with ExitStack() as held:
        try:
            held.enter_context(guard(path, min(patience, PATIENCE)))
        except sqlite3.OperationalError:
            raise InputError("somebody is being forgotten already; wait until that is done, and try again") from None
        pending = read_pending(folder)
        if pending and pending != user:
            raise InputError(
                f"{show_name(pending)} is not forgotten whole yet, since that was interrupted; "
                f"first: foreword forget {pending} --yes"
            )
        make(path)
        rewrite(path, user)
        yield


def read_pending(folder: str) -> str:
    """Read whom an interrupted run was about."""
    with suppress(OSError), open(os.path.join(folder, PENDING), encoding="utf-8") as file:
        return file.read()
    return ""
