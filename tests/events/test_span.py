"""Live OpenTelemetry spans: they follow the tree of events in any surrounding trace."""

import subprocess
import sys

import pytest

BEGIN = """\
import sys
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from foreword.events.event import Context, EventType, TracePosition, Usage
from foreword.events.tracer import Tracer
from foreword.testing import FakeRecorder

kept = InMemorySpanExporter()
provider = TracerProvider(sampler=SAMPLER)
provider.add_span_processor(SimpleSpanProcessor(kept))
otel.set_tracer_provider(provider)
heard = FakeRecorder()
trace = Tracer(heard, Context(agent="reid"))

def spans():
    return {span.name: span for span in kept.get_finished_spans()}

def show(number, digits):
    return f"{number:0{digits}x}"
"""


def run(code, sampler="ALWAYS_ON"):
    """Run a script in a process with a span listener."""
    script = BEGIN.replace("SAMPLER", sampler) + code
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_same_ids():
    """A span has the ids of its row, whether or not it is the first event."""
    run("""
with trace.step(EventType.MESSAGE_RECEIVED) as received:
    with received.step(EventType.TURN_STARTED): pass
root, turn = spans()["message_received"], spans()["invoke_agent reid"]
assert show(root.context.trace_id, 32) == trace.id == heard.events[0].position.trace
assert [show(one.context.span_id, 16) for one in (root, turn)] == [one.position.span for one in heard.events[:2]]
assert root.parent is None and turn.parent.span_id == root.context.span_id
""")


@pytest.mark.parametrize("first", ["trace.id", "trace.emit(EventType.CONFIG_RELOADED)"])
def test_an_id_that_was_settled(first):
    """A trace whose id was read or used before the first span has the same id in its spans."""
    run(f"""
{first}
with trace.step(EventType.TOOL_CALL, name="bash"): pass
with trace.step(EventType.API_CALL, model="openai-responses:gpt-5.4"): pass
assert {{show(span.context.trace_id, 32) for span in spans().values()}} == {{trace.id}}
assert set(spans()) == {{"execute_tool bash", "chat gpt-5.4"}}
assert spans()["chat gpt-5.4"].attributes["gen_ai.provider.name"] == "openai"
assert spans()["chat gpt-5.4"].kind is otel.SpanKind.CLIENT
""")


def test_joins_what_is_there():
    """Inside a user's span a turn joins that trace, and the user's inner spans join the turn."""
    run("""
tracer = otel.get_tracer("mine")
with tracer.start_as_current_span("web") as web:
    with trace.step(EventType.API_CALL, model="m"):
        with tracer.start_as_current_span("http"): pass
assert trace.id == show(web.get_span_context().trace_id, 32)
assert spans()["chat m"].parent.span_id == web.get_span_context().span_id
assert spans()["http"].parent.span_id == spans()["chat m"].context.span_id
assert otel.get_current_span() is otel.INVALID_SPAN
""")


def test_not_sampled():
    """The steps of an unsampled trace have unique ids, and none of them is a span."""
    run(
        """
with trace.step(EventType.TURN_STARTED) as turn, turn.step(EventType.TOOL_CALL): pass
assert not spans() and len({event.position.span for event in heard.events}) == 3
assert {event.position.trace for event in heard.events} == {trace.id}
""",
        "ALWAYS_OFF",
    )


def test_errors_and_secrets():
    """A failed step is an error in the span, and secrets are redacted there as well."""
    run("""
key = "sk-ant-api03-abcdefghij0123456789"
try:
    with trace.step(EventType.TOOL_CALL, name="curl", command=f"curl -H {key}", password="x") as call:
        call.emit(EventType.MEMORY_SEARCH, query=key)
        raise ValueError(key)
except ValueError: pass
span = spans()["execute_tool curl"]
assert span.attributes["error.type"] == "ValueError" and span.status.status_code is otel.StatusCode.ERROR
assert key not in span.to_json() and '"x"' not in span.to_json() and "redacted" in span.to_json()
""")


def test_a_broken_listener():
    """A listener that raises does not fail the turn."""
    run("""
from opentelemetry.sdk.trace import SpanProcessor
class Broken(SpanProcessor):
    def on_start(self, span, parent_context=None): raise RuntimeError("start")
    def on_end(self, span): raise RuntimeError("end")
provider.add_span_processor(Broken())
with trace.step(EventType.TURN_STARTED) as turn: turn.emit(EventType.MEMORY_WRITE)
assert heard.types == ["turn_started", "memory_write", "turn_completed"]
""")


def test_no_secrets():
    """No name, error type or model of a span contains a secret."""
    run("""
key = "sk-ant-api03-" + "q8Zr5Tn2Wv7Xc1Lk4Mj6Hg3Fd9"
with trace.step(EventType.TOOL_CALL, name=key) as call: call.note(error=f"refused with {key}")
with trace.step(EventType.API_CALL, model=f"{key}:{key}") as call: call.note(error=f"{key} refused: no")
assert len(kept.get_finished_spans()) == 2
for span in kept.get_finished_spans():
    assert key[13:] not in f"{span.name} {dict(span.attributes)} {span.status.description}"
""")
