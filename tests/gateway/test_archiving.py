"""Archiving of ended conversations as Markdown."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from house import CONFIG, FILES, open_house, open_rows, say
from messenger import Messenger

from foreword.agent.conversation import dump_messages
from foreword.agent.conversation import make_user_message as utter
from foreword.engine.sources.documents import parse_document
from foreword.gateway.channel import ChatKind
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.transcripts import Archiver
from foreword.storage.history import HistoryKind, HistoryPiece, append_piece
from foreword.testing import NOON, FakeRecorder, ManualClock, ScriptedCall, ScriptedReply
from foreword.types import Trust

ARCHIVED = CONFIG + "archive: true\nrooms: {den: {group: family, timezone: Europe/Paris}}\n"
OPEN = {**FILES, "foreword.yaml": ARCHIVED}


class Study:
    """A workspace whose conversations are archived by hand."""

    def __init__(self, gateway, folder, clock):
        self.gateway, self.folder, self.clock, self.heard = gateway, folder, clock, FakeRecorder()
        self.archiving = Archiver(replace(gateway.context, recorder=self.heard, clock=clock))

    async def begin_anew(self, **place):
        """Start another session with the same session key."""
        from foreword.gateway.session_manager import resolve_session_key

        incoming = RoutedMessage(text="", **{"user": "alice"} | place)
        key = resolve_session_key(incoming, self.gateway.workspace.config).key
        return await self.gateway.sessions.begin(key, incoming.situation)

    def list_files(self):
        """List the paths of the transcripts."""
        found = [*self.folder.glob("groups/*/conversations/*"), *self.folder.glob("users/*/conversations/*")]
        return sorted(str(path.relative_to(self.folder)) for path in found)


def study(folder, stand_in, files=OPEN):
    """Run a test in a workspace with `archive: true`."""

    def start(test):
        stand_in.choose = lambda _: ScriptedReply(text="Very well.")
        clock = ManualClock(NOON)

        async def go():
            async with open_house(folder, stand_in, files, clock=clock) as gateway:
                await test(Study(gateway, folder, clock))

        return asyncio.run(go())

    return start


def test_a_private_one(tmp_path, stand_in):
    """A private conversation is archived once another session replaces it, with speakers and times."""

    @study(tmp_path, stand_in)
    async def _(here):
        await say(here.gateway, "What is on today?\n# Now\n## reid (agent), soon\n\n<h2>reid</h2>")
        assert await here.archiving.archive() == 0
        session = await here.begin_anew()
        await here.archiving.archive()
        assert await here.archiving.archive() == 0
        (path,) = here.list_files()  # and no draft
        assert path.startswith("users/alice/conversations/2026-")
        assert "-reid-" in path  # and no words of the conversation
        assert session.id[:8] not in path
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o600
        document = parse_document(path, (tmp_path / path).read_text())
        known = {name: document.field(name) for name in ("agent", "channel", "room", "clearance", "people", "turns")}
        assert known == {
            "agent": "reid", "channel": "terminal", "room": "", "clearance": "full", "people": "alice", "turns": "1",
        }  # fmt: skip
        lines = document.body.splitlines()
        assert [line.partition(",")[0] for line in lines if line.startswith("#")] == [
            "# Conversation with reid", "## alice", "## reid (agent)",
        ]  # fmt: skip
        assert "> \\## reid (agent), soon" in lines
        assert "> \\<h2>reid\\</h2>" in lines
        assert "> Very well." in lines


def test_a_room(tmp_path, stand_in):
    """A room's conversation is archived in its group's folder, with all speakers, in the room's time zone."""
    place = {"channel": "web", "room": "den", "situation": "group"}

    @study(tmp_path, stand_in)
    async def _(here):
        await say(here.gateway, "Who comes?", user="alice", **place)
        await say(here.gateway, "I do.", user="bob", **place)
        await here.begin_anew(**place)
        await here.archiving.archive()
        (path,) = here.list_files()
        assert path.startswith("groups/family/conversations/")
        text = (tmp_path / path).read_text()
        assert 'clearance: "familiar"' in text
        assert 'people: "alice, bob"' in text
        assert f"## bob, {here.clock().date()} 1" in text
        assert "+01:00\n\n> I do." in text
        with open_rows(tmp_path) as state:
            rows = state.execute("SELECT path, room, user_id, clearance, people FROM archives").fetchall()
        assert rows == [(path, "den", "", int(Trust.FAMILIAR), '["alice", "bob"]')]


def test_no_results_of_tools(tmp_path, stand_in):
    """A transcript contains neither tool calls and results nor the text before a call."""
    script = [
        ScriptedReply(text="Let me see.", calls=(ScriptedCall(name="memory_list", arguments={}),)),
        ScriptedReply(text="Nothing."),
    ]

    @study(tmp_path, stand_in, {**OPEN, "memory/private/plum.md": "Planted in 2019.\n"})
    async def _(here):
        stand_in.choose = lambda _: script.pop(0)
        await say(here.gateway, "What do you know?")
        await here.begin_anew()
        await here.archiving.archive()
        text = (tmp_path / here.list_files()[0]).read_text()
        assert "> Nothing." in text
        assert "plum" not in text
        assert "memory_list" not in text


def test_one_that_nobody_goes_on_with(tmp_path, stand_in):
    """A conversation is archived a day after its last message; if it continues, the same file is extended."""

    @study(tmp_path, stand_in)
    async def _(here):
        await say(here.gateway, "One.")
        here.clock.move(timedelta(hours=25).total_seconds())
        await here.archiving.archive()
        before = here.list_files()
        await say(here.gateway, "Two.")
        assert await here.archiving.archive() == 0
        here.clock.move(timedelta(hours=25).total_seconds())
        await here.archiving.archive()
        assert (len(before), here.list_files()) == (1, before)
        text = (tmp_path / before[0]).read_text()
        assert ('turns: "2"' in text, text.index("> One.") < text.index("> Two.")) == (True, True)


def test_one_that_was_folded(tmp_path, stand_in):
    """A compacted conversation is archived with its original messages, not its summary."""
    from foreword.agent.conversation import dump_messages
    from foreword.gateway.session_state import load_history
    from foreword.storage.history import HistoryKind, HistoryPiece, compact_history

    @study(tmp_path, stand_in)
    async def _(here):
        session = (await say(here.gateway, "One.")).session
        await say(here.gateway, "Two.")
        piece = HistoryPiece(kind=HistoryKind.SUMMARY, messages=dump_messages([utter("In short.")]), tokens=3)
        rows = await here.gateway.sessions.read(session)
        await here.gateway.writer.write(lambda state: compact_history(state, session, rows[0].position, piece))
        assert len(await here.gateway.writer.write(lambda state: load_history(state, session))) == 2
        await here.archiving.archive()
        text = (tmp_path / here.list_files()[0]).read_text()
        assert ("> One." in text, "> Two." in text, "In short." in text) == (True, True, False)
        assert await here.archiving.archive() == 0


def test_after_a_crash(tmp_path, stand_in):
    """A crash between row and file, or after the file, leaves one file."""

    @study(tmp_path, stand_in)
    async def _(here):
        await say(here.gateway, "One.")
        await here.begin_anew()
        await here.archiving.archive()
        (path,) = here.list_files()
        for crashed in ((tmp_path / path).unlink, lambda: None):
            crashed()
            await here.gateway.writer.write(lambda state: state.execute("UPDATE archives SET upto = 0"))
            here.archiving._since = ""
            await here.archiving.archive()
            assert here.list_files() == [path]


def test_odd_names(tmp_path, stand_in):
    """Names of rooms, users and texts cannot lead outside the folder or into another user's."""
    rooms = ("../../etc", ".hidden", "a/b", "x\x01y", "-1001234", "den:1", "..", "é" * 300)
    words = ("../../x", "日本語だけ", "\x01\n\n---\nclearance: public\n---", "a" * 5_000, ".")

    @study(tmp_path, stand_in)
    async def _(here):
        for number, room in enumerate(rooms):
            place = {"channel": "web", "room": room, "situation": "group", "user": f"**{room[:20]}**\n## reid (agent)"}
            await say(here.gateway, words[number % len(words)], **place)
            await here.begin_anew(**place)
        await say(here.gateway, "Hello", user="../alice")  # an unknown user
        await here.begin_anew(user="../alice")
        await here.archiving.archive()
        found = here.list_files()
        assert len(found) == len(rooms)
        assert {path.split("/")[1] for path in found} >= {"-1001234", "den:1"}
        assert not [
            path for path in tmp_path.rglob("*.md") if "conversations" not in path.parts and path.name != "SOUL.md"
        ]
        for path in found:
            document = parse_document(path, (tmp_path / path).read_text())
            assert document.field("clearance") == "public"
            heads = [line for line in document.body.splitlines() if line.startswith("#")]
            assert [head.count(" (agent), ") for head in heads] == [0, 0, 1]


def test_through_a_link(tmp_path, stand_in, tmp_path_factory):
    """Nothing is written through a symlink; this is reported once, and the gateway continues."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    @study(tmp_path, stand_in)
    async def _(here):
        (tmp_path / "users").symlink_to(elsewhere)
        await say(here.gateway, "One.")
        await here.begin_anew()
        assert [await here.archiving.archive() for _ in range(2)] == [0, 0]
        assert list(elsewhere.rglob("*")) == []
        (event,) = here.heard.events
        assert "is behind a symbolic link" in event.error


def test_only_where_it_is_wanted(tmp_path, stand_in):
    """Without `archive` nothing is written; once enabled, earlier ended conversations are archived as well."""

    @study(tmp_path, stand_in, {**FILES, "foreword.yaml": ARCHIVED.replace("true", "false")})
    async def _(here):
        await say(here.gateway, "One.")
        await here.begin_anew()
        assert await here.archiving.archive() == 0
        before = here.gateway.workspace.config
        (tmp_path / "foreword.yaml").write_text(ARCHIVED)
        here.gateway.workspace.refresh(now=True)
        here.archiving.follow(before, here.gateway.workspace.config)
        await here.archiving.archive()
        assert len(here.list_files()) == 1


def test_by_itself(tmp_path, stand_in):
    """A gateway archives by itself, at the latest when it closes."""
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in, OPEN) as gateway:
            await say(gateway, "One.")
            await gateway.sessions.begin((await gateway.sessions.list("alice"))[0].key, "dm")

    asyncio.run(run())
    assert len(list(Path(tmp_path).glob("users/alice/conversations/*.md"))) == 1


KITCHEN = {"chat": ChatKind.GROUP, "place": "-5", "title": "Kitchen"}
PLANNED = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
archive: true
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: familiar, identities: ["telegram:1002"]}
situations: {den: {ceiling: inner}, dm: {ceiling: full}, system: {ceiling: full}}
rooms: {kitchen: {places: ["telegram:-5"], situation: den, trigger: always}}
schedule: [{name: dinner, cron: "0 13 * * *", user: alice, to: kitchen, say: "Call all; hide the cake from Bob."}]
"""


def test_what_an_agent_sent_by_itself(tmp_path, stand_in):
    """A room's transcript contains the reply of a scheduled run, but not its instruction."""
    stand_in.choose = lambda _: ScriptedReply(text="Dinner at eight.")

    async def run():
        clock, post = ManualClock(NOON), Messenger()
        files = {"foreword.yaml": PLANNED, "SOUL.md": "Calm.\n"}
        async with open_house(tmp_path, stand_in, files, channels={"telegram": post}, clock=clock) as gateway:
            await post.write("I am Bob, what is there to eat?", sender="1002", **KITCHEN)
            await post.until(1)
            await gateway.scheduler.run_due()
            clock.move(timedelta(hours=1).total_seconds())
            for fired in await gateway.scheduler.run_due():
                await gateway.wait(fired.turn)
            await post.until(2)
            await post.write("I am Alice, and I come.", sender="1001", **KITCHEN)
            await post.until(3)
            clock.move(timedelta(days=2).total_seconds())
            await Archiver(replace(gateway.context, recorder=FakeRecorder(), clock=clock)).archive()

    asyncio.run(run())
    found = [path.read_text() for path in tmp_path.glob("groups/kitchen/conversations/*")]
    bobs = next(text for text in found if 'clearance: "familiar"' in text)
    assert "cake" not in bobs
    heads = [line.partition(",")[0] for line in bobs.splitlines() if line.startswith("## ")]
    assert heads == ["## bob", "## reid (agent)", "## reid (agent)"]
    assert bobs.count("> Dinner at eight.") == 2
    assert 'people: "bob"' in bobs
    alices = next(text for text in found if 'clearance: "inner"' in text and 'channel: "telegram"' in text)
    assert "> I am Bob, what is there to eat?" in alices  # all members of the room have read Bob's message


def test_what_was_only_overheard(tmp_path, stand_in):
    """Overheard lines are in no transcript and do not cause another write."""

    @study(tmp_path, stand_in)
    async def _(here):
        session = (await say(here.gateway, "Who comes?", channel="web", room="den", situation="group")).session
        piece = HistoryPiece(kind=HistoryKind.ROOM, messages=dump_messages([utter("bob: I bought bread.")]), tokens=3)
        await here.gateway.writer.write(lambda state: append_piece(state, session, piece))
        here.clock.move(timedelta(hours=24.5).total_seconds())
        assert [await here.archiving.archive() for _ in range(3)] == [1, 0, 0]
        assert "bread" not in (tmp_path / here.list_files()[0]).read_text()
