"""What the log has of a person: events, sums that name them, and what models saw in their turns or of their words."""

import json
import re
import sqlite3
from collections.abc import Iterator

from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import LOG, Bases, Given
from foreword.erasure.knowing import LOGGED
from foreword.erasure.person import Person
from foreword.events.event import EventType, Reader
from foreword.events.forgetting import ARGUMENTS, STEP, wipe_arguments
from foreword.events.prompts import read_prompt
from foreword.events.record import SELECTED, read_record
from foreword.events.tally import FIGURES, KEY
from foreword.frozen import frozen
from foreword.words import Trust

WHERE = ".foreword/events.sqlite"
MINE = f"(user_id IN {LOGGED} OR trace_id IN (SELECT id FROM theirs WHERE kind = 'trace'))"
ALONE = (
    "hash IN (SELECT id FROM theirs WHERE kind = 'prompt')"
    " AND hash NOT IN (SELECT prompt_hash FROM events WHERE prompt_hash IS NOT NULL"
    f" AND coalesce(user_id, '') NOT IN {LOGGED})"
)
UNTOLD = "hash NOT IN (SELECT prompt_hash FROM events WHERE prompt_hash IS NOT NULL)"
SUMS = ("totals_quarter", "totals_day")
OWNED = f"owner IN {LOGGED}"
NAMED = (
    f"owner NOT IN {LOGGED} AND (kind = 'user' AND name IN {LOGGED}"
    " OR kind = 'session' AND name IN (SELECT id FROM theirs WHERE kind = 'session'))"
)
FAILED = EventType.TOOL_ERROR.value
EVERYTHING = Reader(user="", clearance=Trust.FULL)


@frozen(eq=True)
class Prompts:
    """What models saw in their turns; a prompt that somebody else was sent, too, to the last byte, is nobody's own."""

    name: str = "recorded prompts"
    base: str = LOG
    where: str = WHERE
    claims: tuple[str, ...] = ("log.prompts.*", "log.prompt_pieces.*")

    def find(self, bases: Bases, person: Person) -> int:
        """Count them."""
        return len(list_prompts(bases.log, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give each as it was sent."""
        for _, key in list_prompts(bases.log, person):
            assert bases.log is not None
            if sent := read_prompt(bases.log, EVERYTHING, key):
                level = Trust[sent.facts["clearance"]["level"].upper()]
                yield Given(row={"hash": key, "clearance": str(level), "text": sent.text}, trust=level)

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove them, and each text that no other prompt has."""
        log, found = bases.log, list_prompts(bases.log, person)
        for prompt, _ in found:
            assert log is not None
            log.execute("DELETE FROM prompt_pieces WHERE prompt_id = ?", (prompt,))
            log.execute("DELETE FROM prompts WHERE id = ?", (prompt,))
        if log and found:
            log.execute("DELETE FROM sections WHERE id NOT IN (SELECT section_id FROM prompt_pieces)")
        return len(found)


def list_prompts(log: sqlite3.Connection | None, person: Person) -> list[tuple[int, str]]:
    """List the prompts of a person; one that no event tells of is theirs where it says so."""
    if log is None:
        return []
    names = "|".join(map(re.escape, sorted(person.names)))
    named = re.compile(rf"(?<![\w.-])(?:{names}) is ")
    own = log.execute(f"SELECT id, hash FROM prompts WHERE {ALONE}").fetchall()
    untold = log.execute(f"SELECT id, hash, facts FROM prompts WHERE {UNTOLD}").fetchall()
    known = {number for number, _ in own}
    return own + [
        (number, key)
        for number, key, facts in untold
        if number not in known and named.search(json.loads(facts)["clearance"]["reason"])
    ]


@frozen(eq=True)
class Sections:
    """Prompts of others, as far as they show what was remembered of this person, or repeat their words."""

    name: str = "recorded prompts of others that quote them"
    base: str = LOG
    where: str = WHERE
    claims: tuple[str, ...] = ("log.sections.text", "log.sections.hash")

    def find(self, bases: Bases, person: Person) -> int:
        """Count the texts."""
        return sum(1 for _ in self._blot(bases.log, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: the prompts are others', and the words are given where they were said."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Blot their words out; a hash would confirm a guess, so it goes, too."""
        changed = list(self._blot(bases.log, person))
        if bases.log:
            order = "UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?"
            bases.log.executemany(order, changed)
        return len(changed)

    def _blot(self, log: sqlite3.Connection | None, person: Person) -> Iterator[tuple[str, int]]:
        if log is None:
            return
        blotter, last = Blotter(person), 0
        theirs = {number for number, _ in list_prompts(log, person)}
        while rows := log.execute(
            "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?", (last, STEP)
        ).fetchall():
            last = rows[-1][0]
            for row, text in rows:
                after = blotter.wipe_value(text)
                if after != text and not is_only_theirs(log, row, theirs):
                    yield after, row


def is_only_theirs(log: sqlite3.Connection, section: int, prompts: set[int]) -> bool:
    """Whether a text goes anyway, with the prompts that have it."""
    users = log.execute("SELECT DISTINCT prompt_id FROM prompt_pieces WHERE section_id = ?", (section,))
    return all(prompt in prompts for (prompt,) in users)


@frozen(eq=True)
class Sums:
    """Sums of what was used: those for their own eyes go, and in everybody's their name gives way to nobody's."""

    name: str = "sums under their name"
    base: str = LOG
    where: str = WHERE
    claims: tuple[str, ...] = tuple(f"log.{table}.{part}" for table in SUMS for part in ("owner", "name"))

    def find(self, bases: Bases, person: Person) -> int:  # noqa: ARG002 - what is theirs is marked
        """Count the sums that name them, or a session of theirs."""
        asked = (f"SELECT count(*) FROM {table} WHERE {OWNED} OR {NAMED}" for table in SUMS)
        return sum(bases.log.execute(one).fetchone()[0] for one in asked) if bases.log else 0

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give what they used and what it cost, by the day."""
        if bases.log is None:
            return
        asked = (
            f"SELECT trust, start, {', '.join(FIGURES)} FROM totals_day WHERE {OWNED} AND kind = 'all' AND room = ''"
        )
        found = bases.log.execute(asked).fetchall()
        for trust, start, *figures in found:
            yield Given(row={"day": start, **dict(zip(FIGURES, figures, strict=True))}, trust=Trust(trust))

    def forget(self, bases: Bases, person: Person) -> int:  # noqa: ARG002
        """Remove their own sums, and let the money that was spent stay spent without a name."""
        log, gone = bases.log, 0
        if log is None:
            return 0
        added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in FIGURES)
        for table in SUMS:
            gone += log.execute(f"DELETE FROM {table} WHERE {OWNED}").rowcount
            nameless = ", ".join("''" if part == "name" else part for part in KEY)
            sums = ", ".join(f"sum({figure})" for figure in FIGURES)
            by = ", ".join(part for part in KEY if part != "name")
            log.execute(
                f"INSERT INTO {table} ({', '.join((*KEY, *FIGURES))}) SELECT {nameless}, {sums} FROM {table}"
                f" WHERE {NAMED} GROUP BY {by} ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {added}",
            )
            gone += log.execute(f"DELETE FROM {table} WHERE {NAMED}").rowcount
        return gone


@frozen(eq=True)
class Events:
    """The events of their turns, and those that name them without being theirs."""

    name: str = "events"
    base: str = LOG
    where: str = WHERE
    claims: tuple[str, ...] = ("log.events.*",)

    def find(self, bases: Bases, person: Person) -> int:
        """Count them."""
        if bases.log is None:
            return 0
        (count,) = bases.log.execute(f"SELECT count(*) FROM events WHERE {MINE}").fetchone()
        return int(count) + sum(1 for _ in self._blot(bases.log, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give the events that are theirs, as the log shows them."""
        if bases.log is None:
            return
        asked = f"SELECT {SELECTED} FROM events WHERE user_id IN {LOGGED} ORDER BY id"
        for row in bases.log.execute(asked).fetchall():
            record = read_record(row)
            yield Given(row=record.to_dict(EVERYTHING), trust=record.trust)

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove their events; remove their name and words from those of others."""
        log = bases.log
        if log is None:
            return 0
        gone = log.execute(f"DELETE FROM events WHERE {MINE}").rowcount
        changed = list(self._blot(log, person))
        log.executemany("UPDATE events SET error = ?, metadata = ? WHERE id = ?", changed)
        return gone + len(changed)

    def _blot(self, log: sqlite3.Connection, person: Person) -> Iterator[tuple[str | None, str | None, int]]:
        """Find events of others that hold their name or, in tool arguments and tool errors, their words."""
        blotter = Blotter(person)
        found = log.execute(
            f"SELECT id, event_type, error, metadata FROM events WHERE NOT coalesce({MINE}, 0)"
            f" AND (event_type = '{FAILED}' OR instr(metadata, '{ARGUMENTS}') OR EXISTS"
            " (SELECT 1 FROM theirs WHERE kind = 'name'"
            " AND (instr(error, theirs.id) OR instr(metadata, theirs.id))))",
        ).fetchall()
        for row, kind, error, metadata in found:
            words = blotter.wipe(error) if error and kind == FAILED else error
            facts = wipe_arguments(metadata, blotter.wipe_value)
            after = tuple(text and blotter.unname(text) for text in (words, facts))
            if after != (error, metadata):
                yield after[0], after[1], row
