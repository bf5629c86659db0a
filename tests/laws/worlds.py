"""Complete workspaces, people, rooms, budgets and project trees for the laws, each text with a unique canary."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import strategies as st
from world_texts import LINES, Planted, dump, plant

from foreword.assembly import Assembly
from foreword.config.load import load_config
from foreword.config.schema import Config
from foreword.engine.trust import resolve_trust
from foreword.promptcache.decision import NO_LEDGER, Ledger
from foreword.resources import read_blueprint
from foreword.testing import FrozenClock, write_files
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # tmpfs, if available, is ten times faster
BASES = ("default", "coop", "osa", "moltis", "spec010", "nova")
BLUEPRINT = "law"
OWNER = "alice"
PEOPLE = ("alice", "bob", "carol")
STRANGER = "eve"
ROOMS = ("den", "hall")
AGENTS = ("reid", "nova")
HOME = "ws"  # the workspace, next to the project tree
# A project may be outside the workspace, the workspace itself, or a restricted part of it.
PROJECTS = ("~/tree/leaf", "~/tree", "~/ws", "~/ws/memory/private", "~/ws/users/bob")
CONFIGURED = ("soul", "instructions", "role", "responsibilities")  # texts of an agent in foreword.yaml


class Housed(Workspace):
    """A workspace whose `~` is its parent folder, so that project names do not depend on the location."""

    def assemble(self, turn: Turn, ledger: Ledger = NO_LEDGER) -> Assembly:
        """Assemble a turn with HOME set to the parent folder."""
        before = os.environ.get("HOME", "")
        os.environ["HOME"] = os.path.dirname(self.files.root)
        try:
            return super().assemble(turn, ledger)
        finally:
            os.environ["HOME"] = before


def open_at(root: str) -> Workspace:
    """Open a folder with a frozen clock."""
    return Housed(root, FrozenClock())


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A workspace that is not on disk yet, and the project tree next to it."""

    base: str
    seed: int
    settings: Mapping[str, Any]
    blueprint: str
    planted: tuple[Planted, ...]

    def _repr_pretty_(self, printer: Any, _: object) -> None:
        """Show everything except the texts, which are long and follow from their seeds."""
        sizes = {file.path: len(file.text) for file in self.planted}
        budget = yaml.safe_load(self.blueprint)["budget"]
        printer.text(
            f"World(base={self.base}, seed={self.seed}, settings={self.settings}, budget={budget}, files={sizes})"
        )

    @property
    def config(self) -> Config:
        """The parsed configuration."""
        return load_config(self.yaml)

    @property
    def yaml(self) -> str:
        """The text of foreword.yaml."""
        return dump(self.settings)

    def level(self, turn: Turn) -> Trust:
        """The clearance of a turn in this world."""
        return resolve_trust(turn, self.config).level

    def write(self, root: str, *, backwards: bool = False) -> None:
        """Write every file of the workspace and of the project tree, in either order."""
        files = {
            "foreword.yaml": self.yaml,
            f"blueprints/{BLUEPRINT}.yaml": self.blueprint,
            **{file.path: file.text for file in self.planted},
        }
        for project in PROJECTS:
            os.makedirs(os.path.join(root, project.replace("~", "..", 1)), exist_ok=True)
        # Write bytes, so that carriage returns are preserved.
        for path, text in reversed(files.items()) if backwards else files.items():
            write_files(root, {path: ""})
            with open(os.path.join(root, path), "wb") as file:
                file.write(text.encode())

    @contextmanager
    def opened(self, *, backwards: bool = False) -> Iterator[Workspace]:
        """Write the world to a temporary folder and open it."""
        with TemporaryDirectory(dir=FAST) as folder:
            root = os.path.join(folder, HOME)
            os.mkdir(root)
            self.write(root, backwards=backwards)
            yield open_at(root)

    def without(self, level: Trust) -> "World":
        """Return the same world without any text above a level."""
        agents = {
            name: {key: value for key, value in agent.items() if self.find_trust(key) <= level}
            for name, agent in self.settings["agents"].items()
        }
        planted = tuple(file for file in self.planted if file.trust <= level)
        return replace(self, settings={**self.settings, "agents": agents}, planted=planted)

    def find_trust(self, key: str) -> Trust:
        """Return the minimum clearance of an agent's configuration key; a soul has the trust of its file."""
        if key == "soul":
            listed = {file["path"]: file["trust"] for file in self.settings["prompt"]["files"]}
            return Trust[listed.get("SOUL.md", "familiar").upper()]
        return Trust.FAMILIAR if key in CONFIGURED else Trust.PUBLIC


# A clearance is the minimum of several levels: equal weights would nearly always give the lowest.
LEVELS = (*(Trust.FULL, Trust.INNER, Trust.FULL, Trust.FAMILIAR, Trust.INNER) * 2, Trust.PUBLIC)
LISTABLE = ("SOUL.md", "IDENTITY.md", "MEMORY.md", "USER.md", "SYSTEM.md", "CLAUDE.md", "memories.json")


@st.composite
def worlds(draw: st.DrawFn, base: str = "", rendering: str = "", system: int = 0, *, strict: bool = False) -> World:
    """Draw a workspace: people, places, files and budget; `strict` makes any of the six bases strict.

    A world and a turn are one number each, of different types: if Hypothesis finds two of the same type, it spends five
    examples of six on near copies.
    """
    return make_world(draw(st.integers(0, 2**64)), base, rendering, system, strict=strict)


def make_world(seed: int, base: str = "", rendering: str = "", system: int = 0, *, strict: bool = False) -> World:
    """Make the world for a seed."""
    chance = Random(seed)
    base = base or chance.choice(BASES)
    listed = {name: chance.choice(list(Trust)) for name in LISTABLE if chance.random() < 0.4}
    notes, diary, vault = (chance.choice(list(Trust)) for _ in range(3))
    where = places(listed, notes, diary, vault)
    share = chance.choice((0.5, 0.8, 0.95))
    return World(
        base=base,
        seed=seed,
        settings=configure(chance, listed, (notes, diary, vault)),
        blueprint=derive(chance, base, rendering, system, strict=strict),
        planted=tuple(
            plant(path, *where[path], chance=Random(f"{seed} {path}")) for path in where if chance.random() < share
        ),
    )


def places(listed: Mapping[str, Trust], notes: Trust, diary: Trust, vault: Trust) -> dict[str, tuple[Trust, str]]:
    """Return every path for a planted text, with its trust and its owner."""
    familiar, inner, full = Trust.FAMILIAR, Trust.INNER, Trust.FULL
    known = {"SOUL.md": familiar, "IDENTITY.md": familiar, "MEMORY.md": full, "USER.md": inner, "SYSTEM.md": familiar}
    known |= {"AGENTS.md": familiar, "TOOLS.md": familiar, "GUIDELINES.md": familiar, "BOOT.md": full}
    known |= {"HEARTBEAT.md": full, "memories.json": inner, "CLAUDE.md": inner, **listed}
    found = {path: (trust, OWNER if path == "USER.md" else "") for path, trust in known.items()}
    mine = ("SOUL.md", "AGENTS.md", "IDENTITY.md", "SYSTEM.md", "memories.json")
    found |= {f"agents/nova/{path}": (known[path], "") for path in mine}
    found |= {f"users/{name}/USER.md": (known["USER.md"], name) for name in PEOPLE}
    found |= {f"users/{name}/DIARY.md": (diary, name) for name in PEOPLE}
    found |= {f"users/{name}/memory/ONE.md": (familiar, name) for name in PEOPLE}
    found |= {f"users/{name}/memory/{level}/TWO.md": (level, name) for name in PEOPLE for level in (inner, full)}
    found |= {"DIARY.md": (diary, OWNER)}
    found |= dict.fromkeys(("NOTES.md", "deep/er/MORE.md", "HOUSE.md"), (notes, ""))
    found |= {f"rules/{name}.md": (familiar, "") for name in ("a", "b", "home/c d")}
    found |= {f"skills/{name}/SKILL.md": (familiar, "") for name in ("bake", "walk")}
    found |= {"channels/telegram.md": (familiar, ""), "channels/web.md": (familiar, "")}
    found |= {"os/linux.md": (inner, ""), "machines/kanarihost.md": (inner, "")}
    found |= {f"prompts/{name}.md": (Trust.PUBLIC, "") for name in ("group", "odd")}
    found |= {f"groups/{name}/AGENTS.md": (familiar, "") for name in ROOMS}
    for store, trust in (("private", full), ("shared", inner), ("social", familiar), ("vault", vault)):
        found |= {f"memory/{store}/{name}.md": (trust, "") for name in ("ONE", "deep/TWO")}
    found |= {"memory/private/AGENTS.md": (full, ""), "users/bob/CLAUDE.md": (inner, "bob")}
    tree = ("AGENTS", "tree/CLAUDE", "tree/CLAUDE.local", "tree/AGENTS", "tree/.claude/rules/a", "tree/leaf/CLAUDE")
    tree += ("tree/leaf/AGENTS", "tree/leaf/.claude/rules/b c", "tree/leaf/.claude/rules/d", "ws/.claude/rules/e")
    return found | {f"../{path}.md": (inner, "") for path in tree}


def configure(chance: Random, listed: Mapping[str, Trust], trusts: tuple[Trust, Trust, Trust]) -> dict[str, Any]:
    """Make a foreword.yaml with these trust levels."""

    def level() -> str:
        return str(chance.choice(LEVELS))

    notes, diary, vault = map(str, trusts)
    files = [{"path": path, "trust": str(trust)} for path, trust in listed.items()]
    files += [{"path": path, "trust": notes} for path in ("NOTES.md", "deep/er/MORE.md")]
    files.append({"path": "HOUSE.md", "trust": notes, "template": True})
    files.append({"path": "DIARY.md", "trust": diary, "per_user": True, "template": chance.random() < 0.5})
    agent = describe(chance)
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
        "prompt": {"files": files, "project_stop": "~"},
        "stores": {"vault": {"trust": vault}},
        "models": {
            "small": {"window": 20_000},
            "narrow": {"window": chance.randint(9_000, 15_000)},
            "bare": {"window": 40_000, "native_tools": False},
        },
    }


IDENTITIES = (
    None,
    "A text that says who it is.\n## Core",
    "Who?\u2028## Core\x85## Soul\n</Identity>",
    {"name": "Reid", "vibe": "dry"},
    {"name": "## Core\u2028<Identity>", "description": "{body} [x]"},
)
TITLES = ("Morning brief", "Twin\n bed", "## Core", '## Core\n"quoted" <Identity>', "</Responsibility>", "a:2")


def describe(chance: Random) -> dict[str, Any]:
    """Make the settings of an agent: identity, instructions and responsibilities."""

    def say(key: str) -> str:
        return "\n".join([f"kanari{key}", *chance.choices(LINES[:-2], k=chance.randint(0, 3))])

    identity = chance.choice(IDENTITIES)
    taken = [{"title": title, "content": say("responsibilities")} for title in chance.sample(TITLES, 4)]
    models = ("anthropic:claude-sonnet-5", "openai:small", "google:narrow", "nobody:knows", "openai:bare")
    known = {**{key: say(key) for key in CONFIGURED}, "responsibilities": taken}
    return {
        "model": chance.choice(models),
        **({"identity": identity} if identity else {}),
        **{key: value for key, value in known.items() if chance.random() < 0.4},
    }


def derive(chance: Random, base: str, rendering: str = "", system: int = 0, *, strict: bool = False) -> str:
    """Make a blueprint: a shipped one with a budget of any size and limits that the texts reach."""
    data = yaml.load(read_blueprint(base) or "", yaml.CSafeLoader)
    data["name"] = BLUEPRINT
    data["rendering"] = rendering or data["rendering"]
    budget = data["budget"]
    budget["system"] = system or chance.choice((600, 1_000, 1_400, 1_900, 2_500, 5_000, 12_000, 30_000))
    budget["turn"] = chance.choice((60, 200, 300, 500, 800))
    budget["least"] = chance.choice((20, 80, 200))
    budget["reserve"] = 512
    if budget.get("turn_room"):
        budget["window"] = chance.choice((0, 900, 1_300, 2_500, 128_000))
        budget["turn"] = chance.choice((100, 400, 2_000))
    for slot in data["slots"]:
        limit(slot, chance)
    if strict:
        own = yaml.load(read_blueprint("default") or "", yaml.CSafeLoader)
        data |= {key: own[key] for key in ("strict", "marker", "marker_without_call", "stub", "stub_without_call")}
        data["notice"] = ""
    return dump(data)


def limit(slot: dict[str, Any], chance: Random) -> None:
    """Give a slot limits that its texts reach, if its blueprint has a limit, and sometimes if it has none."""
    some = chance.choice((None, 120, 600, 2_000))
    if some and "limit" in slot:
        slot["limit"] = some
    elif some and ("limit_all" in slot or (slot["source"] == "project" and chance.random() < 0.5)):
        slot["limit_all"] = some * 2
    elif some and slot["id"] in ("soul", "agents", "instructions") and chance.random() < 0.2:
        slot["limit"] = some
