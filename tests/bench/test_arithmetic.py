"""Claims about the documents' own arithmetic: a run of `python -m bench arithmetic` reproduces it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.arithmetic import Expected, Size, measure_saving, measure_sizes, run

ROOT = Path(__file__).parent.parent.parent
# Our texts are in our own words, and counted by a real vocabulary where the document divides characters by four.
TOLERANCE = 0.25


@pytest.fixture(scope="module")
def saving():
    """Send OSA's conversation once."""
    return measure_saving()


def test_one_base(saving):
    """The static base is the same text in all 24 calls."""
    assert (saving.calls, saving.bases) == (24, 1)


def test_document_has_its_size(saving):
    """The document as written has the 800 to 1,200 tokens that its authors name."""
    assert 800 <= saving.document_tokens <= 1_200


def test_saved_at_the_documents_prices(saving):
    """At the document's prices the cache saves its 86 %, within half a percent."""
    assert (saving.document.write, saving.document.read) == (1.0, 0.1)
    assert saving.plain == 24 * saving.base_tokens
    assert saving.document.units == pytest.approx(saving.base_tokens * 3.3)
    assert saving.document.saved == pytest.approx(0.86, abs=0.005)


def test_saved_at_real_prices(saving):
    """At Anthropic's prices, where a write costs a quarter more, it saves one percent less."""
    assert (saving.anthropic.write, saving.anthropic.read) == pytest.approx((1.25, 0.1))
    assert saving.anthropic.units == pytest.approx(saving.base_tokens * 3.55)
    assert saving.anthropic.saved == pytest.approx(0.852, abs=0.001)


SIZES = measure_sizes()


@pytest.mark.parametrize("size", [size for size in SIZES if size.expected], ids=lambda size: size.name)
def test_sizes_of_moltis(size: Size):
    """Each configuration of Moltis' table has the size of its row, within a quarter, in characters and in tokens."""
    assert size.expected
    assert_near(size.characters, size.expected.characters)
    assert_near(size.tokens, size.expected.tokens)


def assert_near(value: int, expected: tuple[int, int]) -> None:
    """Assert that a value lies between two others, with some tolerance."""
    low, high = expected
    assert low * (1 - TOLERANCE) <= value <= high * (1 + TOLERANCE)


def test_rows_of_the_table():
    """The table has its five rows in order, each larger than the one before."""
    rows = [size for size in SIZES if size.expected]
    assert [size.expected.characters for size in rows if size.expected] == [
        (200, 200),
        (2_000, 2_000),
        (5_000, 5_000),
        (7_000, 10_000),
        (12_000, 15_000),
    ]
    assert sorted(rows, key=lambda size: size.characters) == rows


def test_tools_in_the_text_take_more():
    """Tools with schemas in the text take more of it than tools with one line each."""
    sizes = {size.name: size for size in SIZES}
    assert sizes["typical, with tools in the text"].characters > sizes["typical with tools"].characters


def test_expected_reads_like_the_document():
    """A figure and a range are written as in the document."""
    assert Expected(characters=(200, 200), tokens=(50, 60)).describe() == ("the document: 200 characters, 50–60 tokens")


def test_figures_are_those_of_a_run():
    """The page of figures has every one of them, within the two percent that a changed sentence makes."""
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^(\w+, [^|]+?) \| ([\d.,]+)", page, re.MULTILINE))
    for figure in run():
        assert float(shown[figure.name].replace(",", "")) == pytest.approx(figure.value, rel=0.02)


def test_command():
    """The command prints both, and refuses an unknown benchmark with a list of the existing ones."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "arithmetic"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "86.25 %" in done.stdout
    assert "Moltis, minimal" in done.stdout
    wrong = subprocess.run(
        [sys.executable, "-m", "bench", "sums"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "arithmetic" in wrong.stderr
