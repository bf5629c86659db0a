"""Each sentence of the five documents has a row that names its tests or quotes a documented difference."""

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = {"coop": ("C", 167), "moltis": ("M", 95), "nova": ("N", 69), "osa": ("O", 112), "spec010": ("S", 103)}


class Row(NamedTuple):
    """One sentence of a document."""

    document: str
    id: str
    status: str
    proof: str


def read_rows(document: str) -> list[Row]:
    """Read the table of one document."""
    text = (Path(__file__).parent / f"{document}.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [Row(document, number, status, proof) for number, _, status, proof in cells]


@functools.cache
def list_tests(path: Path) -> frozenset[str]:
    """List the test functions of a module."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in module.body if isinstance(node, kinds) and node.name.startswith("test_"))


def flatten(text: str) -> str:
    """Join wrapped lines, so that a quotation may span them."""
    return " ".join(text.split())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_sentence_has_a_row(document):
    """No row of a document is missing or duplicated."""
    letter, count = DOCUMENTS[document]
    assert [row.id for row in read_rows(document)] == [f"{letter}{number}" for number in range(1, count + 1)]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_rows_are_shown(document):
    """A `works` row names existing tests; a `differs` row quotes the dialect's page and may name tests."""
    page = flatten((ROOT / "docs" / "dialects" / f"{document}.md").read_text(encoding="utf-8"))
    assert [problem for row in read_rows(document) for problem in find_problems(row, page)] == []


def find_problems(row, page):
    """Find what is wrong with one row: its status, a missing test or quotation, or one that does not exist."""
    tests = re.findall(r"`([\w/]+\.py::\w+)`", row.proof)
    quotations = re.findall(r"“([^”]+)”", row.proof) if row.status == "differs" else []
    if row.status not in ("works", "differs") or not (quotations if row.status == "differs" else tests):
        yield f"{row.id}: no proof"
    for quotation in quotations:
        if flatten(quotation) not in page:
            yield f"{row.id}: {quotation}"
    for test in tests:
        path, _, name = test.partition("::")
        if name not in list_tests(ROOT / "tests" / path):
            yield f"{row.id}: {test}"
