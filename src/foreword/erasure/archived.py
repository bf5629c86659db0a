"""Transcripts that the gateway keeps: a private one goes, that of a room is written anew from what is left."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from foreword.erasure.holding import STATE, Bases, Given
from foreword.erasure.person import NAMES, Person
from foreword.frozen import frozen
from foreword.store.archives import COLUMNS, Archive, drop_archive, read_archive

SPEAKING = (
    f"SELECT {COLUMNS} FROM archives WHERE user_id IN {NAMES}"
    f" OR EXISTS (SELECT 1 FROM json_each(people) WHERE value IN {NAMES}) ORDER BY path"
)


@frozen(eq=True)
class Archives:
    """The transcripts in which they speak."""

    name: str = "archived transcripts"
    base: str = STATE
    where: str = "groups/ and users/"
    claims: tuple[str, ...] = ("state.archives.*",)

    def find(self, bases: Bases, person: Person) -> int:  # noqa: ARG002 - what is theirs is marked
        """Count them."""
        return len(list_archives(bases.state))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: what they said is given as the turns that it was."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:  # noqa: ARG002
        """Remove each, and write that of a room anew, once their rows are gone."""
        found = list_archives(bases.state)
        for archive in found:
            assert bases.state is not None
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(bases.root, *archive.path.split("/")))
            drop_archive(bases.state, archive.path)
            if not archive.is_own:
                write_anew(bases, bases.state, archive)
        return len(found)


def list_archives(state: sqlite3.Connection | None) -> list[Archive]:
    """List the transcripts in which the person speaks."""
    return [read_archive(row) for row in state.execute(SPEAKING)] if state else []


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
