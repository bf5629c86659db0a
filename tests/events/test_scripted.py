"""Claims about the scripted loop: it tells what concerns the person whose turn it is."""

from night import BUSY, USAGE, make_night, make_turn

from foreword.testing import Heard, Listeners, Reply
from foreword.tools.answer import Answer


def test_turns_before(tmp_path):
    """A turn that fails says how many turns its own session had before it, and nothing of those of others."""
    heard = Heard()
    loop, _ = make_night(tmp_path, Listeners(recorder=heard))
    for _ in range(3):
        loop.receive(make_turn(), [Reply(text="Yes.", usage=USAGE)])
    for number in range(2):
        loop.receive(make_turn(user="bob", session="bobs"), [BUSY] * 4)
        assert heard.events[-1].facts["turns_before"] == number


def test_memory(tmp_path):
    """A tool that searches memory or changes it is told as such below its call, and others are not."""
    heard = Heard()
    loop, _ = make_night(tmp_path, Listeners(recorder=heard))
    found = {"memory_search": Answer(text="x", tokens=1, store="shared", count=3), "bash": Answer(text="y", tokens=1)}
    loop.receive(make_turn(), [Reply(tools=("memory_search", "bash"), answers=found), Reply(text="Yes.")])
    (event,) = (event for event in heard.events if event.type.value == "memory_search")
    assert event.facts == {"store": "shared", "count": 3}
