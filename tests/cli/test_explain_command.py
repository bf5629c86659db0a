"""`foreword explain`: the table at every width, and the same as JSON."""

import os
import re
import subprocess
import sys

import pytest

from foreword.cli.output import clean_cell, draw_bar
from foreword.cli.prompt_commands import count_hidden
from foreword.testing import write_files


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """A key, so that the configured model is used."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-tests")


PRICES = 'models: {"acme:zeta": {window: 100000, input_usd: 2, cache_read_usd: 0.2, cache_write_usd: 2.5}}\n'


def test_clearance_first(say):
    """The first line gives the clearance and its reason; the last lines give usage and cost."""
    lines = say("explain", "--all", "--user", "bob").out.splitlines()
    assert lines[0] == "clearance: familiar, because bob is familiar and a dm allows full"
    assert re.search(r"\$\d\.\d{4} warm, \$\d\.\d{4} cold$", lines[-1])


@pytest.mark.parametrize("columns", [60, 80, 100, 140, 200])
def test_no_word_is_cut(say, monkeypatch, columns):
    """At every width each slot and each word of its reason is shown, without an ellipsis."""
    monkeypatch.setenv("COLUMNS", str(columns))
    sections = say("explain", "--json").json["sections"]
    out = say("explain", "--all").out
    words = set(out.split())
    assert "…" not in out
    assert {row["id"] for row in sections} <= words
    assert {word for row in sections for word in row["reason"].split()} <= words


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_fits_the_terminal(say, monkeypatch, columns):
    """No line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in ((), ("--all",)):
        assert max(map(len, say("explain", *words).out.splitlines())) <= columns


def test_piped_is_plain(say, monkeypatch):
    """Piped output has no colour, and one line per slot."""
    monkeypatch.delenv("COLUMNS")
    out = say("explain", "--all").out
    rows = say("explain", "--json").json["sections"]
    assert "\x1b" not in out
    lines = [line.split() for line in out.splitlines()]
    assert all(any(line[:1] == [row["id"]] for line in lines) for row in rows)
    assert len(lines) == len(rows) + 5


def test_absent_and_withheld_slots_are_counted(say):
    """Absent and withheld slots are hidden; the last line counts them, and --all and --json show them."""
    turn = ("explain", "--user", "bob")
    sections = say(*turn, "--json").json["sections"]
    verdicts = [row["verdict"] for row in sections]
    absent, withheld = verdicts.count("absent"), verdicts.count("withheld")
    assert absent > 1
    assert withheld > 1
    shown, everything = say(*turn).out, say(*turn, "--all").out
    assert shown.splitlines()[-1] == f" {absent} slots absent, {withheld} withheld; --all shows them"
    assert "--all" not in everything
    for row in sections:
        line = re.compile(rf"^ {re.escape(row['id'])} +{row['pace']} ", re.MULTILINE)
        assert line.search(everything)
        assert bool(line.search(shown)) == (row["verdict"] not in ("absent", "withheld"))


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["absent"], "1 slot absent"),
        (["withheld", "withheld"], "2 slots withheld"),
        (["withheld", "absent", "absent"], "2 slots absent, 1 withheld"),
    ],
)
def test_hidden_slots_are_counted_by_verdict(verdicts, said):
    """Only verdicts that occur are named."""
    assert count_hidden(verdicts) == said


def test_colour_in_a_terminal():
    """In a terminal the paces have colours, unless NO_COLOR is set."""
    words = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", sys.executable, "-c"]
    words += ["import sys; from foreword.cli.main import main; sys.exit(main(['explain']))"]
    environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    environ |= {"TERM": "xterm-256color"}
    shown = subprocess.run(words, capture_output=True, env=environ, timeout=120, check=True, stdin=subprocess.DEVNULL)
    assert b"\x1b[36m" in shown.stdout
    plain = {**environ, "NO_COLOR": "1"}
    shown = subprocess.run(words, capture_output=True, env=plain, timeout=120, check=True, stdin=subprocess.DEVNULL)
    assert b"\x1b[36m" not in shown.stdout


def test_json_adds_the_price(say, folder):
    """The JSON of explain is that of build plus a price, which is null if unknown."""
    now = ("--now", "2026-11-15T08:30")
    built, explained = say("build", "--json", *now).json, say("explain", "--json", *now).json
    price = explained.pop("price")
    assert explained == built
    assert 0 < price["warm_usd"] < price["cold_usd"]
    assert say("explain", "--json", "--model", "acme:zeta").json["price"] is None
    assert "price unknown" in say("explain", "--model", "acme:zeta").out
    write_files(folder, {"foreword.yaml": (folder / "foreword.yaml").read_text() + PRICES})
    assert say("explain", "--json", "--model", "acme:zeta").json["price"]["warm_usd"] > 0


def test_cached_slots_are_marked(say, monkeypatch):
    """Slots that the provider reads from its cache are marked, and the mark is explained."""
    assert re.search(r"^ agents .* • kept", say("explain").out, re.MULTILINE)
    assert "• the next turn reads this slot from the provider's cache" in say("explain").out
    monkeypatch.setenv("COLUMNS", "140")
    assert re.search(r"^ agents .* yes +kept", say("explain").out, re.MULTILINE)


def test_file_names_cannot_steer(say, folder):
    """Escape codes in a file name cannot control the terminal."""
    write_files(folder, {"rules/\x1b[31mred.md": "A rule.\n"})
    out = say("explain").out
    assert "\x1b" not in out
    assert "�[31mred.md" in out


def test_square_brackets_are_text(say, folder):
    """A name with square brackets is shown literally."""
    write_files(folder, {"rules/[bold]x.md": "A rule.\n"})
    assert "rules:[bold]x.md" in say("explain").out


@pytest.mark.parametrize(("value", "bar"), [(0, ""), (1, "▏"), (50, "██"), (100, "████"), (13, "▌")])
def test_bar(value, bar):
    """A bar is exact to an eighth of a cell, and visible for any value above zero."""
    assert draw_bar(value, 100, 4) == bar


def test_cell_shows_what_it_hides():
    """A cell has no control characters."""
    assert clean_cell("a\nb\x07") == "a�b�"


def test_sample(say, sample):
    """The sample workspace is explained without a warning, for the owner and for a friend in a room."""
    for words in ([], ["--user", "bob", "--room", "family", "--channel", "telegram"]):
        answer = say("-w", sample, "explain", *words)
        assert (answer.code, answer.err) == (0, "")
    assert "Reid" in say("-w", sample, "build").out


def test_a_warning_names_its_file(say, folder):
    """A warning about broken front matter names the file."""
    (folder / "USER.md").write_text("---\na: [1\n---\nAlice binds books.\n", encoding="utf-8")
    warned = say("explain").err
    assert "foreword: warning: USER.md: its front matter is not valid YAML in line 2 and was ignored\n" in warned
