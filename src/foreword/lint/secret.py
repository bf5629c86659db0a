"""The rule `secret`: keys, tokens and passwords in a file that a prompt could carry to a provider."""

import re
from collections.abc import Iterator

from foreword.frozen import frozen
from foreword.lint.finding import Finding, Level
from foreword.lint.page import Page
from foreword.lint.survey import Survey
from foreword.sources.injection import fold

RULE = "secret"
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
_PLACEHOLDER = re.compile(
    r"\.\.\.|…|[<>$*{}]|xxx|example|placeholder|dummy|redacted|changeme|change[_-]me|your|insert|sample|fake|n/a"
    r"|\.(?:md|ya?ml|txt|env|json)$|^env:|^(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)$"
    r"|^(?:required|optional|string|number|secret|hidden|unknown|pass(?:word|phrase|wd)?|nothing|environment)\.?$",
    re.IGNORECASE,
)


def check_secrets(survey: Survey) -> Iterator[Finding]:
    """Find secrets in every file of the workspace, without repeating them."""
    for page in survey.pages.values():
        yield from find_secrets(page)


def find_secrets(page: Page) -> Iterator[Finding]:
    """Find the secrets of one page, one for each line."""
    lines: dict[int, Finding] = {}
    for place, what in (*find_keys(page.text), *find_values(page.text)):
        line = page.line_of(place)
        finding = Finding(
            file=page.path,
            line=line,
            rule=RULE,
            level=Level.ERROR,
            message=f"{what} stands here; whatever is in a prompt has left the house",
            remedy="revoke it, delete it here, and keep its successor in the environment or in .env",
        )
        lines.setdefault(line, finding)
    yield from lines.values()


def find_keys(text: str) -> Iterator[tuple[int, str]]:
    """Find keys by their shape, each with its place and as much of it as may be told."""
    lower = fold(text)
    for shape in _KEYS:
        for match in shape.pattern.finditer(text) if any(word in lower for word in shape.words) else ():
            before = text[match.start() - 1 : match.start()]
            if is_real(shape, match.group()) and not before.isalnum() and before not in ("_", "-"):
                yield match.start(), f"{shape.what} ({match.group()[:SHOWN]}…)"


def find_values(text: str) -> Iterator[tuple[int, str]]:
    """Find secrets by what announces them; nothing of these may be told."""
    lower = fold(text)
    for shape in _VALUES:
        for match in shape.pattern.finditer(lower) if any(word in lower for word in shape.words) else ():
            if is_real(shape, text[match.start(1) : match.end(1)]):
                yield match.start(), shape.what


def is_real(shape: Shape, secret: str) -> bool:
    """Whether a secret could be one: neither a placeholder nor too plain."""
    if _PLACEHOLDER.search(secret) or len(set(secret)) < shape.variety:
        return False
    return not shape.digits or any(sign.isdigit() for sign in secret)
