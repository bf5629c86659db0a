"""Transcripts that the gateway keeps: a private one goes, others with their words are written anew from the state."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import STATE, Bases, Given
from foreword.erasure.person import NAMES, Person
from foreword.erasure.remembered import read_whole
from foreword.frozen import frozen
from foreword.store.archives import COLUMNS, Archive, drop_archive, read_archive

SPEAKS = f"user_id IN {NAMES} OR EXISTS (SELECT 1 FROM json_each(people) WHERE value IN {NAMES})"
SPEAKING = f"SELECT {COLUMNS} FROM archives WHERE {SPEAKS} ORDER BY path"
OTHERS = f"SELECT {COLUMNS} FROM archives WHERE NOT ({SPEAKS}) ORDER BY path"
QUOTED = re.compile(r"(?m)^> ?")


@frozen(eq=True)
class Archives:
    """The transcripts in which they speak, and those of others in which an agent repeats their words."""

    name: str = "archived transcripts"
    base: str = STATE
    where: str = "groups/ and users/"
    claims: tuple[str, ...] = ("state.archives.*",)

    def find(self, bases: Bases, person: Person) -> int:
        """Count them."""
        return len(list_archives(bases.state)) + sum(1 for _ in list_quoting(bases, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: what they said is given as the turns that it was."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove each in which they speak, and write that of a room and those of others anew, once the state is."""
        found, quoting = list_archives(bases.state), list(list_quoting(bases, person))
        for archive in found:
            assert bases.state is not None
            drop(bases, bases.state, archive)
            if not archive.is_own:
                write_anew(bases, bases.state, archive)
        for archive, text in quoting:
            assert bases.state is not None
            if text:
                write_over(bases, archive, text)
            else:
                drop(bases, bases.state, archive)
        return len(found) + len(quoting)


def list_archives(state: sqlite3.Connection | None) -> list[Archive]:
    """List the transcripts in which the person speaks."""
    return [read_archive(row) for row in state.execute(SPEAKING)] if state else []


def list_quoting(bases: Bases, person: Person) -> Iterator[tuple[Archive, str]]:
    """List the transcripts of others that repeat the person's words, each with what it is to be; nothing if it goes.

    What another person wrote is theirs, also where it quotes: that stays, as it does in the state.
    """
    blotter = Blotter(person)
    for row in bases.state.execute(OTHERS).fetchall() if bases.state else ():
        archive = read_archive(row)
        place = locate(bases, archive)
        if not os.path.isfile(place) or os.path.realpath(place) != place:
            continue  # none is ever written through a link
        text = read_whole(place)
        plain = QUOTED.sub("", text)
        if blotter.wipe(plain) == plain:
            continue
        assert bases.state is not None
        after = show_blotted(bases, bases.state, archive, blotter)
        if after != text:
            yield archive, after


def show_blotted(bases: Bases, state: sqlite3.Connection, archive: Archive, blotter: Blotter) -> str:
    """Write a transcript from what the state has, without a person's words in what an agent said."""
    from foreword.gateway.archive import show
    from foreword.gateway.session import get_session
    from foreword.gateway.transcript import read_transcript

    session = get_session(state, archive.session)
    transcript = read_transcript(state, session) if session else None
    if transcript is None or not transcript.exchanges:
        return ""
    exchanges = tuple(replace(one, reply=blotter.wipe_value(one.reply)) for one in transcript.exchanges)
    return show(replace(transcript, exchanges=exchanges), bases.config)


def write_over(bases: Bases, archive: Archive, text: str) -> None:
    """Write a transcript in its place."""
    from foreword.gateway.archive import write_file

    write_file(bases.root, archive.path, text)


def drop(bases: Bases, state: sqlite3.Connection, archive: Archive) -> None:
    """Remove a transcript, and that there was one."""
    with suppress(FileNotFoundError):
        os.unlink(locate(bases, archive))
    drop_archive(state, archive.path)


def locate(bases: Bases, archive: Archive) -> str:
    """Say where a transcript lies."""
    return os.path.join(bases.root, *archive.path.split("/"))


def write_anew(bases: Bases, state: sqlite3.Connection, archive: Archive) -> None:
    """Write the transcript of a room from what the state has of it now, if that is anything."""
    from foreword.gateway.archive import describe_archive, find_other, show, write_file
    from foreword.gateway.moment import write_moment
    from foreword.gateway.session import get_session
    from foreword.gateway.transcript import read_transcript
    from foreword.store.archives import reserve, settle

    session = get_session(state, archive.session)
    transcript = read_transcript(state, session) if session else None
    if transcript is None or not transcript.exchanges:
        return
    renewed = describe_archive(transcript, bases.config)
    path = reserve(state, renewed, find_other(transcript, bases.config))
    write_file(bases.root, path, show(transcript, bases.config))
    settle(state, replace(renewed, path=path), write_moment(transcript.exchanges[-1].finished))
