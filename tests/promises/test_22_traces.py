"""Item 22, traces: a collector gets each call once, and a client's `traceparent` is continued."""

import asyncio
import json
import subprocess
import sys

import pytest

from foreword.events.event import NO_POSITION, TracePosition
from foreword.events.tracer import clean_traceparent, parse_traceparent

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
HEADER = f"00-{CALLER}-{PARENT}-01"

# A process can set its tracer provider only once, so this runs in a separate process.
SERVED = """\
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
sys.path.insert(0, sys.argv[1])
import httpx2
from pathlib import Path
from recorded_house import open_house, read_events
from foreword.http.app import create_app
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import ScriptedReply

folder, header = Path(sys.argv[2]), sys.argv[3]


async def main():
    async with open_house(folder, *[ScriptedReply(text="Hi.")] * 3) as house:
        with ApiTokens(str(folder / ".foreword")) as tokens:
            secret = tokens.create("alice", ("alice",)).secret
        app = create_app(house, house.workspace.config.server)
        headers = {"Authorization": f"Bearer {secret}"} | ({"traceparent": header} if header else {})
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            first = await client.post("/api/turns", json={"text": "Hello"})
            assert first.status_code == 200, first.text
            chat = {"model": "reid", "messages": [{"role": "user", "content": "Hello"}]}
            second = await client.post("/v1/chat/completions", json=chat)
            assert second.status_code == 200, second.text


asyncio.run(main())
spans = [
    {
        "name": span.name,
        "scope": span.instrumentation_scope.name,
        "trace": f"{span.context.trace_id:032x}",
        "span": f"{span.context.span_id:016x}",
        "parent": f"{span.parent.span_id:016x}" if span.parent else "",
    }
    for span in exporter.get_finished_spans()
]
names = ("event_type", "trace_id", "span_id", "metadata")
rows = [{name: str(row[name] or "") for name in names} for row in read_events(folder)]
print(json.dumps({"spans": spans, "rows": rows}))
"""


def serve(folder, header):
    """Serve two turns over HTTP in another process, and return its spans and its rows."""
    here = __file__.rpartition("/")[0]
    command = [sys.executable, "-W", "error::DeprecationWarning:foreword", "-c", SERVED, here, str(folder), header]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_callers_trace_is_continued(tmp_path):
    """Both routes export their spans under the caller's trace, below its span; the rows have one trace per turn."""
    found = serve(tmp_path, HEADER)
    spans, rows = found["spans"], found["rows"]
    assert {span["trace"] for span in spans} == {CALLER}
    roots = [span for span in spans if span["name"] == "message_received"]
    assert [span["parent"] for span in roots] == [PARENT, PARENT]
    ids = {span["span"] for span in spans}
    assert all(span["parent"] in ids for span in spans if span not in roots)
    received = [row for row in rows if row["event_type"] == "message_received"]
    assert len({row["trace_id"] for row in received}) == 2
    assert CALLER not in {row["trace_id"] for row in rows}
    assert all(CALLER in row["metadata"] for row in received)
    assert {span["span"] for span in roots} == {row["span_id"] for row in received}


def test_each_call_is_one_span(tmp_path):
    """A model call is one span, ours; the vendor's SDK adds none. A turn without a header has a new trace."""
    spans = serve(tmp_path, "")["spans"]
    assert [span["name"] for span in spans if "chat" in span["name"]] == ["chat claude-sonnet-5"] * 2
    assert {span["scope"] for span in spans} == {"foreword"}
    assert len({span["trace"] for span in spans}) == 2


def test_a_caller_that_is_not_sampled(tmp_path):
    """An unsampled caller gets no spans of ours; the rows still have its trace."""
    found = serve(tmp_path, HEADER.removesuffix("01") + "00")
    assert found["spans"] == []
    received = [row for row in found["rows"] if row["event_type"] == "message_received"]
    assert len(received) == 2
    assert all(CALLER in row["metadata"] for row in received)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["nonsense"],
        [f"ff-{CALLER}-{PARENT}-01"],
        [f"00-{'0' * 32}-{PARENT}-01"],
        [f"00-{CALLER}-{'0' * 16}-01"],
        [f"00-{CALLER}-{PARENT}-01-more"],
        [f"00-{CALLER}-{PARENT}-01-"],
        [HEADER, HEADER],
    ],
)
def test_a_header_that_is_not_valid_is_ignored(headers):
    """An invalid header by W3C's rules is ignored: version 00 has four fields, and there is one header."""
    assert clean_traceparent(headers) == ""
    assert parse_traceparent("") is NO_POSITION


def test_a_valid_header():
    """A valid header, including one of a later version, names the caller's trace and span."""
    assert parse_traceparent(clean_traceparent([HEADER])) == TracePosition(trace=CALLER, span=PARENT)
    later = clean_traceparent([f"01-{CALLER}-{PARENT}-02-more"])
    assert later == f"00-{CALLER}-{PARENT}-00"
    assert parse_traceparent(later) == TracePosition(trace=CALLER, span=PARENT, sampled=False)


def test_the_callers_trace_survives_a_restart(tmp_path):
    """The stored trace position of a turn in the inbox has the caller's trace."""
    from recorded_house import open_house

    from foreword.gateway.messages import RoutedMessage
    from foreword.testing import ScriptedReply

    async def talk():
        async with open_house(tmp_path, ScriptedReply(text="Hi.")) as house:
            accepted = await house.accept(RoutedMessage(text="Hi", user="alice", traceparent=HEADER))
            await house.wait(accepted.turn)

    asyncio.run(talk())
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / ".foreword" / "state.sqlite")) as state:
        (place,) = state.execute("SELECT place FROM turns").fetchone()
    assert json.loads(place)["caller"] == CALLER
