"""The introspection tools, which query the event log."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from event_rows import make_event, record_events
from foreword.agent.tools.log_tools import LOG_TOOLS, MAX_LOG_ANSWER_TOKENS
from foreword.agent.tools.registry import WITH_LOG
from foreword.engine.trust import Audience
from foreword.errors import InputError, UnknownName
from foreword.events.event import GROUPINGS, EventType, Level, TracePosition, Usage
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
users:
  alice: {trust: full, timezone: Europe/Paris}
  bob: {trust: familiar}
rooms: {kitchen: {timezone: Asia/Tokyo}}
"""
FILES = {"foreword.yaml": CONFIG, "memory/social/PEOPLE.md": "Carol.\n", "memory/private/DIARY.md": "Lisbon.\n"}
TRACE = "3f2a9c01" + "0" * 24
NAMES = ("foreword_status", "foreword_logs", "foreword_trace", "foreword_cost")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace whose clock is fixed at noon, UTC."""
    with make_workspace(tmp_path, FILES) as workspace:
        yield workspace


def record(ws: Workspace, *events: object) -> None:
    """Write events into the log of a workspace."""
    record_events(str(Path(ws.files.root) / ".foreword"), *events)


def use(ws: Workspace, tool: str, user: str = "alice", **arguments: object) -> str:
    """Use a tool in a person's private chat."""
    return ws.call(ws.assemble(Turn(user=user, situation="dm", tools=WITH_LOG)), tool, arguments).text


def test_the_four_are_built_in():
    """The tools are built in and need familiar trust."""
    assert {*NAMES} == LOG_TOOLS.names <= WITH_LOG.names
    assert {tool.trust for tool in LOG_TOOLS.tools} == {Trust.FAMILIAR}


@pytest.mark.parametrize("name", NAMES)
def test_strangers(ws, name):
    """A stranger's turn offers none of them, and calls are refused."""
    turn = ws.assemble(Turn(user="mallory", situation="dm", tools=WITH_LOG))
    assert not turn.tools.names & LOG_TOOLS.names
    with pytest.raises(UnknownName):
        ws.call(turn, name, {})


@pytest.mark.parametrize("name", NAMES)
def test_before_anything_happened(ws, name):
    """Without a log, the answers are empty and no log is created."""
    text = use(ws, name, **({"turn": TRACE} if name == "foreword_trace" else {}))
    assert re.search("^No recorded|no error is recorded|^There is no such turn|nothing is recorded", text)
    assert not (Path(ws.files.root) / ".foreword" / "events.sqlite").exists()


def test_logs(ws):
    """An event is one line: time in the reader's zone, type, owner and all facts."""
    usage = Usage(tokens_in=5_200, tokens_out=30, cache_read=3_100)
    record(
        ws,
        make_event(
            EventType.API_ERROR, -60, level=Level.ERROR, session="abc", channel="signal", agent="reid", model="m-1",
            error='429 "slow\ndown"', facts={"attempt": 1}, position=TracePosition(trace=TRACE), duration_ms=120,
        ),
        make_event(EventType.API_CALL, -59, usage=usage, cost_usd=0.02, duration_ms=4_200),
        make_event(EventType.API_CALL, -58, usage=usage),
    )  # fmt: skip
    assert use(ws, "foreword_logs", level="error", since="12h").split("\n") == [
        "Europe/Paris:",
        (
            "2026-11-15 12:00:00 error [provider] api_error user=alice channel=signal agent=reid session=abc "
            'duration=120ms model=m-1 error="429 \\"slow\\ndown\\"" attempt=1 turn=3f2a9c01'
        ),
    ]
    assert use(ws, "foreword_logs", event_type="api_call").split("\n") == [
        "2 events, the newest first; times in Europe/Paris:",
        (
            "2026-11-15 12:02:00 [provider] api_call user=alice tokens_in=5200 tokens_out=30 cache_read=3100 "
            "cache_write=0 cost=unknown"
        ),
        (
            "2026-11-15 12:01:00 [provider] api_call user=alice duration=4.2s tokens_in=5200 tokens_out=30 "
            "cache_read=3100 cache_write=0 cost=$0.0200"
        ),
    ]


def test_what_is_left_out_is_offered(ws):
    """A long answer names the call for older events, and pages show each event once."""
    record(ws, *(make_event(EventType.TOOL_CALL, -n, facts={"n": n}) for n in range(50)))
    seen, arguments = [], {"event_type": "tool_call", "limit": 7}
    while True:
        text = use(ws, "foreword_logs", **arguments)
        seen += [int(n) for n in re.findall(r"\bn=(\d+)", text)]
        older = re.search(r'older: foreword_logs\(event_type="tool_call", until="(.*)", limit=7\)', text)
        if not older:
            break
        arguments["until"] = older[1]
    assert seen == list(range(50))


def test_a_long_answer_is_cut(ws):
    """An answer stays within its token limit, says so, and shows the newest events."""
    record(ws, *(make_event(EventType.TOOL_CALL, -n, facts={"text": "word " * 30, "n": n}) for n in range(300)))
    assembly = ws.assemble(Turn(user="alice", situation="dm", tools=WITH_LOG))
    answer = ws.call(assembly, "foreword_logs", {"limit": 10**9})
    assert answer.tokens < MAX_LOG_ANSWER_TOKENS * 1.1
    assert "n=0" in answer.text
    assert "older: foreword_logs(until=" in answer.text
    assert "1,000 events at most" in answer.text


def test_trace(ws):
    """A trace is a tree with a summary line; another person's turn gets the answer of a missing one."""
    call = {"usage": Usage(tokens_in=5_200, tokens_out=30), "model": "m-1", "duration_ms": 900}
    record(
        ws,
        make_event(
            EventType.MESSAGE_RECEIVED,
            0,
            channel="signal",
            session="abc",
            position=TracePosition(trace=TRACE, span="a"),
        ),
        make_event(EventType.TURN_STARTED, 0.1, position=TracePosition(trace=TRACE, span="b", parent="a")),
        make_event(
            EventType.API_CALL, 0.2, cost_usd=0.5, **call, position=TracePosition(trace=TRACE, span="c", parent="b")
        ),
        make_event(EventType.API_CALL, 0.3, **call, position=TracePosition(trace=TRACE, span="d", parent="b")),
        make_event(
            EventType.TOOL_ERROR,
            0.4,
            level=Level.ERROR,
            error="no",
            position=TracePosition(trace=TRACE, span="e", parent="d"),
        ),
        make_event(EventType.TURN_COMPLETED, 0.5, position=TracePosition(trace=TRACE, span="b", parent="a")),
    )
    text = use(ws, "foreword_trace", turn="3f2a9c")
    head, *lines = text.split("\n")
    assert head == (
        f"turn {TRACE} · user alice · channel signal · session abc · 2026-11-15 13:00:00 Europe/Paris · 30.0 s"
        " · 2 calls · 10,400 tokens in, 60 out · cost $0.5000 · 1 call without a known price · 1 error"
    )
    assert [(line.count("  ", 10), line.split("] ")[1].split(" ")[0]) for line in lines] == [
        (0, "message_received"),
        (1, "turn_started"),
        (2, "api_call"),
        (2, "api_call"),
        (3, "tool_error"),
        (1, "turn_completed"),
    ]
    assert "+12.000s     [provider] api_call" in lines[2]
    assert use(ws, "foreword_trace", "bob", turn="3f2a9c") == "There is no such turn."


def test_cost(ws):
    """The three questions of the document are answered, and costs are summed by every grouping."""
    usage = Usage(tokens_in=1_000, tokens_out=100)
    record(
        ws,
        make_event(EventType.TURN_STARTED, -30, session="s1", channel="web"),
        make_event(
            EventType.API_CALL, -29, session="s1", channel="web", usage=usage, cost_usd=0.3, model="m-1",
            facts={"sections": [["core", 400, 0, 0.1], ["soul", 600, 500, 0.2]]},
        ),
        make_event(EventType.TURN_STARTED, -20, session="s2"),
        make_event(EventType.API_CALL, -19, session="s2", usage=usage, cost_usd=0.1, model="m-1"),
        make_event(EventType.API_CALL, -18, session="s2", usage=usage, model="m-2"),
        make_event(EventType.API_CALL, -60 * 24, session="s0", usage=usage, cost_usd=5.0),
    )  # fmt: skip
    assert use(ws, "foreword_cost").split("\n") == [
        "since 2026-11-15 00:00:00 (Europe/Paris): $0.4000, 2 turns, 3 calls, 3,000 tokens in, 300 out",
        "not in the cost: 1 call without a known price",
        "on average $0.2000 a turn",
        "most tokens: session s2 with 2,200",
        "by day:",
        "- 2026-11-15: $0.4000, 2 turns, 3 calls, 3,000 tokens in, 300 out",
    ]
    by = {kind: use(ws, "foreword_cost", by=kind).partition(f"by {kind}:\n")[2].split("\n") for kind in GROUPINGS}
    assert [line.split(":")[0] for line in by["session"]] == ["- s2", "- s1"]
    assert by["section"] == ["- soul: $0.2000, 600 tokens (500 cached)", "- core: $0.1000, 400 tokens"]
    assert by["model"][1] == "- m-2: unknown, 0 turns, 1 call, 1,000 tokens in, 100 out"
    assert by["channel"][0].startswith("- web: $0.3000")
    assert by["user"][0].startswith("- alice: $0.4000")
    assert "$5.40" in use(ws, "foreword_cost", since="7d")
    assert "2026-11-14: $5.00" in use(ws, "foreword_cost", since="yesterday", until="yesterday")
    assert use(ws, "foreword_cost", "bob") == "since 2026-11-15 00:00:00 (UTC): nothing is recorded"


def test_cost_of_breaks(ws):
    """The cost answer includes cache savings, cache breaks and the tool that explains them."""
    blame = {
        "cause": "tools",
        "reason": "tool x is not what it was",
        "where": "x",
        "byte": 9,
        "tokens": 800,
        "usd": 0.5,
    }
    facts = {"cache": {"predicted": {"read": 100, "write": 900, "hour": 0, "fresh": 0}, "blame": blame}}
    usage = Usage(tokens_in=1_000, tokens_out=100, cache_read=200)
    record(
        ws,
        make_event(EventType.API_CALL, -9, usage=usage, cost_usd=1.0, facts=facts, position=TracePosition(trace=TRACE)),
    )
    assert use(ws, "foreword_cost").split("\n")[-3:] == [
        "cache: 20.0 % of the input was read from it, 10.0 % were predicted",
        "- broken by tools: 1 time, 800 tokens billed again, $0.5000 lost",
        f'newest break: "tools x at byte 9" in turn {TRACE[:8]}; foreword_trace says why',
    ]
    assert "tool x is not what it was" in use(ws, "foreword_trace", turn=TRACE)
    assert "cache" not in use(ws, "foreword_cost", "bob")


def test_status(ws):
    """The status shows channels, sessions, memory and recent errors that the reader may see."""
    record(
        ws,
        make_event(EventType.MESSAGE_RECEIVED, -60 * 50, channel="signal", session="old"),
        make_event(EventType.MESSAGE_SENT, -10, channel="web", session="s1"),
        make_event(EventType.TURN_STARTED, -11, channel="web", session="s1"),
        make_event(EventType.CHANNEL_ERROR, -9, channel="web", level=Level.ERROR, error="lost"),
        make_event(EventType.MESSAGE_RECEIVED, -5, user="bob", channel="telegram", session="b1"),
        make_event(EventType.TURN_STARTED, -5, user="bob", channel="telegram", session="b1"),
    )
    ws.memory.search("Carol", Audience(clearance=Trust.FULL))
    assert use(ws, "foreword_status").split("\n") == [
        "memory private: 1 document, 1 indexed as now, 0 unreviewed",
        "memory shared: 0 documents, 0 indexed as now, 0 unreviewed",
        "memory social: 1 document, 1 indexed as now, 0 unreviewed",
        "since 2026-11-14 13:00:00 (Europe/Paris):",
        "channel signal: last message 2026-11-13 11:00:00, 0 errors",
        "channel telegram: last message 2026-11-15 12:55:00, 0 errors",
        "channel web: last message 2026-11-15 12:50:00, 1 error",
        "2 sessions active",
        "session b1 on telegram: last activity 2026-11-15 12:55:00",
        "session s1 on web: last activity 2026-11-15 12:50:00",
        "last 1 error:",
        "2026-11-15 12:51:00 error [channel] channel_error user=alice channel=web error=lost",
    ]
    assert use(ws, "foreword_status", "bob").split("\n") == [
        "memory social: 1 document, 1 indexed as now, 0 unreviewed",
        "since 2026-11-14 12:00:00 (UTC):",
        "channel telegram: last message 2026-11-15 11:55:00, 0 errors",
        "1 session active",
        "session b1 on telegram: last activity 2026-11-15 11:55:00",
        "no error is recorded",
    ]


def test_in_a_room(ws):
    """In a room only its events are shown, in its zone; in company without a room nothing is."""
    record(
        ws,
        make_event(EventType.TOOL_CALL, -3, user="alice", facts={"where": "private"}),
        make_event(EventType.TOOL_CALL, -2, user="alice", room="kitchen", facts={"where": "kitchen"}),
    )

    def ask(**turn: str) -> str:
        assembly = ws.assemble(Turn(user="alice", situation="group", tools=WITH_LOG, **turn))
        return ws.call(assembly, "foreword_logs", {}).text

    assert "where=kitchen" in ask(room="kitchen")
    assert "2026-11-15 20:58:00" in ask(room="kitchen")
    assert "where=private" not in ask(room="kitchen")
    assert ask() == ask(room="cellar") == "No recorded event fits."


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("foreword_logs", {"level": "fatal"}),
        ("foreword_logs", {"since": "whenever"}),
        ("foreword_logs", {"limit": "many"}),
        ("foreword_logs", {"user": 5}),
        ("foreword_logs", {"colour": "red"}),
        ("foreword_trace", {}),
        ("foreword_trace", {"turn": "../etc"}),
        ("foreword_trace", {"turn": ["3f2a9c"]}),
        ("foreword_trace", {"id": "3f2a9c"}),
        ("foreword_cost", {"by": "moon"}),
        ("foreword_cost", {"since": "1h", "until": "2h"}),
        ("foreword_status", {"verbose": True}),
    ],
)
def test_bad_arguments(ws, name, arguments):
    """Invalid arguments are refused with a reason that a model can act on."""
    with pytest.raises(InputError):
        use(ws, name, **arguments)


def test_a_damaged_log(ws):
    """A damaged log is moved away, the answer is that of a new log, and the owner sees the event."""
    record(ws, make_event())
    file = Path(ws.files.root) / ".foreword" / "events.sqlite"
    file.write_bytes(b"nonsense" * 4_000)
    assert use(ws, "foreword_logs", "bob") == "No recorded event fits."
    assert re.findall(r"\] (\w+)", use(ws, "foreword_logs")) == ["log_replaced"]
    assert [*file.parent.glob("events.sqlite.damaged-*")]
