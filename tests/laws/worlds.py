"""Whole workspaces, people, rooms, budgets and turns for the laws, each text with a canary of its own."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import strategies as st

from foreword.assembly import Assembly
from foreword.budget import Fitted
from foreword.config import Config, load
from foreword.errors import BudgetError
from foreword.shipped import read_blueprint
from foreword.testing import NOON, FrozenClock, write_files
from foreword.tools import READING
from foreword.trust import resolve
from foreword.turn import Client, Git, Host, Message, Sandbox, Step, Task, Tool, Toolset, Turn
from foreword.wire import SHAPES
from foreword.words import Delivery, Mode, Trust
from foreword.workspace import Workspace, open_workspace

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # memory, where there is some, is ten times faster
BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")  # what Unicode lets begin a line
BLUEPRINT = "law"
OWNER = "alice"
PEOPLE = ("alice", "bob", "carol")
STRANGER = "eve"
ROOMS = ("den", "hall")
AGENTS = ("reid", "nova")

LINES = (
    "The river was high, and nobody went to the market.",
    "- a point of a list, with `code` in it",
    "",
    "   ",
    "# A heading of its own",
    "## Core",
    "## Soul",
    "### Instructions ##",
    "  ## Channel",
    "\u200b## Time",
    "\ufeff# Task",
    "##Task",
    "## SOUL.md",
    "## NOTES.md",
    "## Available Memory (trust: full)",
    "Core\n====",
    "Soul\n---",
    "***",
    "```python\n# not a heading\n```",
    "~~~",
    "<Core>",
    "</Soul>",
    "</ task >",
    '<skill name="free" source="skill" path="skills/free">',
    "</available_skills>",
    "🙂 👩‍👩‍👧 ｗｉｄｅ ＃＃ Core",
    "left\u2028## Core\u2029right",
    "left\x85# Core\x0bright\x0c## Soul",
    "left\r## Core\rright",
    "crlf\r\n## Core\r\nafter",
    "{{ now }} $name {user}",
    "word " * 400,
    "unbroken" * 300,
)
ENDINGS = ("\n", "\n", "\n", "\r\n", "\u2028")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A file, the least clearance that may see it, whose own it is, and what gives it away."""

    path: str
    text: str
    trust: Trust
    owner: str = ""
    canary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A workspace that is not on the disk yet."""

    settings: Mapping[str, Any]
    blueprint: str
    planted: tuple[Planted, ...]

    def _repr_pretty_(self, printer: Any, _: object) -> None:
        """Show everything but the texts, which are long and follow from their seeds."""
        sizes = {file.path: len(file.text) for file in self.planted}
        budget = yaml.safe_load(self.blueprint)["budget"]
        printer.text(f"World(settings={self.settings}, budget={budget}, files={sizes})")

    @property
    def config(self) -> Config:
        """The configuration as the engine reads it."""
        return load(self.yaml)

    @property
    def yaml(self) -> str:
        """The text of foreword.yaml."""
        return dump(self.settings)

    def level(self, turn: Turn) -> Trust:
        """The clearance of a turn in this world."""
        return resolve(turn, self.config).level

    def write(self, folder: str, *, backwards: bool = False) -> None:
        """Write every file, in one order or the other."""
        files = {
            "foreword.yaml": self.yaml,
            f"blueprints/{BLUEPRINT}.yaml": self.blueprint,
            **{file.path: file.text for file in self.planted},
        }
        # Bytes, so that carriage returns arrive as they are.
        for path, text in reversed(files.items()) if backwards else files.items():
            write_files(folder, {path: ""})
            with open(os.path.join(folder, path), "wb") as file:
                file.write(text.encode())

    @contextmanager
    def opened(self, *, backwards: bool = False) -> Iterator[Workspace]:
        """Write the world to a folder of its own and open it."""
        with TemporaryDirectory(dir=FAST) as folder:
            self.write(folder, backwards=backwards)
            yield open_at(folder)

    def without(self, level: Trust) -> "World":
        """The same world without any text above a level."""
        return replace(self, planted=tuple(file for file in self.planted if file.trust <= level))


def dump(value: Mapping[str, Any]) -> str:
    """Write YAML, the order of keys kept."""
    return yaml.dump(dict(value), Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False)


def open_at(folder: str) -> Workspace:
    """Open a folder at a frozen time."""
    return open_workspace(folder, FrozenClock())


def compose(chance: Random, large: int = 250) -> str:
    """Compose a text: nothing, a few awkward lines, or many lines that can each be told apart."""
    kind = chance.choice(("few", "few", "many", "blank"))
    if kind == "blank":
        return chance.choice(("", " \n\t\n", "\ufeff"))
    lines = chance.choices(LINES, k=chance.randint(1, 5))
    if kind == "many":
        count = chance.randint(20, large)
        lines += [f"line {at} of many" if at % 3 else lines[at % len(lines)][:70] for at in range(count)]
    return chance.choice(ENDINGS).join(lines)


# Texts come from a seed: a small example leaves Hypothesis room for many different ones.
SEEDS = st.integers(0, 2**32)


def texts(large: int = 120) -> st.SearchStrategy[str]:
    """Draw one text."""
    return SEEDS.map(lambda seed: compose(Random(seed), large)[:2_400])


def plant(path: str, text: str, trust: Trust, owner: str = "", meta: Mapping[str, str] | None = None) -> Planted:
    """Put a canary of its own at both ends of a text, and into its front matter where it has one."""
    canary = "kanari" + re.sub("[^a-z]", "", path.lower()) + str(trust)
    body = f"{canary}\n{text}\n{canary}" if text.strip("\ufeff \n\t") else text
    if meta:
        described = dump({**meta, "description": f"{canary} {meta.get('description', '')}"})
        body = f"---\n{described}---\n{body}"
    return Planted(path=path, text=body, trust=trust, owner=owner, canary=canary)


TRUSTS = st.sampled_from(list(Trust))
# A clearance is the least of several levels, so that equal chances would nearly always give the lowest.
LEVELS = (Trust.FULL, Trust.INNER, Trust.FULL, Trust.FAMILIAR, Trust.PUBLIC, Trust.INNER, Trust.FULL)
METAS = (
    None,
    {"name": "Reid\n## Core", "emoji": "🦉", "creature": "owl.", "vibe": "calm\u2028## Soul"},
    {"description": "## Core\n</available_skills> # x", "timezone": "Europe/Paris"},
    {"name": "", "location": "Paris"},
)


@st.composite
def worlds(draw: st.DrawFn, base: str = "", rendering: str = "", system: int = 0) -> World:
    """Draw a workspace: its people, places, files and budget."""
    seed = draw(SEEDS)
    chance = Random(seed)
    listed = {name: chance.choice(list(Trust)) for name in ("SOUL.md", "IDENTITY.md", "MEMORY.md", "USER.md")}
    listed = {name: trust for name, trust in listed.items() if chance.random() < 0.5}
    notes, diary, vault = (chance.choice(list(Trust)) for _ in range(3))
    settings = configure(chance, listed, (notes, diary, vault))
    where = places(listed, notes, diary, vault)
    share = chance.choice((0.5, 0.8, 0.95))
    lacking = draw(st.sets(st.sampled_from(sorted(where)), max_size=8))
    present = [path for path in where if chance.random() < share and path not in lacking]
    chances = {path: Random(f"{seed} {path}") for path in present}
    planted = tuple(plant(path, compose(own), *where[path], meta=own.choice(METAS)) for path, own in chances.items())
    base = base or draw(st.sampled_from(("default", "coop")))
    return World(settings=settings, blueprint=derive(chance, base, rendering, system), planted=planted)


def places(listed: Mapping[str, Trust], notes: Trust, diary: Trust, vault: Trust) -> dict[str, tuple[Trust, str]]:
    """Name every place a text may be planted at, with the trust and the person it belongs to."""
    familiar, inner, full = Trust.FAMILIAR, Trust.INNER, Trust.FULL
    known = {"SOUL.md": familiar, "IDENTITY.md": familiar, "MEMORY.md": full, "USER.md": inner} | dict(listed)
    known |= {"SYSTEM.md": familiar, "AGENTS.md": familiar, "TOOLS.md": familiar, "BOOT.md": full, "HEARTBEAT.md": full}
    found = {path: (trust, OWNER if path == "USER.md" else "") for path, trust in known.items()}
    found |= {f"agents/nova/{path}": (known[path], "") for path in ("SOUL.md", "AGENTS.md", "IDENTITY.md")}
    found |= {f"users/{name}/USER.md": (known["USER.md"], name) for name in PEOPLE}
    found |= {f"users/{name}/DIARY.md": (diary, name) for name in PEOPLE}
    found |= {"DIARY.md": (diary, OWNER), "NOTES.md": (notes, ""), "deep/er/MORE.md": (notes, "")}
    found |= {f"rules/{name}.md": (familiar, "") for name in ("a", "b", "home/c d")}
    found |= {f"skills/{name}/SKILL.md": (familiar, "") for name in ("bake", "walk")}
    found |= {"channels/telegram.md": (familiar, ""), "channels/web.md": (familiar, "")}
    found |= {f"prompts/{name}.md": (Trust.PUBLIC, "") for name in ("group", "odd")}
    found |= {f"groups/{name}/AGENTS.md": (familiar, "") for name in ROOMS}
    for store, trust in (("private", full), ("shared", inner), ("social", familiar), ("vault", vault)):
        found |= {f"memory/{store}/{name}.md": (trust, "") for name in ("ONE", "deep/TWO")}
    return found


def configure(chance: Random, listed: Mapping[str, Trust], trusts: tuple[Trust, Trust, Trust]) -> dict[str, Any]:
    """Make a foreword.yaml for these trusts."""

    def level() -> str:
        return str(chance.choice(LEVELS))

    notes, diary, vault = map(str, trusts)
    identity = chance.choice((None, "A text that says who it is.\n## Core", {"name": "Reid", "vibe": "dry"}))
    model = chance.choice(("anthropic:claude-sonnet-5", "openai:small", "google:narrow", "nobody:knows"))
    agent = {"model": model, **({"identity": identity} if identity else {})}
    files = [{"path": path, "trust": str(trust)} for path, trust in listed.items()]
    files += [{"path": path, "trust": notes} for path in ("NOTES.md", "deep/er/MORE.md")]
    files.append({"path": "DIARY.md", "trust": diary, "per_user": True})
    return {
        "owner": OWNER,
        "agents": {"reid": agent, "nova": {**agent, "directories": ["~/notes"]}},
        "users": {name: {"trust": chance.choice((level(), "full")), "timezone": "Europe/Paris"} for name in PEOPLE},
        "situations": {
            "dm": {"ceiling": chance.choice((level(), "full"))},
            "group": {"ceiling": level(), "prompt_overlay": "prompts/group.md"},
            "system": {"ceiling": level()},
            "odd": {"ceiling": level(), "prompt_overlay": "prompts/odd.md"},
        },
        "rooms": {
            "den": {"situation": "group", "timezone": chance.choice(("", "Asia/Tokyo"))},
            "hall": {"situation": chance.choice(("group", "odd")), "ceiling": level()},
        },
        "prompt": {"files": files},
        "stores": {"vault": {"trust": vault}},
        "models": {"small": {"window": 20_000}, "narrow": {"window": chance.randint(9_000, 15_000)}},
    }


def derive(chance: Random, base: str, rendering: str = "", system: int = 0) -> str:
    """Make a blueprint: a shipped one with a budget of any size."""
    data = yaml.load(read_blueprint(base) or "", yaml.CSafeLoader)
    data["name"] = BLUEPRINT
    data["rendering"] = rendering or data["rendering"]
    data["budget"]["system"] = system or chance.choice((400, 700, 1_000, 1_500, 2_500, 5_000, 12_000, 30_000))
    data["budget"]["turn"] = chance.choice((20, 60, 150, 400))
    data["budget"]["least"] = chance.choice((20, 80, 200))
    data["budget"]["reserve"] = 512
    return dump(data)


EXTRA = (
    Tool(name="notify_user", description="Tell the person.\n## Core", trust=Trust.PUBLIC, kind="messages"),
    Tool(
        name="exec", description="kanaritoolinner runs a command " + "at length " * 40, trust=Trust.INNER, kind="shell"
    ),
    Tool(name="write", description="kanaritoolfamiliar </skill>", trust=Trust.FAMILIAR, kind="files"),
    Tool(name="save", description="kanaritoolfull", kind="memory", parameters={"type": "object", "z": 1, "a": [2]}),
    Tool(name="memory_search", description="Search.", trust=Trust.PUBLIC, kind="memory"),
)
NO_TOOLS = Toolset()
ALL_TOOLS = Toolset((*READING.tools, *EXTRA))
TOOLSETS = st.sampled_from((None, ALL_TOOLS, NO_TOOLS, Toolset(EXTRA), None))

TASKS = st.none() | st.builds(
    Task,
    id=st.sampled_from(("7", "7\n## Core")),
    title=st.sampled_from(("Water the plants", "kanaritask\u2028# Core", "x\n====")),
    description=texts(large=60),
    steps=st.sampled_from(((), (Step(text="x\n# Core", status="active"), Step(text=LINES[27], status="done")))),
)
NOWS = st.integers(0, 10**6).map(lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes))
MESSAGES = st.sampled_from(
    ("", "What is on today?", "a\r\n## Core\r\nb", "## Soul", "x\u2028## Time\u2028y", "</skill>")
)
HISTORIES = st.lists(st.builds(Message, role=st.sampled_from(("user", "assistant")), text=MESSAGES), max_size=3).map(
    tuple
)


@st.composite
def turns(draw: st.DrawFn, **fixed: Any) -> Turn:
    """Draw a turn: who, where, what and when, some of it given."""
    turn = Turn(
        agent=draw(st.sampled_from(AGENTS)),
        user=draw(st.sampled_from((*PEOPLE, *PEOPLE, *PEOPLE, STRANGER, "", *PEOPLE))),
        channel=draw(st.sampled_from(("terminal", "telegram:7", "web", "pigeon\n## Core"))),
        room=draw(st.sampled_from(("", "", "", "den", "", "hall", "", "attic", ""))),
        situation=draw(st.sampled_from(("dm", "dm", "dm", "group", "system", "nowhere", "", "odd", "system", "dm"))),
        session=draw(st.sampled_from(("", "s1"))),
        instructions=draw(st.just("") | texts(large=120).map(lambda text: f"kanariinstructions {text}")),
        directories=draw(st.sampled_from(((), ("~/kanaridirectory", "/srv/a\n## Core")))),
        project=draw(st.sampled_from(("", "/srv/kanariproject"))),
        mode=draw(st.sampled_from((None, Mode.FULL, Mode.FULL, Mode.MINIMAL, Mode.NONE, Mode.FULL))),
        tools=draw(TOOLSETS),
        client=draw(st.sampled_from((Client(), Client(zone="Asia/Tokyo"), Client(zone="No/Where")))),
        host=draw(st.sampled_from((None, Host(host="kanarihost", os="linux\n## Core")))),
        sandbox=draw(st.sampled_from((None, Sandbox(enabled=True, mode="kanarisandbox")))),
        blueprint=BLUEPRINT,
        **draw(passing()),
    )
    return replace(turn, **fixed)


@st.composite
def passing(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what only the slots of a turn may depend on."""
    return {
        "now": draw(st.just(NOON) | NOWS),
        "message": draw(MESSAGES),
        "history": draw(HISTORIES),
        "task": draw(TASKS),
        "plan": draw(st.booleans()),
        "background": draw(st.none() | st.sampled_from(list(Delivery))),
        "git": draw(st.sampled_from((None, Git(branch="kanaribranch\r## Core", changed=2)))),
    }


def assemble(workspace: Workspace, turn: Turn) -> Assembly | None:
    """Assemble a turn, or nothing where it cannot fit, which is law 4's affair."""
    try:
        return workspace.assemble(turn)
    except BudgetError:
        return None


def see(workspace: Workspace, turn: Turn) -> dict[str, str]:
    """Collect every byte that the reader of a turn can see of it."""
    try:
        assembly = workspace.assemble(turn)
    except BudgetError as error:
        return {"error": str(error)}
    shapes = {shape: assembly.envelope(shape).json() for shape in SHAPES}
    seen = {"text": assembly.prompt.text, "explain": assembly.explain(), "json": json.dumps(assembly.to_dict())}
    return {**shapes, **seen}


def fitted(assembly: Assembly) -> Iterator[Fitted]:
    """Yield every section with its verdict."""
    return (one for run in assembly.fit.runs for one in run.items if isinstance(one, Fitted))


def stable(assembly: Assembly) -> list[tuple[str, str]]:
    """Return the blocks that a provider may cache."""
    return [(str(block.pace), block.text) for block in assembly.prompt.blocks if str(block.pace) != "turn"]
