"""Compaction: a conversation that fills its window is summarised, and the session continues."""

import asyncio
import json

import pytest
from house import CONFIG, FILES, open_house, open_rows, read_log, read_roles, say

import foreword
from foreword.agent.segments import HistorySegment
from foreword.gateway.compaction import choose_compacted, drop_oldest
from foreword.gateway.session_state import HistoryRow
from foreword.storage.history import HistoryKind
from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply
from foreword.turn import Message

SMALL = CONFIG + 'models: {"anthropic:claude-sonnet-5": {window: 24000}}\n'
HOUSE = {**FILES, "foreword.yaml": SMALL}
LONG = "The plum tree by the east wall was planted in the autumn. " * 120
TOO_LONG = ScriptedError(status=400, message="prompt is too long: 210000 tokens > 200000 maximum")


def is_order(body):
    """Return whether a request asks for a summary."""
    return "Summarise the conversation" in json.dumps(body["messages"])


def answer(body):
    """Answer a summary request with a summary, any other with yes."""
    return ScriptedReply(text="SUMMARY: plum tree, east wall.") if is_order(body) else ScriptedReply(text="Yes.")


async def fill(gateway, turns=14):
    """Send messages until the window has filled."""
    return [await say(gateway, f"number {n}: {LONG}") for n in range(turns)]


def read_folds(folder):
    """Read the compaction events."""
    return [facts for kind, _, _, facts in read_log(folder) if kind == "session_compacted"]


def test_folding(tmp_path, stand_in):
    """When the window fills, the model summarises the oldest turns; the prompt is unchanged, and requests fit again."""
    stand_in.choose = answer

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            replies = await fill(gateway)
            return replies, await gateway.sessions.read(replies[0].session)

    replies, past = asyncio.run(run())
    assert {reply.state.value for reply in replies} == {"answered"}
    assert len({reply.session for reply in replies}) == 1
    folds = read_folds(tmp_path)
    assert len(folds) >= 2
    for fold in folds:
        assert fold["turns"] >= 1
        assert fold["tokens_after"] < fold["tokens_before"]
        assert fold["by"] == "anthropic:claude-sonnet-5"
    assert [row.kind for row in past].count(HistoryKind.SUMMARY) == 1
    assert past[0].kind is HistoryKind.SUMMARY
    spoken = [request.body for request in stand_in.requests if not is_order(request.body)]
    assert len({json.dumps([body["system"], body["tools"]]) for body in spoken}) == 1
    assert "SUMMARY: plum tree" in str(spoken[-1]["messages"][0])
    assert read_roles(spoken[-1]) == ["user", "assistant"] * (len(spoken[-1]["messages"]) // 2) + ["user"]
    assert {request.refused for request in stand_in.requests} == {""}
    assert max(request.counted.total for request in stand_in.requests) < 24_000
    orders = [request.body for request in stand_in.requests if is_order(request.body)]
    assert not any(order.get("tools") for order in orders)
    with open_rows(tmp_path) as state:
        kept = state.execute("SELECT count(*) FROM history WHERE kind = 'turn'").fetchone()
    assert kept == (len(replies),)


def test_forked_before(tmp_path, stand_in):
    """A fork from before the compaction has the original messages."""
    stand_in.choose = answer

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            replies = await fill(gateway)
            fork = await gateway.sessions.fork(replies[0].session, 2)
            past = await gateway.sessions.read(fork.id)
            after = await say(gateway, "And now?")
            return past, fork, after

    past, fork, after = asyncio.run(run())
    assert [row.kind for row in past] == [HistoryKind.TURN, HistoryKind.TURN]
    assert after.session == fork.id
    assert "number 0: The plum tree" in str(stand_in.body["messages"][0])
    assert "SUMMARY" not in str(stand_in.body["messages"])


def test_by_rule(tmp_path, stand_in):
    """If the model cannot summarise, a rule shortens the history, and the turn is answered."""
    stand_in.choose = lambda body: (
        ScriptedError(status=400, message="no") if is_order(body) else ScriptedReply(text="Yes.")
    )

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            return await fill(gateway)

    replies = asyncio.run(run())
    assert {reply.state.value for reply in replies} == {"answered"}
    folds = read_folds(tmp_path)
    assert folds
    assert {fold["by"] for fold in folds} == {"rule"}
    assert all(fold["tokens_after"] < fold["tokens_before"] for fold in folds)
    first = str(stand_in.body["messages"][0])
    assert "compacted to make room" in first
    assert "[…]" in first


def test_the_provider_says_too_long(tmp_path, stand_in):
    """If the provider says that the prompt is too long, the history is compacted and the call retried once."""
    stand_in.follow(
        ScriptedReply(text="One."),
        ScriptedReply(text="Two."),
        TOO_LONG,
        ScriptedReply(text="SUMMARY."),
        ScriptedReply(text="Three."),
        TOO_LONG,
        ScriptedReply(text="SUMMARY."),
        TOO_LONG,
        ScriptedReply(text="Five."),
    )

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return [await say(gateway, f"say {number}") for number in range(1, 6)]

    replies = asyncio.run(run())
    assert [reply.text for reply in replies[:3]] == ["One.", "Two.", "Three."]
    assert (replies[3].state.value, "too long" in replies[3].text) == ("failed", True)
    assert replies[4].text == "Five."
    assert len(read_folds(tmp_path)) == 2
    assert read_roles(stand_in.body)[::2] == ["user"] * len(read_roles(stand_in.body)[::2])
    assert {request.refused for request in stand_in.requests} == {""}


def test_too_long_after_a_tool(tmp_path, stand_in):
    """A tool call before the compaction is not repeated, and all usage is counted."""
    call = ScriptedReply(calls=(ScriptedCall(name="press", arguments={}),))
    stand_in.follow(
        ScriptedReply(text="One."), call, TOO_LONG, ScriptedReply(text="SUMMARY."), ScriptedReply(text="Pressed.")
    )
    calls = []

    @foreword.tool(trust="public", changes=True, confirm=False)
    async def press() -> str:
        calls.append("press")
        return "done"

    async def run():
        async with open_house(tmp_path, stand_in, tools=(press,)) as gateway:
            return await say(gateway, "hello"), await say(gateway, "Press.")

    _, reply = asyncio.run(run())
    assert (reply.text, calls) == ("Pressed.", ["press"])
    called, folded, last = stand_in.requests[1], stand_in.requests[3], stand_in.requests[4]
    assert reply.usage.tokens_in == called.counted.total + folded.counted.total + last.counted.total
    assert "tool_result" in str(last.body["messages"][-1])
    assert last.refused == ""


def test_a_long_claim(tmp_path, stand_in):
    """Messages that a client claims are counted and compacted like others, even if there is no other history."""
    stand_in.choose = answer
    claimed = tuple(Message(role="assistant" if at % 2 else "user", text=f"{at}: {LONG}") for at in range(16))

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            return await say(gateway, "hello", before=claimed)

    reply = asyncio.run(run())
    assert (reply.state.value, reply.text) == ("answered", "Yes.")
    assert len(read_folds(tmp_path)) == 1
    assert stand_in.requests[-1].counted.total < 24_000


def make_rows(*weights):
    """Make history rows with these token counts."""
    return [
        HistoryRow(position=at, kind=HistoryKind.TURN, segment=HistorySegment(b"[]"), tokens=weight)
        for at, weight in enumerate(weights, 1)
    ]


def test_what_stays():
    """The newest rows within the limit remain, and at least one row is compacted."""
    assert [row.position for row in choose_compacted(make_rows(10, 10, 10, 10), 100)] == [1]
    assert [row.position for row in choose_compacted(make_rows(10, 10, 90), 100)] == [1, 2, 3]
    assert [row.position for row in choose_compacted(make_rows(1, 1, 1, 1), 100)] == [1, 2]
    assert [row.position for row in choose_compacted(make_rows(1), 100)] == [1]
    assert choose_compacted([], 100) == []


class Scales:
    """A meter that counts words and its own calls."""

    def __init__(self):
        self.asked = 0

    def count(self, text):
        """Count words."""
        self.asked += 1
        return len(text.split())


@pytest.mark.parametrize(("after", "most", "kept"), [(0, 4, ["d d", "e e"]), (1, 4, ["a a", "e e"]), (0, 0, ["e e"])])
def test_what_is_left_out(after, most, kept):
    """The oldest lines are dropped until the rest fits, the newest remains, and no line is counted twice."""
    scales = Scales()
    assert drop_oldest(["a a", "b b", "c c", "d d", "e e"], scales, most, after=after) == kept
    assert scales.asked == 5
