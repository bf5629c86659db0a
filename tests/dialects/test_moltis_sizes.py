"""Claims about the size of a `moltis` prompt: the table of its document, within a tolerance."""

from pathlib import Path

import pytest
from moltis_case import HOST, IDENTITY, SANDBOX, say

from foreword import Mode, Tool, Toolset, Trust

TOLERANCE = 0.25
NAMES = ("exec", "browser", "web_fetch", "web_search", "read_file", "write_file", "memory_search", "memory_get")
ABOUT = "Does one thing well, tells what came of it, and asks before it changes something outside of the sandbox."
RULE = "Keep functions small, name them by what they do, and write the test that fails before you write the code.\n"


def equip(count: int) -> Toolset:
    """Make so many tools with descriptions as people write them."""
    names = [*NAMES, *(f"server_{number:02}_tool" for number in range(count))][:count]
    return Toolset(Tool(name=name, description=ABOUT, trust=Trust.FAMILIAR) for name in names)


def list_skills(count: int) -> dict[str, str]:
    """Make so many skills."""
    text = "Walks through the steps of a release, from the changelog to the announcement."
    return {
        f"skills/s{number}/SKILL.md": f"---\nname: s{number}\ndescription: {text}\n---\n" for number in range(count)
    }


# characters and tokens of the document's table, then what the configuration holds
TABLE = [
    pytest.param(200, 50, {}, {"mode": Mode.NONE, "tools": None}, id="minimal"),
    pytest.param(2_000, 500, {"IDENTITY.md": IDENTITY}, {}, id="soul, identity and guidelines"),
    pytest.param(
        5_000,
        1_250,
        {"IDENTITY.md": IDENTITY, "work/CLAUDE.md": RULE * 10},
        {"tools": equip(8), "project": "work", "host": HOST, "sandbox": SANDBOX},
        id="typical with tools",
    ),
    pytest.param(
        8_500,
        2_125,
        {"IDENTITY.md": IDENTITY, "work/CLAUDE.md": RULE * 24, "AGENTS.md": RULE * 6, **list_skills(10)},
        {"tools": equip(14), "project": "work", "host": HOST, "sandbox": SANDBOX},
        id="full",
    ),
    pytest.param(
        13_500,
        3_375,
        {"IDENTITY.md": IDENTITY, "work/CLAUDE.md": RULE * 40, "AGENTS.md": RULE * 12, **list_skills(12)},
        {"tools": equip(40), "project": "work", "host": HOST, "sandbox": SANDBOX},
        id="large",
    ),
]


@pytest.mark.parametrize(("characters", "tokens", "files", "facts"), TABLE)
def test_size(tmp_path: Path, characters: int, tokens: int, files: dict[str, str], facts: dict[str, object]) -> None:
    """A prompt is as long as the document's table says, in characters and in tokens."""
    prompt = say(tmp_path, files, **facts).prompt
    assert prompt.tokens == pytest.approx(tokens, rel=TOLERANCE)
    assert len(prompt.text) == pytest.approx(characters, rel=TOLERANCE)


def test_soul_size(tmp_path: Path) -> None:
    """The built-in soul has about 1,500 characters and 400 tokens."""
    (soul,) = (span for span in say(tmp_path).prompt.spans if span.id == "soul")
    assert soul.end - soul.start == pytest.approx(1_500, rel=TOLERANCE)
    assert soul.tokens == pytest.approx(400, rel=TOLERANCE)
