"""Assignment of engine slots to sessions."""

import asyncio

from foreword.agent.providers.embedded_engine import EngineSlots


def run(work):
    """Run something with three slots."""
    return asyncio.run(work(EngineSlots(3)))


async def use(slots, *sessions):
    """Use slots one after the other."""
    taken = []
    for session in sessions:
        taken.append(await slots.take(session))
        slots.give_back(taken[-1])
    return taken


def test_each_its_own():
    """As many sessions as slots stay in their slots."""
    taken = run(lambda slots: use(slots, "a", "b", "c", "b", "a", "c", "a"))
    assert taken == [0, 1, 2, 1, 0, 2, 0]


def test_longest_silent_makes_room():
    """One more session replaces the least recently used one, and only that one."""
    taken = run(lambda slots: use(slots, "a", "b", "c", "a", "d", "c", "a", "b"))
    assert taken == [0, 1, 2, 0, 1, 2, 0, 1]


def test_nobody():
    """A slot used without a session is free afterwards."""
    assert run(lambda slots: use(slots, "a", "", "b", "a", "")) == [0, 1, 1, 0, 2]


def test_waiting():
    """A request waits while all slots are busy; a cancelled one takes no slot."""

    async def work(slots):
        held = [await slots.take(name) for name in "abc"]
        again, other, gone = (asyncio.create_task(slots.take(name)) for name in ("a", "d", "e"))
        await asyncio.sleep(0)
        gone.cancel()
        slots.give_back(held[1])
        assert await other == held[1]
        assert not again.done()
        slots.give_back(held[0])
        assert await again == held[0]
        slots.give_back(held[1])
        return await slots.take("f")

    assert run(work) == 1
