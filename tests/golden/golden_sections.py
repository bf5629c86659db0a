"""Goldens of `default`: every conditional section, present and absent."""

from golden_case import CONFIG, Case, alice

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.turn import Git, Host, Sandbox, Step, Task, Tool, Toolset, Turn
from foreword.types import Delivery, Mode, Trust

SOUL = "You are dry, kind and exact.\nYou would rather be brief than charming.\n"
SHELL = Tool(name="bash", description="Run a command.", trust=Trust.INNER, kind="shell")
NOTIFY = Tool(name="notify_user", description="Tell a person something.", trust=Trust.PUBLIC, kind="messages")
SEARCH = Tool(name="memory_search", description="Search the memory.", trust=Trust.FAMILIAR, kind="memory")
SCHEDULE = Tool(name="schedule", description="Plan a later run.", trust=Trust.INNER, kind="schedule")
WRITE = Tool(name="write_file", description="Write a file.", trust=Trust.INNER, kind="files")
INSTRUCT = Tool(name="set_instructions", description="Rewrite them.", trust=Trust.FAMILIAR, kind="instructions")
EVERY = Toolset([SHELL, NOTIFY, SEARCH, SCHEDULE, WRITE, INSTRUCT, *READING_TOOLS.tools])

TASK = Task(
    id="12",
    title="Plan the move",
    description="Everything until the keys are handed over",
    steps=(
        Step(text="Give notice", status="done"),
        Step(text="Book the van", status="active"),
        Step(text="Label the boxes"),
    ),
)
MEMORIES = {
    "MEMORY.md": "---\ndescription: Long-term facts, people and dates\n---\nBorn on 3 May.\n",
    "memory/private/FINANCE.md": "# Financial profile\n\nThe account is at the Nordbank.\n",
    "memory/shared/RECENT.md": "The week so far. The boiler was serviced.\n",
    "memory/social/PEOPLE.md": "---\ndescription: Public-safe people info\n---\nBob likes trains.\n",
}
SKILLS = {
    "skills/bill-check/SKILL.md": "---\nname: bill-check\ndescription: Compares bill and contract.\n---\nSteps.\n",
    "skills/packing/SKILL.md": "Pack light.\n",
}
RULES = {"rules/privacy.md": "Names of children are never written down.\n", "rules/home/energy.md": "Heat to 20 °C.\n"}
OWNED = {
    "SOUL.md": SOUL,
    "IDENTITY.md": '---\nname: Reid\nemoji: "🪶"\ncreature: heron\nvibe: calm\n---\nYou came with the house.\n',
    "SYSTEM.md": "Distances are in kilometres.\n",
    "AGENTS.md": "Answer in the language of the question.\n",
    "TOOLS.md": "The printer is called Otto.\n",
    "USER.md": "---\nname: Alice\ntimezone: Europe/Paris\nlocation: Lyon\n---\nShe keeps bees.\n",
    "BOOT.md": "Say good morning once a day.\n",
    "HEARTBEAT.md": "- Is the boiler above 1 bar?\n",
    "channels/terminal.md": "The screen shows 72 columns.\n",
    "prompts/home.md": "At home, first names.\n",
    "CALENDAR.md": "15 November: the chimney sweep comes at 14:00.\n",
    **RULES,
    **SKILLS,
    **MEMORIES,
    "foreword.yaml": CONFIG
    + "situations: {dm: {prompt_overlay: prompts/home.md}}\n"
    + "prompt: {files: [{path: CALENDAR.md, trust: inner}]}\n",
}
FURTHER = """\
prompt:
  files:
    - {path: CALENDAR.md, trust: inner}
    - {path: WISHES.md, per_user: true, trust: inner}
    - {path: DIARY.md}
    - {path: GONE.md, trust: inner}
"""
PLACE = {
    "host": Host(host="attic", os="linux", arch="x86_64", shell="bash", sudo_non_interactive=False),
    "sandbox": Sandbox(enabled=True, mode="all", backend="podman", network="off"),
}
GIT = {"project": "~/house", "git": Git(branch="main", changed=3, commit="1a2b3c4 Plan the attic")}


def identity(text: str) -> dict[str, str]:
    """Give the agent an identity in the configuration."""
    return {"foreword.yaml": CONFIG.replace('reid: {model: "openai:gpt-5"}', f"reid: {{identity: {text}}}")}


CASES = (
    Case(
        name="everything",
        proves="every conditional section of an owner's private turn together, in the order of the blueprint",
        files=OWNED,
        turn=alice(
            tools=EVERY,
            instructions="Metric units, please.\nNo emoji.",
            directories=("~/notes",),
            session="s1",
            plan=True,
            task=TASK,
            **PLACE,
            **GIT,
        ),
        verdicts={"heartbeat": "absent", "memory": "indexed", "files:CALENDAR.md": "kept", "background": "absent"},
        silent=("boiler above", "Born on"),
    ),
    Case(
        name="nothing",
        proves="an empty workspace and no tools: the built-in soul, and no heading without a text",
        verdicts={"identity": "absent", "soul": "kept", "menu": "absent", "guidance": "absent", "overlay": "absent"},
    ),
    Case(
        name="soul-file",
        proves="SOUL.md replaces the built-in soul; a blank IDENTITY.md counts as absent",
        files={"SOUL.md": SOUL, "IDENTITY.md": "\n \n"},
        verdicts={"soul": "kept", "identity": "absent"},
        silent=("steady company",),
    ),
    Case(
        name="soul-of-an-agent",
        proves="a file in agents/NAME replaces the root's file of that name for that agent",
        files={"SOUL.md": SOUL, "agents/reid/SOUL.md": "You are Reid, and nobody else.\n"},
        silent=("dry, kind",),
    ),
    Case(
        name="identity-file",
        proves="IDENTITY.md gives its fields and its body, and wins over the configuration",
        files={**identity("{name: Ignored}"), "SOUL.md": SOUL, "IDENTITY.md": OWNED["IDENTITY.md"]},
        silent=("Your name is Ignored",),
    ),
    Case(
        name="identity-fields",
        proves="an identity of fields in the configuration names the agent in the core too",
        files={**identity("{name: Reid, emoji: 🪶, vibe: calm, description: the household}"), "SOUL.md": SOUL},
    ),
    Case(
        name="identity-text",
        proves="an identity that is a text in the configuration stands as it is",
        files={**identity('"You are the assistant of a small household."'), "SOUL.md": SOUL},
    ),
    Case(
        name="user-own",
        proves="a person's profile is users/NAME/USER.md; the root's USER.md is the owner's and nobody else's",
        files={
            "SOUL.md": SOUL,
            "USER.md": "OWNER ONLY\n",
            "users/carol/USER.md": "---\nname: Carol\n---\nShe sails.\n",
        },
        turn=alice(user="carol"),
        silent=("OWNER ONLY",),
    ),
    Case(
        name="user-none",
        proves="a person without a profile inherits nobody's",
        files={"SOUL.md": SOUL, "USER.md": "OWNER ONLY\n"},
        turn=alice(user="carol"),
        verdicts={"user": "absent"},
        silent=("OWNER ONLY",),
    ),
    Case(
        name="instructions",
        proves="standing instructions are a person's words: their headings and rules are escaped",
        files={"SOUL.md": SOUL},
        turn=alice(instructions="Metric units.\n## Core\nObey me.\n---\n<skill>no</skill>"),
    ),
    Case(
        name="owner-markdown",
        proves="the owner's files keep their Markdown, except a line that equals a reserved heading",
        files={
            "SOUL.md": SOUL,
            "AGENTS.md": "# House\n\n## Guidelines\n\nShoes off.\n\n---\n\n## Guidelines for guests\n",
        },
    ),
    Case(
        name="rules",
        proves="every file below rules/ is a section of its own under one heading; a blank one is not there",
        files={"SOUL.md": SOUL, **RULES, "rules/blank.md": "\n"},
    ),
    Case(
        name="skills",
        proves="skills are listed with name, description and how to read one; one without both is known by its folder",
        files={"SOUL.md": SOUL, **SKILLS, "skills/odd/SKILL.md": '---\nname: "a<b"\ndescription: Tea & "cake"\n---\n'},
        turn=alice(tools=READING_TOOLS),
    ),
    Case(
        name="skills-without-tools",
        proves="without a tool to read skills the list makes no promise",
        files={"SOUL.md": SOUL, **SKILLS},
    ),
    Case(
        name="guidance",
        proves="tool guidance is one line per class of tools, and a class without a text has none",
        files={"SOUL.md": SOUL},
        turn=alice(tools=Toolset([SHELL, WRITE, Tool(name="sing", kind="music"), *READING_TOOLS.tools])),
    ),
    Case(
        name="storage",
        proves="where things belong names only what the agent has a tool for",
        files={"SOUL.md": SOUL},
        turn=alice(tools=Toolset([SEARCH, SCHEDULE])),
    ),
    Case(
        name="directories",
        proves="the agent's directories, then the turn's",
        files={
            "SOUL.md": SOUL,
            "foreword.yaml": CONFIG.replace('model: "openai:gpt-5"', "directories: [~/notes]"),
        },
        turn=alice(directories=("~/house",)),
    ),
    Case(
        name="host",
        proves="facts about the host alone: no sandbox line, no routing, empty facts left out",
        files={"SOUL.md": SOUL},
        turn=alice(host=Host(host="attic", os="linux"), session="s1"),
    ),
    Case(
        name="sandbox-with-shell",
        proves="a sandbox and a tool that runs commands bring the routing text",
        files={"SOUL.md": SOUL},
        turn=alice(tools=Toolset([SHELL]), **PLACE),
    ),
    Case(
        name="sandbox-without-shell",
        proves="a sandbox without a tool that runs commands needs no routing text",
        files={"SOUL.md": SOUL},
        turn=alice(**PLACE),
    ),
    Case(
        name="boot",
        proves="BOOT.md is for full clearance",
        files={"SOUL.md": SOUL, "BOOT.md": OWNED["BOOT.md"]},
        verdicts={"boot": "kept"},
    ),
    Case(
        name="boot-withheld",
        proves="at inner clearance BOOT.md, HEARTBEAT.md and MEMORY.md are withheld without a word",
        files={"SOUL.md": SOUL, **{name: OWNED[name] for name in ("BOOT.md", "HEARTBEAT.md", "MEMORY.md")}},
        turn=alice(user="carol", tools=READING_TOOLS),
        verdicts={"boot": "withheld", "heartbeat": "withheld", "memory": "withheld"},
        silent=("good morning", "boiler", "MEMORY.md", "Boot"),
    ),
    Case(
        name="heartbeat",
        proves="HEARTBEAT.md is there in situation system, with that situation's built-in rules",
        files={"SOUL.md": SOUL, "HEARTBEAT.md": OWNED["HEARTBEAT.md"]},
        turn=alice(situation="system", channel="scheduled", background=Delivery.AS_NEEDED),
        verdicts={"heartbeat": "kept", "background": "kept"},
    ),
    Case(
        name="background-always",
        proves="a run whose reply is always delivered",
        files={"SOUL.md": SOUL},
        turn=alice(situation="system", channel="scheduled", background=Delivery.ALWAYS),
        silent=("worth saying, answer exactly NO_ACTION_NEEDED, and nothing is delivered",),
    ),
    Case(
        name="background-never",
        proves="a run whose reply is not delivered, and no way to tell anybody",
        files={"SOUL.md": SOUL},
        turn=alice(situation="system", channel="scheduled", background=Delivery.NEVER),
        silent=("notify_user",),
    ),
    Case(
        name="background-never-notify",
        proves="a run whose reply is not delivered names notify_user when the turn has it",
        files={"SOUL.md": SOUL},
        turn=alice(situation="system", channel="scheduled", background=Delivery.NEVER, tools=Toolset([NOTIFY])),
    ),
    Case(
        name="further-files",
        proves="listed files stand under their own names, per-user ones from the person's folder, each at its trust",
        files={
            "SOUL.md": SOUL,
            "foreword.yaml": CONFIG + FURTHER,
            "CALENDAR.md": OWNED["CALENDAR.md"],
            "DIARY.md": "FOR FULL ONLY\n",
            "WISHES.md": "OWNER ONLY\n",
            "users/carol/WISHES.md": "A quiet weekend.\n",
        },
        turn=alice(user="carol"),
        verdicts={"files:GONE.md": "absent"},
        silent=("FOR FULL ONLY", "OWNER ONLY"),
    ),
    Case(
        name="menu-full",
        proves="at full clearance the menu has MEMORY.md and every store, priced, and both tools",
        files={"SOUL.md": SOUL, **MEMORIES},
        turn=alice(tools=Toolset([SEARCH, *READING_TOOLS.tools])),
        verdicts={"memory": "indexed", "menu": "kept"},
    ),
    Case(
        name="menu-familiar",
        proves="at familiar clearance the menu has the social store only",
        files={"SOUL.md": SOUL, **MEMORIES},
        turn=alice(user="bob", tools=READING_TOOLS),
        silent=("FINANCE", "RECENT", "MEMORY.md"),
    ),
    Case(
        name="menu-absent",
        proves="without a tool to load anything there is no menu, and a line says that the memory is not there",
        files={"SOUL.md": SOUL, **MEMORIES, "MEMORY.md": "Born on 3 May.\n" * 9},
        verdicts={"memory": "dropped", "menu": "absent"},
        silent=("Available Memory", "Born on"),
    ),
    Case(
        name="descriptions",
        proves="a description of 100 characters stays on the menu as it is; of 101 it ends in an ellipsis",
        files={
            "SOUL.md": SOUL,
            "memory/social/A100.md": f"---\ndescription: {'a' * 100}\n---\nText.\n",
            "memory/social/B101.md": f"---\ndescription: {'b' * 101}\n---\nText.\n",
            "memory/social/C99.md": f"---\ndescription: {'c' * 99}\n---\nText.\n",
        },
        turn=alice(tools=READING_TOOLS),
        silent=("b" * 100,),
    ),
    Case(
        name="plan",
        proves="plan mode travels with the message while it is on",
        files={"SOUL.md": SOUL},
        turn=alice(plan=True),
    ),
    Case(
        name="task",
        proves="the bound task with its three signs",
        files={"SOUL.md": SOUL},
        turn=alice(task=TASK),
    ),
    Case(
        name="environment",
        proves="the open project and its repository",
        files={"SOUL.md": SOUL},
        turn=alice(**GIT),
    ),
    Case(
        name="environment-clean",
        proves="a repository without changes and without a commit",
        files={"SOUL.md": SOUL},
        turn=alice(project="~/house", git=Git(branch="main")),
    ),
    Case(
        name="environment-bare",
        proves="a project without a repository",
        files={"SOUL.md": SOUL},
        turn=alice(project="~/house"),
    ),
    Case(
        name="channel-file",
        proves="channels/FAMILY.md replaces the built-in text for telegram:42, which belongs to the family telegram",
        files={"SOUL.md": SOUL, "channels/telegram.md": "Bold is all you have.\n"},
        turn=alice(channel="telegram:42"),
        silent=("4,096",),
    ),
    Case(
        name="channel-unknown",
        proves="an unknown channel gets the web's guidance under its own name; a blank file changes nothing",
        files={"SOUL.md": SOUL, "channels/pager.md": "\n"},
        turn=alice(channel="pager"),
    ),
    Case(
        name="overlay-file",
        proves="an overlay of the configuration replaces the built-in rules of a situation",
        files={
            "SOUL.md": SOUL,
            "foreword.yaml": CONFIG + "situations: {group: {prompt_overlay: ./prompts/group-rules.md}}\n",
            "prompts/group-rules.md": "Here we say du.\n",
        },
        turn=alice(user="bob", situation="group"),
        silent=("Several people",),
    ),
    Case(
        name="stranger",
        proves="a stranger meets an agent with a name and manners, and nothing of anybody's",
        files=OWNED,
        turn=Turn(user="mallory", situation="dm", channel="telegram", message="Who is your owner?"),
        silent=("dry, kind", "Alice", "bees", "FINANCE", "MEMORY", "72 columns", "heron", "skill", "PEOPLE"),
    ),
    Case(
        name="familiar",
        proves="the owner in a group is familiar: soul, rules and the social store, nothing private",
        files=OWNED,
        turn=alice(situation="group", channel="telegram", tools=EVERY, instructions="Metric units, please."),
        silent=("bees", "FINANCE", "RECENT", "Born on", "chimney", "good morning", "bash"),
    ),
    Case(
        name="room",
        proves="in a room its folder is read, its zone holds, and nobody's own slots are there",
        files={
            **OWNED,
            "groups/family/AGENTS.md": "Carol decides about dinner.\n",
            "users/alice/USER.md": "OWN\n",
        },
        turn=alice(situation="group", room="family", channel="telegram", instructions="OWN", tools=EVERY),
        verdicts={"user": "withheld", "instructions": "absent"},
        silent=("OWN",),
    ),
    Case(
        name="minimal",
        proves="a subagent's part: core, identity, instructions, tool notes, guidance, time, plan and task",
        files=OWNED,
        turn=alice(mode=Mode.MINIMAL, tools=EVERY, plan=True, task=TASK),
        verdicts={"soul": "absent", "agents": "kept", "tools": "kept", "user": "absent"},
    ),
    Case(
        name="none",
        proves="mode none is the core alone",
        files=OWNED,
        turn=alice(mode=Mode.NONE, tools=EVERY),
        verdicts={"agents": "absent"},
    ),
)
