"""The functions of a turn that ARCHITECTURE.md shows are those of the source."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
SHOWN = re.findall(r"^`([\w.]+)`\. [^\n]+\n\n```python\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


def find_source(name):
    """Return the source of a function by its dotted name, without the indentation of its class."""
    folder, module, *names = name.split(".")
    text = (ROOT / "src" / "foreword" / folder / f"{module}.py").read_text("utf-8")
    nodes = ast.parse(text).body
    for part in names:
        node = next(one for one in nodes if getattr(one, "name", "") == part)
        nodes = node.body
    return "\n".join(line[node.col_offset :] for line in text.split("\n")[node.lineno - 1 : node.end_lineno])


@pytest.mark.parametrize(("name", "shown"), SHOWN, ids=[name for name, _ in SHOWN])
def test_shown_as_it_is(name, shown):
    """The page shows the function as it is."""
    assert shown == find_source(name)


def test_all_three():
    """Intake, worker and agent are shown."""
    assert [name.rpartition(".")[2] for name, _ in SHOWN] == ["receive_message", "work", "run"]
