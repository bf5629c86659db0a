"""Network use: none by default, and spans to the user's collector if configured."""

import gzip
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from foreword.errors import InputError
from foreword.events.otlp import parse_collector_url

# One night in a separate process, with every socket watched.
NIGHT = """\
import asyncio, json, sys
seen, runner = [], asyncio.Runner()
runner.get_loop()  # its pipe is a pair of sockets
sys.addaudithook(lambda name, args: seen.append(name) if name.startswith("socket.") else None)
sys.path.insert(0, sys.argv[1])
from night import CONFIG, live_through, make_clock, make_night
from foreword.config.load import load_config
from foreword.events.cost import BudgetGuard
from foreword.events.log import EventLog
from foreword.events.sent_prompts import PromptStore
from foreword.events.sinks import LiveTree, RecorderFanout
from foreword.testing import EventStream, FakeRecorder
home, state, address = sys.argv[2:]
if address:
    from foreword.events.otlp import start_export
    export = start_export(address)
heard, log = FakeRecorder(), EventLog(state)
config = CONFIG + "budgets: {daily_usd: 50}\\n"
clock = make_clock()
guard = BudgetGuard(state, load_config(config), clock)
listeners = EventStream(recorder=RecorderFanout(log, LiveTree(), heard), prompts=PromptStore(log), budgets=guard)
trace = live_through(make_night(home, listeners, config, clock=clock, runner=runner))
log.close()
if address:
    export.close()
rows = [[e.type.value, e.position.trace, e.position.span, e.position.parent] for e in heard.events]
exports = "opentelemetry.sdk" in sys.modules
print(json.dumps({"seen": sorted(set(seen)), "turn": trace.id, "rows": rows, "exports": exports}))
"""


def live_a_night(tmp_path, address=""):
    """Run the night of the example in another process; return its output."""
    folders = [str(tmp_path / "home"), str(tmp_path / "state")]
    here = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", NIGHT, here, *folders, address], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def collector():
    """A collector on loopback that stores the received spans."""
    bodies = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            bodies.append((self.path, gzip.decompress(body) if zipped else body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def read_spans(bodies):
    """Read every received span, with its attributes as a mapping."""
    for path, body in bodies:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans


def show(span):
    """Return the attributes of a span."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_nothing_leaves_the_machine(tmp_path):
    """By default a whole night with log, tree, prompts and budgets opens no socket and resolves no name."""
    night = live_a_night(tmp_path)
    assert night["seen"] == []
    assert not night["exports"]
    assert len(night["rows"]) > 80


def test_a_collector_is_sent_spans(tmp_path, collector):
    """A configured collector gets the same tree with the same ids, in the names of the GenAI conventions."""
    address, bodies = collector
    night = live_a_night(tmp_path, address)
    assert "socket.connect" in night["seen"], "else the watch over sockets sees nothing at all"
    spans = list(read_spans(bodies))
    mine = [span for span in spans if span.trace_id.hex() == night["turn"]]
    rows = {span: (kind, parent) for kind, turn, span, parent in night["rows"] if turn == night["turn"]}
    for span in mine:
        assert span.parent_span_id.hex() == rows[span.span_id.hex()][1]
    assert sorted(span.name for span in mine) == [
        *["chat claude-sonnet-4-5"] * 5, "invoke_agent reid", "invoke_agent reid", "message_received", "message_sent",
    ]  # fmt: skip
    (answered,) = [span for span in mine if show(span).get("gen_ai.usage.output_tokens")]
    assert show(answered) | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.conversation.id": "abc",
        "gen_ai.agent.name": "reid",
        "gen_ai.usage.input_tokens": 5_200,
        "gen_ai.usage.cache_read.input_tokens": 3_100,
        "gen_ai.usage.cache_creation.input_tokens": 600,
    } == show(answered)
    assert answered.end_time_unix_nano - answered.start_time_unix_nano == 3_000_000_000
    refused = [span for span in mine if show(span).get("error.type") == "429"]
    assert sorted(span.name for span in refused) == [*["chat claude-sonnet-4-5"] * 4, "invoke_agent reid"]
    received = next(span for span in mine if span.name == "message_received")
    assert [event.name for event in received.events] == ["trust_resolved", "prompt_built"]


def test_no_message_leaves(tmp_path, collector):
    """A collector never receives the text of a message, a reply or a prompt."""
    address, bodies = collector
    live_a_night(tmp_path, address)
    sent = b"".join(body for _, body in bodies)
    assert b"message_received" in sent
    for words in (b"Did the backup run?", b"It did.", b"Answer first"):
        assert words not in sent


def test_a_collector_that_is_not_there(tmp_path):
    """An unreachable collector does not fail the turn."""
    assert len(live_a_night(tmp_path, "http://127.0.0.1:9/")["rows"]) > 80


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("https://collector.example/", "https://collector.example/v1/traces"),
        (" http://h/own/path ", "http://h/own/path"),
    ],
)
def test_addresses(written, read):
    """A bare host gets the default OTLP path."""
    assert parse_collector_url(written) == read


@pytest.mark.parametrize("written", ["", "localhost:4318", "file:///etc/passwd", "http://", "http://a b", "ftp://h/x"])
def test_bad_addresses(written):
    """An invalid collector address is refused with an example."""
    with pytest.raises(InputError, match="such as http"):
        parse_collector_url(written)
