"""Secrets: what keys, tokens and passwords look like, so that they are found in files and kept out of the log."""

import re
from collections.abc import Iterator

from foreword.fold import fold
from foreword.frozen import frozen

SHOWN = 4  # characters of a key that may be told; they name its kind and nothing else


@frozen(eq=True)
class Shape:
    """What one kind of secret looks like; texts without one of its words, in lower case, hold none."""

    what: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    variety: int = 8
    """A secret has at least so many different characters; fewer make an example."""
    digits: bool = True
    """Whether it has at least one digit, as keys that are made by machines do."""


def key(what: str, pattern: str, *words: str) -> Shape:
    """Make the shape of a key that is known by how it begins."""
    return Shape(what=what, words=words, pattern=re.compile(pattern))


_KEYS = (
    key("an Anthropic key", r"sk-ant-[\w-]{16,200}", "sk-ant-"),
    key("an OpenAI key", r"sk-[\w-]{20,200}", "sk-"),
    key("a payment key", r"[sr]k_(?:live|test)_\w{16,200}", "k_live_", "k_test_"),
    key("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{20,200}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    key("a GitHub token", r"github_pat_\w{20,200}", "github_pat_"),
    key("a GitLab token", r"glpat-[\w-]{16,200}", "glpat-"),
    key("a Slack token", r"xox[abeoprs]-[\w-]{10,200}", "xox"),
    key("an AWS key", r"A[KS]IA[A-Z0-9]{16}(?!\w)", "akia", "asia"),
    key("a Google key", r"AIza[\w-]{30,100}", "aiza"),
    key("a Hugging Face token", r"hf_[A-Za-z0-9]{20,200}", "hf_"),
    key("an npm token", r"npm_[A-Za-z0-9]{30,100}", "npm_"),
    key("a Foreword token", r"fwd_[\w-]{43}(?![\w-])", "fwd_"),
    key("a Telegram bot token", r"\d{8,10}:A[\w-]{33,35}(?![\w-])", ":a"),
    key("a signed token", r"eyJ[\w-]{10,400}\.[\w-]{10,4000}\.[\w-]{6,1000}", "eyj"),
)
# Known by what stands before them, in lower case; the first group is the secret.
_VALUES = (
    Shape(
        what="a private key",
        words=("private key-----",),
        pattern=re.compile(r"(-----begin (?:[a-z0-9]{1,12} ){0,3}private key-----)"),
        digits=False,
    ),
    Shape(what="a bearer token", words=("bearer",), pattern=re.compile(r"bearer\s{1,4}([\w.~+/=-]{20,4000})")),
    Shape(
        what="an address with a password",
        words=("://",),
        pattern=re.compile(r"://[^\s:/@<>\"'`]{0,80}:([^\s:/@]{3,200})@[\w\[]"),
        variety=3,
        digits=False,
    ),
    Shape(
        what="a password or key in plain text",
        words=("password", "passwd", "passphrase", "pwd", "key", "client", "token"),
        # One word up to the end of its line or quotes; a sentence after the colon is talk about passwords.
        pattern=re.compile(
            r"(?m)(?:pass(?:word|wd|phrase)|pwd|(?:api|secret)[_ -]?key|client[_ -]?secret|(?:access|auth)[_ -]?token)"
            r"[\"'`* \t]{0,6}[:=][\"'`* \t]{0,6}"
            r"([^\s\"'`,;|(){}\[\]]{6,200})(?=[\"'`]|[ \t]{0,8}(?:$|[,;|}\]]|#))"
        ),
        variety=4,
        digits=False,
    ),
)
# What a log must not tell though it may be none: a wrong guess costs a word there, and a right one a password.
_LABEL = r"(?:pass(?:word|wd|phrase)|pwd|secret|token|credentials?|(?:api|access|secret|private|auth)[_ -]?key)"
_SUSPECTS = (
    Shape(
        what="a Telegram bot token",
        words=("bot",),
        pattern=re.compile(r"bot(\d{6,12}:[\w-]{20,100})"),
    ),
    Shape(
        what="a credential",
        words=("authorization",),
        pattern=re.compile(r"authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:[a-z]{3,12}\s{1,4})?([^\s\"',;]{6,4000})"),
    ),
    Shape(what="a bearer token", words=("bearer",), pattern=re.compile(r"bearer\s{1,4}([\w.~+/=-]{8,4000})")),
    Shape(
        what="an address with a password",
        words=("://",),
        pattern=re.compile(r"://[^\s:/@<>\"'`]{0,80}:([^\s/@]{1,200})@"),
    ),
    Shape(
        what="a password or key in plain text",
        words=("pass", "pwd", "key", "secret", "token", "credential"),
        # After an equals sign, or as an option of a command: up to the end of the word, or of its quotes.
        pattern=re.compile(
            rf"(?:{_LABEL}[\"'`]?\s{{0,4}}=\s{{0,4}}|--?(?:[a-z]{{1,20}}[_-]){{0,3}}{_LABEL}\s{{1,4}}(?=[^\s-]))"
            r"[\"'`]?((?<=\")[^\"\n]{1,400}|(?<=')[^'\n]{1,400}|[^\s\"'`&;,|<>)}\]]{1,4000})"
        ),
    ),
    Shape(
        what="a password or key in plain text",
        words=("pass", "pwd", "key", "secret", "token", "credential"),
        # After a colon: in quotes, or one word with a digit; other words are talk about passwords.
        pattern=re.compile(
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
    """A secret in a text: where it stands, and what it is in words that may be told."""

    start: int
    """Where it begins, or what announces it."""
    first: int
    """The first character of the secret itself."""
    last: int
    """The character after it."""
    what: str


def find_secrets(text: str) -> Iterator[Secret]:
    """Find every secret of a text, those with a shape of their own first."""
    lower = fold(text)
    for word in _WORDS:
        if word in lower:
            break
    else:  # almost every text, so it must be quick
        return
    yield from find_keys(text, lower)
    yield from find_values(text, lower)


def suspect_secrets(text: str) -> Iterator[Secret]:
    """Find every secret of a text and whatever may be one, placeholders among them, for those who must tell none."""
    lower = fold(text)
    for word in _SUSPICIOUS:
        if word in lower:
            break
    else:
        return
    yield from find_keys(text, lower)
    yield from find_values(text, lower)
    for shape in _SUSPECTS:
        for match in shape.pattern.finditer(lower) if any(word in lower for word in shape.words) else ():
            yield Secret(start=match.start(), first=match.start(1), last=match.end(1), what=shape.what)


def find_keys(text: str, lower: str) -> Iterator[Secret]:
    """Find keys by their shape, each with as much of it as may be told."""
    for shape in _KEYS:
        for match in shape.pattern.finditer(text) if any(word in lower for word in shape.words) else ():
            before = text[match.start() - 1 : match.start()]
            if is_real(shape, match.group()) and not before.isalnum() and before not in ("_", "-"):
                what = f"{shape.what} ({match.group()[:SHOWN]}…)"
                yield Secret(start=match.start(), first=match.start(), last=match.end(), what=what)


def find_values(text: str, lower: str) -> Iterator[Secret]:
    """Find secrets by what announces them; nothing of these may be told."""
    for shape in _VALUES:
        for match in shape.pattern.finditer(lower) if any(word in lower for word in shape.words) else ():
            if is_real(shape, text[match.start(1) : match.end(1)]):
                yield Secret(start=match.start(), first=match.start(1), last=match.end(1), what=shape.what)


def is_real(shape: Shape, secret: str) -> bool:
    """Whether a secret could be one: neither a placeholder nor too plain."""
    if _PLACEHOLDER.search(secret) or len(set(secret)) < shape.variety:
        return False
    return not shape.digits or any(sign.isdigit() for sign in secret)
