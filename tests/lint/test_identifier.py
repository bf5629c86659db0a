"""The rule `id`."""

from pathlib import Path

import pytest
from lint_case import find, places

IDS = [
    "550e8400-e29b-41d4-a716-446655440000",
    "commit d66dde8a4f5b6c7d8e9f0a1b2c3d4e5f60718293",
    "507f1f77bcf86cd799439011",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "sess_8f3kd93jfk20",
    "req-0a1b2c3d4e5f",
    "session id: abc-123456",
    "Request-ID=7f3a99c2",
]
HARMLESS = [
    "d66dde8",
    "#ff8800",
    "call_the_school_early",
    "session-management and run-of-the-mill",
    "1794750000123456789012345678",
    "a" * 64,
    "session id: unknown",
    "2026",
    "https://example.org/page",
]


@pytest.mark.parametrize("text", IDS)
def test_ids(tmp_path: Path, text: str) -> None:
    """A machine-made id is a warning that shows only its first characters."""
    findings = find(tmp_path, "id", {"AGENTS.md": f"Be kind.\n{text}\n"})
    assert places(findings) == [("AGENTS.md", 2, "warning")]
    assert text not in findings[0].message


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless(tmp_path: Path, text: str) -> None:
    """Short hashes, colours, hyphenated words and plain numbers are not reported."""
    assert find(tmp_path, "id", {"AGENTS.md": text}) == []


def test_other_files(tmp_path: Path) -> None:
    """Ids are allowed in files that are not static."""
    assert find(tmp_path, "id", {"memory/private/A.md": IDS[0], "USER.md": IDS[0]}) == []
