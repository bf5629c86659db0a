"""Scheduled runs through the whole gateway: time, user, prompt and delivery."""

import asyncio
from datetime import UTC, datetime

import pytest
from clockwork import CONFIG, MORNING, Kept, open_clockwork
from house import LIVELY, QUICK, SOON, find_environ, follow_log, open_rows, read_log, until

from foreword.engine.sources.documents import read_prompt
from foreword.gateway.channel import ChatKind
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.storage.turns import TurnState
from foreword.testing import ManualClock, ScriptedCall, ScriptedReply, make_workspace
from foreword.types import Trust

DAILY = 'schedule: [{name: brief, cron: "0 8 * * *", user: alice, say: "Morning check.", delivery: %s%s}]\n'
BEAT = "schedule: [{name: beat, heartbeat: 30m, user: alice}]\n"


def read_system(body):
    """Read the system part of a request."""
    return "\n".join(part["text"] for part in body["system"])


def read_message(body):
    """Read the newest message of a request, with its appended texts."""
    return "\n".join(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")


def list_tools(body):
    """List the tools of a request."""
    return {tool["name"] for tool in body.get("tools", ())}


@pytest.mark.parametrize("delivery", ["always", "as_needed", "never"])
def test_each_delivery(tmp_path, stand_in, delivery):
    """The prompt describes the delivery of the reply, and the delivery matches it."""
    stand_in.follow(ScriptedReply(text="All is well."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % (delivery, "")) as house:
            assert await house.at(7, 59) == []
            (reply,) = await house.at(8, 0)
            if delivery != "never":
                await until(lambda: house.kept.letters)
        return reply, house.kept.letters

    reply, letters = asyncio.run(run())
    assert (reply.state, reply.text, reply.user) == (TurnState.ANSWERED, "All is well.", "alice")
    assert letters == ([] if delivery == "never" else [("1001", "All is well.")])
    body = stand_in.requests[0].body
    for each in ("always", "as_needed", "never"):
        assert (read_prompt(f"background/{each}") in read_message(body)) is (each == delivery)
    assert (read_prompt("background/notify") in read_message(body)) is (delivery == "never")
    assert read_prompt("channels/scheduled") in read_system(body)
    assert read_prompt("situations/system") in read_system(body)
    assert "Morning check." in read_message(body)
    assert "schedule_create" not in list_tools(body)
    assert "schedule_list" in list_tools(body)


def test_only_the_notice_arrives(tmp_path, stand_in):
    """With `delivery: never` notify_user delivers exactly its text to the user, once."""
    call = ScriptedCall(name="notify_user", arguments={"text": "The cellar is wet."})
    stand_in.follow(ScriptedReply(calls=(call,)), ScriptedReply(text="Noted for the record."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ("never", "")) as house:
            (reply,) = await house.at(8)
            await until(lambda: house.kept.letters)
        return reply, house.kept.letters

    reply, letters = asyncio.run(run())
    assert reply.state is TurnState.ANSWERED
    assert letters == [("1001", "The cellar is wet.")]


def test_nobody_can_be_notified(tmp_path, stand_in):
    """If no channel reaches the user, notify_user is neither offered nor in the prompt."""
    stand_in.follow(ScriptedReply(text="Done."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ("never", ""), channels=()) as house:
            return await house.at(8)

    asyncio.run(run())
    body = stand_in.requests[0].body
    assert "notify_user" not in list_tools(body)
    assert "notify_user" not in read_message(body)


def test_nobody_is_reached(tmp_path, stand_in):
    """If a reply cannot be delivered, the log and the list of schedules say why."""
    stand_in.follow(ScriptedReply(text="All is well."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ("always", ""), channels=()) as house:
            await house.at(8)
            (planned,) = await house.gateway.scheduler.list("alice", Trust.FULL)
            return planned.note

    note = asyncio.run(run())
    assert note.startswith("replies cannot be delivered: alice has no address on a channel that delivers")
    assert [error for kind, _, error, _ in read_log(tmp_path) if kind == "channel_error"] == [note]


def test_a_place_in_the_tree(tmp_path, stand_in):
    """A run's trace starts with schedule_fired, which has the name used by budgets."""
    stand_in.follow(ScriptedReply(text="Good morning."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ("always", "")) as house:
            await house.at(8)
            await until(lambda: house.kept.letters)

    asyncio.run(run())
    types = [kind for kind, *_ in read_log(tmp_path)]
    begun = ["schedule_fired", "trust_resolved", "session_created", "prompt_built", "turn_started", "turn_completed"]
    assert [kind for kind in types if kind in begun] == begun
    assert "message_received" not in types
    assert types[-1] == "message_sent"
    assert {kind: facts for kind, _, _, facts in read_log(tmp_path)}["schedule_fired"]["name"] == "brief"


def test_a_budget_binds(tmp_path, stand_in):
    """The budget of a schedule applies to its runs."""
    budget = "budgets: {schedules: {brief: {daily_usd: 0.0}}}\n"
    stand_in.follow(ScriptedReply(text="never said"))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ("as_needed", "") + budget) as house:
            return await house.at(8), house.kept

    (reply,), kept = asyncio.run(run())
    assert reply.state is TurnState.REFUSED
    assert stand_in.requests == []
    assert kept.letters == []


def test_in_a_room(tmp_path, stand_in):
    """A run for a room has the room's clearance and no user sections, and replies in the room."""
    stand_in.follow(ScriptedReply(text="Tea is ready."))

    async def run():
        schedule = DAILY % ("always", ", to: kitchen")
        async with open_clockwork(tmp_path, stand_in, schedule, USER_md="She likes owls.\n", MEMORY_md="x\n") as house:
            (reply,) = await house.at(8)
            await until(lambda: house.kept.letters)
        return reply, house.kept.letters

    _, letters = asyncio.run(run())
    assert letters == [("-5", "Tea is ready.")]
    body = stand_in.requests[0].body
    assert "owls" not in str(body)
    assert "MEMORY.md" not in str(body)
    reported = [facts for kind, _, _, facts in read_log(tmp_path) if kind == "trust_resolved"]
    assert reported[0]["effective"] == "familiar"


def test_a_heartbeat_is_light(tmp_path, stand_in):
    """A heartbeat has its list and a small prompt; without a list the model is not called."""
    stand_in.follow(ScriptedReply(text="The bins go out."))

    async def run():
        soul = "Long words about a character. " * 3_000
        async with open_clockwork(tmp_path, stand_in, BEAT, HEARTBEAT_md="- put the bins out\n", SOUL_md=soul) as house:
            assert len(await house.at(8, 0)) == 1
            assert await house.at(8, 1) == []
            (tmp_path / "HEARTBEAT.md").write_text("<!-- nothing -->\n\n")
            house.gateway.workspace.refresh(now=True)
            assert await house.at(8, 30) == []
            (tmp_path / "HEARTBEAT.md").unlink()
            house.gateway.workspace.refresh(now=True)
            assert await house.at(9, 0) == []

    asyncio.run(run())
    assert len(stand_in.requests) == 1
    body = stand_in.requests[0].body
    assert "put the bins out" in read_system(body)
    assert "Long words" not in str(body)
    assert read_prompt("background/as_needed") in read_message(body)
    assert len(read_system(body)) < 6_000


def test_a_crash_between(tmp_path, stand_in):
    """After a crash between accepting a run and recording it, the run is not repeated."""
    stand_in.follow(ScriptedReply(text="Once."))

    async def run():
        clock = ManualClock(MORNING)
        async with open_clockwork(tmp_path, stand_in, DAILY % ("always", ""), clock=clock) as house:
            await house.at(8)
            await until(lambda: house.kept.letters)
        with open_rows(tmp_path) as state:
            eight = datetime(2026, 11, 16, 8, tzinfo=UTC).timestamp()
            state.execute("UPDATE schedules SET due = ?, ran = NULL, lease_owner = 'gone:1:x'", (eight,))
        async with open_clockwork(tmp_path, stand_in, DAILY % ("always", ""), clock=clock) as house:
            assert await house.look() == []
        with open_rows(tmp_path) as state:
            turns = state.execute("SELECT count(*) FROM turns").fetchone()
            (due,) = state.execute("SELECT due FROM schedules").fetchone()
        return turns, datetime.fromtimestamp(due, UTC)

    turns, due = asyncio.run(run())
    assert turns == (1,)
    assert len(stand_in.requests) == 1
    assert due == datetime(2026, 11, 17, 8, tzinfo=UTC)
    assert [kind for kind, *_ in read_log(tmp_path)].count("schedule_fired") == 1


def test_by_itself(tmp_path, stand_in):
    """A serving gateway fires schedules by itself."""
    stand_in.follow(ScriptedReply(text="Good morning."))

    async def run():
        clock = ManualClock(MORNING)
        workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG + DAILY % ("always", "")})
        options = GatewayOptions(clock=clock, retrying=QUICK, turn_retry=SOON, settings=LIVELY, scheduling=True)
        async with open_gateway(workspace, find_environ(stand_in.url), options):
            with open_rows(tmp_path) as state:  # an unstored schedule would be due tomorrow
                await until(lambda: state.execute("SELECT 1 FROM schedules").fetchall())
            clock.move(61)
            await until(lambda: stand_in.requests)

    asyncio.run(run())


LOST = CONFIG.replace("alice: {trust: full", "alice: {trust: familiar").replace(
    "bob: {trust: familiar", "bob: {trust: full"
)
GONE = CONFIG.replace("owner: alice", "owner: bob").replace("  alice: {trust: full", "  carol: {trust: full")


@pytest.mark.parametrize(
    ("config", "reported"), [(GONE, "its user alice no longer exists"), (LOST, "its text may contain more")]
)
def test_a_creator_who_lost_trust(tmp_path, stand_in, config, reported):
    """A schedule does not run once its user is removed or trusted less than when it was created."""
    create = ScriptedCall(name="schedule_create", arguments={"say": "Read the diary.", "cron": "0 8 * * *"})
    stand_in.follow(ScriptedReply(calls=(create,)), ScriptedReply(text="I will."))

    async def run():
        async with open_clockwork(tmp_path, stand_in) as house:
            accepted = await house.gateway.accept(RoutedMessage(text="Plan it.", user="alice"))
            await house.gateway.wait(accepted.turn)
            house.edit(config)
            return await house.at(8)

    assert asyncio.run(run()) == []
    assert len(stand_in.requests) == 2
    errors = [error for kind, level, error, _ in read_log(tmp_path) if (kind, level) == ("channel_error", "warn")]
    assert len(errors) == 1
    assert reported in errors[0]
    with open_rows(tmp_path) as state:
        assert reported in state.execute("SELECT note FROM schedules").fetchone()[0]


def test_less_trust_sees_less(tmp_path, stand_in):
    """A configured schedule runs at the user's current trust, in another session."""
    stand_in.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."))

    async def run():
        schedule = DAILY % ("never", "")
        async with open_clockwork(tmp_path, stand_in, schedule, BOOT_md="The safe is behind the clock.\n") as house:
            (one,) = await house.at(8)
            house.edit(LOST + schedule)
            (two,) = await house.at(8, day=17)
        return one.session, two.session

    one, two = asyncio.run(run())
    assert one != two
    assert ["behind the clock" in str(request.body) for request in stand_in.requests] == [True, False]
    assert "One." not in str(stand_in.requests[1].body)


def test_an_address_of_somebody_else(tmp_path, stand_in):
    """An address that is not the user's gets no delivery."""
    stand_in.follow(ScriptedReply(text="never said"))
    schedule = DAILY % ("always", ', to: "telegram:9999"')

    async def run():
        async with open_clockwork(tmp_path, stand_in, schedule) as house:
            return await house.at(8), house.kept.letters

    assert asyncio.run(run()) == ([], [])
    assert stand_in.requests == []


def test_a_dialect_without_a_place_for_it(tmp_path, stand_in):
    """If a blueprint has no slot for them, delivery instructions and the heartbeat list are in the message."""
    stand_in.follow(ScriptedReply(text="The bins go out."))
    config = CONFIG.replace(
        'model: "anthropic:claude-sonnet-5"', 'model: "anthropic:claude-sonnet-5", blueprint: spec010'
    )

    async def run():
        async with open_clockwork(
            tmp_path, stand_in, BEAT, config=config, HEARTBEAT_md="- put the bins out\n"
        ) as house:
            return await house.at(8)

    assert len(asyncio.run(run())) == 1
    message = read_message(stand_in.requests[0].body)
    assert read_prompt("background/as_needed") in message
    assert "bins out" in message


BROAD = 'schedule: [{name: news, cron: "0 8 * * *", user: alice, say: "The news.", to: kitchen}]\n'


class Town(Kept):
    """A channel that knows the kinds of its places."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    async def find_kind(self, address):
        """Return the kind of a place."""
        assert address == "-5"
        return self.kind


@pytest.mark.parametrize(
    ("kind", "more", "seen"),
    [
        (ChatKind.GROUP, "", True),
        (ChatKind.BROADCAST, "", False),
        (ChatKind.BROADCAST, "situations: SITUATIONS\n", True),
    ],
)
def test_a_broadcast_is_public(tmp_path, stand_in, kind, more, seen):
    """The prompt of a run for a broadcast contains only what the broadcast situation allows."""
    listed = (
        "{system: {ceiling: full}, dm: {ceiling: full}, group: {ceiling: familiar}, broadcast: {ceiling: familiar}}"
    )
    stand_in.follow(ScriptedReply(text="All is well."))
    config = CONFIG + more.replace("SITUATIONS", listed)
    workspace = make_workspace(tmp_path, {"foreword.yaml": config + BROAD, "SOUL.md": "Calm as a lake.\n"})
    clock, town = ManualClock(MORNING), Town(kind)
    options = GatewayOptions(clock=clock, retrying=QUICK, turn_retry=SOON, settings=LIVELY, channels={"telegram": town})

    async def run():
        async with open_gateway(workspace, find_environ(stand_in.url), options) as gateway:
            await gateway.scheduler.run_due()
            clock.now = MORNING.replace(hour=8, minute=0)
            await gateway.scheduler.run_due()
            await until(lambda: town.letters)

    asyncio.run(run())
    assert town.letters == [("-5", "All is well.")]
    assert ("Calm as a lake." in read_system(stand_in.body)) is seen


WEB = 'schedule: [{name: brief, cron: "0 8 * * *", user: alice, say: "Morning check.", to: "web:alice"}]\n'


@pytest.mark.parametrize("spoke", [True, False])
def test_where_people_look(tmp_path, stand_in, spoke):
    """A reply to the web is added to the user's web conversation, which is created if missing."""
    config = CONFIG.replace('["telegram:1001"]', '["telegram:1001", "web:alice"]')
    stand_in.choose = lambda body: ScriptedReply(
        text="All is well." if "Morning check." in str(body["messages"]) else "Hello."
    )
    workspace = make_workspace(tmp_path, {"foreword.yaml": config + WEB, "SOUL.md": "Calm.\n"})
    clock = ManualClock(MORNING)
    options = GatewayOptions(clock=clock, retrying=QUICK, turn_retry=SOON, settings=LIVELY, scheduling=True)

    async def run():
        async with open_gateway(workspace, find_environ(stand_in.url), options) as gateway:
            await gateway.scheduler.run_due()
            said = RoutedMessage(text="Hello.", user="alice" if spoke else "bob", channel="web")
            await gateway.wait((await gateway.accept(said)).turn)
            clock.now = MORNING.replace(hour=8, minute=0)
            await until(lambda: "message_sent" in list_after(tmp_path, "schedule_fired"))
            (own,) = [one for one in await gateway.sessions.list("alice") if one.key.channel == "web"]
            return await gateway.sessions.read(own.id)

    past = asyncio.run(run())
    texts = [message.text for row in past for message in row.segment.texts]
    assert "All is well." in texts
    assert "channel_error" not in [kind for kind, *_ in read_log(tmp_path)]


def list_after(folder, kind):
    """List the event types after the first event of a type, while the gateway is open."""
    kinds = [one for one, *_ in follow_log(folder)]
    return kinds[kinds.index(kind) :] if kind in kinds else []
