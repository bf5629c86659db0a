"""The rules `oversize`, `unreadable` and `frontmatter`."""

import os
from pathlib import Path

import pytest
from lint_case import find, places

from foreword.lint.linter import lint_workspace
from foreword.testing import make_workspace

HEAD = "owner: alice\nusers: {alice: {trust: full}}\n"


@pytest.mark.parametrize(
    ("path", "limit"),
    [("SOUL.md", 12_000), ("TOOLS.md", 9_000), ("rules/a.md", 9_000), ("IDENTITY.md", 21_000), ("USER.md", 12_000)],
)
def test_limit(tmp_path: Path, path: str, limit: int) -> None:
    """A file may be as large as its tier; one token more is reported."""
    config = HEAD + "agents: {a: {model: big}}\nmodels: {big: {window: 1000000, tokenizer: o200k, factor: 1.0}}\n"
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, path: " a" * limit})
    assert [finding for finding in lint_workspace(workspace) if finding.rule == "oversize"] == []
    (tmp_path / path).write_text("a" + " a" * limit)
    findings = [finding for finding in lint_workspace(workspace) if finding.rule == "oversize"]
    assert places(findings) == [(path, 1, "warning")]
    assert f"{limit + 1:,} tokens" in findings[0].message
    assert f"gets {limit:,} at most" in findings[0].message


def test_model(tmp_path: Path) -> None:
    """A small context window makes small slots, and the finding names the agent."""
    config = HEAD + "agents: {a: {model: big}, b: {model: small}}\n"
    config += "models: {big: {window: 1000000}, small: {window: 20000}}\n"
    findings = find(tmp_path, "oversize", {"foreword.yaml": config, "SOUL.md": "word " * 3_000})
    assert "agent b gets 1,200 at most" in findings[0].message


@pytest.mark.parametrize("path", ["MEMORY.md", "memory/private/A.md", "skills/a/SKILL.md", "NOTES.md"])
def test_no_limit(tmp_path: Path, path: str) -> None:
    """Files that are listed in a menu or read on demand may be long."""
    assert find(tmp_path, "oversize", {path: "word " * 40_000}) == []


@pytest.mark.parametrize(
    ("raw", "line", "word"),
    [(b"a\n\xff", 2, "UTF-8"), (b"a\0", 1, "NUL"), (b"a" * 4_000_001, 1, "bytes")],
    ids=["latin", "nul", "large"],
)
def test_unreadable(tmp_path: Path, raw: bytes, line: int, word: str) -> None:
    """A file that is not text or too large is an error at the line of the problem."""
    (tmp_path / "SOUL.md").write_bytes(raw)
    findings = find(tmp_path, "unreadable", {})
    assert places(findings) == [("SOUL.md", line, "error")]
    assert word in findings[0].message


def test_no_file(tmp_path: Path) -> None:
    """A directory, a link out of the workspace, a broken link, a loop and a refused name are errors."""
    for folder in ("outside", "in/SOUL.md", "in/rules"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "outside" / "a.md").write_text("x")
    tmp_path /= "in"
    (tmp_path / "rules" / "out.md").symlink_to("../../outside/a.md")
    (tmp_path / "rules" / "void.md").symlink_to("nothing.md")
    (tmp_path / "TOOLS.md").symlink_to("TOOLS.md")
    (tmp_path / "rules" / "a\\b.md").write_text("x")
    findings = find(tmp_path, "unreadable", {})
    assert [finding.file for finding in findings] == [
        "SOUL.md",
        "TOOLS.md",
        "rules/a\\b.md",
        "rules/out.md",
        "rules/void.md",
    ]
    assert {str(finding.level) for finding in findings} == {"error"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_odd_name(tmp_path: Path) -> None:
    """A file name that is not valid text is printed in escaped form."""
    rules = os.path.join(os.fsencode(tmp_path), b"rules")
    os.makedirs(rules)
    with open(os.path.join(rules, b"\xff\n.md"), "wb") as file:
        file.write(b"\xff")
    for finding in find(tmp_path, "unreadable", {}):
        assert str(finding).isprintable()


@pytest.mark.parametrize(
    ("text", "line"),
    [("---\nname: x\ndescription: a: b\n---\nhi", 3), ("---\n- a\n---\nhi", 1)],
    ids=["broken", "list"],
)
def test_front_matter(tmp_path: Path, text: str, line: int) -> None:
    """Invalid front matter is a warning at the line of the problem."""
    assert places(find(tmp_path, "frontmatter", {"skills/a/SKILL.md": text})) == [
        ("skills/a/SKILL.md", line, "warning")
    ]


def test_sound_front_matter(tmp_path: Path) -> None:
    """Valid front matter, and none at all, are not reported."""
    assert (
        find(tmp_path, "frontmatter", {"SOUL.md": "---\nname: x\n---\n", "USER.md": "--- \nhi", "BOOT.md": "---\n"})
        == []
    )
