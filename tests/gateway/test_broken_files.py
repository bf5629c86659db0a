"""Files that are broken at startup: sessions keep the last good text, and the owner is notified."""

import asyncio
import json

import pytest
from house import CONFIG, open_house, read_log, say, until

from foreword.testing import NOON, ManualClock, run_fake_provider

SOUL = "".join(f"{number}. Say less than you know, and never more than you were asked.\n" for number in range(1, 90))
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": SOUL,
    "AGENTS.md": "Old rules of the house.\n",
    "rules/one.md": "An old rule.\n",
    "IDENTITY.md": "---\nname: Reid\n---\nA clerk of old stock.\n",
    "channels/terminal.md": "Old manners for the terminal.\n",
}
SAID = {
    "SOUL.md": "40. Say less",
    "AGENTS.md": "Old rules of the house.",
    "rules/one.md": "An old rule.",
    "IDENTITY.md": "A clerk of old stock.",
    "channels/terminal.md": "Old manners",
}
BROKEN = "its file is broken, so the session keeps the earlier text"


class Owner:
    """Records the owner's notices."""

    def __init__(self):
        self.heard = []

    def notify(self, notice):
        """Record a notice."""
        self.heard.append(notice.text)


class House:
    """A workspace whose process restarts."""

    def __init__(self, folder, stand_in, clock):
        self.folder, self.stand_in, self.clock = folder, stand_in, clock
        self.owner = Owner()

    def run(self, talk, files=None):
        """Open the gateway, run a coroutine, and close it."""

        async def work():
            options = {"clock": self.clock, "notices": (self.owner,)}
            async with open_house(self.folder, self.stand_in, files or {"foreword.yaml": CONFIG}, **options) as gateway:
                return await talk(gateway)

        return asyncio.run(work())

    def decisions(self):
        """List the ledger's decisions about sections, by turn."""
        shown = [facts["ledger"]["decisions"] for *_, facts in read_log(self.folder) if "ledger" in facts]
        return [[(one["section"], one["deed"], one["reason"]) for one in one_turn] for one_turn in shown]


@pytest.fixture
def house(tmp_path):
    """A workspace with a fake provider on the same clock."""
    clock = ManualClock(NOON)
    with run_fake_provider(clock=clock) as stand_in:
        yield House(tmp_path, stand_in, clock)


def read_system(request):
    """Read the system part of a request."""
    return "".join(part["text"] for part in request.body["system"])


@pytest.mark.parametrize("path", SAID)
@pytest.mark.parametrize("pause", [30, 3 * 3600])
def test_a_session_keeps_what_it_was_told(house, path, pause):
    """A file that is broken at startup changes nothing in a session, warm or cold, and the owner is notified."""

    async def talk(gateway):
        await say(gateway, "One")

    async def go_on(gateway):
        await say(gateway, "Two")
        await until(lambda: house.owner.heard)
        (house.folder / path).write_text("All is new here.\n")
        gateway.workspace.refresh(now=True)
        await say(gateway, "Three")

    house.run(talk, FILES)
    (house.folder / path).write_bytes(b"a\0b")
    house.clock.move(pause)
    house.run(go_on)
    one, two, three = house.stand_in.requests
    assert SAID[path] in read_system(one)
    assert read_system(two) == read_system(one)
    assert "Prompt Updates" not in json.dumps(two.body["messages"])
    assert "All is new here." in three.raw.decode()
    ((_, deed, reason),) = house.decisions()[0]
    assert (deed, reason) == ("hold", BROKEN)
    assert house.owner.heard[0].startswith(f"{path} has a NUL byte at 1 and is no text: ")
    assert "sessions that were sent a good text keep it" in house.owner.heard[0]


def test_a_session_that_begins(house):
    """A new session starts with the built-in text, and gets the file once it is fixed."""

    async def talk(gateway):
        await say(gateway, "One")
        (house.folder / "SOUL.md").write_text(SOUL)
        gateway.workspace.refresh(now=True)
        await say(gateway, "Two")

    (house.folder / "SOUL.md").write_bytes(b"a\0b")
    house.run(talk, {name: text for name, text in FILES.items() if name != "SOUL.md"})
    one, two = house.stand_in.requests
    assert "40. Say less" not in one.raw.decode()
    assert "40. Say less" in two.raw.decode()


def test_what_leads_elsewhere_is_not_held(house):
    """A symlink out of the workspace is not a broken file: the session gets a notice of refusal."""

    async def talk(gateway):
        await say(gateway, "One")

    house.run(talk, FILES)
    (house.folder / "AGENTS.md").unlink()
    (house.folder / "AGENTS.md").symlink_to("/etc/hostname")
    house.run(talk)
    assert "is refused" in json.dumps(house.stand_in.requests[1].body["messages"])
    assert [[deed for _, deed, _ in one] for one in house.decisions()] == [["append"]]


def test_a_memory_leaves_the_menu(house):
    """A memory that is broken at startup cannot be loaded and leaves the menu without a notice."""

    async def talk(gateway):
        await say(gateway, "One")

    house.run(talk, {**FILES, "memory/private/a.md": "Lisbon.\n", "memory/private/b.md": "Porto.\n"})
    (house.folder / "memory/private/a.md").write_bytes(b"Lis\0bon")
    house.run(talk)
    shown = [request.raw.decode() for request in house.stand_in.requests]
    assert [["private/a.md" in text, "private/b.md" in text] for text in shown] == [[True, True], [False, True]]
    (moved,) = (facts["ledger"] for *_, facts in read_log(house.folder) if "ledger" in facts)
    assert (moved["rebase"]["ground"], moved["rebase"]["section"]) == ("private", None)
