"""Detect keys, tokens and passwords in text, for lint, and redact them for the log.

Lower-case a text for matching without changing character positions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from foreword.types import frozen


def lower_in_place(text: str) -> str:
    """Return a text in lower case with every character at its original position."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)


MAX_SHOWN_CHARS = 4  # the maximum characters of a key that may be shown; they only identify its kind


@frozen(eq=True)
class SecretPattern:
    """The pattern of one kind of secret; a text without one of its words, in lower case, has no match."""

    what: str
    words: tuple[str, ...]
    pattern: str
    variety: int = 8
    """The minimum number of different characters; a text with fewer is an example."""
    digits: bool = True
    """Whether it needs a digit, as generated keys have."""


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern on first use: few texts need any, and compiling all of them delays every start."""
    return re.compile(pattern)


_PREFIXED = (
    ("an Anthropic key", r"sk-ant-[\w-]{16,200}", "sk-ant-"),
    ("an OpenAI key", r"sk-[\w-]{20,200}", "sk-"),
    ("a payment key", r"[sr]k_(?:live|test)_\w{16,200}", "k_live_", "k_test_"),
    ("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{20,200}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    ("a GitHub token", r"github_pat_\w{20,200}", "github_pat_"),
    ("a GitLab token", r"glpat-[\w-]{16,200}", "glpat-"),
    ("a Slack token", r"xox[abeoprs]-[\w-]{10,200}", "xox"),
    ("an AWS key", r"A[KS]IA[A-Z0-9]{16}(?!\w)", "akia", "asia"),
    ("a Google key", r"AIza[\w-]{30,100}", "aiza"),
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{20,200}", "hf_"),
    ("an npm token", r"npm_[A-Za-z0-9]{30,100}", "npm_"),
    ("a Foreword token", r"fwd_[\w-]{43}(?![\w-])", "fwd_"),
    ("a Telegram bot token", r"\d{8,10}:A[\w-]{33,35}(?![\w-])", ":a"),
    ("a signed token", r"eyJ[\w-]{10,400}\.[\w-]{10,4000}\.[\w-]{6,1000}", "eyj"),
)
_KEYS = tuple(SecretPattern(what=what, words=tuple(words), pattern=pattern) for what, pattern, *words in _PREFIXED)
# Secrets that are recognised by the text before them, in lower case; the first group is the secret.
_VALUES = (
    SecretPattern(
        what="a private key",
        words=("private key-----",),
        pattern=r"(-----begin (?:[a-z0-9]{1,12} ){0,3}private key-----)",
        digits=False,
    ),
    SecretPattern(what="a bearer token", words=("bearer",), pattern=r"bearer\s{1,4}([\w.~+/=-]{20,4000})"),
    SecretPattern(
        what="an address with a password",
        words=("://",),
        pattern=r"://[^\s:/@<>\"'`]{0,80}:([^\s:/@]{3,200})@[\w\[]",
        variety=3,
        digits=False,
    ),
    SecretPattern(
        what="a password or key in plain text",
        words=("password", "passwd", "passphrase", "pwd", "key", "client", "token"),
        # One word up to the end of its line or quotes; a sentence after the colon only mentions passwords.
        pattern=(
            r"(?m)(?:pass(?:word|wd|phrase)|pwd|(?:api|secret)[_ -]?key|client[_ -]?secret|(?:access|auth)[_ -]?token)"
            r"[\"'`* \t]{0,6}[:=][\"'`* \t]{0,6}"
            r"([^\s\"'`,;|(){}\[\]]{6,200})(?=[\"'`]|[ \t]{0,8}(?:$|[,;|}\]]|#))"
        ),
        variety=4,
        digits=False,
    ),
)
# Possible secrets for redaction in a log: a false positive costs a word there, a false negative a password.
_LABEL = r"(?:pass(?:word|wd|phrase)|pwd|secret|token|credentials?|(?:api|access|secret|private|auth)[_ -]?key)"
_SUSPECTS = (
    SecretPattern(what="a Telegram bot token", words=("bot",), pattern=r"bot(\d{6,12}:[\w-]{20,100})"),
    SecretPattern(
        what="a credential",
        words=("authorization",),
        pattern=r"authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:[a-z]{3,12}\s{1,4})?([^\s\"',;]{6,4000})",
    ),
    SecretPattern(what="a bearer token", words=("bearer",), pattern=r"bearer\s{1,4}([\w.~+/=-]{8,4000})"),
    SecretPattern(
        what="an address with a password", words=("://",), pattern=r"://[^\s:/@<>\"'`]{0,80}:([^\s/@]{1,200})@"
    ),
    SecretPattern(
        what="a password or key in plain text",
        words=("pass", "pwd", "key", "secret", "token", "credential"),
        # After an equals sign, or as an option of a command: up to the end of the word or its quotes.
        pattern=(
            rf"(?:{_LABEL}[\"'`]?\s{{0,4}}=\s{{0,4}}|--?(?:[a-z]{{1,20}}[_-]){{0,3}}{_LABEL}\s{{1,4}}(?=[^\s-]))"
            r"[\"'`]?((?<=\")[^\"\n]{1,400}|(?<=')[^'\n]{1,400}|[^\s\"'`&;,|<>)}\]]{1,4000})"
        ),
    ),
    SecretPattern(
        what="a password or key in plain text",
        words=("pass", "pwd", "key", "secret", "token", "credential"),
        # After a colon: in quotes, or one word with a digit; other words only mention passwords.
        pattern=(
            rf"{_LABEL}[\"'`]?\s{{0,4}}:\s{{0,4}}[\"'`]?"
            r"((?<=\")[^\"\n]{1,400}|(?<=')[^'\n]{1,400}|(?=[^\s\d]{0,80}\d)[^\s\"'`&;,|<>)}\]]{4,4000})"
        ),
    ),
)
_WORDS = tuple(word for shape in (*_KEYS, *_VALUES) for word in shape.words)
_SUSPICIOUS = tuple(dict.fromkeys((*_WORDS, *(word for shape in _SUSPECTS for word in shape.words))))
_PLACEHOLDER = re.compile(
    r"\.\.\.|…|[<>$*{}]|xxx|example|placeholder|dummy|redacted|changeme|change[_-]me|your|insert|sample|fake|n/a"
    r"|\.(?:md|ya?ml|txt|env|json)$|^env:|^(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)$"
    r"|^(?:required|optional|string|number|secret|hidden|unknown|pass(?:word|phrase|wd)?|nothing|environment)\.?$",
    re.IGNORECASE,
)


@frozen(eq=True)
class Secret:
    """A secret in a text: its position, and a description that may be shown."""

    start: int
    """The start of the secret or of the text that announces it."""
    first: int
    """The first character of the secret itself."""
    last: int
    """The position after its last character."""
    what: str


def find_secrets(text: str) -> Iterator[Secret]:
    """Find every secret of a text, first those with a known prefix."""
    lower = lower_in_place(text)
    if has_word(lower, _WORDS):
        yield from find_keys(text, lower)
        yield from find_announced_values(text, lower)


def find_possible_secrets(text: str) -> Iterator[Secret]:
    """Find every secret and possible secret of a text, placeholders included, for redaction."""
    lower = lower_in_place(text)
    if has_word(lower, _SUSPICIOUS):
        yield from find_keys(text, lower)
        yield from find_announced_values(text, lower, (*_VALUES, *_SUSPECTS))


def has_word(lower: str, words: Iterable[str]) -> bool:
    """Return whether a text has one of some words. Almost every scan ends here, so this is a plain loop."""
    for word in words:  # noqa: SIM110 - `any` with a generator is slower
        if word in lower:
            return True
    return False


def find_keys(text: str, lower: str) -> Iterator[Secret]:
    """Find keys by their prefix; the description shows a few characters."""
    for shape in _KEYS:
        for match in compile_pattern(shape.pattern).finditer(text) if has_word(lower, shape.words) else ():
            before = text[match.start() - 1 : match.start()]
            if is_plausible(shape, match.group()) and not before.isalnum() and before not in ("_", "-"):
                what = f"{shape.what} ({match.group()[:MAX_SHOWN_CHARS]}…)"
                yield Secret(start=match.start(), first=match.start(), last=match.end(), what=what)


def find_announced_values(text: str, lower: str, shapes: Sequence[SecretPattern] = _VALUES) -> Iterator[Secret]:
    """Find secrets by the text before them; the description shows no character of these."""
    for shape in shapes:
        for match in compile_pattern(shape.pattern).finditer(lower) if has_word(lower, shape.words) else ():
            if shape in _SUSPECTS or is_plausible(shape, text[match.start(1) : match.end(1)]):
                yield Secret(start=match.start(), first=match.start(1), last=match.end(1), what=shape.what)


def is_plausible(shape: SecretPattern, secret: str) -> bool:
    """Return whether a match is plausible: neither a placeholder nor too uniform."""
    if _PLACEHOLDER.search(secret) or len(set(secret)) < shape.variety:
        return False
    return not shape.digits or any(sign.isdigit() for sign in secret)


MAX_CACHED_CHARS = 64  # maximum characters of a text in the cache of harmless texts
MAX_CACHED_TEXTS = 4_096  # maximum size of that cache
SCAN_MARGIN_CHARS = 6_000  # characters to scan beyond the cut; no secret is longer
PRIVATE_KEY_END = "-----end "
REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)s?$|(?:^|[^a-z])(?:pwd|secrets?|credentials?|authorization|cookies?|token)$"
    r"|(?:api|secret|private|access|auth)[_ -]?keys?$|(?:access|auth|bearer|refresh|bot|api)[_ -]?token$|clientsecret$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # word boundaries in camelCase

# Names of tools, models and stores occur in every event, so each is scanned only once.
_harmless: set[str] = set()


def is_secret_label(label: str) -> bool:
    """Return whether the name of a value indicates a secret."""
    return _SECRET_NAME.search(_HUMP.sub("_", label)) is not None


def redact(text: str, limit: int) -> str:
    """Return a text without secrets, cut at a limit with a note.

    The scan extends beyond the cut, so that no partial secret remains before it.
    """
    if text in _harmless:
        return text
    scanned, parts, place = text[: limit + SCAN_MARGIN_CHARS], [], 0
    for secret in sorted(find_possible_secrets(scanned), key=lambda secret: secret.first):
        last = find_secret_end(scanned, secret)
        if secret.first < limit and last > place:
            parts += [scanned[place : max(place, secret.first)], f"[{secret.what}, redacted]"]
            place = last
    redacted = "".join([*parts, scanned[place:limit]]).replace("\0", "\ufffd")
    if not redacted.isascii():
        redacted = redacted.encode("utf-8", "replace").decode()
    if len(text) > limit:
        return f"{redacted}… [cut: {len(text) - limit:,} more characters]"
    if redacted == text and len(text) <= MAX_CACHED_CHARS:
        if len(_harmless) >= MAX_CACHED_TEXTS:
            _harmless.clear()
        _harmless.add(text)
    return redacted


def find_secret_end(text: str, secret: Secret) -> int:
    """Return the end of a secret. A private key extends to its END line."""
    if not text[secret.first : secret.last].startswith("-----"):
        return secret.last
    end = text.lower().find(PRIVATE_KEY_END, secret.last)
    stop = text.find("-----", end + len(PRIVATE_KEY_END)) if end >= 0 else -1
    return stop + 5 if stop >= 0 else len(text)
