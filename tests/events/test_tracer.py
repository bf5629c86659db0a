"""The tracer: the contract that a loop fulfils."""

import io
import subprocess
import sys
from decimal import Decimal

import pytest

from foreword.events.event import CATEGORIES, Context, EventType, Level, TracePosition, Usage
from foreword.events.record import make_row
from foreword.events.sinks import LiveTree, RecorderFanout
from foreword.events.tracer import FAILED_TYPES, OPENING_TYPES, Tracer
from foreword.testing import NOON, FakeRecorder, ManualClock
from foreword.types import Trust

ALICE = Context(trust=Trust.INNER, user="alice", session="abc", agent="reid", channel="signal")


def make_trace(recorder=None, parent=None):
    clock, heard = ManualClock(NOON), recorder or FakeRecorder()
    trace = Tracer(heard, ALICE, clock, elapsed=clock.elapsed, **({"parent": parent} if parent else {}))
    return trace, heard, clock


@pytest.mark.parametrize("kind", EventType)
def test_all_types_can_be_told(kind):
    """Every event type can be emitted as an instant, with its turn's context and a unique position."""
    trace, heard, _ = make_trace()
    trace.emit(kind, length=3, model="m")
    (event,) = heard.events
    assert (event.type, event.time, event.context, event.model) == (kind, NOON, ALICE, "m")
    assert event.facts == {"length": 3}
    assert event.level is (Level.ERROR if kind.value.endswith("_error") else Level.INFO)
    assert (len(event.position.trace), len(event.position.span), event.position.parent) == (32, 16, "")


@pytest.mark.parametrize("kind", [kind for kind in EventType if kind not in OPENING_TYPES])
def test_steps(kind):
    """A step is recorded once, at its start time, with its duration and its notes."""
    trace, heard, clock = make_trace()
    with trace.step(kind, name="x") as step:
        clock.move(1.5)
        step.note(results=3)
    (event,) = heard.events
    assert (event.type, event.time, event.duration_ms) == (kind, NOON, 1_500)
    assert event.facts == {"name": "x", "results": 3}


@pytest.mark.parametrize("kind", EventType)
def test_an_exception_is_told_and_goes_on(kind):
    """An exception in a step is recorded as an error and propagates."""
    trace, heard, _ = make_trace()
    with pytest.raises(ValueError, match="no such"), trace.step(kind):
        raise ValueError("no such file")
    event = heard.events[-1]
    assert event.type is (OPENING_TYPES.get(kind) or FAILED_TYPES.get(kind, kind))
    assert (event.level, event.error) == (Level.ERROR, "ValueError: no such file")


def test_an_error_that_is_noted():
    """A loop that catches a failure can note the error itself."""
    trace, heard, _ = make_trace()
    with trace.step(EventType.TOOL_CALL, name="bash") as call:
        call.note(error="exit code 1", status=1)
    assert heard.types == ["tool_error"]
    assert heard.events[0].facts == {"name": "bash", "status": 1}


def test_status_of_a_client():
    """The status code of a provider's exception is recorded as a fact."""

    class Limited(Exception):
        status_code = 429

    trace, heard, _ = make_trace()
    with pytest.raises(Limited), trace.step(EventType.API_CALL):
        raise Limited("slow down")
    assert heard.events[0].facts == {"status": 429}


def test_the_tree():
    """Events inside a step are its children; the end of a turn is a sibling of its start."""
    trace, heard, _ = make_trace()
    with trace.step(EventType.MESSAGE_RECEIVED) as received:
        received.emit(EventType.TRUST_RESOLVED)
        with received.step(EventType.TURN_STARTED) as turn, turn.step(EventType.TOOL_CALL) as call:
            call.emit(EventType.MEMORY_SEARCH)
    shown = {event.type: event.position for event in heard.events}
    assert len({event.position.span for event in heard.events}) == len(heard.events)
    assert {position.trace for position in shown.values()} == {trace.id}
    top = shown[EventType.MESSAGE_RECEIVED].span
    assert [kind for kind, position in shown.items() if position.parent == top] == [
        EventType.TRUST_RESOLVED, EventType.TURN_STARTED, EventType.TURN_COMPLETED,
    ]  # fmt: skip
    assert shown[EventType.TOOL_CALL].parent == shown[EventType.TURN_STARTED].span
    assert shown[EventType.MEMORY_SEARCH].parent == shown[EventType.TOOL_CALL].span


def test_a_turn_adds_up_its_calls():
    """The end of a turn has the total usage of its calls and counts unpriced calls."""
    trace, heard, _ = make_trace()
    with trace.step(EventType.TURN_STARTED) as turn:
        for usd in (0.25, 0.5, None):
            with turn.step(EventType.API_CALL) as call:
                call.note(usage=Usage(tokens_in=100, tokens_out=20), cost_usd=usd)
    assert heard.events[-1].facts == {"calls": 3, "total_tokens": 360, "total_cost_usd": 0.75, "unpriced_calls": 1}
    assert heard.events[-1].cost_usd is None, "else a sum over all rows would count it twice"


def test_going_on_later():
    """A later delivery belongs to the turn that it continues."""
    trace, heard, _ = make_trace()
    with trace.step(EventType.MESSAGE_RECEIVED) as received:
        position = received.position
    again, later, _ = make_trace(parent=position)
    again.emit(EventType.MESSAGE_SENT)
    assert later.events[0].position.trace == trace.id == heard.events[0].position.trace
    assert later.events[0].position.parent == position.span


def test_an_exception_outside_any_inner_step():
    """A failure before the turn starts is recorded once, and an inner error is not recorded again."""
    trace, heard, _ = make_trace()
    with pytest.raises(KeyError), trace.step(EventType.MESSAGE_RECEIVED):
        raise KeyError("who")
    assert heard.types == ["message_received", "channel_error"]
    trace, heard, _ = make_trace()
    with (
        pytest.raises(KeyError),
        trace.step(EventType.MESSAGE_RECEIVED) as received,
        received.step(EventType.TOOL_CALL),
    ):
        raise KeyError("what")
    assert heard.types == ["message_received", "tool_error"]


def test_a_failing_recorder():
    """A failing recorder breaks neither the turn nor the other recorders."""

    class Broken:
        def record(self, _):
            raise RuntimeError("broken")

    heard = FakeRecorder()
    trace, _, _ = make_trace(RecorderFanout(Broken(), heard))
    trace.emit(EventType.CONFIG_RELOADED)
    assert heard.types == ["config_reloaded"]
    alone, _, _ = make_trace(Broken())
    with alone.step(EventType.TOOL_CALL):
        alone.emit(EventType.MEMORY_WRITE)


def test_nobody_listens():
    """Tracing a turn loads neither OpenTelemetry nor SQLAlchemy."""
    code = (
        "import sys\n"
        "from foreword.events.event import Context, EventType\n"
        "from foreword.events.log import EventLog\n"
        "from foreword.events.tracer import Tracer\n"
        "from foreword.events.sinks import LiveTree\n"
        "with Tracer(LiveTree(sys.stdout), Context()).step(EventType.TURN_STARTED): pass\n"
        "assert not {'opentelemetry', 'sqlalchemy', 'alembic'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.partition(" ")[2].startswith("[agent] turn_started")


def draw(describe):
    """Return the recorded events as the printed tree, without timestamps."""
    stream = io.StringIO()
    tree = LiveTree(stream)
    trace, _, clock = make_trace(tree)
    describe(trace, clock)
    tree.close()
    return [line.partition(" ")[2] for line in stream.getvalue().splitlines()]


def test_lines():
    """A line of the tree has category, name and key=value, indented below its parent."""

    def describe(trace, clock):
        with trace.step(EventType.MESSAGE_RECEIVED, trust="full") as received:
            received.emit(EventType.TRUST_RESOLVED, user="full", situation="dm", effective="full")
            with received.step(EventType.TURN_STARTED, model="claude") as turn:
                with turn.step(EventType.API_CALL, model="claude") as call:
                    call.note(usage=Usage(tokens_in=5_200))
                with turn.step(EventType.TOOL_CALL, name="bash", command="ls -l") as call:
                    clock.move(0.12)
                    call.emit(EventType.MEMORY_SEARCH, results=3)

    lines = draw(describe)
    assert [line.partition("=")[0].rpartition(" ")[0] for line in lines] == [
        "[channel] message_received",
        "  [router] trust_resolved",
        "  [agent] turn_started",
        "    [provider] api_call",
        "    [tool] tool_call",
        "      [memory] memory_search",
        "  [agent] turn_completed",
    ]
    assert "user=alice" in lines[0]
    assert "tokens_in=5200" in lines[3]
    assert "duration=120ms" in lines[4]
    assert 'command="ls -l"' in lines[4]


def test_no_line_from_outside():
    """No emitted text starts a line or shows a secret."""
    key = "sk-ant-api03-abcdefghij0123456789"
    lines = draw(lambda trace, _: trace.emit(EventType.TOOL_ERROR, error=f"a\n[agent] turn_completed {key}"))
    assert len(lines) == 1
    assert key not in lines[0]
    assert "redacted" in lines[0]


def test_lines_that_wait():
    """A line whose parent never ends is written when the tree is closed."""
    lines = draw(lambda trace, _: trace.step(EventType.TOOL_CALL).__enter__().emit(EventType.MEMORY_SEARCH, results=1))
    (line,) = lines
    assert line.startswith("[memory] memory_search user=alice")
    assert "results=1" in line


def test_many_waiting_lines():
    """The memory for waiting lines is bounded, and no line is lost."""
    stream = io.StringIO()
    tree = LiveTree(stream)
    trace, _, _ = make_trace(tree)
    above = trace.step(EventType.TOOL_CALL).__enter__()
    for number in range(3_000):
        above.emit(EventType.MEMORY_SEARCH, number=number)
    assert sum(map(len, tree._held.values())) <= 1_024
    tree.close()
    assert len(stream.getvalue().splitlines()) == 3_000


def test_what_goes_on_from_elsewhere():
    """A line below a step of another process is written at once, and its children are below it."""
    stream = io.StringIO()
    trace, _, _ = make_trace(LiveTree(stream), TracePosition(trace="ab" * 16, span="cd" * 8))
    trace.emit(EventType.MEMORY_WRITE)
    assert "Z [memory] memory_write" in stream.getvalue()
    with trace.step(EventType.TOOL_CALL) as call:
        call.emit(EventType.MEMORY_SEARCH)
    kinds = [line.partition(" ")[2].partition("]")[0] for line in stream.getvalue().splitlines()]
    assert kinds == ["[memory", "[tool", "  [memory"]


def test_any_fact():
    """A fact may have any name, including names of our parameters."""
    trace, heard, _ = make_trace()
    trace.emit(EventType.TOOL_CALL, kind="x", self="y")
    with trace.step(EventType.TOOL_CALL, kind="x", self="y") as step:
        step.note(self="z")
    assert [event.facts for event in heard.events] == [{"kind": "x", "self": "y"}, {"kind": "x", "self": "z"}]


def test_an_exception_without_words():
    """An exception whose message cannot be rendered propagates and is recorded by its class name."""

    class Odd(Exception):
        def __str__(self):
            raise ValueError("no words")

    trace, heard, _ = make_trace()
    with pytest.raises(Odd), trace.step(EventType.TOOL_CALL):
        raise Odd
    assert heard.events[0].error == "Odd"


def test_any_price():
    """Costs of different numeric types are added up without an error."""
    trace, heard, _ = make_trace()
    with trace.step(EventType.TURN_STARTED) as turn:
        for price in (Decimal("0.25"), 0.5):
            with turn.step(EventType.API_CALL) as call:
                call.note(usage=Usage(tokens_in=1), cost_usd=price)
    assert heard.events[-1].facts["total_cost_usd"] == 0.75


def test_a_long_error():
    """A secret in a long error is redacted before the error is cut."""
    key = "sk-ant-api03-" + "q8Zr5Tn2Wv7Xc1Lk4Mj6Hg3Fd9"
    for length in (1_964, 3_970, 19_975):
        trace, heard, _ = make_trace()
        with pytest.raises(RuntimeError), trace.step(EventType.API_CALL):
            raise RuntimeError("x" * length + " " + key)
        assert key[6:16] not in str(make_row(heard.events[0]).values)


def test_confided():
    """A restricted event is in the same turn, has no user, and is for full trust only."""
    trace, heard, _ = make_trace()
    trace.emit(EventType.CONFIG_RELOADED)
    trace.emit_restricted(EventType.API_ERROR, level=Level.WARN, budget="all")
    shown, confided = heard.events
    assert (shown.context, confided.context) == (ALICE, Context(trust=Trust.FULL))
    assert (confided.position.trace, confided.facts) == (shown.position.trace, {"budget": "all"})


def test_categories_are_whole():
    """Every type has a category, and there are the specification's seventeen types."""
    assert len(CATEGORIES) == len(EventType) == 17
    assert make_trace(parent=TracePosition(trace="ab" * 16, span="cd" * 8))[0].id == "ab" * 16
