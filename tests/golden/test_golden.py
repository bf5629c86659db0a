"""Goldens: whole prompts that a person has reviewed; `FOREWORD_GOLDEN=write` rewrites them."""

import os
from difflib import unified_diff
from pathlib import Path

import pytest
from golden_case import Case, assemble
from golden_cases import CASES

from foreword.types import Trust

HERE = Path(__file__).parent
WRITE = os.environ.get("FOREWORD_GOLDEN") == "write"
README = """\
# Goldens

Each file is one whole prompt, the system part and then the tail, as `assembly.prompt.text` has it, made with a frozen
clock from a workspace in `golden_*.py`. `FOREWORD_GOLDEN=write pytest tests/golden` writes them, and this table, anew;
read the difference before you commit it.

| name | blueprint | what it proves |
|---|---|---|
"""


def write_table() -> str:
    """Render the README that lists the cases."""
    rows = [f"| [{case.name}]({case.name}.md) | {case.base} | {case.proves} |\n" for case in CASES.values()]
    return README + "".join(rows)


def compare(path: Path, text: str) -> None:
    """Compare a text with a file; in write mode, write the file first."""
    if WRITE:
        path.write_text(text, encoding="utf-8", newline="")
    known = path.read_bytes().decode() if path.exists() else ""
    if known != text:
        lines = unified_diff(known.splitlines(), text.splitlines(), f"{path.name} as it was", "now", lineterm="")
        meant = "If this is meant: FOREWORD_GOLDEN=write pytest tests/golden"
        pytest.fail("\n".join([*lines, "", meant]), pytrace=False)


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_golden(case: Case, tmp_path: Path) -> None:
    """The prompt equals the golden byte for byte, has the expected verdicts, and contains no private text."""
    assembly = assemble(case, tmp_path)
    compare(HERE / f"{case.name}.md", assembly.prompt.text)
    found = {row.id: row for row in assembly.rows(Trust.FULL)}
    assert {name: str(found[name].verdict) for name in case.verdicts} == dict(case.verdicts)
    assert not [name for name, words in case.says.items() if words not in found[name].reason], assembly.explain()
    assert not [words for words in case.silent if words in assembly.prompt.text]
    assert assembly.system_tokens <= assembly.fit.limit


def test_table() -> None:
    """The README lists exactly the goldens, each with its blueprint and its claim."""
    compare(HERE / "README.md", write_table())


def test_files() -> None:
    """Every golden file belongs to a case, and no two cases have the same claim."""
    assert {path.stem for path in HERE.glob("*.md")} - {"README"} == set(CASES)
    assert len({case.proves for case in CASES.values()}) == len(CASES)
