"""Dialects are data: the engine does not know their names."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import foreword

PACKAGE = Path(foreword.__file__).parent
DIALECTS = ("osa", "moltis", "spec010", "nova", "coop")
# Three dialects are also functions of the library, each in a separate module; one of them is a public name.
KNOWN = {
    "spec010": ("dialects/spec010.py", "__init__.py"),
    "nova": ("dialects/nova.py",),
    "moltis": ("dialects/moltis.py",),
}
EXAMPLE = re.compile(r"""["']foreword [a-z]+ """)  # a command that a help page shows


def find_lines(name: str) -> Iterator[str]:
    """Find the lines of Python that contain a name as a word, without the examples of help pages."""
    word = re.compile(rf"(?<![a-z]){re.escape(name)}(?![a-z])", re.IGNORECASE)
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if word.search(line) and not (place.startswith("cli/") and EXAMPLE.search(line)):
                yield f"{place}:{number}: {line.strip()}"


@pytest.mark.parametrize("name", DIALECTS)
def test_no_dialect_in_python(name: str) -> None:
    """No Python code names a dialect, except the functions of the dialects."""
    known = KNOWN.get(name, ())
    assert [line for line in find_lines(name) if line.partition(":")[0] not in known] == []


def test_registration() -> None:
    """The public function is registered by its module, for type checkers and for the late import."""
    lines = [line for line in find_lines("spec010") if line.startswith("__init__.py")]
    assert len(lines) == 2
    assert all("build_agent_prompt" in line for line in lines)


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_is_data(name: str) -> None:
    """Every dialect is a blueprint with the same name."""
    text = (PACKAGE / "blueprints" / f"{name}.yaml").read_text(encoding="utf-8")
    assert f"\nname: {name}\n" in text
