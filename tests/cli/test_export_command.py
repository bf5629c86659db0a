"""`foreword export`."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from event_rows import make_event, record_events

RUN = [sys.executable, "-c", "import sys; from foreword.cli.main import main; sys.exit(main())"]


@pytest.fixture(autouse=True)
def recorded(folder):
    """An event a day over forty days, of two users."""
    now = datetime.now(UTC)
    people = ("alice", "bob")
    events = [
        make_event(time=now - timedelta(days=day, minutes=1), user=people[day % 2], facts={"day": day})
        for day in reversed(range(40))
    ]
    record_events(str(folder / ".foreword"), *events)


def days(text: str) -> list[int]:
    """Return the days of exported lines."""
    return [json.loads(line)["metadata"]["day"] for line in text.splitlines()]


def test_to_the_output(say):
    """Without a file the lines go to stdout, in the order of writing."""
    answer = say("export")
    assert (answer.code, answer.err) == (0, "")
    assert days(answer.out) == list(reversed(range(40)))


def test_only_one_file(say, folder):
    """A hyphen means stdout only; a further argument or an empty name is refused."""
    assert say("export", "-").out == say("export").out
    for words in (("-", "foo"), ("foo", "-"), ("-", "--since", "1d", "foo"), ("",)):
        answer = say("export", *words)
        assert (answer.code, answer.out) == (2, "")
    assert not (folder / "foo").exists()
    assert say("export", "--since", "3d", "foo").out == "exported: 3 events\n"


def test_a_line_is_what_logs_shows(say):
    """A line has the columns of `logs --json`."""
    (line,) = say("export", "--since", "1h").out.splitlines()
    (shown,) = say("logs", "--since", "1h", "--json").json
    assert json.loads(line) == shown


def test_to_a_file(say, folder):
    """The file contains the requested rows, and no temporary file remains."""
    answer = say("export", "events.jsonl", "--since", "3d")
    assert answer.out == "exported: 3 events\n"
    assert days((folder / "events.jsonl").read_text()) == [2, 1, 0]
    assert not (folder / "events.jsonl.part").exists()


@pytest.mark.parametrize("more", [(), ("--prune", "--until", "30d")])
def test_nothing_is_written_over(say, folder, more):
    """An existing file is refused and unchanged, and nothing is deleted."""
    (folder / "events.jsonl").write_text("mine\n")
    answer = say("export", "events.jsonl", *more)
    assert (answer.code, answer.out) == (2, "")
    assert "already exists" in answer.err
    assert (folder / "events.jsonl").read_text() == "mine\n"
    assert len(say("logs", "--json").json) == 40


def test_a_file_beside_it(say, folder):
    """Files with a similar name next to the new one are unchanged."""
    (folder / "events.jsonl.part").write_text("mine\n")
    assert say("export", "events.jsonl").code == 0
    assert say("export", "old.jsonl", "--until", "30d", "--prune").code == 0
    assert (folder / "events.jsonl.part").read_text() == "mine\n"
    assert sorted(path.name for path in folder.glob("*.jsonl*")) == ["events.jsonl", "events.jsonl.part", "old.jsonl"]


def test_the_output_is_gone(folder):
    """If the reader of stdout closes it, the command ends like others and does not blame the log."""
    record_events(str(folder / ".foreword"), *(make_event(facts={"text": "x" * 900}) for _ in range(300)))
    with subprocess.Popen([*RUN, "export"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(120) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk():
    """If stdout cannot be written, the error names stdout, not the log."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([*RUN, "export"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "log" not in done.stderr


def test_a_missing_folder(say):
    """A missing folder is named, and the log is not blamed."""
    answer = say("export", "nowhere/x.jsonl")
    assert (answer.code, answer.err) == (2, "foreword: nowhere/x.jsonl: No such file or directory\n")


@pytest.mark.parametrize("more", [(), ("--prune", "--until", "today")])
def test_a_broken_page(say, folder, more):
    """For a log with a broken page the error says how far it was read, and no partial or empty file remains."""
    record_events(
        str(folder / ".foreword"), *(make_event(facts={"mark": f"m{n}", "x": "x" * 300}) for n in range(9_000))
    )
    log = folder / ".foreword" / "events.sqlite"
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(log.read_bytes())
    start = content.find(b'"m6000"') // size * size
    content[start : start + size] = b"\xff" * size
    log.write_bytes(content)
    answer = say("export", "x.jsonl", *more)
    assert (answer.code, answer.out) == (2, "")
    assert re.search(r"could be read for only [4-6],\d{3} events", answer.err)
    assert not [*folder.glob("x.jsonl*")]
    lines = say("export").out.splitlines()
    assert 4_000 <= len(lines) < 7_000


def test_a_damaged_log(say, folder):
    """Exporting a log that had to be moved aside exports nothing and fails."""
    (folder / ".foreword" / "events.sqlite").write_bytes(b"nonsense" * 4_000)
    answer = say("export", "x.jsonl")
    assert answer.code == 2
    assert "damaged" in answer.err
    assert not [*folder.glob("x.jsonl*")]


def test_for_a_reader(say):
    """Each reader exports only permitted rows."""
    assert all(day % 2 for day in days(say("export", "--reader", "bob").out))
    assert say("export", "--reader", "mallory").out == ""


def test_prune(say, folder):
    """Exported rows are deleted by whole days, and all others stay."""
    answer = say("export", "old.jsonl", "--until", "30d", "--prune", "--json").json
    old = days((folder / "old.jsonl").read_text())
    left = [event["metadata"]["day"] for event in say("logs", "--json").json]
    assert old + left == list(reversed(range(40)))
    assert answer == {"file": "old.jsonl", "events": len(old), "pruned": len(old)}
    assert len(old) in (8, 9, 10)


@pytest.mark.parametrize(
    "line",
    [
        "--prune --until 30d",
        "x.jsonl --prune",
        "x.jsonl --prune --since 40d --until 30d",
        "x.jsonl --prune --until 30d --reader bob",
        "x.jsonl --prune --until 30d --room family",
        "x.jsonl --until never",
        "nowhere/x.jsonl",
    ],
)
def test_bad_input(say, folder, line):
    """Invalid or risky options are refused, and nothing is written or deleted."""
    answer = say("export", *line.split())
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    assert not (folder / "x.jsonl").exists()
    assert len(say("logs", "--json").json) == 40
