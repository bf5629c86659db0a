"""Broadcast of a running turn to all listeners."""

import asyncio

from foreword.agent.agent_events import ApprovalNeeded, CallRestarted, TextDelta, ToolFinished, ToolStarted
from foreword.gateway.live import MAX_QUEUED_DELTAS, TurnBroadcast

QUESTION = ApprovalNeeded("1", "press", "press\n  n: 1", {"n": 1})


async def pass_all(broadcast, *pieces):
    """Publish pieces."""
    for piece in pieces:
        await broadcast.send(piece)


async def listen_late(*pieces):
    """Collect the pieces of a listener that joins after these."""
    broadcast = TurnBroadcast()
    await pass_all(broadcast, *pieces)
    broadcast.end()
    return [piece async for piece in broadcast.listen()]


def test_late():
    """A late listener gets the text so far as one piece."""
    assert asyncio.run(listen_late(TextDelta(text="Good "), TextDelta(text="morning."))) == [
        TextDelta(text="Good morning.")
    ]
    assert asyncio.run(listen_late()) == []


def test_anew():
    """A restarted call retracts its own text, but not the text before the tool calls."""
    before = (TextDelta(text="Let me look. "), ToolStarted(name="look"), ToolFinished(name="look", done=True))
    heard = asyncio.run(
        listen_late(*before, TextDelta(text="There a"), CallRestarted(), TextDelta(text="There are two."))
    )
    assert heard == [TextDelta(text="Let me look. \n\nThere are two.")]


def test_a_question_that_is_open():
    """A listener that joins during an approval gets the question; once answered, it is not repeated."""
    asked = (TextDelta(text="I press. "), ToolStarted(name="press"), QUESTION)
    assert asyncio.run(listen_late(*asked)) == [TextDelta(text="I press. \n\n"), QUESTION]
    assert asyncio.run(listen_late(*asked, ToolFinished(name="press", done=True))) == [TextDelta(text="I press. \n\n")]


def test_everybody():
    """All listeners get the same pieces from when they joined, and the end."""

    async def run():
        broadcast = TurnBroadcast()

        async def hear():
            return [piece async for piece in broadcast.listen()]

        early = asyncio.create_task(hear())
        await asyncio.sleep(0)
        await pass_all(broadcast, TextDelta(text="a"), TextDelta(text="b"))
        late = asyncio.create_task(hear())
        await asyncio.sleep(0)
        await pass_all(broadcast, TextDelta(text="c"))
        broadcast.end()
        return await early, await late

    early, late = asyncio.run(run())
    assert early == [TextDelta(text="a"), TextDelta(text="b"), TextDelta(text="c")]
    assert late == [TextDelta(text="ab"), TextDelta(text="c")]


def test_who_does_not_keep_up():
    """A listener that does not keep up is dropped, and delays neither the turn nor the others."""

    async def run():
        broadcast = TurnBroadcast()
        slow = broadcast.listen()
        first = asyncio.ensure_future(anext(slow))
        await asyncio.sleep(0)
        await pass_all(broadcast, *[TextDelta(text="x")] * (MAX_QUEUED_DELTAS + 10))
        assert await first == TextDelta(text="x")
        rest = [piece async for piece in slow]
        return len(rest)

    assert asyncio.run(run()) <= MAX_QUEUED_DELTAS


def test_silence():
    """The marker of a suppressed reply is never published, also not in parts; other text with the same beginning is."""
    assert asyncio.run(listen_late(*(TextDelta(text=part) for part in ("NO_", "ACTION", "_NEEDED")))) == []
    heard = asyncio.run(
        listen_late(TextDelta(text="It is NO"), ToolStarted(name="look"), TextDelta(text="N"), TextDelta(text="one."))
    )
    assert heard == [TextDelta(text="It is NO\n\nNone.")]
    assert asyncio.run(listen_late(TextDelta(text="NO_ACTION"), CallRestarted(), TextDelta(text="_NEEDED"))) == [
        TextDelta(text="_NEEDED")
    ]
