"""Claims about what a running turn says to everybody who listens."""

import asyncio

from foreword.gateway.broadcast import MOST, Broadcast
from foreword.runtime.ears import Anew, Asking, Calling, Returned, Words

QUESTION = Asking(id="1", name="press", question="press\n  n: 1")


async def pass_all(broadcast, *pieces):
    """Pass pieces on."""
    for piece in pieces:
        await broadcast.pass_on(piece)


async def listen_late(*pieces):
    """Hear what somebody hears who comes after all of this."""
    broadcast = Broadcast()
    await pass_all(broadcast, *pieces)
    broadcast.end()
    return [piece async for piece in broadcast.listen()]


def test_late():
    """Who comes late hears what was said so far as one piece."""
    assert asyncio.run(listen_late(Words(text="Good "), Words(text="morning."))) == [Words(text="Good morning.")]
    assert asyncio.run(listen_late()) == []


def test_anew():
    """An answer that is made anew takes back its own words, and not those before the tools were called."""
    before = (Words(text="Let me look. "), Calling(name="look"), Returned(name="look", done=True))
    heard = asyncio.run(listen_late(*before, Words(text="There a"), Anew(), Words(text="There are two.")))
    assert heard == [Words(text="Let me look. \n\nThere are two.")]


def test_a_question_that_is_open():
    """Who comes while a person is being asked hears the question, and nobody hears it once it is answered."""
    asked = (Words(text="I press. "), Calling(name="press"), QUESTION)
    assert asyncio.run(listen_late(*asked)) == [Words(text="I press. \n\n"), QUESTION]
    assert asyncio.run(listen_late(*asked, Returned(name="press", done=True))) == [Words(text="I press. \n\n")]


def test_everybody():
    """Several listeners hear the same, each from when they came, and all of them hear the end."""

    async def run():
        broadcast = Broadcast()

        async def hear():
            return [piece async for piece in broadcast.listen()]

        early = asyncio.create_task(hear())
        await asyncio.sleep(0)
        await pass_all(broadcast, Words(text="a"), Words(text="b"))
        late = asyncio.create_task(hear())
        await asyncio.sleep(0)
        await pass_all(broadcast, Words(text="c"))
        broadcast.end()
        return await early, await late

    early, late = asyncio.run(run())
    assert early == [Words(text="a"), Words(text="b"), Words(text="c")]
    assert late == [Words(text="ab"), Words(text="c")]


def test_who_does_not_keep_up():
    """A listener that does not keep up is left behind, and holds up neither the turn nor the others."""

    async def run():
        broadcast = Broadcast()
        slow = broadcast.listen()
        first = asyncio.ensure_future(anext(slow))
        await asyncio.sleep(0)
        await pass_all(broadcast, *[Words(text="x")] * (MOST + 10))
        assert await first == Words(text="x")
        rest = [piece async for piece in slow]
        return len(rest)

    assert asyncio.run(run()) <= MOST


def test_silence():
    """The word of silence is never heard, also not in pieces; what only begins like it is."""
    assert asyncio.run(listen_late(*(Words(text=part) for part in ("NO_", "ACTION", "_NEEDED")))) == []
    heard = asyncio.run(listen_late(Words(text="It is NO"), Calling(name="look"), Words(text="N"), Words(text="one.")))
    assert heard == [Words(text="It is NO\n\nNone.")]
    assert asyncio.run(listen_late(Words(text="NO_ACTION"), Anew(), Words(text="_NEEDED"))) == [Words(text="_NEEDED")]
