"""The sessions whose requests are pinned, written and generated, identical for every provider shape."""

import re
from random import Random

from pin_house import ScriptedCall, ScriptedError, ScriptedReply

MODELS = {
    "anthropic": ("anthropic:claude-sonnet-5", "anthropic:claude-haiku-4-5"),
    "chat": ("openai:gpt-5", "openai:gpt-5-mini"),
    "responses": ("openai-responses:gpt-5", "openai-responses:gpt-5-mini"),
    "gemini": ("google:gemini-3-pro", "google:gemini-2.5-flash"),
    "compatible": ("ollama:qwen3", "ollama:llama3"),
}
CONFIG = """\
owner: alice
agents:
  reid: {model: "MODEL", identity: {name: Reid, description: the assistant of a small household}}
  ada: {model: "MODEL", soul: "Dry and brief.", instructions: "Answer in one sentence.", directories: [notes]}
users:
  alice: {trust: full, timezone: Europe/Paris}
  bob: {trust: familiar, timezone: America/New_York}
  carol: {trust: inner}
situations:
  dm: {ceiling: full}
  group: {ceiling: familiar, prompt_overlay: prompts/group.md}
rooms: {kitchen: {situation: group}}
prompt: {files: [{path: CALENDAR.md, trust: inner}]}
models:
  "MODEL": {window: 200000, input_usd: 3, output_usd: 15, cache_read_usd: 0.3, cache_write_usd: 3.75}
  "OTHER": {window: 200000, input_usd: 1, output_usd: 5, cache_read_usd: 0.1, cache_write_usd: 1.25}
host: {sudo: false}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "USER.md": "Alice keeps bees.\n",
    "CALENDAR.md": "- Thursday: chess\n",
    "AGENTS.md": "Say where a fact comes from.\n",
    "rules/privacy.md": "Keep what one person says from the others.\n",
    "prompts/group.md": "Several people read along. Be short.\n",
    "groups/kitchen/AGENTS.md": "The kitchen is about meals.\n",
    "users/bob/USER.md": "Bob is a neighbour.\n",
    "memory/private/garden.md": "# Garden\n\nThe plum tree was planted in 2019 by the east wall.\n",
    "memory/shared/house.md": "# House\n\nThe boiler is serviced in March.\n",
    "memory/social/games.md": "# Games\n\nChess is played on Thursdays.\n",
    "skills/brief/SKILL.md": "---\nname: brief\ndescription: Sum up the day.\n---\n\nThree lines at most.\n",
    "notes/list.txt": "milk\neggs\nGrüße 🪶\n",
}
DIALECTS = ("coop", "moltis", "nova", "osa", "spec010")
LONG = "The plum tree by the east wall was planted in the autumn. " * 130


def call(name, /, **arguments):
    """Make the model call one tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


async def add_dialects(house):
    """Add an agent for each of the other blueprints."""
    more = "".join(f'  {name}: {{model: "{house.model}", blueprint: {name}}}\n' for name in DIALECTS)
    await house.edit("foreword.yaml", house.files["foreword.yaml"].replace("users:\n", f"{more}users:\n", 1))


async def plain(house):
    """Three turns without tools, and characters that need escapes."""
    await house.say("Good morning", ScriptedReply(text="Good morning."))
    await house.say(
        'Quote "this" \\ and <system>that</system> & Grüße 🪶\u2028', ScriptedReply(text="It says: “this”\n\n\tyes.")
    )
    await house.say("Thanks", ScriptedReply(text="You are welcome."))


async def tools(house):
    """Several parallel calls, consecutive calls, text before calls, and one call that fails."""
    two = (
        ScriptedCall(name="memory_search", arguments={"query": "plum tree"}),
        ScriptedCall(name="memory_list", arguments={}),
    )
    await house.say(
        "Where is the plum?", ScriptedReply(text="Let me see.", calls=two), ScriptedReply(text="By the east wall.")
    )
    await house.say("And the games?", call("memory_get", path="social/games.md"), ScriptedReply(text="Chess."))
    await house.say("And the moon?", call("memory_get", path="social/nothing.md"), ScriptedReply(text="I do not know."))


async def bad_calls(house):
    """An unknown tool, arguments that are not JSON, and arguments that do not match the schema."""
    broken = ScriptedReply(calls=(ScriptedCall(name="memory_search", arguments='{"query": '),))
    await house.say("Fly to the moon", call("fly", to="moon"), ScriptedReply(text="I cannot."))
    await house.say("Search", broken, ScriptedReply(text="That failed."))
    await house.say(
        "Search again", call("memory_search", query=7, more=True), ScriptedReply(text="That failed as well.")
    )


async def memory(house):
    """Save a memory, use it in a later turn, search and forget it."""
    await house.say(
        "Remember the key.", call("save_memory", text="The key hangs behind the clock.", title="Key"), ScriptedReply()
    )
    house.tick(600)
    await house.say(
        "Where is the key?", call("memory_search", query="key clock"), ScriptedReply(text="Behind the clock.")
    )
    await house.say("Show all.", call("read_memory"), ScriptedReply(text="One entry."))
    (saved,) = set(re.findall(r"own/[\w/-]+\.md", house.provider.requests[1].raw.decode()))
    await house.say("Forget it.", call("forget_memory", path=saved), ScriptedReply(text="Done."))


async def instructions(house):
    """Set standing instructions over HTTP; the next turns include them."""
    await house.say("Hello")
    await house.ask("PUT", "/api/instructions", instructions="Call me Captain.")
    await house.say("Who am I?", ScriptedReply(text="Captain."))
    house.tick(400)
    await house.say("And now?")


async def edits(house):
    """Edit, add and delete files between turns, within and beyond the lifetime of the cache."""
    await house.say("Hello")
    await house.edit("SOUL.md", "Warm and exact.\n")
    house.tick(30)
    await house.say("Who are you?")
    await house.edit("rules/energy.md", "Turn off the light.\n")
    house.tick(4000)
    await house.say("What are the rules?")
    await house.edit("CALENDAR.md", "- Friday: theatre\n")
    await house.say("What is on?")


async def clock(house):
    """Let minutes, hours and days pass between the turns."""
    for seconds in (0, 60, 299, 301, 3700, 90_000):
        house.tick(seconds)
        await house.say(f"After {seconds} seconds")


async def people(house):
    """Three users with different trust and a stranger, alternately."""
    for user in ("alice", "bob", "carol", "", "bob"):
        await house.say("What do you know of the garden and the games?", user=user)


async def room(house):
    """Two users in a room, one of them also in private."""
    kitchen = {"room": "kitchen", "situation": "group"}
    await house.say("What is for dinner?", ScriptedReply(text="Soup."), **kitchen)
    await house.say(
        "With bread?", call("memory_search", query="games"), ScriptedReply(text="Yes."), user="bob", **kitchen
    )
    await house.say("The plum is a secret.", user="alice")
    await house.say("What do you know of plums?", user="bob", **kitchen)


async def plan(house):
    """Enable plan mode, be refused a change, accept the plan and execute it."""
    await house.say("Plan the move.", ScriptedReply(text="1. Pack.\n2. Move."), plan=True)
    await house.say(
        "Do it now.", call("save_memory", text="Moved.", title="Move"), ScriptedReply(text="Only plans here.")
    )
    await house.ask("POST", f"/api/sessions/{house.session}/plan/accept")
    await house.say("Go on.", ScriptedReply(text="Packed."))


async def tasks(house):
    """Store tasks and a workflow, which are in the following prompts."""
    await add_dialects(house)
    steps = [{"text": "Pack", "status": "done"}, {"text": "Drive", "status": "active"}]
    task = {"id": "1", "title": "Move", "description": "To the coast", "status": "active", "steps": steps}
    for agent in ("reid", "nova", "osa"):
        await house.say("Note it.", call("task_write", tasks=[task]), ScriptedReply(text="Noted."), agent=agent)
        await house.say(
            "How far?", call("workflow_write", text="Stage 2 of 3"), ScriptedReply(text="Half."), agent=agent
        )
        await house.say("And now?", agent=agent)


async def files(house):
    """List, read, search and write files of a directory; the write is held."""
    agent = {"agent": "ada"}
    await house.say("List.", call("list_files"), ScriptedReply(text="One."), **agent)
    await house.say("Read.", call("read_file", path="notes/list.txt"), ScriptedReply(text="Milk."), **agent)
    await house.say("Find.", call("search_files", text="eggs"), ScriptedReply(text="Line 2."), **agent)
    await house.say(
        "Write.", call("write_file", path="notes/new.txt", text="tea"), ScriptedReply(text="Held."), **agent
    )


async def delegate(house):
    """Delegate a task to a subagent, which has another prompt."""
    await house.say(
        "Count.",
        call("delegate", task="Count the bees."),
        ScriptedReply(text="Forty."),
        ScriptedReply(text="There are forty."),
    )
    await house.say("Ask nobody.", call("delegate", task="Count.", agent="nobody"), ScriptedReply(text="I could not."))


async def retries(house):
    """Refusals within a turn, a truncated reply, and an empty one."""
    await house.say(
        "Hello?",
        ScriptedError(status=429),
        ScriptedError(status=503, message="overloaded"),
        ScriptedReply(text="Here."),
    )
    await house.say("Tell me everything.", ScriptedReply(text="It begins with", cut=True))
    await house.say("Go on.", ScriptedReply(text=""))
    await house.say("Still here?")


async def compaction(house):
    """Send messages until the oldest turns are summarised."""
    await house.edit("foreword.yaml", house.files["foreword.yaml"].replace("window: 200000", "window: 22000"))
    for number in range(9):
        await house.say(f"{number}. {LONG}")


async def switch(house):
    """Choose another model for a session, then another for the agent."""
    await house.say("Hello")
    await house.set_model(house.other)
    await house.say("Who answers?", call("memory_list"), ScriptedReply(text="Another."))
    await house.edit(
        "foreword.yaml", house.files["foreword.yaml"].replace(f'model: "{house.model}"', f'model: "{house.other}"')
    )
    await house.say("And now?")


async def forks(house):
    """Fork a session after its first turn and continue both."""
    await house.say("One", ScriptedReply(text="1"))
    await house.say("Two", ScriptedReply(text="2"))
    first = house.session
    fork = await house.ask("POST", f"/api/sessions/{first}/fork", turns=1)
    await house.say("Three", session=fork["session"])
    await house.say("Four", session=first)


async def dialects(house):
    """One turn with a tool and one without for the agent of each blueprint."""
    await add_dialects(house)
    for agent in DIALECTS:
        await house.say(
            "Where is the plum?", call("memory_search", query="plum"), ScriptedReply(text="East."), agent=agent
        )
        house.tick(60)
        await house.say("Thanks", agent=agent)


async def agents(house):
    """Change soul and identity of an agent over HTTP; use two agents alternately."""
    await house.say("Hello", agent="reid")
    await house.ask("PUT", "/api/agents/reid/soul", soul="Cheerful.")
    await house.say("Hello", agent="ada")
    await house.say("Hello again", agent="reid")


async def everything(house):
    """A session with some of everything; its requests are pinned completely, as a readable file."""
    both = (
        ScriptedCall(name="memory_search", arguments={"query": "plum tree"}),
        ScriptedCall(name="fly", arguments={}),
    )
    await house.say(
        "Where is the plum?", ScriptedReply(text="Let me see.", calls=both), ScriptedReply(text="By the east wall.")
    )
    await house.edit("SOUL.md", "Warm and exact.\n")
    house.tick(120)
    await house.say(
        "Remember it.", call("save_memory", text="Plum: east wall.", title="Plum"), ScriptedReply(text="Kept.")
    )
    house.tick(7200)
    await house.say("Plan the harvest.", ScriptedReply(text="1. Wait."), plan=True)
    await house.say("Hello from the kitchen", user="bob", room="kitchen", situation="group")


WRITTEN = (
    plain, tools, bad_calls, memory, instructions, edits, clock, people, room, plan, tasks, files, delegate, retries,
    compaction, switch, forks, dialects, agents, everything,
)  # fmt: skip
TEXTS = ("Good morning", "What is on today?", "And the bees?", "Where is the plum tree?", "Thanks", "Why?\n\nSay more.")
REPLIES = ("Yes.", "No.", "Forty.", "By the east wall.\n\n- one\n- two")
SOULS = ("Warm.\n", "Calm and exact.\n", "Dry, and brief.\n")
CALLS = (
    ("memory_search", {"query": "boiler"}),
    ("memory_list", {}),
    ("memory_get", {"path": "shared/house.md"}),
    ("read_skill", {"name": "brief"}),
    ("save_memory", {"text": "The bees swarm in May.", "title": "Bees"}),
    ("nothing", {"a": [1, 2.5, None, True]}),
)


def generate(seed):
    """Make a session from a seed; only `Random.random` is used, which is the same in every version of Python."""

    async def session(house):
        random = Random(seed)

        def choose(values):
            return values[int(random.random() * len(values))]

        for _ in range(5):
            if random.random() < 0.25:
                await house.edit("SOUL.md", choose(SOULS))
            house.tick(int(random.random() * 600))
            lines = []
            while random.random() < 0.5:
                chosen = [choose(CALLS) for _ in range(1 + (random.random() < 0.3))]
                lines.append(
                    ScriptedReply(calls=tuple(ScriptedCall(name=name, arguments=given) for name, given in chosen))
                )
            place = {"room": "kitchen", "situation": "group"} if random.random() < 0.2 else {}
            await house.say(
                choose(TEXTS), *lines, ScriptedReply(text=choose(REPLIES)), user=choose(("alice", "bob")), **place
            )

    return session


BRIEF = ("plain", "tools", "everything")  # the sessions of a shape that differs from another in few fields
SESSIONS = {one.__name__: one for one in WRITTEN} | {f"seed-{seed}": generate(seed) for seed in range(1, 3)}
