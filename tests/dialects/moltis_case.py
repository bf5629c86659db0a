"""Helpers for the tests of `moltis`: a workspace with a text for every component."""

from collections.abc import Mapping
from pathlib import Path

from dialect_case import CONFIG, ask, assemble

from foreword.assembly import Assembly
from foreword.turn import Host, Sandbox, Tool, Toolset
from foreword.types import Mode, Trust

EXEC = Tool(
    name="exec",
    description="Run a command.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
    trust=Trust.INNER,
    kind="shell",
)
SEARCH = Tool(name="memory_search", description="Search.", trust=Trust.FAMILIAR, kind="memory")
TOOLS = Toolset([EXEC, SEARCH])
HOST = Host(host="moltis-devbox", os="macos", arch="aarch64", shell="zsh", sudo_non_interactive=True)
SANDBOX = Sandbox(
    enabled=True,
    mode="all",
    backend="docker",
    scope="session",
    image="moltis-sandbox:abc123",
    workspace_mount="ro",
    network="disabled",
)
IDENTITY = '---\nname: Reid\nemoji: "🪶"\ncreature: heron\nvibe: calm\n---\nBODY\n'
COMMIT = "---\nname: commit\ndescription: Create git commits\n---\nSteps.\n"
LOCAL = {"model": "acme:plain", "mode": Mode.FULL}
NAMES = ("memory_search", "memory_get", "memory_save", "read_memory", "save_memory")
HOUSE = {
    "IDENTITY.md": IDENTITY,
    "SOUL.md": "Dry and exact.\n",
    "USER.md": "---\nname: Alice\n---\nShe keeps bees.\n",
    "AGENTS.md": "Shoes off.\n",
    "TOOLS.md": "Otto prints.\n",
    "BOOT.md": "Good morning.\n",
    "skills/commit/SKILL.md": COMMIT,
    "work/CLAUDE.md": "The project.\n",
    "MEMORY.md": "NEVER\n",
}


def say(folder: Path, files: Mapping[str, str] | None = None, **facts: object) -> Assembly:
    """Assemble a turn with the blueprint; a project is a folder below the workspace."""
    config = (files or {}).get("foreword.yaml", CONFIG) + f"prompt: {{project_stop: {folder}}}\n"
    if "project" in facts:
        facts["project"] = str(folder / str(facts["project"]))
    return assemble(folder, ask("moltis", **facts), {**(files or {}), "foreword.yaml": config})


def show(folder: Path, files: Mapping[str, str] | None = None, **facts: object) -> str:
    """Return the text of a turn."""
    return say(folder, files, **facts).prompt.text


def say_everything(folder: Path, **facts: object) -> Assembly:
    """Assemble a turn with every component."""
    given = {"tools": TOOLS, "project": "work", "host": HOST, "sandbox": SANDBOX, "session": "main"}
    return say(folder, HOUSE, **{**given, **facts})
