"""Streams of every wire shape, as providers send them and as they should not."""

import asyncio
import json
import time
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import NamedTuple

import httpx2
import pytest
from conversation import LAMPS, MODELS, Conversation, Lamps, with_tools
from hypothesis import given
from hypothesis import strategies as st

from foreword.agent.agent_events import ProviderError, TextDelta, ThinkingDelta, TurnEnd
from foreword.agent.conversation import Answer, CallPart, TextPart, ThinkingPart
from foreword.agent.providers import http_provider
from foreword.agent.providers.http_provider import HttpProvider
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.envelope import Envelope
from foreword.events.event import EventType, Usage
from foreword.promptcache.rules import CacheUsage
from foreword.testing import ScriptedCall, ScriptedError, ScriptedGarbage, ScriptedReply, fake_provider
from foreword.testing.fake_answers import ANTHROPIC, CHAT, GEMINI, RESPONSES, SIGNATURE, FakeAnswer

FAKES = {"anthropic": ANTHROPIC, "openai": CHAT, "responses": RESPONSES, "gemini": GEMINI}
NAMES = {"anthropic": "anthropic", "openai": "openai", "responses": "openai", "gemini": "google"}
HALL = ScriptedCall(name="lamps", arguments={"room": "hall"})
ATTIC = ScriptedCall(name="lamps", arguments={"room": "attic — 屋根裏"})
ANSWER = FakeAnswer(
    model="m",
    thought="The hall is dark, I think.",
    text="Größe — 日本 🪶: I turn on both.",
    calls=(("c1", HALL), ("c2", ATTIC)),
    counted=CacheUsage(fresh=10, read=5),
    out=3,
)
ENVELOPE = Envelope(shape="anthropic", model="m", request={})


@pytest.fixture(params=FAKES)
def shape(request):
    """Each wire shape."""
    return request.param


class Pieces(httpx2.AsyncByteStream):
    """A response body in pieces; it may stay open afterwards."""

    def __init__(self, pieces, *, open_end=False):
        self.pieces = pieces
        self.open_end = open_end

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece
        if self.open_end:
            await asyncio.sleep(3_600)


class Received(NamedTuple):
    """A response as it was read."""

    shown: list[object]
    answer: Answer
    usage: Usage | None
    response_id: str


async def receive(shape, body, *, status=200, **headers):
    """Read a response."""
    body = Pieces([body]) if isinstance(body, bytes) else body
    answer = httpx2.Response(status, headers=headers, stream=body)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: answer)) as client:
        provider = HttpProvider(client, WIRE_SHAPES[shape], "http://x.example", f"{NAMES.get(shape, shape)}:m", "k")
        async with aclosing(provider.stream(ENVELOPE)) as stream:
            *shown, done = [event async for event in stream]
    assert isinstance(done, AnswerDone)
    return Received(shown, done.answer, done.usage, done.response_id)


def read(shape, body, **options):
    """Read a response in a new event loop."""
    return asyncio.run(receive(shape, body, **options))


def refuse(shape, body, **options):
    """Return the error that a response causes."""
    with pytest.raises(ProviderError) as caught:
        read(shape, body, **options)
    return caught.value


def write_events(shape, answer=ANSWER):
    """Return the events of a stream."""
    return [event.encode() for event in FAKES[shape].stream(answer)]


def write(shape, answer=ANSWER):
    """Return a stream."""
    return b"".join(write_events(shape, answer))


def sse(*events):
    """Write events of a stream."""
    return b"".join(
        b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n" for event in events
    )


class TestAnswers:
    """Streams as providers send them."""

    def test_parts(self, shape):
        """An answer has its thought with its signature, its text and its calls, and its usage."""
        done = read(shape, write(shape))
        shown = done.shown
        first, *others = done.answer.parts
        text, *calls = [part for part in others if not isinstance(part, ThinkingPart)]
        assert (type(first), first.text) == (ThinkingPart, ANSWER.thought)
        assert (type(text), text.text) == (TextPart, ANSWER.text)
        assert [(call.id, call.name, call.read_arguments()) for call in calls] == [
            (key, call.name, call.arguments) for key, call in ANSWER.calls
        ]
        signed = {"anthropic": first, "responses": first, "gemini": calls[0]}
        assert {part.signature for part in signed.values()} <= {SIGNATURE, ""}
        assert shape == "openai" or signed[shape].signature == SIGNATURE
        assert done.usage == Usage(tokens_in=15, tokens_out=3, cache_read=5)
        assert "".join(one.text for one in shown if isinstance(one, TextDelta)) == ANSWER.text
        assert "".join(one.text for one in shown if isinstance(one, ThinkingDelta)) == ANSWER.thought
        assert not done.answer.cut

    @given(st.data())
    def test_any_split_gives_the_same_answer(self, data):
        """However the bytes of a stream are divided, and whatever ends its lines, the answer is the same."""
        shape = data.draw(st.sampled_from([*FAKES]))
        body = write(shape)
        if data.draw(st.booleans()):
            body = body.replace(b"\n", b"\r\n")
        cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=12)))
        pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        assert read(shape, Pieces(pieces)) == read(shape, write(shape))

    def test_every_byte_alone(self, shape):
        """A stream may arrive byte by byte."""
        body = write(shape)
        assert read(shape, Pieces([body[at : at + 1] for at in range(len(body))])) == read(shape, body)

    def test_comments_and_pings(self, shape):
        """Comments, pings, ids and retry hints between events mean nothing."""
        noise = b': ping\n\nevent: ping\ndata: {"type": "ping"}\n\nid: 7\nretry: 100\n\n'
        body = b"".join(noise + event for event in write_events(shape)) + noise
        assert read(shape, body) == read(shape, write(shape))

    def test_thoughts_go_back(self, tmp_path, stand_in, shape):
        """The next request has the thought and its signature, where the shape has a place for them."""
        talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
        lamps = Lamps()
        stand_in.follow(ScriptedReply(thought="Dark.", text="I look.", calls=(HALL,)), ScriptedReply(text="On."))
        talk.lamps = lamps
        assert talk.run("Light.", **with_tools(LAMPS)).text == "On."
        sent = json.dumps(stand_in.body)
        assert lamps.asked == [{"room": "hall"}]
        assert "Dark." in sent
        assert (SIGNATURE in sent) == (shape != "openai")

    @pytest.mark.parametrize("shape", ["anthropic", "openai"])
    def test_one_connection(self, tmp_path, stand_in, shape, monkeypatch):
        """The calls of a turn share one connection: each stream is read to its end."""
        opened = []
        monkeypatch.setattr(fake_provider.FakeProviderHandler, "setup", lambda self: opened.append(self) or setup(self))
        talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
        stand_in.follow(*[ScriptedReply(calls=(HALL,))] * 4, ScriptedReply(text="On."))
        talk.lamps = Lamps()
        assert talk.run("Light.", **with_tools(LAMPS)).text == "On."
        assert (len(stand_in.requests), len(opened)) == (5, 1)


setup = fake_provider.FakeProviderHandler.setup

FINISHES = {
    "anthropic": [
        ("end_turn", False),
        ("max_tokens", True),
        ("model_context_window_exceeded", True),
        ("refusal", False),
        ("stop_sequence", False),
    ],
    "openai": [("stop", False), ("length", True), ("content_filter", False), ("eos", False)],
    "gemini": [("STOP", False), ("MAX_TOKENS", True), ("SAFETY", False), ("MALFORMED_FUNCTION_CALL", False)],
    "responses": [("max_output_tokens", True), ("content_filter", False)],
}


class TestFinishReasons:
    """Why an answer ends."""

    @pytest.mark.parametrize(
        ("shape", "reason", "cut"), [(shape, *case) for shape, cases in FINISHES.items() for case in cases]
    )
    def test_reasons(self, shape, reason, cut):
        """Only an answer that reached its limit is cut; a reason that is unknown ends it, too."""
        plain = write(shape, replace(ANSWER, cut=True))
        marks = {
            "anthropic": "max_tokens",
            "openai": "length",
            "gemini": "MAX_TOKENS",
            "responses": "max_output_tokens",
        }
        body = plain.replace(json.dumps(marks[shape]).encode(), json.dumps(reason).encode())
        assert read(shape, body).answer.cut == cut

    def test_blocked_prompt(self):
        """A prompt that Gemini blocks gets an empty answer, which ends the turn with a message."""
        done = read("gemini", sse({"promptFeedback": {"blockReason": "SAFETY"}}))
        assert done.answer.parts == ()

    def test_no_reason(self, shape):
        """A stream without a stop reason is incomplete, even if it ends in order."""
        events = write_events(shape)
        kept = {"anthropic": events[:-1], "openai": events[:-3], "gemini": events[:-1], "responses": events[:-1]}
        assert refuse(shape, b"".join(kept[shape])).passing


UNKNOWN = {
    "anthropic": [
        {"type": "content_block_start", "index": 90, "content_block": {"type": "hologram", "data": 7}},
        {"type": "content_block_delta", "index": 90, "delta": {"type": "hologram_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}},
        {"type": "content_block_stop", "index": 90},
    ],
    "openai": [
        {"object": "future.chunk"},
        {"choices": []},
        {"choices": [{"delta": {"audio": {}}}]},
        {"choices": None},
    ],
    "responses": [
        {"type": "response.hologram.delta", "delta": "x"},
        {"type": "response.output_item.added", "output_index": 90, "item": {"type": "hologram"}},
    ],
    "gemini": [{"candidates": [{"content": {"parts": [{"executableCode": {}}]}}]}, {"candidates": [{}]}, {}],
}


WRONG_TYPES = {
    "anthropic": {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": 7}},
    "openai": {"choices": [{"delta": {"content": 7}}]},
    "responses": {"type": "response.output_text.delta", "output_index": 1, "delta": {"x": 1}},
    "gemini": {"candidates": [{"content": {"parts": [{"text": 7}]}}]},
}


class TestBrokenStreams:
    """Streams that stop, repeat themselves, or have garbage in them."""

    def test_cut_anywhere(self, shape):
        """A stream that stops gives its whole answer or an error that is retried; never half an answer."""
        body = write(shape)
        whole = read(shape, body)
        ends = [at for at in range(len(body)) if at % 11 == 0 or body[at - 1 : at + 1] == b"\n\n"]

        async def cut_all():
            lost, complete = [], 0
            for end in ends:
                try:
                    done = await receive(shape, body[:end])
                except ProviderError as error:
                    lost.extend([] if error.passing else [body[:end]])
                else:
                    complete += 1
                    assert done._replace(usage=whole.usage) == whole
            return lost, complete

        lost, complete = asyncio.run(cut_all())
        assert (lost, complete < 25) == ([], True)

    def test_an_answer_without_end(self, monkeypatch, shape):
        """An answer that grows beyond any use is unreadable, and is not asked for again."""
        monkeypatch.setattr("foreword.agent.providers.provider.MAX_ANSWER_CHARS", 20)
        with pytest.raises(ProviderError, match="it has more than 20 characters") as refused:
            read(shape, write(shape))
        assert not refused.value.passing

    def test_stops_in_a_tool_call(self, tmp_path, stand_in, shape):
        """A stream that stops in the middle of a tool call is asked for again, and the tool runs once."""
        talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
        lamps = Lamps()
        body = write(shape, replace(ANSWER, calls=(("c1", HALL),))).decode()
        half = body[: body.index("lamps") + (60 if shape == "gemini" else 130)]
        whole = ScriptedReply(calls=(HALL,))
        stand_in.follow(ScriptedGarbage(text=half), whole, ScriptedReply(text="On."))
        talk.lamps = lamps
        assert talk.run("Light.", **with_tools(LAMPS)).text == "On."
        assert (talk.slept, lamps.asked) == ([1.0], [{"room": "hall"}])
        (failed,) = talk.pick(EventType.API_ERROR)
        assert "no end" in failed.error

    def test_repeated_events(self, shape):
        """An event that begins or ends something may come twice."""
        twice = {
            "anthropic": (
                "message_start",
                "content_block_start",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ),
            "openai": ('finish_reason": "tool_calls', "usage", '"role"', "[DONE]"),
            "responses": ("sequence_number",),
            "gemini": ("finishReason",),
        }
        events = write_events(shape)
        body = b"".join(event * (2 if any(mark.encode() in event for mark in twice[shape]) else 1) for event in events)
        assert body != b"".join(events)
        assert read(shape, body) == read(shape, write(shape))

    @pytest.mark.parametrize(
        "garbage",
        [b"<html>504</html>\n\n", b"\x00\xff\xfe\n", b"data: 7\n\n", b"data: null\n\n", b"data:\n\n", b"data: []\n\n"],
        ids=repr,
    )
    def test_garbage_between_events(self, shape, garbage):
        """Lines that are no events, and data that is no object, are skipped."""
        body = b"".join(event + garbage for event in write_events(shape))
        assert read(shape, body) == read(shape, write(shape))

    @pytest.mark.parametrize(
        "garbage",
        [b"{not json}", b"[" * 100_000, b'{"a": "\xff"}', b'{"type": 7, "choices": 7, "candidates": 7}x', b"1" * 5_000],
        ids=lambda one: repr(one[:12]),
    )
    def test_data_that_cannot_be_read(self, shape, garbage):
        """Data that is no JSON makes the answer unreadable; the error does not quote it."""
        first, *others = write_events(shape)
        error = refuse(shape, first + sse(garbage) + b"".join(others))
        assert not error.passing
        assert str(error).startswith("the answer of the provider cannot be read")
        assert garbage.decode("utf-8", "replace")[:8] not in str(error)

    def test_unknown_events(self, shape):
        """Events, blocks and parts of a later version of an API are skipped."""
        first, *others = write_events(shape)
        body = first + b"".join(event + sse(*UNKNOWN[shape], {"type": "future"}) for event in others)
        assert read(shape, body) == read(shape, write(shape))

    def test_values_of_a_wrong_type(self, shape):
        """A text that is a number makes the answer unreadable."""
        *events, last = write_events(shape)
        error = refuse(shape, b"".join(events[:5]) + sse(WRONG_TYPES[shape]) + b"".join(events[5:]) + last)
        assert not error.passing

    @pytest.mark.parametrize("more", ["again", "html", "bytes", "open", "endless"])
    def test_a_body_after_its_end(self, shape, more):
        """Whatever follows the end of an answer is ignored, and nobody waits for it."""
        body = write(shape)
        further = {"again": [body], "html": [b"<html>"], "bytes": [bytes(200_000)], "open": []}
        pieces = [body, *further[more]] if more in further else (b"".join(one) for one in endless(body))
        start = time.monotonic()
        assert read(shape, Pieces(pieces, open_end=more == "open")) == read(shape, body)
        assert time.monotonic() - start < 5

    def test_half_characters(self, shape):
        """Half a character in an answer breaks nothing."""
        body = write(shape, replace(ANSWER, text="A § b")).replace("§".encode(), b"\\ud83d")
        done = read(shape, body)
        assert done.answer.text == "A ? b"


def endless(body):
    """Yield a body and then pings without end."""
    yield [body]
    while True:
        yield [b": ping\n\n" * 10]


NO_ID = {
    "openai": sse(
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": "lamps", "arguments": '{"room": "hall"}'}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": "lamps", "arguments": {"room": "attic"}}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ),
    "gemini": sse(
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"functionCall": {"name": "lamps", "args": {"room": "hall"}}},
                            {"functionCall": {"name": "lamps", "args": {"room": "attic"}}},
                        ]
                    },
                    "finishReason": "STOP",
                }
            ]
        }
    ),
}


class TestCalls:
    """Tool calls that are not as they should be."""

    def test_two_calls_with_one_id(self, tmp_path, stand_in, shape):
        """Two calls with one id both run, and each gets a result of its own."""
        talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
        lamps = Lamps()
        calls = tuple(ScriptedCall(name="lamps", arguments={"room": room}, id="c") for room in ("hall", "attic"))
        stand_in.follow(ScriptedReply(calls=calls), ScriptedReply(text="On."))
        talk.lamps = lamps
        assert talk.run("Light.", **with_tools(LAMPS)).text == "On."
        assert lamps.asked == [{"room": "hall"}, {"room": "attic"}]
        assert [call.id for message in talk.history for call in getattr(message, "calls", ())] == ["c", "c_2"]

    @pytest.mark.parametrize("shape", NO_ID)
    def test_calls_without_ids(self, shape):
        """Calls without an id, or without a number, get ids of their own."""
        done = read(shape, NO_ID[shape])
        assert [call.read_arguments() for call in done.answer.calls] == [{"room": "hall"}, {"room": "attic"}]
        ids = {call.id for call in done.answer.calls}
        assert len(ids) == 2
        assert all(ids)

    def test_calls_with_one_number(self):
        """Calls that all have the number 0 are told apart by their ids, and pieces belong to the newest."""
        pieces = [
            {"index": 0, "id": "a", "function": {"name": "lamps", "arguments": "{"}},
            {"index": 0, "id": "a", "function": {"name": "lamps", "arguments": "}"}},
            {"index": 0, "id": "b", "function": {"name": "lamps", "arguments": '{"room"'}},
            {"index": 0, "function": {"arguments": ': "hall"}'}},
        ]
        chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
        done = read("openai", sse(*chunks, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}))
        assert done.answer.parts == (
            CallPart(id="a", name="lamps", arguments="{}"),
            CallPart(id="b", name="lamps", arguments='{"room": "hall"}'),
        )

    def test_a_call_without_a_name(self, shape):
        """A call that names no tool makes the answer unreadable; a history with one would be refused for ever."""
        body = write(shape).replace(b'"name": "lamps"', b'"nome": "lamps"')
        assert not refuse(shape, body).passing

    @pytest.mark.parametrize("whole", [True, False], ids=["one event", "many events"])
    def test_a_megabyte_of_arguments(self, shape, whole, monkeypatch):
        """Arguments of 1 MB arrive complete."""
        monkeypatch.setattr("foreword.testing.fake_answers.CHUNK_CHARS", 2_000_000 if whole else 400)
        room = "x é " * 250_000
        call = ScriptedCall(name="lamps", arguments={"room": room})
        body = write(shape, replace(ANSWER, calls=(("c1", call),)))
        pieces = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
        done = read(shape, Pieces(pieces))
        assert [one.read_arguments() for one in done.answer.calls] == [{"room": room}]

    def test_a_megabyte_in_a_turn(self, tmp_path, stand_in):
        """Such a call is refused with a reason, and the turn is answered."""
        talk = Conversation(tmp_path, stand_in.url)
        talk.lamps = Lamps()
        huge = ScriptedCall(name="lamps", arguments={"room": "x" * 1_000_000})
        stand_in.follow(ScriptedReply(calls=(huge,)), ScriptedReply(text="On."))
        assert talk.run("Light.", **with_tools(LAMPS)).end is TurnEnd.ANSWERED
        assert talk.lamps.asked == []
        (result,) = stand_in.body["messages"][-1]["content"]
        assert result["is_error"]
        assert "'room'" in result["content"][0]["text"]

    def test_an_event_without_end(self, shape, monkeypatch):
        """An event that is larger than the limit ends the answer instead of filling the memory."""
        monkeypatch.setattr(http_provider, "MAX_EVENT_BYTES", 10_000)
        error = refuse(shape, Pieces([b"data: {", *[b" " * 1_000] * 50]))
        assert not error.passing
        assert "10,000" in str(error)


class TestRefusals:
    """Answers that are no stream."""

    @pytest.mark.parametrize(
        ("body", "passing"),
        [
            (b"<!doctype html>\n<html>\n<body>Welcome to the proxy</body>\n</html>\n", False),
            (b'{"id": "x", "choices": [{"message": {"content": "Yes."}}]}', False),
            (b'[{"candidates": []},\n{"candidates": []}]', False),
            (b"Bad gateway\n", False),
            (b"", True),
            (b": waiting\n\n", True),
            (b"event: message_start\nda", True),
            (b"\xff" * 100, False),
        ],
        ids=["html", "json", "list", "text", "nothing", "only a comment", "half an event", "bytes"],
    )
    def test_200_without_a_stream(self, shape, body, passing):
        """A body that is no stream is an error, and its text is not quoted; one that has not begun is retried."""
        error = refuse(shape, body)
        assert error.passing == passing
        assert "proxy" not in str(error)

    @pytest.mark.parametrize("pretty", [None, 2])
    def test_200_with_an_error(self, shape, pretty):
        """An error that a proxy sends with status 200 is read like one with its own status."""
        error = refuse(shape, json.dumps({"error": {"message": "Slow down", "code": 429}}, indent=pretty).encode())
        assert (error.status_code, error.passing) == (429, True)
        assert "Slow down" in str(error)

    @pytest.mark.parametrize("body", [b'{"error": {"message": "no', b" " * 5_000])
    def test_an_error_body_without_end(self, shape, monkeypatch, body):
        """An error body that does not end is given up, and the status is known."""
        monkeypatch.setattr(http_provider, "MAX_ERROR_S", 0.05)
        monkeypatch.setattr(http_provider, "MAX_ERROR_BYTES", 1_000)
        error = refuse(shape, Pieces([body], open_end=True), status=400)
        assert (error.status_code, error.passing) == (400, False)

    @pytest.mark.parametrize(
        ("given", "low", "high"),
        [
            ("7", 7, 7),
            ("1.5", 1.5, 1.5),
            ("-3", 0, 0),
            (format_datetime(datetime.now(UTC) + timedelta(hours=5), usegmt=True), 17_000, 18_000),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0),
        ],
        ids=["seconds", "a fraction", "a negative number", "a date", "a date in the past"],
    )
    def test_retry_after(self, shape, given, low, high):
        """`Retry-After` is a number of seconds or a date."""
        error = refuse(shape, b"{}", status=429, **{"retry-after": given})
        assert low <= error.wait <= high

    @pytest.mark.parametrize("given", ["", "soon", "inf", "nan", "²", "Sun, 99 Nov 1994 08:49:37 GMT"])
    def test_retry_after_nonsense(self, shape, given):
        """Anything else asks for nothing."""
        assert refuse(shape, b"{}", status=503, **{"retry-after": given.encode()}).wait is None


def fail(shape, kind, message, code):
    """Write an error inside a stream."""
    return {
        "anthropic": {"type": "error", "error": {"type": kind, "message": message}},
        "openai": {"error": {"type": kind, "code": code, "message": message}},
        "responses": {
            "type": "response.failed",
            "sequence_number": 9,
            "response": {"status": "failed", "error": {"code": kind if code is None else code, "message": message}},
        },
        "gemini": {"error": {"code": code, "status": kind, "message": message}},
    }[shape]


LONG = {
    "anthropic": "prompt is too long: 250000 tokens > 200000 maximum",
    "openai": "This model's maximum context length is 128000 tokens.",
    "responses": "Your input exceeds the context window of this model.",
    "gemini": "The input token count (2000000) exceeds the maximum number of tokens allowed (1000000).",
}
STREAM_ERRORS = [
    # shape, type or status, message, code, the status, whether it passes
    ("anthropic", "overloaded_error", "Overloaded", None, 529, True),
    ("anthropic", "rate_limit_error", "Slow down", None, 429, True),
    ("anthropic", "api_error", "Oh no", None, 500, True),
    ("anthropic", "invalid_request_error", LONG["anthropic"], None, 400, False),
    ("anthropic", "billing_error", "Your credit balance is too low", None, None, False),
    ("openai", "server_error", "Overloaded", None, 500, True),
    ("openai", "tokens", "Rate limit reached", "rate_limit_exceeded", 429, True),
    ("openai", "invalid_request_error", LONG["openai"], "context_length_exceeded", 400, False),
    ("openai", "insufficient_quota", "You exceeded your current quota", "insufficient_quota", None, False),
    ("openai", "provider_error", "Overloaded", 502, 502, True),
    ("responses", "server_error", "Overloaded", None, 500, True),
    ("responses", "rate_limit_exceeded", "Slow down", None, 429, True),
    ("responses", "context_length_exceeded", LONG["responses"], None, None, False),
    ("responses", "insufficient_quota", "You exceeded your current quota", None, None, False),
    ("gemini", "UNAVAILABLE", "The model is overloaded.", 503, 503, True),
    ("gemini", "RESOURCE_EXHAUSTED", "Quota exceeded for requests per minute", 429, 429, True),
    ("gemini", "INVALID_ARGUMENT", LONG["gemini"], 400, 400, False),
    ("gemini", "PERMISSION_DENIED", "Billing is disabled", 403, 403, False),
]


class TestErrorsInAStream:
    """Errors after the status 200."""

    @pytest.mark.parametrize("case", STREAM_ERRORS, ids=lambda case: f"{case[0]} {case[1]}")
    def test_errors(self, case):
        """Each is read like one with its own status: what passes is retried, a full context is known as such."""
        shape, kind, message, code, status, passing = case
        events = write_events(shape)[:3]
        error = refuse(shape, b"".join(events) + sse(fail(shape, kind, message, code)))
        assert (error.status_code, error.passing) == (status, passing)
        assert error.too_long == (message in LONG.values())
        assert message in str(error)

    def test_error_event_of_responses(self):
        """The Responses API has an event for errors, too."""
        event = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None}
        error = refuse("responses", sse(event))
        assert (error.status_code, error.passing) == (429, True)


class TestTaggedThoughts:
    """Thoughts of local models, between tags."""

    @given(st.data())
    def test_any_pieces(self, data):
        """A thought between tags is a thought, however the text is divided."""
        text = data.draw(
            st.sampled_from(
                [
                    "<think>\nThe hall. a < b\n</think>\n\nIt is <b>on</b>.",
                    "\n <think></think>It is <b>on</b>.",
                    "<think>The hall.</think> \n It is <b>on</b>.",
                ]
            )
        )
        cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=9)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        done = read_texts(pieces)
        assert done.answer.text == "It is <b>on</b>."
        thought = text.partition("<think>")[2].partition("</think>")[0]
        assert [part.text for part in done.answer.parts[:-1]] == ([thought] if thought else [])
        assert "".join(one.text for one in done.shown if isinstance(one, TextDelta)) == "It is <b>on</b>."

    @pytest.mark.parametrize(
        "text", ["Use <think> for thoughts.", "<thin", "<thinker>", " <", "x<think>y</think>", "  spaced"]
    )
    def test_no_thought(self, text):
        """A text that does not begin with the tag is shown as it is."""
        for pieces in ([text], [*text]):
            assert read_texts(pieces).answer.parts == (TextPart(text=text),)

    def test_a_thought_without_end(self):
        """A thought that the token limit cuts is not shown as the reply."""
        for pieces in (["<think>I wonder</thi"], [*"<think>I wonder</thi"]):
            assert read_texts(pieces).answer.parts == (ThinkingPart(text="I wonder</thi"),)


def read_texts(pieces):
    """Read a chat completion with these pieces of text."""
    chunks = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return read("openai", sse(*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))


STALE = ScriptedError(
    status=400, message="messages.1.content.0: The block is bound to a different conversation and cannot be used"
)
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


class TestStaleThoughts:
    """Anthropic refuses thoughts that followed another prompt."""

    def test_asked_to_ignore_them(self, tmp_path, stand_in):
        """The refused request is repeated once and asks to ignore them, and so do all later ones of the session."""
        talk = Conversation(tmp_path, stand_in.url)
        stand_in.follow(ScriptedReply(thought="Hm.", text="One."), STALE, ScriptedReply(text="Two."))
        assert talk.run("Hello").text == "One."
        assert talk.run("And now?").text == "Two."
        assert talk.run("And later?").text == "Yes."
        assert talk.run("And then?").text == "Yes."
        asked = [request.body.get("thinking") for request in stand_in.requests]
        assert asked == [None, None, DROP, DROP, DROP]
        assert talk.slept == [0.0]

    def test_only_once(self, tmp_path, stand_in):
        """A provider that refuses them all the same fails the turn."""
        talk = Conversation(tmp_path, stand_in.url)
        stand_in.follow(STALE, STALE, ScriptedReply(text="Never asked."))
        assert talk.run("Hello").end is TurnEnd.FAILED
        assert len(stand_in.requests) == 2
