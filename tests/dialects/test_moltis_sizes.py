"""The size of a `moltis` prompt matches the table of its document."""

from pathlib import Path

import pytest
from moltis_case import HOST, IDENTITY, SANDBOX, say

from foreword.turn import Tool, Toolset
from foreword.types import Mode, Trust

TOLERANCE = 0.25
NAMES = ("exec", "browser", "web_fetch", "web_search", "read_file", "write_file", "memory_search", "memory_get")
ABOUT = "Does one thing well, tells what came of it, and asks before it changes something outside of the sandbox."
RULE = "Keep functions small, name them by what they do, and write the test that fails before you write the code.\n"


def equip(count: int) -> Toolset:
    """Make a number of tools with realistic descriptions."""
    names = [*NAMES, *(f"server_{number:02}_tool" for number in range(count))][:count]
    return Toolset(Tool(name=name, description=ABOUT, trust=Trust.FAMILIAR) for name in names)


def list_skills(count: int) -> dict[str, str]:
    """Make a number of skills."""
    text = "Walks through the steps of a release, from the changelog to the announcement."
    return {
        f"skills/s{number}/SKILL.md": f"---\nname: s{number}\ndescription: {text}\n---\n" for number in range(count)
    }


# least and most characters and tokens, then what the configuration holds; around a single figure there is a tenth, and
# below the second one what the dialect's page says
TABLE = [
    pytest.param((180, 220), (45, 55), {}, {"mode": Mode.NONE, "tools": None}, id="minimal"),
    pytest.param((1_600, 2_000), (380, 500), {"IDENTITY.md": IDENTITY}, {}, id="soul, identity and guidelines"),
    pytest.param(
        (4_500, 5_500),
        (1_125, 1_375),
        {"IDENTITY.md": IDENTITY, "work/CLAUDE.md": RULE * 10},
        {"tools": equip(8), "project": "work", "host": HOST, "sandbox": SANDBOX},
        id="typical with tools",
    ),
    pytest.param(
        (7_000, 10_000),
        (1_750, 2_500),
        {"IDENTITY.md": IDENTITY, "work/CLAUDE.md": RULE * 24, "AGENTS.md": RULE * 6, **list_skills(10)},
        {"tools": equip(14), "project": "work", "host": HOST, "sandbox": SANDBOX},
        id="full",
    ),
    pytest.param(
        (12_000, 15_000),
        (3_000, 3_750),
        {"IDENTITY.md": IDENTITY, "work/CLAUDE.md": RULE * 40, "AGENTS.md": RULE * 12, **list_skills(12)},
        {"tools": equip(36), "project": "work", "host": HOST, "sandbox": SANDBOX},
        id="large",
    ),
]


@pytest.mark.parametrize(("characters", "tokens", "files", "facts"), TABLE)
def test_size(
    tmp_path: Path,
    characters: tuple[int, int],
    tokens: tuple[int, int],
    files: dict[str, str],
    facts: dict[str, object],
) -> None:
    """The length of a prompt matches the document's table, in characters and in tokens."""
    prompt = say(tmp_path, files, **facts).prompt
    assert characters[0] <= len(prompt.text) <= characters[1]
    assert tokens[0] <= prompt.tokens <= tokens[1]


def test_soul_size(tmp_path: Path) -> None:
    """The built-in soul has about 1,500 characters and 400 tokens."""
    (soul,) = (span for span in say(tmp_path).prompt.spans if span.id == "soul")
    assert soul.end - soul.start == pytest.approx(1_500, rel=TOLERANCE)
    assert soul.tokens == pytest.approx(400, rel=TOLERANCE)
