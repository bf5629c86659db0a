"""A reminder reaches its user by default, live and labelled, and accepts times as people write them."""

import asyncio
import json
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from chat_house import CONFIG, FILES, Messenger, find_environ, make_shell, open_house, serve, sit_at_chat

from foreword.cli.main import main
from foreword.config.schedule_settings import ScheduleSettings as Written
from foreword.errors import InputError
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.notifications import add_to_current_conversations
from foreword.gateway.schedule.creation import parse_at, resolve_time
from foreword.storage.api_tokens import ApiTokens
from foreword.storage.sessions import SessionKey
from foreword.storage.turns import TurnState
from foreword.testing import ManualClock, ScriptedCall, ScriptedReply, run_fake_provider, write_files
from foreword.types import Delivery, Trust
from waiting import until, wait

PARIS = ZoneInfo("Europe/Paris")
MORNING = datetime(2026, 11, 16, 7, 59, tzinfo=UTC)  # 8:59 in Paris


@pytest.fixture
def provider():
    """A provider that answers Yes until it is given a script."""
    with run_fake_provider() as one:
        yield one


@pytest.mark.parametrize(
    ("text", "now", "meant"),
    [
        ("18:00", "2026-11-16T08:59+01:00", "2026-11-16T17:00+00:00"),
        ("at 18:00", "2026-11-16T08:59+01:00", "2026-11-16T17:00+00:00"),
        ("8:00", "2026-11-16T08:59+01:00", "2026-11-17T07:00+00:00"),
        ("tomorrow 8:00", "2026-11-16T08:59+01:00", "2026-11-17T07:00+00:00"),
        ("in 5 minutes", "2026-11-16T08:59+01:00", "2026-11-16T08:04+00:00"),
        ("in an hour", "2026-11-16T08:59+01:00", "2026-11-16T08:59+00:00"),
        ("2026-12-24T18:00", "2026-11-16T08:59+01:00", "2026-12-24T17:00+00:00"),
        # The clocks go forward on 29 March and back on 25 October 2026.
        ("tomorrow 8:00", "2026-03-28T12:00+01:00", "2026-03-29T06:00+00:00"),
        ("in 1 day", "2026-03-28T12:00+01:00", "2026-03-29T10:00+00:00"),
        ("in 24 hours", "2026-03-28T12:00+01:00", "2026-03-29T11:00+00:00"),
        ("2:30", "2026-03-29T01:00+01:00", "2026-03-29T01:00+00:00"),
        ("2:30", "2026-10-25T01:00+02:00", "2026-10-25T00:30+00:00"),
    ],
)
def test_times_as_people_write_them(text, now, meant):
    """A time is read in the user's zone, across clock changes as well."""
    moment, note = resolve_time(text, PARIS, datetime.fromisoformat(now))
    assert parse_at(moment, PARIS) == datetime.fromisoformat(meant)
    assert bool(note) is (text == "8:00")


@pytest.mark.parametrize("text", ["soon", "25:00", "8 o'clock", "in five minutes", "in 0 minutes", "today 7:00"])
def test_what_is_no_time_is_refused(text):
    """An invalid or past time is refused with a helpful message."""
    with pytest.raises(InputError) as refused:
        resolve_time(text, PARIS, MORNING)
    assert "write" in str(refused.value) or "passed" in str(refused.value) or "away" in str(refused.value)


def test_schedule_add_at_the_shell(tmp_path, capsys, monkeypatch):
    """`schedule add --at` accepts these times, moves a past one to tomorrow with a note, and lists the forms."""
    write_files(tmp_path, FILES)
    shell = make_shell(capsys, monkeypatch, tmp_path)
    soon = shell("schedule", "add", "--at", "in 5 minutes", "--say", "Remind me of the bread.", "--json")
    assert (soon.code, soon.err) == (0, "")
    due = datetime.fromisoformat(json.loads(soon.out)["due"])
    assert 200 < (due - datetime.now(UTC)).total_seconds() < 301
    passed = shell("schedule", "add", "--at", "0:00", "--say", "Remind me of the tide.")
    assert "0:00 has passed today (Europe/Paris), so it is planned for tomorrow" in passed.err
    bad = shell("schedule", "add", "--at", "soon", "--say", "Now.")
    assert bad.code == 2
    assert '"18:00", "tomorrow 8:00", "in 5 minutes"' in bad.err


def test_schedule_add_warns_when_nobody_is_reached(tmp_path, capsys, monkeypatch):
    """`schedule add` warns if no reply would arrive, and is silent in a new workspace."""
    config = CONFIG.replace("Europe/Paris", "Europe/Paris, identities: ['telegram:1001']")
    write_files(tmp_path, {**FILES, "foreword.yaml": config})
    shell = make_shell(capsys, monkeypatch, tmp_path)
    at = ("schedule", "add", "--at", "tomorrow 8:00", "--say", "Hello.")
    assert (
        "replies cannot be delivered: telegram is not a channel of this workspace"
        in shell(*at, "--to", "telegram:1001").err
    )
    assert "replies cannot be delivered: room kitchen has no place" in shell(*at, "--to", "kitchen").err
    assert "replies cannot be delivered: bob has no address" in shell(*at, "--user", "bob").err
    assert shell(*at).err == ""
    fresh = tmp_path / "fresh"
    assert main(["init", str(fresh), "--owner", "alice"]) == 0
    assert make_shell(capsys, monkeypatch, fresh)(*at).err == ""


def test_the_agent_has_the_same_forms(tmp_path, provider):
    """The agent's tool accepts the same times and returns the interpreted time."""
    call = ScriptedCall(name="schedule_create", arguments={"say": "Remind alice of the bread.", "at": "8:00"})
    provider.follow(ScriptedReply(text="", calls=(call,)), ScriptedReply(text="Planned."))

    async def run():
        async with open_house(tmp_path, provider.url, clock=ManualClock(MORNING)) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="Remind me at 8.", user="alice"))
            turn = await gateway.wait(accepted.turn)
            while not turn.state.ended:
                turn = await gateway.wait(accepted.turn)
            return turn, await gateway.scheduler.list("alice", max_trust())

    turn, (made,) = asyncio.run(run())
    assert turn.state is TurnState.ANSWERED
    assert made.due == datetime(2026, 11, 17, 7, 0, tzinfo=UTC)
    assert "has passed today (Europe/Paris)" in provider.requests[-1].raw.decode()


def max_trust():
    """Return the highest trust."""
    from foreword.types import Trust

    return Trust.FULL


def test_a_reminder_stands_in_the_terminal_and_on_the_web(tmp_path, provider, capsys, monkeypatch):
    """In a new workspace a due reminder arrives, labelled, in the owner's conversations before the first message."""
    provider.follow(ScriptedReply(text="The bread is ready."))
    write_files(tmp_path, FILES)
    shell = make_shell(capsys, monkeypatch, tmp_path, provider.url)
    assert shell("schedule", "add", "--at", "in 1 second", "--name", "bread", "--say", "Remind me.").code == 0
    with serve(tmp_path, provider.url, scheduling=True) as ask_as, ask_as("alice") as client:
        found = wait(lambda: client.get("/api/notifications").json()["notifications"])
    assert [(one["label"], one["text"]) for one in found] == [("scheduled: bread", "The bread is ready.")]
    assert re.search(r"bread .* – .* done\b", shell("schedule", "list").out)
    shown = shell("sessions", "--json")
    channels = {one["channel"] for one in json.loads(shown.out) if one["title"] == "The bread is ready."}
    assert {"terminal", "web"} <= channels


@pytest.mark.parametrize(
    ("since", "status"), [("2026-11-16T08:00:00", 422), ("2026-11-16", 422), ("0.5", 400), ("-1", 400), ("1e3", 400)]
)
def test_a_time_without_an_offset_is_refused(tmp_path, provider, since, status):
    """`since` without an offset is 422, a number is 400, and `param` names it."""
    with serve(tmp_path, provider.url) as ask_as, ask_as("alice") as client:
        refused = client.get("/api/notifications", params={"since": since})
        known = client.get("/api/notifications", params={"since": "2026-11-16T08:00:00+01:00"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (status, "since"), refused.text
    assert known.json() == {"notifications": []}


def test_a_stream_ends_with_its_token(tmp_path, provider):
    """A notification stream ends when its token is revoked."""
    with serve(tmp_path, provider.url) as ask_as, ask_as("alice") as client:
        events = {"Accept": "text/event-stream"}
        with client.stream("GET", "/api/notifications", headers=events, timeout=10) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": keep-alive"
            with ApiTokens(str(tmp_path / ".foreword")) as tokens:
                tokens.revoke("alice")
            assert [line for line in lines if line] == []
        assert client.get("/api/notifications").status_code == 401


def test_a_stream_reads_each_notification_once(tmp_path, provider):
    """A stream's cursor skips notifications that it has sent, and a fork has no new ones."""

    async def run():
        async with open_house(tmp_path, provider.url) as gateway:
            sessions = gateway.sessions
            key = SessionKey(agent="reid", user="alice", channel="web", room="", clearance=max_trust())

            async def say(text):
                message = RoutedMessage(text=text, user="alice", channel="web", situation="dm")
                return await gateway.wait((await gateway.accept(message)).turn)

            async def send(text):
                await sessions._writer.write(lambda state: add_to_current_conversations(state, key, "", text))

            async def read(after):
                found, cursor = await sessions.list_notifications_of("alice", "web", max_trust(), after)
                return [(one.text, one.label) for one in found], cursor

            await say("Before.")
            await send("One.")
            first, cursor = await read(0)
            none, same = await read(cursor)
            session = (await say("After.")).session
            await sessions.fork(session)
            copied, cursor = await read(cursor)
            await send("Two.")
            second, _ = await read(cursor)
            return first, none, same, copied, second

    first, none, _, copied, second = asyncio.run(run())
    assert first == [("One.", "sent by the agent")]
    assert (none, copied) == ([], [])
    assert second == [("Two.", "sent by the agent")]


def test_a_reminder_in_two_conversations_is_one_notification(tmp_path, provider):
    """A run that is added to conversations of two clearances is one notification, in the higher one."""

    async def run():
        async with open_house(tmp_path, provider.url) as gateway:
            keys = [
                SessionKey(agent="reid", user="alice", channel="web", room="", clearance=level)
                for level in (Trust.INNER, Trust.FULL)
            ]
            sessions = [await gateway.sessions.begin(key, "dm") for key in keys]
            message = RoutedMessage(text="Remind me.", user="alice", channel="telegram", situation="dm")
            turn = (await gateway.accept(message)).turn
            await gateway.wait(turn)
            await gateway.sessions._writer.write(
                lambda state: add_to_current_conversations(state, keys[0], turn, "Bread!")
            )
            read = gateway.sessions.list_notifications_of
            found, _ = await read("alice", "web", Trust.FULL, 0)
            lower, _ = await read("alice", "web", Trust.INNER, 0)
            shown = [[(one.session, one.text) for one in some] for some in (found, lower)]
            return shown, [[(session.id, "Bread!")] for session in reversed(sessions)]

    shown, wanted = asyncio.run(run())
    assert shown == wanted


def test_a_reminder_arrives_on_an_open_stream(tmp_path, provider):
    """A listener on the web receives its user's reminder as an event when it is due; others do not."""
    provider.follow(ScriptedReply(text="The bread is ready."))
    heard, others, ready = [], [], threading.Event()
    with serve(tmp_path, provider.url, scheduling=True) as ask_as:

        def listen_as(user, kept):
            events = {"Accept": "text/event-stream"}
            with ask_as(user) as client, client.stream("GET", "/api/notifications", headers=events) as stream:
                for line in stream.iter_lines():
                    ready.set()
                    if line.startswith("data:"):
                        kept.append(json.loads(line[5:]))
                        return

        threading.Thread(target=listen_as, args=("alice", heard), daemon=True).start()
        threading.Thread(target=listen_as, args=("bob", others), daemon=True).start()
        assert ready.wait(120)
        with ask_as("alice") as client:
            planned = client.post("/api/schedules", json={"say": "Remind me.", "at": "in 1 second", "name": "bread"})
        assert planned.status_code == 201
        assert planned.json()["notes"] == []
        wait(lambda: heard)
    assert (heard[0]["label"], heard[0]["text"]) == ("scheduled: bread", "The bread is ready.")
    assert others == []


SMALL = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
models: {"anthropic:claude-sonnet-5": {mode: brief}}
users: {alice: {trust: full, timezone: Europe/Paris, identities: ["telegram:1001"]}}
"""
QUOTED = "> Remind me of the bread.\n> And of the salt."


@pytest.mark.parametrize(
    "case",
    [
        (SMALL, "This is a note.", "always", [f"{QUOTED}\n\nThis is a note."]),
        (SMALL, "This is a note.", "as_needed", [f"{QUOTED}\n\nThis is a note."]),
        (SMALL, "NO_ACTION_NEEDED", "always", [QUOTED]),
        (SMALL, "NO_ACTION_NEEDED", "as_needed", []),
        (SMALL, "This is a note.", "never", []),
        (SMALL.replace("brief", "full"), "Bread and salt!", "always", ["Bread and salt!"]),
    ],
)
@pytest.mark.parametrize("channel", ["telegram", "terminal"])
def test_a_small_model_reminds_with_the_words_of_the_schedule(tmp_path, provider, case, channel):
    """A model with the brief prompt replies below a quote of the schedule; other replies are unchanged."""
    config, said, delivery, arrived = case
    provider.follow(ScriptedReply(text=said))
    people = Messenger()
    files = {**FILES, "foreword.yaml": config}
    entry = Written(user="alice", at="in 1 day", say="Remind me of the bread.\nAnd of the salt.\n", name="bread")
    entry = replace(entry, delivery=Delivery(delivery), to=f"{channel}:{'1001' if channel == 'telegram' else 'alice'}")

    async def run():
        options = {"channels": {"telegram": people}, "scheduling": True}
        async with open_house(tmp_path, provider.url, files, **options) as gateway:
            await gateway.scheduler.create(entry, bounded=False)
            reply = await gateway.wait((await gateway.scheduler.run("bread")).turn)
            assert reply.state is TurnState.ANSWERED
            if channel == "telegram":
                await until(lambda: len(people.arrived) == len(arrived))
                return people.arrived
            found, _ = await gateway.sessions.list_notifications_of("alice", channel, max_trust())
            return [one.text for one in found]

    assert asyncio.run(run()) == arrived


LABEL = re.compile(r"\[scheduled: bread, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]\n+The bread is ready\.")
SOON = ("schedule", "add", "--at", "in 1 second", "--name", "bread", "--say", "Remind me of the bread.")


def see_reminder(terminal):
    """Wait until a chat shows the reminder under its label, and check that it is shown once."""
    terminal.wait(lambda: LABEL.search(terminal.screen.text), "the reminder")
    terminal.send("Thanks.")
    terminal.see("Yes.")
    assert len(LABEL.findall(terminal.screen.text)) == 1


def test_an_open_chat_shows_a_reminder_of_the_gateway(tmp_path, provider):
    """A reminder of `serve` appears at the prompt of an open chat at once, labelled."""
    # With a bot in the configuration a chat does not run schedules itself.
    files = {**FILES, "foreword.yaml": f"{CONFIG}telegram: {{}}\n"}
    provider.follow(ScriptedReply(text="The bread is ready."))
    with (
        serve(tmp_path, provider.url, files, scheduling=True) as ask_as,
        ask_as("alice") as client,
        sit_at_chat(tmp_path, find_environ(provider.url)) as terminal,
    ):
        terminal.see("new conversation; /help")
        terminal.wait_for_prompt()
        asked = {"say": "Remind me of the bread.", "at": "in 1 second", "name": "bread", "to": "terminal:alice"}
        assert client.post("/api/schedules", json=asked).status_code == 201
        see_reminder(terminal)


def test_an_open_chat_fires_what_is_due(tmp_path, provider, capsys, monkeypatch):
    """An open chat without a gateway runs a due schedule and shows its reply, labelled."""
    provider.follow(ScriptedReply(text="The bread is ready."))
    write_files(tmp_path, FILES)
    with sit_at_chat(tmp_path, find_environ(provider.url)) as terminal:
        terminal.see("new conversation; /help")
        terminal.wait_for_prompt()
        assert make_shell(capsys, monkeypatch, tmp_path)(*SOON).code == 0
        see_reminder(terminal)
    assert "The bread is ready." in provider.requests[-1].raw.decode()


def test_a_run_below_the_person_reaches_their_open_chat(tmp_path, provider, capsys, monkeypatch):
    """A run with a lower clearance than its user is still shown in the user's chat and is part of it."""
    situations = "situations: {dm: {ceiling: full}, group: {ceiling: familiar}, system: {ceiling: familiar}}\n"
    provider.follow(ScriptedReply(text="The bread is ready."))
    write_files(tmp_path, {**FILES, "foreword.yaml": CONFIG + situations})
    with sit_at_chat(tmp_path, find_environ(provider.url)) as terminal:
        terminal.see("clearance full")
        terminal.wait_for_prompt()
        assert make_shell(capsys, monkeypatch, tmp_path)(*SOON).code == 0
        see_reminder(terminal)
    run, answer = (request.raw.decode() for request in provider.requests)
    assert "2019" not in run  # the run has not seen private text
    assert "The bread is ready." in answer
