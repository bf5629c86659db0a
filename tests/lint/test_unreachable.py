"""The rule `unreachable`."""

from pathlib import Path

import pytest
from lint_case import find, places

HEAD = "owner: alice\nusers:\n  alice: {trust: full}\n  bob: {trust: familiar}\n"


def lint(folder: Path, config: str, files: dict[str, str] | None = None) -> list[tuple[str, int, str]]:
    """Return the place and the message of each finding."""
    findings = find(folder, "unreachable", {"foreword.yaml": config, **(files or {})})
    assert {str(finding.level) for finding in findings} <= {"warning"}
    return [(finding.file, finding.line, finding.message) for finding in findings]


def test_sound(tmp_path: Path) -> None:
    """If the owner has full trust, everything is reachable."""
    files = dict.fromkeys(
        ("BOOT.md", "HEARTBEAT.md", "MEMORY.md", "USER.md", "users/alice/USER.md", "groups/x/A.md"), "hi"
    )
    assert lint(tmp_path, HEAD, {**files, "memory/private/A.md": "hi", "agents/assistant/SOUL.md": "hi"}) == []


def test_slot(tmp_path: Path) -> None:
    """A slot that needs more trust than any user has is reported with the required and the highest clearance."""
    config = "owner: alice\nusers: {alice: {trust: inner}}\nagents:\n  a: {blueprint: default}\n"
    [(file, line, message)] = lint(tmp_path, config, {"BOOT.md": "hi", "HEARTBEAT.md": "hi"})
    assert (file, line) == ("foreword.yaml", 4)
    assert "can use boot, heartbeat: it needs full, and the highest clearance is inner" in message


def test_ceiling(tmp_path: Path) -> None:
    """Ceilings count: an owner who is only in groups reaches no more than a group allows."""
    config = HEAD + "situations: {dm: {ceiling: familiar}, system: {ceiling: familiar}}\n"
    messages = [message for _, _, message in lint(tmp_path, config, {"BOOT.md": "hi"})]
    assert len(messages) == 2
    assert all("the highest clearance is familiar" in message for message in messages)
    assert "can use boot: it needs full" in messages[0]


def test_missing_file_is_missed_by_nobody(tmp_path: Path) -> None:
    """A slot whose file does not exist is not reported."""
    assert lint(tmp_path, "owner: alice\nusers: {alice: {trust: inner}}\n") == []


def test_situation(tmp_path: Path) -> None:
    """A slot for an unknown situation is reported with the nearest name."""
    slot = "{id: x, source: file, file: X.md, pace: session, trust: public, situations: [grup]}"
    blueprint = f"name: own\nmarker: x\nmarker_without_call: x\nslots:\n  - {slot}\n"
    files = {"blueprints/own.yaml": blueprint, "X.md": "hi"}
    [(file, line, message)] = lint(tmp_path, HEAD + "agents:\n  a:\n    blueprint: own\n", files)
    assert (file, line) == ("foreword.yaml", 7)
    assert "there is no situation grup; did you mean 'group'?" in message


def test_listed_trust(tmp_path: Path) -> None:
    """A listed file that no user may see is reported at its line."""
    listed = "prompt:\n  files:\n    - {path: A.md, trust: inner}\n    - {path: B.md}\n"
    config = f"owner: alice\nusers: {{alice: {{trust: inner}}}}\n{listed}"
    [(file, line, message)] = lint(tmp_path, config, {"A.md": "hi", "B.md": "hi"})
    assert (file, line) == ("foreword.yaml", 6)
    assert message.startswith("no turn can use B.md: it needs full")


def test_listed_nowhere(tmp_path: Path) -> None:
    """A listed file that does not exist is reported, unless an agent or a user has it."""
    per_user = "{path: C.md, per_user: true, trust: inner}"
    config = f"{HEAD}prompt:\n  files:\n    - {{path: A.md}}\n    - {{path: B.md}}\n    - {per_user}\n"
    found = lint(tmp_path, config, {"agents/assistant/A.md": "hi", "users/alice/C.md": "hi"})
    assert found == [("foreword.yaml", 8, "B.md is listed but does not exist")]


def test_own_file(tmp_path: Path) -> None:
    """The file of a user below its trust is reported, until the configuration lowers the trust."""
    files = {"users/bob/USER.md": "hi", "users/alice/USER.md": "hi"}
    [(file, line, message)] = lint(tmp_path, HEAD, files)
    assert (file, line) == ("users/bob/USER.md", 1)
    assert "bob is familiar" in message
    assert lint(tmp_path, HEAD + "prompt: {files: [{path: USER.md, per_user: true, trust: familiar}]}\n", files) == []


def test_overlay(tmp_path: Path) -> None:
    """A missing overlay is reported at its line of the configuration."""
    config = HEAD + "situations:\n  group:\n    prompt_overlay: prompts/a.md\n  dm: {prompt_overlay: prompts/b.md}\n"
    found = lint(tmp_path, config, {"prompts/b.md": "hi"})
    assert found == [("foreword.yaml", 7, "the overlay prompts/a.md of situation group does not exist")]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("users/alcie/USER.md", "belongs to no user, so its files are never read; did you mean 'alice'?"),
        ("agents/asistant/SOUL.md", "belongs to no agent, so its files are never read; did you mean 'assistant'?"),
        ("memory/secret/A.md", "belongs to no store"),
        ("memory/A.md", "memory/A.md is not in a store"),
    ],
)
def test_folder(tmp_path: Path, path: str, words: str) -> None:
    """A folder of an unknown user, agent or store is reported at its first file, with the nearest name."""
    [(file, line, message)] = lint(tmp_path, HEAD, {path: "hi"})
    assert (file, line) == (path, 1)
    assert words in message


def test_store(tmp_path: Path) -> None:
    """A store with files that no user may see is reported."""
    config = "owner: alice\nusers: {alice: {trust: inner}}\nstores:\n  social: {trust: public}\n"
    [(file, line, message)] = lint(tmp_path, config, {"memory/private/A.md": "hi", "memory/shared/A.md": "hi"})
    assert (file, line) == ("foreword.yaml", 3)
    assert message.startswith("no turn can use memory/private: it needs full")


def test_rooms(tmp_path: Path) -> None:
    """A slot that only rooms have is reachable through a room."""
    config = HEAD + "rooms: {den: {situation: dm}}\n"
    assert places(find(tmp_path, "unreachable", {"foreword.yaml": config, "groups/den/A.md": "hi"})) == []
