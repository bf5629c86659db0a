"""Helpers for the tests of `osa`: a workspace and a turn with a text for every block."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dialect_case import ask, assemble

from foreword.assembly import Assembly
from foreword.engine.signal import classify
from foreword.turn import Bulletin, Communication, Git, Host, State, Task, Tool, Toolset
from foreword.types import Trust

END = "\n\n---\n\n"
SECTIONS = [
    "## 1. SECURITY", "## 2. IDENTITY", "## 3. SIGNAL SYSTEM", "## 4. PERSONALITY", "## 5. TOOL USAGE POLICY",
    "## 6. TASK MANAGEMENT", "## 7. DOING TASKS", "## 8. GIT WORKFLOWS", "## 9. OUTPUT FORMATTING",
    "## 10. PROACTIVENESS", "## User Profile",
]  # fmt: skip
SIGNAL = "## Active Signal: EXECUTE × DIRECT (weight: 0.5)"
BLOCKS = {
    "signal": SIGNAL,
    "environment": "## Environment",
    "runtime": "## Runtime",
    "plan": "## Plan Mode",
    "memory": "## Relevant Memory",
    "tasks": "## Active Tasks",
    "workflow": "## Workflow",
    "communication": "## Communication Profile",
    "bulletin": "## Bulletin",
    "os": "## Operating System",
    "machine": "## Machine",
}
MEMORY = "# Memory\n\nBy hand.\n\n## Boiler\nServiced in May.\n\n## Garden\nThe roses are Anna's.\n"
HOUSE = {
    "USER.md": "---\nname: Alice\n---\nShe keeps bees.\n",
    "rules/a.md": "Heat to 20 °C.\n",
    "rules/deeper/b.md": "Lock the door.\n",
    "os/linux.md": "Use apt.\n",
    "machines/attic.md": "The fan is loud.\n",
    "MEMORY.md": MEMORY,
}
BULLETINS = (
    Bulletin(text="For full."),
    Bulletin(text="For inner.", trust=Trust.INNER),
    Bulletin(text="For familiar.", trust=Trust.FAMILIAR),
)
TOOLS = Toolset(
    [
        Tool(name="file_read", description="Read a file.", trust=Trust.INNER, kind="files"),
        Tool(name="tide", description="Tell the tide.", trust=Trust.PUBLIC),
    ]
)
BUSY = {
    "tools": TOOLS,
    "message": "boiler",
    "signal": replace(classify("run it"), weight=0.5),
    "session": "s1",
    "plan": True,
    "host": Host(host="attic", os="linux"),
    "project": "~/house",
    "git": Git(branch="main", changed=3, commit="1a2b3c4 Plan"),
    "state": State(
        workflow="Move: step 2",
        tasks=(Task(id="12", title="Pack"), Task(id="13", title="Sell", status="waiting")),
        communication=Communication(formality="casual", length="two lines", topics=("bees", "boats")),
        bulletins=BULLETINS,
    ),
}


def say(folder: Path, files: Mapping[str, str] | None = None, **facts: object) -> Assembly:
    """Assemble a turn with the blueprint."""
    return assemble(folder, ask("osa", **facts), files)


def split_blocks(text: str) -> list[str]:
    """Split a prompt into its document and its blocks."""
    return text.split(END)


def find_block(assembly: Assembly, name: str) -> list[str]:
    """Return the lines of a block without its heading."""
    blocks = {block.partition("\n")[0]: block for block in split_blocks(assembly.prompt.text)[1:]}
    return blocks[BLOCKS[name]].splitlines()[1:]
