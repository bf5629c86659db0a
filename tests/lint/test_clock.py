"""The rule `clock`."""

from pathlib import Path

import pytest
from lint_case import find, places

LIVE = [
    "{{date}}",
    "{{ now }}",
    "{{now()}}",
    "{{ now | date }}",
    '{% now "Y" %}',
    "Now: $(date)",
    "Today is Monday.",
    "today is\n15 November",
    "Today's date: 2026-11-15",
    "The current date and time is 14:03",
    "Current year: 2026",
    "It is now 14:03.",
]
STILL = [
    "since 2026-11-15",
    "2026-11-15T14:03:22Z",
    "15/11/2026",
    "2026/11/15",
    "15.11.2026",
    "15 November 2026",
    "the 15th of\nNovember, 2026",
    "Nov 15, 2026",
    "as of November 2026",
    "at 14:03:22",
    "Sunday, 14:03",
    "timestamp: 1794750000",
    "updated_at=1794750000123",
]
HARMLESS = [
    "version 1.2.3 and 10.0.19045",
    "API version: 2023-06-01",
    "claude-3-5-sonnet-20241022 or gpt-4o-2024-08-06",
    "port 8080, 127.0.0.1:8080",
    "open 24/7",
    "$19.99 or 1,850 euros",
    "+49 170 1234567, 1800123456 or 555-0123",
    "1/2 or 3/4",
    "quiet hours 22:00–07:00",
    "every Monday at 10:00, Tuesday 17:15–18:00",
    "Carol's birthday is on 14 March",
    "If today is Monday, the bins go out.",
    "today is a gift",
    "Run `date` or `echo $(date +%F)`.",
    "```\ntar czf $(date +%F).tgz\n```",
    "{{ timezone }} and {{ name }}",
    "Say the weekday with the date.",
    "00:1A:2B:3C:4D:5E",
    "the current date is in the message",
    "in 2024 we moved",
]


@pytest.mark.parametrize("text", LIVE)
def test_live(tmp_path: Path, text: str) -> None:
    """A clock variable, or a sentence with the current time, is an error in a static file."""
    assert places(find(tmp_path, "clock", {"SOUL.md": f"Be kind.\n\n{text}\n"})) == [("SOUL.md", 3, "error")]


@pytest.mark.parametrize("text", STILL)
def test_still(tmp_path: Path, text: str) -> None:
    """A fixed date is a warning in a static file."""
    assert places(find(tmp_path, "clock", {"SOUL.md": f"Be kind.\n\n{text}\n"})) == [("SOUL.md", 3, "warning")]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless(tmp_path: Path, text: str) -> None:
    """Versions, ports, prices, fractions, phone numbers, timetables and birthdays are not reported."""
    assert find(tmp_path, "clock", {"SOUL.md": text}) == []


@pytest.mark.parametrize(
    "path", ["SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "SYSTEM.md", "rules/a/b.md", "agents/assistant/SOUL.md"]
)
def test_static_files(tmp_path: Path, path: str) -> None:
    """Every file of a static slot is linted."""
    assert places(find(tmp_path, "clock", {path: "on 2026-11-15"})) == [(path, 1, "warning")]


@pytest.mark.parametrize("path", ["USER.md", "MEMORY.md", "HEARTBEAT.md", "memory/private/A.md", "channels/web.md"])
def test_other_files(tmp_path: Path, path: str) -> None:
    """Files of other slots, and files that are read on demand, may contain dates."""
    assert find(tmp_path, "clock", {path: "on 2026-11-15"}) == []


def test_blueprint_decides(tmp_path: Path) -> None:
    """The blueprint decides which files are static: TOOLS.md is static in `default` and not in `coop`."""
    config = "owner: alice\nusers: {alice: {trust: full}}\nagents: {a: {blueprint: coop}}\n"
    files = {"foreword.yaml": config, "TOOLS.md": "on 2026-11-15", "SOUL.md": "on 2026-11-15"}
    assert places(find(tmp_path, "clock", files)) == [("SOUL.md", 1, "warning")]


def test_what_is_sent(tmp_path: Path) -> None:
    """Only text that is sent counts: fields of an identity or a skill, and bodies without leading comments."""
    files = {
        "SOUL.md": "---\nupdated: 2026-11-15\n---\n<!-- 2026-11-15 -->\nBe kind.",
        "IDENTITY.md": "---\nborn: 2026-11-15\ndescription: >\n  made on\n  2026-11-15\n---\n",
        "skills/a/SKILL.md": "---\nname: a\nupdated: 2026-11-15\ndescription: as of 2026\n---\n2026-11-15",
    }
    findings = find(tmp_path, "clock", files)
    assert places(findings) == [("IDENTITY.md", 5, "warning"), ("skills/a/SKILL.md", 4, "warning")]


def test_lines_of_the_file(tmp_path: Path) -> None:
    """The line number is that of the file on disk, for any line breaks and with stripped comments."""
    text = "---\r\nname: x\r\n---\r\n<!-- a\r\nb -->\r\n\r\nBe kind.\x0b\x85 Really.\r\nToday is Monday.\r\n"
    (tmp_path / "SOUL.md").write_bytes(text.encode())
    assert places(find(tmp_path, "clock", {})) == [("SOUL.md", 8, "error")]


def test_one_for_each_line(tmp_path: Path) -> None:
    """A line with several time expressions has one finding, the most severe one."""
    text = "Today is Sunday, 15 November 2026, 14:03:22."
    assert places(find(tmp_path, "clock", {"SOUL.md": text})) == [("SOUL.md", 1, "error")]
