"""Claims about `foreword export`."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from event_rows import make_event, tell


@pytest.fixture(autouse=True)
def told(folder):
    """An event a day over forty days, of two people."""
    now = datetime.now(UTC)
    people = ("alice", "bob")
    events = [
        make_event(time=now - timedelta(days=day, minutes=1), user=people[day % 2], facts={"day": day})
        for day in reversed(range(40))
    ]
    tell(str(folder / ".foreword"), *events)


def days(text: str) -> list[int]:
    """The days that exported lines are about."""
    return [json.loads(line)["metadata"]["day"] for line in text.splitlines()]


def test_to_the_output(say):
    """Without a file the lines go to the output, in the order in which they were written."""
    answer = say("export")
    assert (answer.code, answer.err) == (0, "")
    assert days(answer.out) == list(reversed(range(40)))


def test_a_line_is_what_logs_shows(say):
    """A line has the columns that `logs --json` has."""
    (line,) = say("export", "--since", "1h").out.splitlines()
    (shown,) = say("logs", "--since", "1h", "--json").json
    assert json.loads(line) == shown


def test_to_a_file(say, folder):
    """A file is made with what was asked for; nothing is left beside it."""
    answer = say("export", "events.jsonl", "--since", "3d")
    assert answer.out == "exported: 3 events\n"
    assert days((folder / "events.jsonl").read_text()) == [2, 1, 0]
    assert not (folder / "events.jsonl.part").exists()


@pytest.mark.parametrize("more", [(), ("--prune", "--until", "30d")])
def test_nothing_is_written_over(say, folder, more):
    """A file that exists is refused and stays as it is, and nothing is deleted."""
    (folder / "events.jsonl").write_text("mine\n")
    answer = say("export", "events.jsonl", *more)
    assert (answer.code, answer.out) == (2, "")
    assert "exists already" in answer.err
    assert (folder / "events.jsonl").read_text() == "mine\n"
    assert len(say("logs", "--json").json) == 40


def test_for_a_reader(say):
    """Each reader exports what they may see."""
    assert all(day % 2 for day in days(say("export", "--reader", "bob").out))
    assert say("export", "--reader", "mallory").out == ""


def test_prune(say, folder):
    """What is exported is deleted, by whole days, and everything else stays."""
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
    """What could lose something, or makes no sense, is refused, and nothing is written or deleted."""
    answer = say("export", *line.split())
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    assert not (folder / "x.jsonl").exists()
    assert len(say("logs", "--json").json) == 40
