"""The workspace of the benchmarks: the example, extended to 20 skills, 25 tools and 100 memories."""

import os
import shutil
from pathlib import Path

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.testing import write_files
from foreword.turn import Tool, Toolset
from foreword.types import Trust

EXAMPLE = Path(__file__).parent.parent / "examples" / "assistant"
KINDS = ("files", "shell", "web", "messages", "schedule", "tasks", "memory", "introspection")


def make_sample(folder: Path) -> Path:
    """Write the sample workspace: about 7,000 tokens of prompt for its owner."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".foreword"))
    skills = len(os.listdir(folder / "skills"))
    memories = sum(len(names) for _, _, names in os.walk(folder / "memory"))
    files = {f"skills/task-{n}/SKILL.md": write_skill(n) for n in range(20 - skills)}
    files |= {
        f"memory/{('private', 'shared', 'social')[n % 3]}/NOTE-{n:03}.md": write_memory(n)
        for n in range(100 - memories)
    }
    write_files(folder, files)
    return folder


def make_tools() -> Toolset:
    """Make 25 tools with schemas of typical size, including the two reading tools."""
    return Toolset([*READING_TOOLS.tools, *(make_tool(n) for n in range(23))])


def make_tool(n: int) -> Tool:
    kind = KINDS[n % len(KINDS)]
    names = ("path", "query", "limit", "since")[: 1 + n % 4]
    return Tool(
        name=f"{kind}_{n}",
        description=f"Works with {kind}: takes {', '.join(names)} and returns what was found or done, with a reason.",
        parameters={
            "type": "object",
            "properties": {name: {"type": "string", "description": f"The {name} to use."} for name in names},
            "required": [names[0]],
        },
        trust=Trust.FAMILIAR,
        kind=kind,
    )


def write_skill(n: int) -> str:
    return (
        f"---\nname: task-{n}\ndescription: Handles matter number {n} from the first note to the last bill.\n---\n"
        + ("Read the notes first. Ask what is missing. Write down what was decided.\n" * 6)
    )


def write_memory(n: int) -> str:
    lines = "\n".join(
        f"- On occasion {k} of matter {n} they agreed on the {('blue', 'red', 'old')[k % 3]} variant."
        for k in range(12)
    )
    return f"---\ndescription: What was agreed about matter {n}, with reasons\n---\n# Matter {n}\n{lines}\n"
