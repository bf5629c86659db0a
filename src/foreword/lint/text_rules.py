"""The rules about what a text says: clocks, ids, injections and secrets."""

import re
from collections.abc import Iterator

from foreword.engine.sources.injection import InjectionHit, InjectionKind, scan_injections
from foreword.engine.sources.templates import CLOCK_VARIABLE
from foreword.lint.survey import Finding, LintedFile, Severity, WorkspaceSurvey, find_static_passages
from foreword.secret import find_secrets, lower_in_place

ERROR, WARNING = Severity.ERROR, Severity.WARNING

_DAY = r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
_MONTH = (
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?:19|20)\d\d"
_NUMBER = r"[0-9][0-9]?(?:st|nd|rd|th)?"
_MOMENT = rf"(?:the )?(?:{_DAY}|{_MONTH}|\d|\{{\{{|\$\()"
_STAMPED = r"\b(?:epoch|unix|unix time|timestamp|ts|updated|generated|created|modified|now)(?:[_ ]at)?[\"'`]?"
_VERSION = r"version\W{1,4}"
_CONDITION = r"(?:\w|\b(?:if|when|whether|unless) )"
_JOINED = r"[\w./-]"


class TimePattern:
    """A pattern for a time expression in lower case, with conditions on the text before it.

    A space in a pattern matches any white space.
    """

    def __init__(self, level: Severity, what: str, pattern: str, after: str = "", unless: str = "(?!)") -> None:
        self.level, self.what = level, what
        self.pattern, self.after, self.unless = (
            re.compile(each.replace(" ", r"\s")) for each in (pattern, f"(?:{after})$", f"(?:{unless})$")
        )


# A running clock is an error, because only the tail may contain one; a fixed date is a warning.
# Each pattern begins with a plain character, which makes the search fast.
_COMMAND = TimePattern(ERROR, "a command for the time", r"\$\(\s{0,9}date\b")
_TIME_PATTERNS = (
    _COMMAND,
    TimePattern(
        ERROR,
        "a variable for the time",
        r"\{\{-?\s{0,9}(?:(?:current|local|utc|system|todays?|user)_?)?"
        r"(?:date_?time|date|time|now|today|timestamp|weekday|clock|unix_?time|epoch)\s{0,9}(?:\(|\||\.|-?\}\})",
    ),
    TimePattern(ERROR, "a template tag for the time", r"\{%-?\s{0,9}now\b"),
    TimePattern(
        ERROR,
        "a sentence with today's date",
        rf"today(?:['’]s date)?(?: is|['’]s|:)\s{{1,4}}{_MOMENT}",
        unless=_CONDITION,
    ),
    TimePattern(
        ERROR,
        "a sentence with the current time",
        r"current (?:local )?(?:date|time|datetime|year|day|month)(?: (?:and|&) time)?"
        rf"\s{{0,4}}(?:is|:|=)\s{{0,4}}{_MOMENT}",
    ),
    TimePattern(
        ERROR,
        "a sentence with the current time",
        rf"it(?: is|['’]s) (?:now|currently) (?:{_DAY}|{_MONTH}|\d{{1,2}}:\d\d|{_YEAR}\b)",
        unless=_CONDITION,
    ),
    TimePattern(
        WARNING,
        "a date",
        rf"{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[t ]\d\d:\d\d\S{{0,15}}|(?![\w-]))",
        unless=f"{_JOINED}|{_VERSION}",
    ),
    TimePattern(WARNING, "a date", rf"[0-9][0-9]?/[0-9][0-9]?/{_YEAR}(?![\w/-])", unless=_JOINED),
    TimePattern(WARNING, "a date", rf"{_YEAR}/\d{{1,2}}/\d{{1,2}}(?![\w/-])", unless=_JOINED),
    TimePattern(WARNING, "a date", rf"[0-9][0-9]?\.[01]?[0-9]\.{_YEAR}(?![\w-]|\.\d)", unless=f"{_JOINED}|{_VERSION}"),
    TimePattern(WARNING, "a date", rf"{_NUMBER}(?: of)? {_MONTH},? {_YEAR}\b", unless=r"\w"),
    TimePattern(WARNING, "a date", rf"{_NUMBER},? {_YEAR}\b", after=f"{_MONTH} "),
    TimePattern(WARNING, "a dated statement", rf"as of (?:{_MONTH} )?(?:{_YEAR}\b|today\b)", unless=r"\w"),
    TimePattern(WARNING, "a time of day", r"[0-9][0-9]?:[0-5]\d:[0-5]\d(?![\w:])", unless=r"[\w:.]"),
    # Timetables use multiples of five minutes; clocks do not.
    TimePattern(
        WARNING, "a weekday with a time", r"[0-9][0-9]?:[0-5][1-46-9]\b(?! ?[-–])", after=rf"{_DAY},? (?:at )?"
    ),
    TimePattern(
        WARNING, "a timestamp", r"1[5-9]\d{8}(?:\d{3})?(?!\d)", after=rf"{_STAMPED}\s{{0,3}}(?:is|:|=)?\s{{0,3}}"
    ),
)
_CODE = re.compile(r"(?ms)^ {0,3}(```|~~~).*?^ {0,3}\1|`[^`\n]*`")
_CONTEXT_CHARS = 40

_MESSAGES = {
    ERROR: "is in static text; every change of it invalidates the whole cached prefix",
    WARNING: "is in static text; it goes stale, and an update invalidates the cache",
}
_REMEDIES = {
    ERROR: "delete it; each message carries the time",
    WARNING: "write it without a date, or move it to a memory, USER.md or a listed file",
}


def check_clocks(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find clocks and dates in the static text of agents; report the worst one per line."""
    for page, (start, end) in find_static_passages(survey):
        lines: dict[int, Finding] = {}
        for time, match in find_times(lower_in_place(page.text[start:end])):
            if CLOCK_VARIABLE in match.group():
                continue  # templates never render it; the rule `variable` reports it
            line, level = page.line_of(start + match.start()), time.level
            shown = f" ({' '.join(match.group().split())})" if level is WARNING else ""
            message = f"{time.what}{shown} {_MESSAGES[level]}"
            lines.setdefault(line, Finding(page.path, line, "clock", level, message, _REMEDIES[level]))
        yield from lines.values()


def find_times(text: str) -> Iterator[tuple[TimePattern, re.Match[str]]]:
    """Find times and dates in a lower-case text; clocks first."""
    for time in _TIME_PATTERNS:
        # A command in code that the agent should run is the right way to get the time.
        masked = _CODE.sub(lambda match: " " * len(match.group()), text) if time is _COMMAND and "$(" in text else text
        for match in time.pattern.finditer(masked):
            before = text[max(0, match.start() - _CONTEXT_CHARS) : match.start()]
            if time.after.search(before) and not time.unless.search(before):
                yield time, match


_ID_KINDS = r"session|sess|request|req|trace|span|thread|conversation|conv|message|msg|run|job|call|response|resp"
_ID_PATTERNS = (
    ("a UUID", re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-])")),
    ("a long hexadecimal id", re.compile(r"(?:0x)?[0-9a-f]{24,}+(?!\w)")),
    ("a sortable id", re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}(?!\w)")),
    ("the id of a run", re.compile(rf"(?:{_ID_KINDS}|chatcmpl|toolu|asst)[_-][a-z0-9]{{10,80}}(?!\w)")),
    (
        "the id of a run",
        re.compile(rf"(?:{_ID_KINDS}|correlation)[ _-]?id[\"'`]?\s{{0,3}}[:=]\s{{0,3}}[\"'`]?[\w-]{{6,80}}"),
    ),
)
# Skip most texts quickly: they contain nothing like an id.
_HINT = re.compile(r"\d[\w-]{4}")


def check_ids(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find ids in the static text of agents; report one per line."""
    for page, (start, end) in find_static_passages(survey):
        lines: dict[int, Finding] = {}
        for what, place in find_ids(lower_in_place(page.text[start:end])):
            line, shown = page.line_of(start + place), page.text[start + place : start + place + 4]
            message = f"{what} ({shown}…) is in text that is the same for every run"
            remedy = "delete it, or describe what it identifies"
            lines.setdefault(line, Finding(page.path, line, "id", WARNING, message, remedy))
        yield from lines.values()


def find_ids(text: str) -> Iterator[tuple[str, int]]:
    """Find ids in a lower-case text; yield their kind and position."""
    for what, shape in _ID_PATTERNS if _HINT.search(text) else ():
        for match in shape.finditer(text):
            before, found = text[match.start() - 1 : match.start()], match.group()
            is_machine_made = sum(map(str.isdigit, found)) >= 2 and any(map(str.isalpha, found))
            if is_machine_made and not before.isalnum() and before not in ("_", "-"):
                yield what, match.start()


QUOTES = "\"'`“‘«„"

_DESCRIPTIONS = {
    InjectionKind.INSTRUCTION_OVERRIDE: "asks the agent to drop its instructions",
    InjectionKind.SECRETS_EXFILTRATION: "asks the agent to give secrets away",
    InjectionKind.SAFETY_BYPASS: "asks the agent to drop its safeguards",
    InjectionKind.INVISIBLE: "contains invisible characters",
    InjectionKind.BIDI_CONTROL: "contains characters that change the display order of text",
    InjectionKind.HIDDEN_TEXT: "contains text in invisible characters",
}
_SEVERE_KINDS = (InjectionKind.BIDI_CONTROL, InjectionKind.HIDDEN_TEXT)


def check_injections(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find injections in every file of the workspace, including comments that no prompt shows."""
    for page in survey.pages.values():
        seen: set[tuple[int, InjectionKind]] = set()
        for hit in scan_injections(page.text):
            line = page.line_of(hit.start)
            if (line, hit.kind) not in seen and not is_quoted(page, hit):
                seen.add((line, hit.kind))
                is_hidden = page.is_comment(hit.start)
                is_severe = is_hidden or hit.kind in _SEVERE_KINDS
                remedy = "delete it, and find out who wrote it" if is_severe else "delete it, or put it in quotes"
                if hit.kind is InjectionKind.INVISIBLE:
                    remedy = "delete these characters"
                # The passage itself is not repeated.
                message = f"{hit.kind}: this line {_DESCRIPTIONS[hit.kind]}{', in a comment' if is_hidden else ''}"
                yield Finding(page.path, line, "injection", ERROR if is_severe else WARNING, message, remedy)


def is_quoted(page: LintedFile, hit: InjectionHit) -> bool:
    """Whether the owner only quotes an attack, to explain how to handle it."""
    quoted = hit.start > 0 and page.text[hit.start - 1] in QUOTES
    return quoted and not page.is_comment(hit.start) and _DESCRIPTIONS[hit.kind].startswith("asks")


def check_secrets(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find secrets in every file of the workspace, one per line, without repeating them."""
    remedy = "revoke it, delete it here, and put the new one into the environment or .env"
    for page in survey.pages.values():
        lines: dict[int, Finding] = {}
        for secret in find_secrets(page.text):
            line = page.line_of(secret.start)
            message = f"{secret.what} is in this line; prompts are sent to the provider"
            lines.setdefault(line, Finding(page.path, line, "secret", ERROR, message, remedy))
        yield from lines.values()
