"""Claims about bulletins: memory summed up at each clearance, from what that clearance may read and nothing else."""

import asyncio
import json
from datetime import timedelta

import pytest
from house import FILES, open_house, open_rows, read_log, say, until

from foreword.gateway.bulletins import Bulletins, Scribe
from foreword.memory import Note
from foreword.testing import NOON, MovedClock, Refuses, Says, write_files
from foreword.tools.remembering import forget_sent
from foreword.trust import Audience
from foreword.words import Trust

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
    """Whether a request asks for a bulletin."""
    return ORDER in json.dumps(body["messages"])


def answer(body):
    """Sum up where that is asked, naming what was told, else say yes."""
    told = json.dumps(body)
    named = [word for word in ("safe", "May", "Thursdays", "moving") if word in told]
    return Says(text=f"# News\n\nBULLETIN of {', '.join(named)}.") if is_order(body) else Says(text="Yes.")


def read_tail(request):
    """Read what travelled with the newest message of a request."""
    content = request.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def read_rows(folder):
    """Read the bulletins that are kept."""
    with open_rows(folder) as state:
        return state.execute(
            "SELECT agent, clearance, text, author FROM bulletins ORDER BY agent, clearance"
        ).fetchall()


def list_orders(stand_in):
    """List the requests for a bulletin."""
    return [request.body for request in stand_in.requests if is_order(request.body)]


def is_made(folder, count):
    """Whether so many bulletins have a text."""
    return len([row for row in read_rows(folder) if row[2]]) == count


def test_by_clearance(tmp_path, stand_in):
    """Each clearance that is spoken at has its own bulletin, made of what it may read; unreviewed words are in none."""
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
    told = [facts for kind, _, _, facts in read_log(tmp_path) if kind == "memory_write"]
    assert [facts["by"] for facts in told] == ["anthropic:claude-sonnet-5"] * 3


def test_once_in_a_conversation(tmp_path, stand_in):
    """A bulletin that still stands in the conversation is not said again with the next message."""
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
    """The bulletins of a house whose gateway does not look by itself."""

    def __init__(self, gateway, clock, ask):
        self.gateway, self.clock, self.orders = gateway, clock, []
        self._ask = ask
        scribe = Scribe(choose=self._choose, assemble=gateway.assemble, ask=self.ask)
        recorder = gateway.listeners.recorder
        self.bulletins = Bulletins(gateway.workspace, gateway._writer, scribe, recorder, clock)

    async def _choose(self, _agent):
        return "anthropic:claude-sonnet-5"

    async def ask(self, assembly, _step):
        """Take an order, and answer it."""
        self.orders.append((assembly.clearance.level, assembly.message))
        return self._ask(len(self.orders))

    async def look(self):
        """Look whether something is due."""
        return await self.bulletins.refresh(self.clock())


def visit(folder, stand_in, work, files=HOUSE, ask=lambda number: f"Bulletin number {number}."):
    """Speak with the agent as alice, and do something in its office."""

    async def run():
        clock = MovedClock(NOON)
        async with open_house(folder, stand_in, files, clock=clock) as gateway:
            await say(gateway, "Hello there, all.")
            office = Office(gateway, clock, ask)
            await work(office)
            return office

    return asyncio.run(run())


def test_when_due(tmp_path, stand_in):
    """It is made anew after the hours of the configuration, and only if memory has changed; saved notes change none."""

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
        assert await office.look() == 0  # nobody has spoken with the agent for a week

    office = visit(tmp_path, stand_in, work)
    assert len(office.orders) == 2
    assert [row[2] for row in read_rows(tmp_path)] == ["Bulletin number 2."]


def test_labelled(tmp_path, stand_in):
    """What a model is told for a bulletin has a stranger's prompt, and counts as what it is about."""

    async def work(office):
        await office.look()

    office = visit(tmp_path, stand_in, work)
    ((level, message),) = office.orders
    assert level is Trust.FULL
    assert "<memory>\n" in message


def test_off(tmp_path, stand_in):
    """Unless the configuration asks for bulletins there are none."""

    async def work(office):
        assert await office.look() == 0

    assert not visit(
        tmp_path, stand_in, work, {**HOUSE, "foreword.yaml": CONFIG.replace("hours: 6", "by: model")}
    ).orders


def test_two_processes(tmp_path, stand_in):
    """Two that look at the same moment make it once."""

    async def work(office):
        assert sum(await asyncio.gather(office.look(), office.look())) == 1

    assert len(visit(tmp_path, stand_in, work).orders) == 1


DIGEST = "- private/will.md: The will lies in the blue safe.", "- shared/roof.md: when the roof is mended"


@pytest.mark.parametrize("said", ["", " \n", "My key is sk-ant-api03-Zq8kPmVx2LrT9wYb4NcJ7dHf, keep it."])
def test_by_rule(tmp_path, stand_in, said):
    """Where a model says nothing that can be used, a rule lists what there is; it tells no secret."""
    files = {**HOUSE, "memory/shared/keys.md": "The key: sk-ant-api03-Zq8kPmVx2LrT9wYb4NcJ7dHf\n"}

    async def work(office):
        assert await office.look() == 1

    visit(tmp_path, stand_in, work, files, lambda _: said)
    ((_, _, text, author),) = read_rows(tmp_path)
    assert author == "rule"
    assert set(DIGEST) | {"- social/chess.md: Chess is played on Thursdays."} == set(text.splitlines())


def test_without_a_model(tmp_path, stand_in):
    """A provider that refuses, or a budget that does not allow it, leaves the digest to the rule, and says so."""
    stand_in.choose = lambda body: Refuses(status=400) if is_order(body) else Says(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE, bulletin=0.02) as gateway:
            await say(gateway, "Hello there, all.")
            await until(lambda: is_made(tmp_path, 1))

    asyncio.run(run())
    assert read_rows(tmp_path)[0][3] == "rule"
    (told,) = [(level, facts) for kind, level, _, facts in read_log(tmp_path) if kind == "memory_write"]
    assert (told[0], told[1]["model_failed"], told[1]["by"]) == ("warn", "ProviderError", "rule")


def test_within_the_budget(tmp_path, stand_in):
    """Where a budget allows no call, no order leaves, and the rule sums up."""
    files = {**HOUSE, "foreword.yaml": CONFIG + "budgets: {agents: {reid: {daily_usd: 0.000001}}}\n"}

    async def run():
        async with open_house(tmp_path, stand_in, files, bulletin=0.02) as gateway:
            assert (await say(gateway, "Hello there, all.")).state.value == "refused"
            await until(lambda: is_made(tmp_path, 1))

    asyncio.run(run())
    assert read_rows(tmp_path)[0][3] == "rule"
    assert stand_in.requests == []


def test_rule_is_asked_for(tmp_path, stand_in):
    """Who wants no model to sum up says so, and none is asked."""
    files = {**HOUSE, "foreword.yaml": CONFIG.replace("hours: 6", "hours: 6, by: rule")}

    async def work(office):
        await office.look()

    assert visit(tmp_path, stand_in, work, files).orders == []
    assert set(DIGEST) < set(read_rows(tmp_path)[0][2].splitlines())


def test_another_policy(tmp_path, stand_in):
    """When the configuration closes a store, no bulletin made of it is told any more, and a new one is made."""

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
    """A memory that is forgotten is in no bulletin from that moment on."""

    async def work(office):
        assert await office.look() == 1
        workspace = office.gateway.workspace
        path = "private/will.md"
        owner = Audience(clearance=Trust.FULL, person="alice")
        forget_sent(workspace.memory, owner, path, workspace.memory.forget(path, owner))
        assert read_rows(tmp_path)[0][2] == ""
        office.clock.move(6 * HOUR)
        assert await office.look() == 1

    office = visit(tmp_path, stand_in, work, ask=lambda _: "")
    assert "blue safe" in office.orders[0][1]
    assert "blue safe" not in read_rows(tmp_path)[0][2]


def test_jumping_clock(tmp_path, stand_in):
    """A clock that was set back does not keep a bulletin from being made for good."""

    async def work(office):
        assert await office.look() == 1
        write_files(tmp_path, {"memory/shared/attic.md": "The attic is warm.\n"})
        assert await office.bulletins.refresh(office.clock() - timedelta(days=2)) == 1

    visit(tmp_path, stand_in, work)
