"""The laws of finished requests, over generated conversations with tool loops: breakpoints and prefix."""

import json
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from foreword.engine.render import Prompt
from foreword.envelope import RequestTarget, count_opening, mark_request, write_json, write_request, write_segment
from foreword.promptcache.ledger import CacheIdentity, Prefix, PrefixDecision, advance_ledger, predict_usage
from foreword.promptcache.rules import REQUEST_SHAPES, PrefixCache, list_blocks
from foreword.testing import NOON
from foreword.testing.request_rules import check_anthropic, check_chat, check_responses
from foreword.tokens.models import find_model

MARKS = ("cache_control", "prompt_cache_breakpoint")
STANDING = PrefixDecision(prompt=Prompt(blocks=()), prefix=Prefix(), identity=CacheIdentity())
SYSTEM = ["You are kind. " * 300, "Alice binds books. " * 200]
SHAPES = {
    "anthropic": ("anthropic:claude-sonnet-5", check_anthropic),
    "openai": ("openai:gpt-5.6", check_chat),
    "responses": ("openai-responses:gpt-5.6", check_responses),
}

steps = st.lists(st.sampled_from([1, 2, 9, 10, 19, 30]), max_size=3)
gaps = st.sampled_from([5, 60, 299, 301, 900, 3_500, 3_700, 90_000])
sessions = st.tuples(st.sampled_from(list(SHAPES)), st.lists(st.tuples(gaps, steps), min_size=2, max_size=8))


class Anthropic:
    """A conversation in the shape of POST /v1/messages."""

    kind = "text"

    def __init__(self):
        self.messages = []

    def ask(self, turn):
        """Say something, with a tail before it."""
        parts = [{"type": self.kind, "text": text} for text in (f"It is minute {turn}.", f"Message {turn}?")]
        self.messages.append({"role": "user", "content": parts})

    def call(self, turn, count):
        """Call so many tools at once, and add their results."""
        ids = [f"call_{turn}_{len(self.messages)}_{number}" for number in range(count)]
        calls = [{"type": "tool_use", "id": each, "name": "lamp", "input": {"id": each}} for each in ids]
        results = [{"type": "tool_result", "tool_use_id": each, "content": "It is on."} for each in ids]
        self.messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]

    def answer(self, turn):
        """Answer."""
        self.messages.append({"role": "assistant", "content": f"Answer {turn}."})

    def write(self):
        """Write the request."""
        tools = [{"name": "lamp", "description": "Turns on a lamp.", "input_schema": {"type": "object"}}]
        system = [{"type": "text", "text": text} for text in SYSTEM]
        return {"model": "claude-sonnet-5", "max_tokens": 9, "tools": tools, "system": system,
                "messages": list(self.messages)}  # fmt: skip


class Chat(Anthropic):
    """A conversation in the shape of POST /v1/chat/completions."""

    def call(self, turn, count):
        """Call so many tools at once, and add their results."""
        ids = [f"call_{turn}_{len(self.messages)}_{number}" for number in range(count)]
        calls = [{"id": each, "type": "function", "function": {"name": "lamp", "arguments": "{}"}} for each in ids]
        self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        self.messages += [{"role": "tool", "tool_call_id": each, "content": "It is on."} for each in ids]

    def write(self):
        """Write the request."""
        tools = [{"type": "function", "function": {"name": "lamp", "parameters": {"type": "object"}}}]
        system = {"role": "system", "content": [{"type": "text", "text": text} for text in SYSTEM]}
        return {"model": "gpt-5.6", "tools": tools, "messages": [system, *self.messages]}


class Responses(Anthropic):
    """A conversation in the shape of POST /v1/responses."""

    kind = "input_text"

    def call(self, turn, count):
        """Call so many tools at once, and add their results."""
        ids = [f"call_{turn}_{len(self.messages)}_{number}" for number in range(count)]
        for each in ids:
            self.messages.append({"type": "function_call", "call_id": each, "name": "lamp", "arguments": "{}"})
        for each in ids:
            self.messages.append({"type": "function_call_output", "call_id": each, "output": "It is on."})

    def write(self):
        """Write the request."""
        tools = [{"type": "function", "name": "lamp", "parameters": {"type": "object"}}]
        system = {"role": "system", "content": [{"type": "input_text", "text": text} for text in SYSTEM]}
        return {"model": "gpt-5.6", "tools": tools, "input": [system, *self.messages]}


TALKS = {"anthropic": Anthropic, "openai": Chat, "responses": Responses}


def count_marks(value):
    """Count the breakpoints in a request, wherever they are."""
    if isinstance(value, dict):
        return sum(name in value for name in MARKS) + sum(map(count_marks, value.values()))
    return sum(map(count_marks, value)) if isinstance(value, list) else 0


def strip(shape, request):
    """List the blocks of a request without their breakpoints."""
    return [block.key for block in list_blocks(shape, request)]


@given(sessions)
def test_marked_requests(session):
    """A request is accepted, has four breakpoints at most, extends the last one, and is billed as predicted."""
    shape, turns = session
    model, judge = SHAPES[shape]
    facts = find_model(model, {}).cache
    now, state, last = NOON, None, []
    provider = PrefixCache(lambda: now, len)
    talk = TALKS[shape]()
    for turn, (gap, loops) in enumerate(turns):
        now += timedelta(seconds=gap)
        talk.ask(turn)
        for calls in [*loops, 0]:
            to = RequestTarget(model=model, facts=facts, count=len, at=now, stable=2, turn=str(turn))
            plain = talk.write()
            before = json.dumps(plain)
            marked = mark_request(shape, plain, state, to)
            assert json.dumps(plain) == before
            assert not list(judge(marked.request))
            assert count_marks(marked.request) == len(marked.breakpoints) <= 4 - facts.newest
            blocks = strip(shape, marked.request)
            assert blocks == strip(shape, plain)
            assert blocks[: len(last)] == last
            counted = provider.use(model, list_blocks(shape, marked.request), facts)
            assert counted == predict_usage(state, marked.sent, facts)
            state, last = advance_ledger(state, STANDING, marked.sent, facts), blocks
            if calls:
                talk.call(turn, calls)
                now += timedelta(seconds=5)
        talk.answer(turn)


@given(sessions)
def test_what_was_written_before(session):
    """For any breakpoints and writes of earlier turns: the bytes, the breakpoints and the ledger are the same."""
    shape, turns = session
    model, _ = SHAPES[shape]
    facts, field = find_model(model, {}).cache, REQUEST_SHAPES[shape].field
    now, state, past = NOON, None, []
    talk = TALKS[shape]()
    for turn, (gap, loops) in enumerate(turns):
        now += timedelta(seconds=gap)
        talk.ask(turn)
        for calls in [*loops, 0]:
            to = RequestTarget(model=model, facts=facts, count=len, at=now, stable=2, turn=str(turn))
            plain = talk.write()
            opening = count_opening(plain[field])
            end = past[-1].end if past else opening
            rest = {**plain, field: [*plain[field][:opening], *plain[field][end:]]}
            whole, cut = mark_request(shape, plain, state, to), mark_request(shape, rest, state, to, past)
            assert write_request(shape, cut.request, cut.past) == write_request(shape, whole.request)
            assert write_request(shape, whole.request) == write_json(whole.request)
            assert (cut.sent, cut.breakpoints) == (whole.sent, whole.breakpoints)
            state = advance_ledger(state, STANDING, whole.sent, facts)
            if calls:
                talk.call(turn, calls)
                now += timedelta(seconds=5)
        talk.answer(turn)
        if turn % 3 != 1:  # one segment may have several turns
            past.append(write_segment(shape, talk.write()[field][end:], end, facts, len))
