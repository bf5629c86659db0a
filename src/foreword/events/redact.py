"""Redaction: a text without its secrets, by stricter rules than `lint` has for files, and no longer than it may be."""

import re

from foreword.secret import Secret, suspect_secrets

KNOWN = 64  # characters of a text that is remembered as harmless
KEPT = 4_096  # such texts
MARGIN = 6_000  # characters that are looked at beyond the cut: no secret is longer
ENDING = "-----end "
REDACTED = "[redacted]"

_LABEL = re.compile(
    r"pass(?:word|wd|phrase)s?$|(?:^|[^a-z])(?:pwd|secrets?|credentials?|authorization|cookies?|token)$"
    r"|(?:api|secret|private|access|auth)[_ -]?keys?$|(?:access|auth|bearer|refresh|bot|api)[_ -]?token$|clientsecret$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # where a word begins in camelCase

# Names of tools, models and stores come with every event; looking at each once keeps the writing cheap.
_harmless: set[str] = set()


def redact(text: str, limit: int) -> str:
    """Return a text without secrets, cut at a limit with a note."""
    if text in _harmless:
        return text
    told = _redact(text[: limit + MARGIN], limit, len(text))
    if told == text and len(text) <= KNOWN:
        if len(_harmless) >= KEPT:
            _harmless.clear()
        _harmless.add(text)
    return told


def announces_secret(label: str) -> bool:
    """Whether the name of a fact says that its value is a secret, whatever that looks like."""
    return _LABEL.search(_HUMP.sub("_", label)) is not None


def _redact(text: str, limit: int, length: int) -> str:
    """Redact the beginning of a text of a given length, and cut it.

    More is looked at than is kept, so that no half of a secret stands before the cut.
    """
    parts, place = [], 0
    for secret in sorted(suspect_secrets(text), key=lambda one: one.first):
        last = find_end(text, secret)
        if secret.first >= limit or last <= place:
            continue
        parts += [text[place : max(place, secret.first)], f"[{secret.what}, redacted]"]
        place = last
    parts.append(text[place:limit])
    told = "".join(parts).replace("\0", "\ufffd")
    if not told.isascii():
        told = told.encode("utf-8", "replace").decode()
    return told if length <= limit else f"{told}… [cut: {length - limit:,} more characters]"


def find_end(text: str, secret: Secret) -> int:
    """Find where a secret ends; a private key ends with its last line, of which only the first announces it."""
    if not text[secret.first : secret.last].startswith("-----"):
        return secret.last
    end = text.lower().find(ENDING, secret.last)
    stop = text.find("-----", end + len(ENDING)) if end >= 0 else -1
    return stop + 5 if stop >= 0 else len(text)
