"""Redaction: no secret is written to the log."""

import json
from datetime import UTC, datetime

import pytest

from foreword.events.event import Event, EventType
from foreword.events.record import make_row
from foreword.secret import redact

# Built from parts, so that no scanner takes this file for a leak.
BODY = "q8Zr5Tn2Wv7Xc1Lk4Mj6Hg3Fd9"
SECRETS = [
    f"sk-ant-api03-{BODY}",
    f"sk-proj-{BODY}",
    f"ghp_{BODY}",
    f"xoxb-{BODY}",
    "AKIA" + "Q8ZR5TN2WV7XC1LK",
    f"AIza{BODY}abcdefg",
    f"eyJ{BODY}.{BODY}.{BODY}",
]
HUMPS = ["clientSecret", "dbPassword", "openaiApiKey", "OpenAIAPIKey", "token", "TELEGRAM_TOKEN", "x-api-key"]
PEM = "-----BEGIN " + f"RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----"


def write(**more) -> str:
    """Write an event; return its whole row."""
    return json.dumps(make_row(Event(type=EventType.TOOL_ERROR, time=datetime.now(UTC), **more)).values)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "place",
    [
        lambda secret: {"error": f"401 from https://api.example/v1 with {secret}, rejected"},
        lambda secret: {"facts": {"command": f"curl -H 'x: {secret}'"}},
        lambda secret: {"facts": {"steps": [{"arguments": [1, secret]}]}},
        lambda secret: {"facts": {secret: 1}},
        lambda secret: {"model": secret},
    ],
)
def test_everywhere(secret, place):
    """A key in an error, a fact, a fact's name or a nested value is replaced by a placeholder."""
    row = write(**place(secret))
    assert secret[5:] not in row
    assert "redacted]" in row


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"Authorization: Bearer {BODY}", BODY),
        ("postgres://alice:s3cr3t@db.example/x", "s3cr3t"),
        ("password: hunter2-and-more", "hunter2"),
        ('{"api_key": "correct-horse-battery"}', "correct"),
        (f"Connecting: https://api.telegram.org/bot123456789:AA{BODY}/sendMessage", BODY),
        ("no connection: host=db password=Tr0ub4dor3x user=reid dbname=x", "Tr0ub"),
        ("no connection: Server=db;Pwd=your$ecret;Database=x", "ecret"),
        ("mysql --password=Tr0ub4dor3x -u root", "Tr0ub"),
        ("psql --db-password Tr0ub4dor3x -u root", "Tr0ub"),
        ("GET https://x.io/v1?api_key=9f8e7d6c5b4a3210&q=1 returned 401", "9f8e"),
        ("Authorization: Basic YWxpY2U6aHVudGVyMjIy", "YWxp"),
        ('{"clientSecret": "correct horse"}', "correct"),
        ("TELEGRAM_TOKEN=correct-horse", "correct"),
        ("dbPassword='correct horse'", "correct"),
    ],
)
def test_announced(text, hidden):
    """A labelled secret in a text is removed and the text around it stays."""
    shown = redact(text, 1_000)
    assert hidden not in shown
    assert shown[:8] == text[:8]


@pytest.mark.parametrize(
    "label", ["password", "db_password", "API-Key", "client_secret", "Authorization", "botToken", *HUMPS]
)
def test_labelled(label):
    """A fact whose name denotes a secret is redacted, whatever its value and depth."""
    for value in ("plain words", 1234, ["plain words", 1234]):
        row = write(facts={"call": {label: value}})
        assert "plain" not in row
        assert "1234" not in row


@pytest.mark.parametrize("label", ["tokens", "tokens_in", "keys", "author", "passed", "key", "secretary", "max_tokens"])
def test_harmless_labels(label):
    """Token counts and similar facts are not redacted."""
    assert "1234" in write(facts={label: 1234})


def test_private_key():
    """A private key is redacted completely, even if it is truncated."""
    for text in (f"before {PEM} after", f"before {PEM}"[:90]):
        shown = redact(text, 4_000)
        assert BODY[:8] not in shown
        assert shown.startswith("before [a private key")
    assert redact(f"before {PEM} after", 4_000).endswith(" after")


def test_at_the_cut():
    """A secret at the truncation point is redacted completely."""
    for place in range(60, 110):
        shown = redact("x" * place + " " + SECRETS[0] + " " + "y" * 500, 100)
        assert SECRETS[0][6:12] not in shown
    long = f"eyJ{BODY}.{BODY * 50}.{BODY}"
    assert BODY not in redact("x" * 90 + " " + long, 100)


def test_harmless_is_kept():
    """Texts without secrets stay unchanged, on the first and on the second pass."""
    for text in ("bash", "ls -la", "Tokens used: 4200", "é" * 50, "max_tokens=1024", "the password: say it"):
        assert redact(text, 100) == text
        assert redact(text, 100) == text
