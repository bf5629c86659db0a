"""The rule `injection`: text that commands the agent against its owner, or that people cannot see."""

from collections.abc import Iterator

from foreword.lint.finding import Finding, Level
from foreword.lint.page import Page
from foreword.lint.survey import Survey
from foreword.sources.injection import Hit, Kind, scan

RULE = "injection"
QUOTES = "\"'`“‘«„"

_WORDS = {
    Kind.INSTRUCTION_OVERRIDE: "asks the agent to drop its instructions",
    Kind.SECRETS_EXFILTRATION: "asks the agent to give secrets away",
    Kind.SAFETY_BYPASS: "asks the agent to drop its safeguards",
    Kind.INVISIBLE: "has characters that nobody sees",
    Kind.BIDI_CONTROL: "has characters that show text in another order than it is read",
    Kind.HIDDEN_TEXT: "has text in characters that nobody sees",
}
_GRAVE = (Kind.BIDI_CONTROL, Kind.HIDDEN_TEXT)


def check_injections(survey: Survey) -> Iterator[Finding]:
    """Find injections in every file of the workspace, and in the comments that no prompt shows."""
    for page in survey.pages.values():
        seen: set[tuple[int, Kind]] = set()
        for hit in scan(page.text):
            line = page.line_of(hit.start)
            if (line, hit.kind) not in seen and not is_mention(page, hit):
                seen.add((line, hit.kind))
                yield describe(page, hit, line)


def describe(page: Page, hit: Hit, line: int) -> Finding:
    """Say what a hit is; the passage itself is not repeated."""
    hidden = page.is_comment(hit.start)
    remedy = "delete it" + (", and find out who wrote it" if hidden or hit.kind in _GRAVE else ", or put it in quotes")
    return Finding(
        file=page.path,
        line=line,
        rule=RULE,
        level=Level.ERROR if hidden or hit.kind in _GRAVE else Level.WARNING,
        message=f"{hit.kind}: this line {_WORDS[hit.kind]}{', in a comment' if hidden else ''}",
        remedy=remedy if hit.kind is not Kind.INVISIBLE else "delete these characters",
    )


def is_mention(page: Page, hit: Hit) -> bool:
    """Whether the owner only quotes an attack, to say what to do about it."""
    quoted = hit.start > 0 and page.text[hit.start - 1] in QUOTES
    return quoted and not page.is_comment(hit.start) and _WORDS[hit.kind].startswith("asks")
