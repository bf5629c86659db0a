"""Bulletins: summaries of memory per clearance, made only from memories readable at that clearance."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from house import FILES, open_house, open_rows, read_log, say, until

from foreword.agent.tools.memory_tools import erase_from_records
from foreword.engine.trust import Audience
from foreword.gateway.bulletins import Bulletins
from foreword.memory.entry import Note
from foreword.testing import NOON, ManualClock, ScriptedError, ScriptedReply, write_files
from foreword.types import Trust

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}, ina: {trust: inner}}
bulletin: {hours: 6}
"""
MEMORY = {
    "memory/private/will.md": "The will lies in the blue safe.\n",
    "memory/shared/roof.md": "---\ndescription: when the roof is mended\n---\nThe roof is mended in May.\n",
    "memory/social/chess.md": "# Games\n\nChess is played on Thursdays.\n",
    "memory/social/inbox/bob/20261101-aa.md": "Bob says that Alice is moving away.\n",
}
HOUSE = {**FILES, **MEMORY, "foreword.yaml": CONFIG}
ORDER = "Write a bulletin"
TITLE = "## Bulletin"
HOUR = 3_600


def is_order(body):
    """Return whether a request asks for a bulletin."""
    return ORDER in json.dumps(body["messages"])


def answer(body):
    """Answer a bulletin request with the words found in it, any other with yes."""
    shown = json.dumps(body)
    named = [word for word in ("safe", "May", "Thursdays", "moving") if word in shown]
    return (
        ScriptedReply(text=f"# News\n\nBULLETIN of {', '.join(named)}.")
        if is_order(body)
        else ScriptedReply(text="Yes.")
    )


def read_tail(request):
    """Read the newest message of a request."""
    content = request.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def read_rows(folder):
    """Read the stored bulletins."""
    with open_rows(folder) as state:
        return state.execute(
            "SELECT agent, clearance, text, author FROM bulletins ORDER BY agent, clearance"
        ).fetchall()


def list_orders(stand_in):
    """List the bulletin requests."""
    return [request.body for request in stand_in.requests if is_order(request.body)]


def is_made(folder, count):
    """Return whether `count` bulletins have a text."""
    return len([row for row in read_rows(folder) if row[2]]) == count


def test_by_clearance(tmp_path, stand_in):
    """Each clearance in use has its own bulletin from the memories it may read; unreviewed entries are in none."""
    stand_in.choose = answer

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE, bulletin=0.02) as gateway:
            people = ("alice", "ina", "bob", "mallory")
            for user in people:
                await say(gateway, "Hello there, all.", user=user)
            await until(lambda: is_made(tmp_path, 3))
            before = len(stand_in.requests)
            for user in people:
                await say(gateway, "And now?", user=user)
            return [request for request in stand_in.requests[before:] if not is_order(request.body)]

    alice, ina, bob, mallory = asyncio.run(run())
    assert f"{TITLE}\nNews\nBULLETIN of safe, May, Thursdays." in read_tail(alice)
    assert f"{TITLE}\nNews\nBULLETIN of May, Thursdays." in read_tail(ina)
    assert f"{TITLE}\nNews\nBULLETIN of Thursdays." in read_tail(bob)
    assert TITLE not in mallory.raw.decode()
    assert [row[:2] for row in read_rows(tmp_path)] == [("reid", 1), ("reid", 2), ("reid", 3)]
    orders = [json.dumps(order) for order in list_orders(stand_in)]
    assert len(orders) == 3
    assert not any("moving away" in order or "Calm and exact" in order or '"tools"' in order for order in orders)
    assert sum("blue safe" in order for order in orders) == 1
    shown = [facts for kind, _, _, facts in read_log(tmp_path) if kind == "memory_write"]
    assert [facts["by"] for facts in shown] == ["anthropic:claude-sonnet-5"] * 3


def test_once_in_a_conversation(tmp_path, stand_in):
    """A bulletin that is in the conversation is not repeated with the next message."""
    stand_in.choose = answer

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE, bulletin=0.02) as gateway:
            await say(gateway, "Hello there, all.")
            await until(lambda: is_made(tmp_path, 1))
            await say(gateway, "And now?")
            await say(gateway, "And then?")

    asyncio.run(run())
    *_, second, third = [request for request in stand_in.requests if not is_order(request.body)]
    assert TITLE in read_tail(second)
    assert TITLE not in read_tail(third)
    assert json.dumps(third.body["messages"]).count("BULLETIN of") == 1


class Office:
    """The bulletins of a workspace, refreshed by hand."""

    def __init__(self, gateway, clock, ask):
        self.gateway, self.clock, self.orders = gateway, clock, []
        self._ask = ask
        choices, loop = SimpleNamespace(choose=self._choose), SimpleNamespace(ask=self.ask)
        recorder = gateway.listeners.recorder
        self.bulletins = Bulletins(
            replace(gateway.context, recorder=recorder, clock=clock), choices, gateway.preparing, loop
        )

    async def _choose(self, _agent):
        return "anthropic:claude-sonnet-5"

    async def ask(self, assembly, _step, _spending):
        """Record a request and answer it."""
        self.orders.append((assembly.clearance.level, assembly.message))
        return self._ask(len(self.orders))

    async def look(self):
        """Refresh due bulletins."""
        return await self.bulletins.refresh(self.clock())


def visit(folder, stand_in, work, files=HOUSE, ask=lambda number: f"Bulletin number {number}."):
    """Send a message as alice, then run a coroutine with an office."""

    async def run():
        clock = ManualClock(NOON)
        async with open_house(folder, stand_in, files, clock=clock) as gateway:
            await say(gateway, "Hello there, all.")
            office = Office(gateway, clock, ask)
            await work(office)
            return office

    return asyncio.run(run())


def test_when_due(tmp_path, stand_in):
    """A bulletin is renewed after the configured hours, and only if memory changed; unreviewed notes do not count."""

    async def work(office):
        assert await office.look() == 1
        assert await office.look() == 0
        office.clock.move(7 * HOUR)
        assert await office.look() == 0
        note = Note(text="The cellar is wet.", author="alice", clearance=Trust.FULL, time=NOON)
        office.gateway.workspace.memory.save(note, "private")
        assert await office.look() == 0
        write_files(tmp_path, {"memory/shared/cellar.md": "The cellar is dry.\n"})
        assert await office.look() == 1
        write_files(tmp_path, {"memory/shared/attic.md": "The attic is warm.\n"})
        assert await office.look() == 0
        office.clock.move(9 * 24 * HOUR)
        assert await office.look() == 0  # the agent had no turn for a week

    office = visit(tmp_path, stand_in, work)
    assert len(office.orders) == 2
    assert [row[2] for row in read_rows(tmp_path)] == ["Bulletin number 2."]


def test_labelled(tmp_path, stand_in):
    """A bulletin request has the clearance of its bulletin and marks the memories as data."""

    async def work(office):
        await office.look()

    office = visit(tmp_path, stand_in, work)
    ((level, message),) = office.orders
    assert level is Trust.FULL
    assert "<memory>\n" in message


def test_off(tmp_path, stand_in):
    """Without `hours` there are no bulletins."""

    async def work(office):
        assert await office.look() == 0

    assert not visit(
        tmp_path, stand_in, work, {**HOUSE, "foreword.yaml": CONFIG.replace("hours: 6", "by: model")}
    ).orders


def test_two_processes(tmp_path, stand_in):
    """Two concurrent refreshes make a bulletin once."""

    async def work(office):
        assert sum(await asyncio.gather(office.look(), office.look())) == 1

    assert len(visit(tmp_path, stand_in, work).orders) == 1


DIGEST = "- private/will.md: The will lies in the blue safe.", "- shared/roof.md: when the roof is mended"


@pytest.mark.parametrize("said", ["", " \n", "My key is sk-ant-api03-Zq8kPmVx2LrT9wYb4NcJ7dHf, keep it."])
def test_by_rule(tmp_path, stand_in, said):
    """If the model's text is unusable, a rule lists the memories, without secrets."""
    files = {**HOUSE, "memory/shared/keys.md": "The key: sk-ant-api03-Zq8kPmVx2LrT9wYb4NcJ7dHf\n"}

    async def work(office):
        assert await office.look() == 1

    visit(tmp_path, stand_in, work, files, lambda _: said)
    ((_, _, text, author),) = read_rows(tmp_path)
    assert author == "rule"
    assert set(DIGEST) | {"- social/chess.md: Chess is played on Thursdays."} == set(text.splitlines())


def test_without_a_model(tmp_path, stand_in):
    """If the provider refuses, the rule makes the bulletin, and the event records it."""
    stand_in.choose = lambda body: ScriptedError(status=400) if is_order(body) else ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE, bulletin=0.02) as gateway:
            await say(gateway, "Hello there, all.")
            await until(lambda: is_made(tmp_path, 1))

    asyncio.run(run())
    assert read_rows(tmp_path)[0][3] == "rule"
    (shown,) = [(level, facts) for kind, level, _, facts in read_log(tmp_path) if kind == "memory_write"]
    assert (shown[0], shown[1]["model_failed"], shown[1]["by"]) == ("warn", "ProviderError", "rule")


def test_within_the_budget(tmp_path, stand_in):
    """If a budget allows no call, none is made, and the rule makes the bulletin."""
    files = {**HOUSE, "foreword.yaml": CONFIG + "budgets: {agents: {reid: {daily_usd: 0.000001}}}\n"}

    async def run():
        async with open_house(tmp_path, stand_in, files, bulletin=0.02) as gateway:
            assert (await say(gateway, "Hello there, all.")).state.value == "refused"
            await until(lambda: is_made(tmp_path, 1))

    asyncio.run(run())
    assert read_rows(tmp_path)[0][3] == "rule"
    assert stand_in.requests == []


def test_rule_is_asked_for(tmp_path, stand_in):
    """With `by: rule` no model is called."""
    files = {**HOUSE, "foreword.yaml": CONFIG.replace("hours: 6", "hours: 6, by: rule")}

    async def work(office):
        await office.look()

    assert visit(tmp_path, stand_in, work, files).orders == []
    assert set(DIGEST) < set(read_rows(tmp_path)[0][2].splitlines())


def test_another_policy(tmp_path, stand_in):
    """When the configuration closes a store, bulletins made from it are not used, and a new one is made."""

    async def work(office):
        gateway = office.gateway
        await say(gateway, "Hello there, all.", user="bob")
        assert await office.look() == 2
        closed = CONFIG + "stores: {social: {trust: full}}\n"
        write_files(tmp_path, {"foreword.yaml": closed})
        gateway.workspace.refresh(now=True)
        await say(gateway, "And now?", user="bob")
        assert TITLE not in stand_in.requests[-1].raw.decode()
        assert await office.look() >= 1
        await say(gateway, "And then?", user="bob")
        assert TITLE not in stand_in.requests[-1].raw.decode()

    visit(tmp_path, stand_in, work)


def test_forgotten(tmp_path, stand_in):
    """A forgotten memory is in no bulletin from then on."""

    async def work(office):
        assert await office.look() == 1
        workspace = office.gateway.workspace
        path = "private/will.md"
        owner = Audience(clearance=Trust.FULL, person="alice")
        erase_from_records(workspace.memory, owner, path, workspace.memory.forget(path, owner))
        assert read_rows(tmp_path)[0][2] == ""
        office.clock.move(6 * HOUR)
        assert await office.look() == 1

    office = visit(tmp_path, stand_in, work, ask=lambda _: "")
    assert "blue safe" in office.orders[0][1]
    assert "blue safe" not in read_rows(tmp_path)[0][2]


def test_jumping_clock(tmp_path, stand_in):
    """A clock that was set back does not block bulletins."""

    async def work(office):
        assert await office.look() == 1
        write_files(tmp_path, {"memory/shared/attic.md": "The attic is warm.\n"})
        assert await office.bulletins.refresh(office.clock() - timedelta(days=2)) == 1

    visit(tmp_path, stand_in, work)
