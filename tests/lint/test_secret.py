"""The rule `secret`."""

import re
from pathlib import Path

import pytest
from lint_case import find, places

# Put together here, so that no scanner takes this file for a leak.
BODY = "q8Zr5Tn2Wv7Xc1Lk4Mj6Hg3Fd9"
SECRETS = [
    f"sk-{BODY}",
    f"sk-ant-api03-{BODY}",
    f"sk-proj-{BODY}",
    f"ghp_{BODY}",
    f"github_pat_{BODY}",
    f"glpat-{BODY}",
    f"xoxb-{BODY}",
    "AKIA" + "Q8ZR5TN2WV7XC1LK",
    f"AIza{BODY}abcdefg",
    f"hf_{BODY}",
    f"sk_live_{BODY}",
    f"npm_{BODY}{BODY}",
    f"123456789:AA{BODY}x7y8z9w0"[:45],
    f"eyJ{BODY}.{BODY}.{BODY}",
    f"Authorization: Bearer {BODY}",
    "-----BEGIN " + "RSA PRIVATE KEY-----",
    "-----BEGIN " + "PRIVATE KEY-----",
    "password: hunter2-and-more",
    'api_key = "correct-horse-battery"',
    "- **Password:** Sesame!open",
    "passphrase: open-sesame",
    "postgres://alice:s3cr3t@db.example/x",
    "redis://:hunter2@localhost",
]
HARMLESS = [
    "sk-...",
    "sk-ant-...",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-<your key>",
    "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "sk-learn-compatible-estimators-are-fine",
    "ghp_your_token_here_and_nothing_else",
    "AKIAIOSFODNN7EXAMPLE",
    "Bearer of good news from the neighbourhood",
    "Authorization: Bearer ${TOKEN}",
    "Bearer <token-that-you-were-given-yesterday>",
    "password: ${DB_PASSWORD}",
    "password: <your password>",
    "password: xxxxxxxx",
    "password: changeme",
    "password: required",
    "Password: never write it down anywhere",
    "Passwords: ask Alice.",
    "api_key: OPENAI_API_KEY",
    "password: private/FINANCE.md",
    "postgres://user:password@localhost/db",
    "https://example.org:8080/path",
    "mail alice@example.org at 10:00",
    "-----BEGIN PUBLIC KEY-----",
    "the task-force-of-the-street-number-5",
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets(tmp_path: Path, text: str) -> None:
    """A secret is an error that shows at most four of its characters."""
    findings = find(tmp_path, "secret", {"memory/social/A.md": f"Be kind.\n{text}\n"})
    assert places(findings) == [("memory/social/A.md", 2, "error")]
    secret = max(re.split(r"[ :@/\"]", text), key=len)
    assert not any(secret[at : at + 5] in str(findings[0]) for at in range(len(secret) - 4))


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless(tmp_path: Path, text: str) -> None:
    """Placeholders, variables, examples and prose about passwords are not reported."""
    assert find(tmp_path, "secret", {"SOUL.md": text}) == []


@pytest.mark.parametrize(
    "path", ["SOUL.md", "users/alice/USER.md", "channels/web.md", "prompts/x.md", "groups/g/A.md", "skills/a/NOTES.md"]
)
def test_every_file(tmp_path: Path, path: str) -> None:
    """Every prompt file is linted, with its front matter and its comments."""
    text = f"---\nkey: sk-{BODY}\n---\n<!-- ghp_{BODY} -->\nBe kind."
    assert [finding.line for finding in find(tmp_path, "secret", {path: text})] == [2, 4]


def test_configuration(tmp_path: Path) -> None:
    """The configuration is linted, with its comments."""
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\n# key sk-{BODY}\n"
    assert places(find(tmp_path, "secret", {"foreword.yaml": config})) == [("foreword.yaml", 3, "error")]


@pytest.mark.parametrize(
    ("blueprint", "path"), [("osa", "os/linux.md"), ("osa", "machines/attic.md"), ("nova", "memories.json")]
)
def test_files_of_the_slots(tmp_path: Path, blueprint: str, path: str) -> None:
    """Every file that a slot of a blueprint reads is linted."""
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nagents: {{a: {{blueprint: {blueprint}}}}}\n"
    findings = find(tmp_path, "secret", {"foreword.yaml": config, path: f'["sk-ant-api03-{BODY}"]\n'})
    assert places(findings) == [(path, 1, "error")]
