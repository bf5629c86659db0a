"""The rule `id`: names of one session, one request or one run, in text that should hold for all of them."""

import re
from collections.abc import Iterator

from foreword.fold import fold
from foreword.lint.finding import Finding, Level
from foreword.lint.passages import find_static
from foreword.lint.survey import Survey

RULE = "id"

_KINDS = r"session|sess|request|req|trace|span|thread|conversation|conv|message|msg|run|job|call|response|resp"
_SHAPES = (
    ("a UUID", re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-])")),
    ("a long hexadecimal id", re.compile(r"(?:0x)?[0-9a-f]{24,}+(?!\w)")),
    ("a sortable id", re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}(?!\w)")),
    ("the id of a run", re.compile(rf"(?:{_KINDS}|chatcmpl|toolu|asst)[_-][a-z0-9]{{10,80}}(?!\w)")),
    (
        "the id of a run",
        re.compile(rf"(?:{_KINDS}|correlation)[ _-]?id[\"'`]?\s{{0,3}}[:=]\s{{0,3}}[\"'`]?[\w-]{{6,80}}"),
    ),
)
# Most texts have nothing of this kind, and need no closer look.
_HINT = re.compile(r"\d[\w-]{4}")


def check_ids(survey: Survey) -> Iterator[Finding]:
    """Find ids in what every turn of an agent sends first; one for each line."""
    for page, (start, end) in find_static(survey):
        lines: dict[int, Finding] = {}
        for what, place in find_ids(fold(page.text[start:end])):
            line, shown = page.line_of(start + place), page.text[start + place : start + place + 4]
            finding = Finding(
                file=page.path,
                line=line,
                rule=RULE,
                level=Level.WARNING,
                message=f"{what} ({shown}…) stands in a part that is the same for every run",
                remedy="delete it, or say what it stands for in words",
            )
            lines.setdefault(line, finding)
        yield from lines.values()


def find_ids(text: str) -> Iterator[tuple[str, int]]:
    """Find the ids of a text in lower case, each with what it is and where it begins."""
    for what, shape in _SHAPES if _HINT.search(text) else ():
        for match in shape.finditer(text):
            before = text[match.start() - 1 : match.start()]
            if is_made(match.group()) and not before.isalnum() and before not in ("_", "-"):
                yield what, match.start()


def is_made(text: str) -> bool:
    """Whether a machine made this: words have no digits, and numbers no letters."""
    return sum(sign.isdigit() for sign in text) >= 2 and any(sign.isalpha() for sign in text)
