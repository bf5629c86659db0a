"""One night in which all 17 types of the document are told, each where the document says."""

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from night import BUSY, CONFIG, LONG, USAGE, make_night, make_turn

from foreword.cli import main
from foreword.events.event import CATEGORIES, EventType, Level
from foreword.events.listening import listen
from foreword.store.open import read_events
from foreword.testing import MovedClock, Reply, ToolFailed, make_workspace, write_files
from foreword.tools import WITH_LOG
from foreword.tools.answer import Answer
from foreword.turn import Message, Turn

LIMITED = CONFIG + "budgets: {schedules: {morning: {daily_usd: 0.0001}}}\n"
TOOLS = ("memory_search", "save_memory", "bash")
TALK = tuple(Message(role=role, text="A long story. " * 40) for role in ("user", "assistant") * 5)
BEGIN = datetime(2026, 11, 16, 2, 40, tzinfo=UTC)
ROOTS = ("", "message_received", "schedule_fired")
# Each type: the category of the document, the types that it may stand under, its columns and its facts.
TYPES = {
    "message_received": ("channel", [""], (), {"length"}),
    "message_sent": ("channel", ROOTS[1:], ("duration_ms",), {"length", "attempt"}),
    "channel_error": ("channel", ROOTS[1:], ("duration_ms", "error"), {"length", "attempt"}),
    "trust_resolved": ("router", ROOTS[1:], (), {"user", "situation", "ceiling", "effective"}),
    "prompt_built": ("prompt", ROOTS[1:], ("prompt_hash",), {"layers", "tokens", "cached_tokens"}),
    "turn_started": ("agent", ROOTS[1:], ("model",), {"attempt"}),
    "turn_completed": ("agent", ROOTS[1:], ("duration_ms",), set()),
    "api_call": ("provider", ["turn_started"], ("model", "tokens_in", "tokens_out", "cost_usd"), {"sections"}),
    "api_error": ("provider", ["turn_started"], ("model", "error"), {"attempt"}),
    "tool_call": ("tool", ["turn_started"], ("duration_ms",), {"name", "status"}),
    "tool_error": ("tool", ["turn_started"], ("duration_ms", "error"), {"name"}),
    "memory_search": ("memory", ["tool_call"], (), {"store", "count"}),
    "memory_write": ("memory", ["tool_call"], (), {"store", "count"}),
    "session_created": ("session", ROOTS[1:], (), set()),
    "session_compacted": ("session", [""], ("duration_ms",), {"tokens_before", "tokens_after", "turns"}),
    "schedule_fired": ("scheduler", [""], (), {"name"}),
    "config_reloaded": ("config", [""], (), {"changed"}),
}


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Live through a night in which everything happens once, and keep its rows and its budget's refusal."""
    home = tmp_path_factory.mktemp("night")
    fails = [OSError("the channel is closed")]

    def send(_):
        if fails:
            raise fails.pop()

    config = make_workspace(home, {"foreword.yaml": LIMITED}).config
    with listen(str(home / ".foreword"), config, MovedClock(BEGIN)) as told:
        loop, _ = make_night(home, told, LIMITED, LONG, send)
        answers = {
            "memory_search": Answer(text="", store="social", count=2, tokens=1),
            "save_memory": Answer(text="", store="private", count=1, tokens=1),
            "bash": ToolFailed("no such command"),
        }
        loop.receive(make_turn(), [Reply(tools=TOOLS, answers=answers, usage=USAGE), Reply(text="Done.", usage=USAGE)])
        loop.deliver([BUSY] * 4)
        loop.deliver([Reply(text="Done.", usage=USAGE)])
        shorter = loop.compact(make_turn(history=TALK))
        write_files(home, {"foreword.yaml": LIMITED + "rooms: {den: {ceiling: familiar}}\n"})
        loop._workspace.refresh(now=True)
        loop.fire("morning", make_turn(situation="system", session="cron"), [])
    with closing(read_events(str(home / ".foreword")).connection) as connection:
        connection.row_factory = lambda cursor, row: dict(zip([one[0] for one in cursor.description], row, strict=True))
        rows = connection.execute("SELECT * FROM events ORDER BY id").fetchall()
    return home, rows, loop, shorter


def test_all_17_are_told(night):
    """The night tells every type of the document, and no other."""
    assert {row["event_type"] for row in night[1]} == {kind.value for kind in EventType} == TYPES.keys()
    assert len(TYPES) == 17


@pytest.mark.parametrize("kind", TYPES)
def test_each_type(night, kind):
    """A type has its category, its level, its columns and facts, and its place in the tree of its turn."""
    category, above, columns, facts = TYPES[kind]
    by_span = {row["span_id"]: row["event_type"] for row in night[1]}
    # A warning is a budget's, about everybody, and stands under the call that met it.
    rows = [row for row in night[1] if row["event_type"] == kind and row["level"] != Level.WARN.value]
    for row in rows:
        assert row["category"] == category == CATEGORIES[EventType(kind)]
        assert by_span.get(row["parent_id"], "") in above
        assert all(row[column] not in (None, "") for column in columns)
        assert facts <= json.loads(row["metadata"] or "{}").keys()
        assert row["trace_id"]
    assert {row["level"] for row in rows} <= ({"error"} if kind.endswith("_error") else {"info", "error"})
    assert kind.endswith("_error") or Level.INFO.value in {row["level"] for row in rows}


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_is_found(night, kind, capsys):
    """The agent's tool and the command find a type by its name, and nothing else with it."""
    home, rows, loop, _ = night
    count = sum(row["event_type"] == kind for row in rows)
    assert main(["logs", "-w", str(home), "--event-type", kind, "--json"]) == 0
    assert [event["event_type"] for event in json.loads(capsys.readouterr().out)] == [kind] * count
    asked = Turn(user="alice", situation="dm", tools=WITH_LOG, now=loop._clock())
    workspace = loop._workspace
    told = workspace.call(workspace.assemble(asked), "foreword_logs", {"event_type": kind, "limit": 50}).text
    assert told.count(f"] {kind}") == count


def test_a_schedule_has_a_turn_and_a_budget(night):
    """The rows of a scheduled turn name their schedule, and its budget is what refuses it."""
    fired = [row for row in night[1] if row["schedule"] == "morning"]
    assert [row["event_type"] for row in fired] == [
        "schedule_fired", "trust_resolved", "session_created", "prompt_built", "turn_started", "api_error",
        "turn_completed", "message_sent",
    ]  # fmt: skip
    assert len({row["trace_id"] for row in fired}) == 1
    assert night[2].sent[-1].startswith("the daily budget is used up")


def test_a_compaction_says_how_much(night):
    """A compaction tells the tokens before and after and the turns that were folded, and leaves the newest messages."""
    (row,) = [row for row in night[1] if row["event_type"] == "session_compacted"]
    facts = json.loads(row["metadata"])
    assert (facts["turns"], row["session_id"], night[3].history) == (4, "abc", TALK[-2:])
    assert facts["tokens_before"] == 5 * facts["tokens_after"] > 0
