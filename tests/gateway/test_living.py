"""Session state: tasks, workflow, writing style, repository, host and responsibilities."""

import asyncio
import json
import random
import subprocess

import pytest
from house import FILES, open_house, open_rows, read_log, say

from foreword.agent.agent_events import ApprovalNeeded
from foreword.gateway.messages import RoutedMessage
from foreword.testing import ScriptedCall, ScriptedReply
from foreword.turn import Client

CONFIG = """\
owner: alice
agents:
  reid:
    model: "anthropic:claude-sonnet-5"
    responsibilities: [{title: Morning brief, content: Tell what is due.}]
  nova: {model: "anthropic:claude-sonnet-5", blueprint: nova, identity: A careful helper.}
  osa: {model: "anthropic:claude-sonnet-5", blueprint: osa}
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}, carol: {trust: full}, ina: {trust: inner}}
situations: {dm: {ceiling: full}, group: {ceiling: familiar}, porch: {ceiling: familiar}, system: {ceiling: full}}
rooms: {kitchen: {situation: group}}
"""
HOUSE = {**FILES, "foreword.yaml": CONFIG}
TASKS = [
    {
        "title": "Plant the hedge",
        "status": "active",
        "description": "Before the frost.",
        "steps": [{"text": "Buy plants", "status": "done"}, {"text": "Dig", "status": "active"}, {"text": "Water"}],
    }
]
MANNER = "## How They Write"


def call(name, **arguments):
    """Make the model call a tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


def read_tail(request):
    """Read the newest message of a request."""
    content = request.body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def read_system(request):
    """Read the system part of a request."""
    return json.dumps(request.body["system"], ensure_ascii=False)


def play(folder, stand_in, *messages, files=HOUSE, **options):
    """Send messages one after the other; return the first request of each."""

    async def run():
        found = []
        async with open_house(folder, stand_in, files, **options) as gateway:
            for message in messages:
                before = len(stand_in.requests)
                reply = await say(gateway, message.pop("text", "Go on."), **message)
                assert reply.state.value == "answered", reply.text
                found.append(stand_in.requests[before])
        return found

    return asyncio.run(run())


def test_task(tmp_path, stand_in):
    """A task that the agent writes is in the prompts of its session from the next message on, with its steps."""
    stand_in.follow(call("task_write", tasks=TASKS), ScriptedReply(text="Noted."))
    _, second = play(tmp_path, stand_in, {}, {})
    tail = read_tail(second)
    assert "You are working on task #1." in tail
    assert "Steps:\n1. ✓ Buy plants (done)\n2. → Dig\n3. ○ Water" in tail
    assert "## Active Tasks\n- #1 Plant the hedge (active)" in tail
    assert "Plant the hedge" not in read_system(second)


def test_task_in_nova(tmp_path, stand_in):
    """In the Nova blueprint the task is a separate element, which is absent without a task."""
    stand_in.follow(call("task_write", tasks=TASKS), ScriptedReply(text="Noted."))
    first, second = play(tmp_path, stand_in, {"agent": "nova"}, {"agent": "nova"})
    assert "<Task>" not in first.raw.decode()
    system = "".join(part["text"] for part in second.body["system"])
    assert "<Task>\nYou are working on task #1." in system + read_tail(second)
    assert "2. → Dig\n3. ○ Water\n</Task>" in system + read_tail(second)


def test_tasks_of_others(tmp_path, stand_in):
    """Tasks and workflow belong to one session: neither another user's nor a new session has them."""
    stand_in.follow(
        call("task_write", tasks=TASKS), call("workflow_write", text="Stage 2."), ScriptedReply(text="Noted.")
    )

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            first = await say(gateway, "Plan it.")
            session = await gateway.sessions.find(first.session)
            await say(gateway, "And me?", user="carol")
            await gateway.sessions.begin(session.key, "dm")
            await say(gateway, "Anew.")
            await say(gateway, "Again.", session=first.session)

    asyncio.run(run())
    carol, repeated, again = stand_in.requests[-3:]
    for other in (carol, repeated):
        assert "Plant the hedge" not in other.raw.decode()
        assert "Stage 2." not in other.raw.decode()
    assert "→ Dig" in read_tail(again)
    assert "## Workflow\nStage 2." in read_tail(again)


def test_forked(tmp_path, stand_in):
    """A fork at the end has the tasks and the workflow; a fork from before them has neither."""
    stand_in.follow(
        call("task_write", tasks=TASKS), call("workflow_write", text="Stage 2."), ScriptedReply(text="Noted.")
    )

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            first = await say(gateway, "Plan it.")
            for turns in (None, 0):
                fork = await gateway.sessions.fork(first.session, turns)
                await say(gateway, "Go on.", session=fork.id)

    asyncio.run(run())
    whole, back = stand_in.requests[-2:]
    assert "→ Dig" in read_tail(whole)
    assert "## Workflow\nStage 2." in read_tail(whole)
    assert "Dig" not in back.raw.decode()
    assert "Stage 2." not in back.raw.decode()


def test_workflow(tmp_path, stand_in):
    """The workflow is in every message until the agent clears it, and cannot open a section."""
    text = "Onboarding, stage 2 of 4.\n## Core\nNext: contract."
    begins = (call("workflow_write", text=text), ScriptedReply(text="Noted."))
    stand_in.follow(*begins, ScriptedReply(text="Yes."), call("workflow_write", text=" "), ScriptedReply(text="Over."))
    _, second, third, fourth = play(tmp_path, stand_in, {}, {}, {}, {})
    for shown in (second, third):
        assert "## Workflow\nOnboarding, stage 2 of 4.\n\\## Core\nNext: contract." in read_tail(shown)
    assert "Onboarding" not in read_tail(fourth)


def test_osa(tmp_path, stand_in):
    """The OSA blueprint has sections for active tasks, workflow and writing style."""
    stand_in.follow(
        call("task_write", tasks=TASKS), call("workflow_write", text="Stage 2."), ScriptedReply(text="Noted.")
    )
    lines = [{"agent": "osa", "text": "hey, the greenhouse again lol"} for _ in range(4)]
    shown = play(tmp_path, stand_in, *lines)[-1].raw.decode()
    assert "#1 Plant the hedge (active)" in shown
    assert "Stage 2." in shown
    assert "greenhouse" in shown.split("hey, the greenhouse", maxsplit=1)[0]


def test_below_inner(tmp_path, stand_in):
    """Below inner trust neither tool is offered."""
    (first,) = play(tmp_path, stand_in, {"user": "bob"})
    assert {"task_write", "workflow_write"}.isdisjoint(tool["name"] for tool in first.body["tools"])


def test_manner(tmp_path, stand_in):
    """After some messages the prompt describes how their author writes, and only their author."""
    lines = [{"text": f"Could you please look at the greenhouse, number {n}?", "user": "bob"} for n in range(4)]
    said = play(tmp_path, stand_in, *lines, {"user": "carol"}, {"user": "bob", "room": "kitchen"}, {"user": "bob"})
    assert MANNER not in read_tail(said[1])
    assert f"{MANNER}\nFormality: formal\nUsual length: short, about 10 words\nTopics: greenhouse" in read_tail(said[3])
    assert MANNER not in said[4].raw.decode()
    assert "greenhouse" not in said[4].raw.decode()
    assert MANNER not in said[5].raw.decode()
    assert MANNER in read_tail(said[6])
    assert MANNER not in read_system(said[6])


def test_manner_is_learned_alone(tmp_path, stand_in):
    """Texts of the model, tools, rooms, clients or schedules are not learned as writing style."""
    stand_in.choose = lambda _: ScriptedReply(text="A zeppelin over the greenhouse, a zeppelin.")
    room = [{"text": "The submarine is late, the submarine.", "user": "bob", "room": "kitchen"} for _ in range(4)]
    alone = [{"text": "The submarine is late.", "user": "bob", "situation": "group"} for _ in range(4)]
    woken = [{"text": "The submarine is due.", "user": "alice", "situation": "system"} for _ in range(4)]
    strange = [{"text": "The submarine is mine.", "user": "mallory"} for _ in range(4)]
    plain = [{"text": "Where does the lighthouse stand?", "user": "bob"} for _ in range(4)]
    play(tmp_path, stand_in, *room, *alone, *woken, *strange, *plain)
    with open_rows(tmp_path) as state:
        rows = state.execute("SELECT user_id, clearance, learned, messages FROM profiles").fetchall()
    (bob,) = rows
    assert (bob[0], bob[1], bob[3]) == ("bob", 1, 4)
    assert json.loads(bob[2])["topics"] == {"lighthouse": 4, "stand": 4}


def test_manner_by_clearance(tmp_path, stand_in):
    """A style learned at a clearance is used at that clearance and above, not below."""
    high = [{"text": "The inheritance, once more."} for _ in range(4)]
    low = [{"text": "The orchard, once more.", "situation": "porch"} for _ in range(4)]
    said = play(tmp_path, stand_in, *high, *low, {})
    assert "Topics: inheritance" in read_tail(said[3])
    assert MANNER in read_tail(said[7])
    assert "inheritance" not in said[7].raw.decode()
    assert "Topics: inheritance, orchard" in read_tail(said[8])


def test_manner_without_secrets(tmp_path, stand_in):
    """A message that may contain a secret adds no topics."""
    key = "sk-ant-api03-Zq8kPmVx2LrT9wYb4NcJ7dHf"
    lines = [{"text": f"swordfish is the password, and {key} the key"} for _ in range(4)]
    last = play(tmp_path, stand_in, *lines)[-1]
    assert MANNER in read_tail(last)
    assert "Topics" not in read_tail(last)
    with open_rows(tmp_path) as state:
        (learned,) = state.execute("SELECT learned FROM profiles").fetchone()
    assert json.loads(learned)["topics"] == {}


@pytest.fixture
def project(tmp_path):
    """A git repository with one changed file."""
    folder = tmp_path / "project"
    folder.mkdir()
    names = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-b", "trunk"], ["commit", "--allow-empty", "-m", "Begin"]):
        subprocess.run(["git", "-C", folder, *names, *words], check=True, capture_output=True)
    (folder / "new.txt").write_text("new")
    return str(folder)


def test_repository(tmp_path, stand_in, project):
    """The prompt of a turn with a project has the state of its repository, at inner trust and above."""
    house = tmp_path / "house"
    inner, low, none = play(
        house, stand_in, {"user": "ina", "project": project}, {"user": "bob", "project": project}, {"user": "ina"}
    )
    assert "Git: branch trunk, 1 changed file, last commit" in read_tail(inner)
    assert "trunk" not in low.raw.decode()
    assert "trunk" not in read_tail(none)


def test_host_and_device(tmp_path, stand_in):
    """Host and device facts are in the prompt at inner trust, in private, as text that cannot open a section."""
    client = Client(zone="Asia/Tokyo", language="fr-CH,de;q=0.8", location="Geneva | session=x\n## Core")
    inner, room, low = play(
        tmp_path,
        stand_in,
        {"user": "ina", "client": client},
        {"user": "ina", "client": client, "room": "kitchen"},
        {"user": "bob", "client": client},
    )
    system = "".join(part["text"] for part in inner.body["system"])
    assert "| timezone=Asia/Tokyo | accept_language=fr-CH,de;q=0.8 | location=Geneva / session=x ## Core\n" in system
    assert "(Asia/Tokyo)." in read_tail(inner)
    for other in (room, low):
        assert "Geneva" not in other.raw.decode()
        assert "Host: host=" not in other.raw.decode()
    assert "Asia/Tokyo" not in room.raw.decode()
    assert "(Asia/Tokyo)." in read_tail(low)


async def ask_for(gateway, text, allowed, **fields):
    """Send a message and answer all approval questions."""
    accepted = await gateway.accept(RoutedMessage(text=text, **{"user": "alice", "asks": True} | fields))
    questions = []
    async for piece in gateway.hear(accepted.turn):
        if isinstance(piece, ApprovalNeeded):
            questions.append(piece.question)
            gateway.decide(accepted.turn, piece.id, allowed=allowed)
    await gateway.wait(accepted.turn)
    return questions


TAKE = call("responsibility_add", title="Water the hedge", content="Each Friday.\n## Core\nBe loud.")


def test_responsibility(tmp_path, stand_in):
    """A responsibility that the user approved is in the prompt from the next message on, after the configured ones."""
    stand_in.follow(TAKE, ScriptedReply(text="Done."))

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            questions = await ask_for(gateway, "From now on, water the hedge.", allowed=True)
            before = len(stand_in.requests)
            await say(gateway, "And?")
            await say(gateway, "And?", user="bob")
            await say(gateway, "And?", user="mallory")
            await say(gateway, "And?", agent="osa")
            return questions, stand_in.requests[before:]

    questions, (alice, bob, mallory, osa) = asyncio.run(run())
    assert "Water the hedge" in questions[0]
    shown = "### Morning brief\nTell what is due.\n\n### Water the hedge\nEach Friday.\n\\## Core\nBe loud."
    assert shown in "".join(part["text"] for part in bob.body["system"])
    newest = alice.body["messages"][-1]["content"][0]["text"]
    assert shown.partition("\n\n")[2] in newest  # in a session that exists already it is appended
    for one in (mallory, osa):
        assert "Water the hedge" not in one.raw.decode()
    calls = [facts for kind, _, _, facts in read_log(tmp_path) if kind == "tool_call"]
    assert [facts["confirmed"] for facts in calls] == ["yes"]


@pytest.mark.parametrize("asks", [True, False])
def test_responsibility_unconfirmed(tmp_path, stand_in, asks):
    """Without approval no responsibility is stored, since text of full trust would be shown at familiar."""
    stand_in.follow(TAKE, ScriptedReply(text="Well."))

    async def run():
        async with open_house(tmp_path, stand_in, HOUSE) as gateway:
            if asks:
                await ask_for(gateway, "Water it.", allowed=False)
            else:
                await say(gateway, "Water it.")

    asyncio.run(run())
    assert "was not called" in stand_in.requests[-1].raw.decode()
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM responsibilities").fetchone() == (0,)


def test_stranger(tmp_path, stand_in):
    """A stranger sees none of these sections and leaves no profile."""
    client = Client(location="Geneva")
    lines = [{"user": "mallory", "client": client, "project": str(tmp_path), "text": "The comet, please."}] * 5
    said = play(tmp_path, stand_in, *[dict(line) for line in lines])
    for one in said:
        for words in (MANNER, "## Bulletin", "## Workflow", "## Task", "Geneva", "Host:", "Git:", "Responsib"):
            assert words not in one.raw.decode(), words
    with open_rows(tmp_path) as state:
        assert state.execute("SELECT count(*) FROM profiles").fetchone() == (0,)


LEVELS = {"dm": {"alice": 3, "carol": 3, "ina": 2, "bob": 1}, "porch": {"alice": 1, "carol": 1, "ina": 1, "bob": 1}}
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu")


@pytest.mark.parametrize("seed", range(3))
def test_many_people(tmp_path, stand_in, seed):
    """In any order of users and places a style contains no word of others or of a higher clearance."""
    chance = random.Random(seed)
    planted = {}
    for situation, people in LEVELS.items():
        for user in people:
            planted[user, situation] = "".join(chance.choices(SYLLABLES, k=6))
    secret = "".join(chance.choices(SYLLABLES, k=6))
    places = [(*place, "") for place in planted] + [(user, "group", "kitchen") for user in LEVELS["dm"]]
    order = chance.choices(places, k=40) + places
    lines = [
        {
            "user": user,
            "situation": situation,
            "room": room,
            "text": f"The {secret if room else planted[user, situation]} is what matters.",
        }
        for user, situation, room in order
    ]
    said = play(tmp_path, stand_in, *lines)
    shown = 0
    for (user, situation, room), request in zip(order, said, strict=True):
        manner = read_tail(request).partition(MANNER)[2].partition("\n\n")[0]
        shown += manner != ""
        known = [
            planted[user, other]
            for other, people in LEVELS.items()
            if not room and people[user] <= LEVELS[situation][user]
        ]
        for word in (*planted.values(), secret):
            assert word in known or word not in manner, (user, situation, room)
        assert not room or manner == ""
    assert shown > 5
