"""`foreword lint`: the output format and the exit codes."""

from foreword.testing import write_files


def test_clean(say):
    """A workspace without findings is reported as clean, with exit code 0."""
    answer = say("lint")
    assert (answer.code, answer.err) == (0, "")


def test_error(say, folder, monkeypatch):
    """A finding has file, line, level, rule, message and remedy, with a path relative to the current folder."""
    write_files(
        folder, {"SOUL.md": "Calm.\n\nToday is 15 November 2026, 12:30.\nkey: sk-ant-api03-" + "a1B2" * 24 + "\n"}
    )
    monkeypatch.chdir(folder.parent)
    answer = say("-w", "ws", "lint")
    assert answer.code == 1
    assert any(line.startswith("ws/SOUL.md:4: error ") for line in answer.out.splitlines())
    assert answer.out.splitlines()[-1].split()[1].startswith("error")


def test_json(say, folder):
    """The JSON has the same findings, and their number by level."""
    write_files(folder, {"SOUL.md": "key: sk-ant-api03-" + "a1B2" * 24 + "\n"})
    answer = say("lint", "--json")
    assert answer.code == 1
    assert set(answer.json["findings"][0]) == {"file", "line", "rule", "level", "message", "remedy"}
    assert answer.json["errors"] + answer.json["warnings"] == len(answer.json["findings"])
    assert answer.json["findings"][0]["file"] == "SOUL.md"
