"""`foreword status`, `logs`, `trace` and `cost`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from event_rows import make_event, record_events
from foreword.events.event import EventType, Level, TracePosition, Usage
from foreword.types import Trust

# The parent process may ignore interrupts, which a child would inherit.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
RUN = [sys.executable, "-c", f"{HEED}; import sys; from foreword.cli.main import main; sys.exit(main())"]
TRACE = "3f2a9c01" + "0" * 24


def ago(minutes: float) -> dict[str, datetime]:
    """Return the time some minutes before now."""
    return {"time": datetime.now(UTC) - timedelta(minutes=minutes)}


@pytest.fixture
def state(folder) -> str:
    """The folder of the log."""
    return str(folder / ".foreword")


@pytest.fixture
def recorded(state):
    """A turn of alice's that failed once, and an event of bob's."""
    tell_all(state, ago)


def tell_all(state, when):
    """Record a turn of alice's that failed once and an event of bob's, some minutes ago."""
    usage = Usage(tokens_in=1_200, tokens_out=30, cache_read=1_000)
    turn = {"session": "s1", "channel": "signal"}
    record_events(
        state,
        make_event(EventType.MESSAGE_RECEIVED, **when(5), **turn, position=TracePosition(trace=TRACE, span="a")),
        make_event(
            EventType.TURN_STARTED, **when(4), **turn, position=TracePosition(trace=TRACE, span="b", parent="a")
        ),
        make_event(
            EventType.API_ERROR, level=Level.ERROR, error="429 rate limit", model="m-1", duration_ms=120,
            **when(3), **turn, position=TracePosition(trace=TRACE, span="c", parent="b"), facts={"attempt": 1},
        ),
        make_event(
            EventType.API_CALL, usage=usage, cost_usd=0.0123, model="m-1",
            **when(2), **turn, position=TracePosition(trace=TRACE, span="d", parent="b"),
        ),
        make_event(EventType.TOOL_CALL, **when(1), user="bob", channel="web", facts={"name": "bash"}),
        make_event(EventType.TOOL_CALL, **when(1), user="bob", trust=Trust.FULL, facts={"name": "vault"}),
    )  # fmt: skip


@pytest.mark.parametrize("line", ["status", "logs", "cost", "cache"])
def test_before_anything_happened(say, folder, line):
    """Before there is a log the answer says so, and none is created."""
    answer = say(*line.split())
    assert (answer.code, answer.err) == (0, "")
    assert "recorded" in answer.out
    assert not (folder / ".foreword" / "events.sqlite").exists()
    assert say(*line.split(), "--json").code == 0


@pytest.mark.usefixtures("recorded")
def test_logs(say, monkeypatch):
    """The events are a table, the newest last, with the other fields at the end of each row."""
    monkeypatch.setenv("COLUMNS", "200")
    lines = say("logs", "--user", "alice").out.splitlines()
    assert lines[0].split() == ["time", "level", "event", "user", "channel", "turn", "what"]
    assert [line.split()[3] for line in lines[1:]] == ["message_received", "turn_started", "api_error", "api_call"]
    assert lines[3].endswith('duration=120ms model=m-1 error="429 rate limit" attempt=1 session=s1')
    assert "3f2a9c01" in lines[1]


@pytest.mark.usefixtures("recorded")
def test_logs_json(say):
    """As JSON each event has every column."""
    (event,) = say("logs", "--level", "error", "--since", "1h", "--json").json
    assert (event["event_type"], event["error"], event["metadata"]) == ("api_error", "429 rate limit", {"attempt": 1})
    assert (event["trace_id"], event["user_id"], event["cost_usd"]) == (TRACE, "alice", None)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("", 6),
        ("--session s1", 4),
        ("--level warn", 1),
        ("--event-type tool_call", 2),
        ("--user bob", 2),
        ("--channel signal", 4),
        ("--since 150s", 3),
        ("--until 150s", 3),
        ("--limit 2", 2),
        ("--limit 1000000000", 6),
        ("--reader bob", 1),
        ("--reader bob --user alice", 0),
        ("--reader mallory", 0),
        ("--room family", 0),
    ],
)
def test_filters(say, line, count):
    """Each filter works, and each reader sees only permitted events."""
    assert len(say("logs", "--json", *line.split()).json) == count


@pytest.mark.usefixtures("recorded")
def test_more(say):
    """The output says if there are more events or if the limit is too high."""
    assert "older events match; to see them, use --until 20" in say("logs", "--limit", "2").out
    assert "older" not in say("logs", "--limit", "6").out
    assert "1,000 events at most" in say("logs", "--limit", "5000").err


def test_every_page(say, state):
    """Following the offered pages shows every event once, even if several share a moment or a second."""
    moment = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    times = [moment.replace(microsecond=at // 2) for at in range(9)]
    record_events(state, *(make_event(EventType.TOOL_CALL, time=time, facts={"n": n}) for n, time in enumerate(times)))
    seen, onward = [], ()
    for _ in range(9):
        out = say("logs", "--limit", "2", *onward).out
        seen += [int(n) for n in re.findall(r"\bn=(\d+)", out)[::-1]]
        older = re.search(r"older events match; to see them, use (--until) (\S+) ", out)
        if not older:
            break
        onward = older.groups()
    assert seen == [8, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.usefixtures("recorded")
def test_numbers_of_rows(say):
    """Row numbers are shown only to the owner: gaps would reveal how many rows others have."""
    for line in ("logs --json", "status --json", f"trace {TRACE} --json", "export"):
        assert '"id": ' in say(*line.split()).out
    assert '"id": ' not in say("logs", "--json", "--reader", "bob").out
    assert '"id": ' not in say("export", "--reader", "bob").out
    assert len(say("export", "--reader", "bob").out.splitlines()) == 1


@pytest.mark.usefixtures("recorded")
def test_trace(say, monkeypatch):
    """A turn is a tree with its figures in columns and a summary line."""
    monkeypatch.setenv("COLUMNS", "200")
    head, *lines = say("trace", "3f2a9c").out.splitlines()
    assert head.split() == ["at", "took", "in", "out", "cost", "what"]
    assert lines[0].endswith(" [channel] message_received")
    assert lines[1].endswith("   [agent] turn_started")
    assert "120ms" in lines[2]
    assert lines[2].endswith('     error [provider] api_error model=m-1 error="429 rate limit" attempt=1')
    assert lines[3].split()[1:] == ["1,200", "30", "$0.0123", "[provider]", "api_call", "model=m-1"]
    assert lines[-1].startswith(f" turn {TRACE} · user alice · channel signal · session s1 · ")
    assert lines[-1].endswith("1 call · 1,200 tokens in, 30 out · cost $0.0123 · 1 error")
    assert [row["depth"] for row in say("trace", TRACE, "--json").json] == [0, 1, 2, 2]


SESSIONS = "foreword status lists sessions of the last day, foreword cost --by session --since 30d older ones"
UNKNOWN = {
    "trace 3f2a9d": "no such turn; foreword logs lists turns",
    "trace 3f2a9c --reader bob": "no such turn; foreword logs lists turns",
    "trace --at 1d": "no such turn; foreword logs lists turns",
    "trace 3f2a9d --prompt": "no recorded prompt for this turn; foreword logs lists turns",
    "trace 3f2a9c --explain": "no recorded prompt for this turn; foreword logs lists turns",
    "cache --session s9": f"no session 's9' is recorded; {SESSIONS}",
    "cache --session s1 --reader bob": f"no session 's1' is recorded; {SESSIONS}",
    "cache --user bobb": "unknown user 'bobb'; did you mean 'bob'?",
    "cache --room famly": "unknown room 'famly'; did you mean 'family'?",
    "logs --session s9": f"no session 's9' is recorded; {SESSIONS}",
    "logs --follow --session s9": f"no session 's9' is recorded; {SESSIONS}",
    "logs --user zed": "unknown user 'zed'; there is alice, bob",
    "logs --room famly": "unknown room 'famly'; did you mean 'family'?",
    "cost --room famly": "unknown room 'famly'; did you mean 'family'?",
    "status --room famly": "unknown room 'famly'; did you mean 'family'?",
    "export --room famly": "unknown room 'famly'; did you mean 'family'?",
}


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("line", UNKNOWN)
def test_what_is_not_there(say, line):
    """An unknown turn, session, user or room is an error with a remedy, not an empty answer."""
    for form in ([], ["--json"]):
        assert astuple(say(*line.split(), *form)) == (2, "", f"foreword: {UNKNOWN[line]}\n")


def test_who_is_only_in_the_log(say, state):
    """Users, rooms and session id prefixes that are in the log but not in foreword.yaml are accepted."""
    record_events(state, make_event(**ago(1), user="telegram:7", room="attic", session="56a92fa4ffff"))
    lines = ("logs --user telegram:7", "logs --session 56a92f", "cache --user telegram:7", "cache --session 56a92f")
    for line in (*lines, "logs --room attic", "cache --room attic", "cost --room attic"):
        assert say(*line.split()).code == 0
    assert len(say("logs", "--session", "56a92f", "--json").json) == 1


def test_others_are_not_hinted_at(say):
    """A reader with limited access gets the same answer about any other user, known or not."""
    answers = {say("logs", "--reader", "bob", "--user", name) for name in ("alice", "zed")}
    assert len(answers) == 1


def test_cost(say, state, monkeypatch):
    """The specification's three cost questions are answered, and each sum has a bar."""
    moment = ago(2)  # one time for all, because midnight may be near
    tell_all(state, lambda _: moment)
    monkeypatch.setenv("COLUMNS", "200")
    lines = say("cost", "--since", "1h").out.splitlines()
    assert lines[0].endswith("$0.0123, 1 turn, 1 call, 1,200 tokens in (1,000 cached), 30 out")
    assert lines[1:3] == ["on average $0.0123 a turn", "most tokens: session s1 with 1,230"]
    assert lines[4].split() == ["day", "cost", "turns", "calls", "unpriced", "in", "cached", "out"]
    assert lines[5].split()[1:] == ["$0.0123", "1", "1", "0", "1,200", "1,000", "30", "█" * 20]
    for kind in ("session", "user", "agent", "channel", "section", "model"):
        answer = say("cost", "--since", "1h", "--by", kind, "--json").json
        assert (answer["by"], answer["whole"]["cost_usd"], answer["usd_per_turn"]) == (kind, 0.0123, 0.0123)
        assert answer["most_tokens"]["name"] == "s1"
    assert say("cost", "--reader", "bob", "--json").json["whole"]["cost_usd"] is None


@pytest.mark.usefixtures("recorded")
def test_status(say):
    """The status has channels, sessions, memory and errors, as tables and as JSON."""
    out = say("status").out
    assert [word in out for word in ("signal", "s1", "private", "429 rate limit")] == [True] * 4
    status = say("status", "--json").json
    assert [channel["name"] for channel in status["channels"]] == ["signal"]
    assert [store["store"] for store in status["memory"]] == ["private", "shared", "social"]
    assert (status["sessions"], len(status["errors"])) == (1, 1)
    mine = say("status", "--reader", "bob", "--json").json
    assert (mine["channels"], mine["sessions"], mine["errors"]) == ([], 0, [])
    assert [store["store"] for store in mine["memory"]] == ["social"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("logs --level eror", "did you mean 'error'?"),
        ("logs --event-type api_eror", "did you mean 'api_error'?"),
        ("logs --since tomorrow", "write 30m, 12h, 7d, today"),
        ("logs --until 2026-02-30", "is not a time"),
        ("logs --since 1h --until 2h", "is not before"),
        ("logs --limit 0", "must be a whole number from 1"),
        ("logs --limit many", "invalid int value"),
        ("logs --follow --until today", "takes no --until"),
        ("trace xyz", "first 6 digits"),
        ("trace", "foreword trace --at TIME"),
        ("trace 3f2a9c --at 1h", "give one turn"),
        ("trace --at never", "is not a time"),
        ("trace --at never --prompt", "is not a time"),
        ("cost --since 9999-12-31T23:59", "is not a time"),
        ("cost --until 0001-02-01", "is not a time"),
        ("cost --until 2026-11-15T12:00Z#3", "is not a time"),
        ("export --since 9999-12-31T23:59", "is not a time"),
        ("cost --by moon", "unknown value 'moon'"),
        ("cost --since never", "is not a time"),
    ],
)
def test_bad_input(say, line, hint):
    """Invalid input is refused with code 2 and the accepted values."""
    answer = say(*line.split())
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err


@pytest.mark.parametrize("line", ["logs", "status", "cost", "cache"])
def test_a_damaged_log(say, state, line):
    """A damaged log is moved aside with a warning that names its place, and a new one is created."""
    record_events(state, make_event(**ago(1)))
    (Path(state) / "events.sqlite").write_bytes(b"nonsense" * 4_000)
    answer = say(*line.split())
    assert answer.code == 0
    assert "damaged" in answer.err
    assert [*Path(state).glob("events.sqlite.damaged-*")]
    assert say(*line.split()).err == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_follow(folder, state, as_json):
    """--follow prints each new event on a line until it is interrupted."""
    record_events(state, make_event(EventType.TOOL_CALL, **ago(9), facts={"n": 1}))
    line = [*RUN, "-w", str(folder), "logs", "--follow", "--event-type", "tool_call", *(["--json"] if as_json else [])]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        first = process.stdout.readline()
        record_events(state, make_event(EventType.TOOL_CALL, **ago(0), facts={"n": 2}), make_event(**ago(0)))
        second = process.stdout.readline()
        record_events(state, make_event(EventType.TOOL_CALL, **ago(60), facts={"n": 3}))
        third = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr.read() == ""
    if as_json:
        assert [json.loads(each)["metadata"]["n"] for each in (first, second, third)] == [1, 2, 3]
    else:
        assert ["n=1" in first, "n=2" in second, "n=3" in third] == [True] * 3


def test_follow_begins_before_the_log(folder, state):
    """--follow works before the first event is recorded."""
    line = [*RUN, "-w", str(folder), "logs", "--follow"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        time.sleep(1)
        record_events(state, make_event(EventType.TOOL_CALL, **ago(0), facts={"n": 2}))
        assert "n=2" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130


@pytest.mark.usefixtures("recorded")
def test_start():
    """Queries of the log import neither SQLAlchemy nor Alembic nor OpenTelemetry."""
    heavy = "{'sqlalchemy', 'alembic', 'opentelemetry'} & {name.partition('.')[0] for name in sys.modules}"
    code = f"import sys; from foreword.cli.main import main; sys.exit(main(sys.argv[1:]) or len({heavy}))"
    for line in (["logs"], ["cost"], ["trace", TRACE], ["status"]):
        assert subprocess.run([sys.executable, "-c", code, *line], check=False, capture_output=True).returncode == 0
