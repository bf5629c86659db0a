"""Prompts by content hash: each distinct text is stored once, and every sent prompt can be shown again."""

import atexit
import json
import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from foreword.assembly import Assembly
from foreword.events import fork
from foreword.events.event import Reader
from foreword.events.moment import stamp
from foreword.events.question import find_trace
from foreword.events.row import INSERT, Report, clean
from foreword.events.sent import Piece, Sent, describe, identify, take_apart
from foreword.events.visible import reads_words, visible
from foreword.frozen import frozen
from foreword.store.open import FILE, Opened, is_passing, open_events
from foreword.store.open import identify as tell_file
from foreword.words import Trust

MOST = 1_000  # prompts that wait to be written
PAUSE = 0.5  # seconds between two tries on a full disk or a locked database
CLOSING = 5.0  # seconds that closing waits at most
BATCH = 50  # prompts that are pruned in one transaction
LOST = "events_lost"  # the type of the row that says how many prompts could not be kept


@frozen
class Sending:
    """A prompt on its way into the store."""

    hash: str
    assembly: Assembly
    time: datetime


def read_clock() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


class Prompts:
    """Keeps what was sent; the turn only waits for the hash, and a thread writes the rest."""

    def __init__(self, folder: str, clock: Callable[[], datetime] = read_clock) -> None:
        self._folder = folder
        self._clock = clock
        self._opened: Opened | None = None
        self.reset()
        _OPEN.add(self)
        fork.follow(self)

    def reset(self) -> None:
        """Begin without a thread and without anything that waits, as a forked process must."""
        if self._opened is not None:
            fork.leave(self._opened)
        self._opened, self._file = None, (0, 0)
        self._queue: deque[Sending] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = self._closed = False
        self._untold, self._reason = 0, ""
        self.lost = 0
        """How many prompts could not be kept; an event still has their hash."""

    def keep(self, assembly: Assembly) -> str:
        """Keep the prompt of a turn that is sent now; return the hash that its events carry."""
        sending = Sending(hash=identify(assembly), assembly=assembly, time=self._clock())
        with self._change:
            if self._closed or len(self._queue) >= MOST:
                self._lose("they came faster than they are written")
                return sending.hash
            self._queue.append(sending)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="foreword-prompts", daemon=True)
                self._thread.start()
            self._change.notify_all()
        return sending.hash

    def flush(self, seconds: float = CLOSING) -> bool:
        """Wait until everything is written; return whether it is."""
        with self._change:
            return self._change.wait_for(lambda: not self._queue and not self._busy, seconds)

    def close(self) -> None:
        """Write what is left, as far as that is possible now."""
        self.flush()
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._thread:
            self._thread.join(CLOSING)

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._untold += 1
        self._reason = reason

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    self.lost += len(self._queue)
                    self._disconnect()
                    return
                batch, self._busy = list(self._queue), True
                self._queue.clear()
            written = self._write(batch)
            with self._change:
                self._busy = False
                if not written:
                    self._queue.extendleft(reversed(batch))
                    self._change.notify_all()
                    self._change.wait(PAUSE)
                self._change.notify_all()

    def _write(self, batch: list[Sending]) -> bool:
        """Write prompts in one transaction; after a failure the file is opened anew.

        One that cannot be written is lost alone, and a row says so; where the file is at fault, all wait.
        """
        told, reasons = self._untold, []
        try:
            connection = self._connect()
            with writing(connection):
                for sending in batch:
                    try:
                        with saving(connection):
                            write_prompt(connection, sending)
                    except Exception as error:
                        if is_passing(error):
                            raise
                        reasons.append(f"{type(error).__name__}: {error}")
                self._report(connection, told + len(reasons), reasons[-1] if reasons else self._reason)
        except Exception as error:  # noqa: BLE001 - whatever happens, the next prompts are written
            self._disconnect()
            if is_passing(error):
                return False
            with self._change:
                for _ in batch:
                    self._lose(f"{type(error).__name__}: {error}")
            return True
        with self._change:
            self.lost += len(reasons)
            self._untold -= told
        return True

    def _connect(self) -> sqlite3.Connection:
        """Open the file, or open it again where another one has taken its place."""
        path = os.path.join(self._folder, FILE)
        if self._opened is None or self._file != tell_file(path):
            self._disconnect()
            self._opened = open_events(self._folder)
            self._file = tell_file(path)
        return self._opened.connection

    def _disconnect(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            with suppress(sqlite3.Error):
                opened.connection.close()

    def _report(self, connection: sqlite3.Connection, lost: int, reason: str) -> None:
        """Tell how many prompts were lost, at full trust, since they are everybody's."""
        if lost:
            prompts = "1 prompt was" if lost == 1 else f"{lost:,} prompts were"
            said = f"{prompts} not kept: {reason}"
            report = Report(stamp(read_clock()), "warn", LOST, said, {"lost_prompts": lost})
            connection.execute(INSERT, report.to_row().values)


def write_prompt(connection: sqlite3.Connection, sending: Sending) -> None:
    """Write a prompt, or that it was used again; the caller holds the transaction."""
    now = stamp(sending.time)
    used = connection.execute("SELECT last_used FROM prompts WHERE hash = ?", (sending.hash,)).fetchone()
    if used:
        if used[0][:10] < now[:10]:  # one that was used today already needs no further word about it
            connection.execute("UPDATE prompts SET last_used = ? WHERE hash = ?", (now, sending.hash))
        return
    facts = clean(json.dumps(describe(sending.assembly), ensure_ascii=False))
    row = connection.execute(
        "INSERT INTO prompts (hash, first_used, last_used, facts) VALUES (?, ?, ?, ?)", (sending.hash, now, now, facts)
    )
    pieces = list(take_apart(sending.assembly))
    texts = find_texts(connection, pieces)
    rows = [
        (row.lastrowid, position, piece.kind, piece.block, piece.name, piece.tokens, texts[piece.key])
        for position, piece in enumerate(pieces)
    ]
    connection.executemany("INSERT INTO prompt_pieces VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def find_texts(connection: sqlite3.Connection, pieces: Sequence[Piece]) -> dict[str, int]:
    """Find the rows of the texts of all pieces, by their hashes; those that are new are made."""
    texts = {piece.key: piece.text for piece in pieces}
    asked = "SELECT hash, id FROM sections WHERE hash IN (SELECT value FROM json_each(?))"
    found: dict[str, int] = dict(connection.execute(asked, (json.dumps(list(texts)),)).fetchall())
    for key, text in texts.items():
        if key not in found:
            made = connection.execute("INSERT INTO sections (hash, text) VALUES (?, ?)", (key, text)).lastrowid
            found[key] = made or 0
    return found


def find_prompts(connection: sqlite3.Connection, reader: Reader, turn: str) -> list[Sent]:
    """Find what the model saw in a turn, in order; of another's turn there is nothing."""
    hashes = dict.fromkeys(record.prompt_hash for record in find_trace(connection, reader, turn).records)
    found = (read_prompt(connection, reader, each) for each in hashes if each)
    return [sent for sent in found if sent]


def find_prompt_at(connection: sqlite3.Connection, reader: Reader, moment: datetime) -> Sent | None:
    """Find what the model saw last at a moment, among the prompts that the reader may see."""
    where, values = visible(reader)
    rows = connection.execute(
        "SELECT prompt_hash FROM events INDEXED BY idx_events_type WHERE event_type = 'prompt_built'"  # noqa: S608
        f" AND timestamp <= ? AND prompt_hash IS NOT NULL AND {where} ORDER BY timestamp DESC, id DESC",
        [stamp(moment), *values],
    )
    return next((sent for row in rows if (sent := read_prompt(connection, reader, row[0]))), None)


def read_prompt(connection: sqlite3.Connection, reader: Reader, key: str) -> Sent | None:
    """Read a prompt whose event the reader was shown; not one above their clearance or of another's private turn."""
    prompt = connection.execute("SELECT id, facts FROM prompts WHERE hash = ?", (key,)).fetchone()
    if prompt is None:
        return None
    facts = json.loads(prompt[1])
    if Trust[facts["clearance"]["level"].upper()] > reader.clearance:
        return None
    if not reads_words(reader, facts.get("person", facts["clearance"]["user"])):  # older prompts do not name the person
        return None
    rows = connection.execute(
        "SELECT kind, block, name, tokens, text, forgotten FROM prompt_pieces JOIN sections ON sections.id = section_id"
        " WHERE prompt_id = ? ORDER BY position",
        (prompt[0],),
    ).fetchall()
    pieces = [Piece(kind=row[0], block=row[1], name=row[2], tokens=row[3], text=row[4]) for row in rows]
    return Sent(
        hash=key,
        facts=facts,
        pieces=tuple(pieces),
        clearance=reader.clearance,
        forgotten=any(row[5] for row in rows),
    )


def prune_prompts(connection: sqlite3.Connection, before: datetime) -> int:
    """Remove some prompts that were last used before a moment, and texts that no other has; return how many.

    One call is one short transaction; call it until it returns nothing.
    """
    with writing(connection):
        old = connection.execute(
            "SELECT id FROM prompts WHERE last_used < ? ORDER BY last_used LIMIT ?", (stamp(before), BATCH)
        ).fetchall()
        for (prompt,) in old:
            texts = connection.execute(
                "SELECT DISTINCT section_id FROM prompt_pieces WHERE prompt_id = ?", (prompt,)
            ).fetchall()
            connection.execute("DELETE FROM prompt_pieces WHERE prompt_id = ?", (prompt,))
            connection.execute("DELETE FROM prompts WHERE id = ?", (prompt,))
            connection.executemany(
                "DELETE FROM sections WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM prompt_pieces WHERE section_id = ?1)",
                texts,
            )
    return len(old)


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a disk that is full has ended it already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def saving(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold a part of a transaction that is taken back alone where it fails."""
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
        raise
    finally:
        if connection.in_transaction:
            connection.execute("RELEASE part")


_OPEN: "weakref.WeakSet[Prompts]" = weakref.WeakSet()


@atexit.register
def close_all() -> None:
    """Write what is left when the interpreter ends."""
    for prompts in list(_OPEN):
        prompts.close()
