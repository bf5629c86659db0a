"""The rule `clock`: whatever tells the time, or a date, in text that should never move."""

import re
from collections.abc import Iterator
from functools import partial

from foreword.fold import fold
from foreword.frozen import frozen
from foreword.lint.finding import Finding, Level
from foreword.lint.passages import find_static
from foreword.lint.survey import Survey
from foreword.sources.template import MOVING

RULE = "clock"

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


@frozen(eq=True)
class Shape:
    """One way of telling the time, in lower case; what must or must not stand right before it is looked at last."""

    level: Level
    what: str
    pattern: re.Pattern[str]
    after: re.Pattern[str]
    unless: re.Pattern[str] | None


def shape(level: Level, what: str, pattern: str, after: str = "", unless: str = "") -> Shape:
    """Make a shape of patterns in which a space stands for any white space."""
    main, begin, never = (re.compile(each.replace(" ", r"\s")) for each in (pattern, f"(?:{after})$", f"(?:{unless})$"))
    return Shape(level=level, what=what, pattern=main, after=begin, unless=never if unless else None)


live, still = partial(shape, Level.ERROR), partial(shape, Level.WARNING)

# A clock that runs is an error, since nothing but the tail may carry one; a date stands still until somebody edits it.
# Each pattern begins with a plain character, which is what makes the search for it fast.
_COMMAND = live("a command for the time", r"\$\(\s{0,9}date\b")
_SHAPES = (
    _COMMAND,
    live(
        "a variable for the time",
        r"\{\{-?\s{0,9}(?:(?:current|local|utc|system|todays?|user)_?)?"
        r"(?:date_?time|date|time|now|today|timestamp|weekday|clock|unix_?time|epoch)\s{0,9}(?:\(|\||\.|-?\}\})",
    ),
    live("a template tag for the time", r"\{%-?\s{0,9}now\b"),
    live(
        "a sentence that tells today's date",
        rf"today(?:['’]s date)?(?: is|['’]s|:)\s{{1,4}}{_MOMENT}",
        unless=_CONDITION,
    ),
    live(
        "a sentence that tells the time",
        r"current (?:local )?(?:date|time|datetime|year|day|month)(?: (?:and|&) time)?"
        rf"\s{{0,4}}(?:is|:|=)\s{{0,4}}{_MOMENT}",
    ),
    live(
        "a sentence that tells the time",
        rf"it(?: is|['’]s) (?:now|currently) (?:{_DAY}|{_MONTH}|\d{{1,2}}:\d\d|{_YEAR}\b)",
        unless=_CONDITION,
    ),
    still(
        "a date",
        rf"{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[t ]\d\d:\d\d\S{{0,15}}|(?![\w-]))",
        unless=f"{_JOINED}|{_VERSION}",
    ),
    still("a date", rf"[0-9][0-9]?/[0-9][0-9]?/{_YEAR}(?![\w/-])", unless=_JOINED),
    still("a date", rf"{_YEAR}/\d{{1,2}}/\d{{1,2}}(?![\w/-])", unless=_JOINED),
    still("a date", rf"[0-9][0-9]?\.[01]?[0-9]\.{_YEAR}(?![\w-]|\.\d)", unless=f"{_JOINED}|{_VERSION}"),
    still("a date", rf"{_NUMBER}(?: of)? {_MONTH},? {_YEAR}\b", unless=r"\w"),
    still("a date", rf"{_NUMBER},? {_YEAR}\b", after=f"{_MONTH} "),
    still("a statement of a certain day", rf"as of (?:{_MONTH} )?(?:{_YEAR}\b|today\b)", unless=r"\w"),
    still("a time of day", r"[0-9][0-9]?:[0-5]\d:[0-5]\d(?![\w:])", unless=r"[\w:.]"),
    # A timetable keeps to full five minutes; a clock does not.
    still("a weekday with a time", r"[0-9][0-9]?:[0-5][1-46-9]\b(?! ?[-–])", after=rf"{_DAY},? (?:at )?"),
    still("a timestamp", r"1[5-9]\d{8}(?:\d{3})?(?!\d)", after=rf"{_STAMPED}\s{{0,3}}(?:is|:|=)?\s{{0,3}}"),
)
_CODE = re.compile(r"(?ms)^ {0,3}(```|~~~).*?^ {0,3}\1|`[^`\n]*`")
_LOOK_BACK = 40

_MESSAGES = {
    Level.ERROR: "stands in a static part; each time it moves, the whole cached prefix is paid anew",
    Level.WARNING: "stands in a static part; it goes stale, and an update breaks the cache",
}
_REMEDIES = {
    Level.ERROR: "delete it; the time travels with each message",
    Level.WARNING: "say it without a date, or move it to a memory, USER.md or a listed file",
}


def check_clocks(survey: Survey) -> Iterator[Finding]:
    """Find clocks and dates in what every turn of an agent sends first; one for each line, the worst."""
    for page, (start, end) in find_static(survey):
        lines: dict[int, Finding] = {}
        for way, match in find_times(fold(page.text[start:end])):
            if MOVING in match.group():
                continue  # templates never show it, and have a rule of their own
            line = page.line_of(start + match.start())
            shown = f" ({' '.join(match.group().split())})" if way.level is Level.WARNING else ""
            finding = Finding(
                file=page.path,
                line=line,
                rule=RULE,
                level=way.level,
                message=f"{way.what}{shown} {_MESSAGES[way.level]}",
                remedy=_REMEDIES[way.level],
            )
            lines.setdefault(line, finding)
        yield from lines.values()


def find_times(text: str) -> Iterator[tuple[Shape, re.Match[str]]]:
    """Find whatever tells a time or a date in a text in lower case; clocks first."""
    for way in _SHAPES:
        # A command that the agent shall run is the right way to ask for the time, and stands in code.
        masked = _CODE.sub(blank, text) if way is _COMMAND and "$(" in text else text
        for match in way.pattern.finditer(masked):
            before = text[max(0, match.start() - _LOOK_BACK) : match.start()]
            if way.after.search(before) and not (way.unless and way.unless.search(before)):
                yield way, match


def blank(match: re.Match[str]) -> str:
    """Replace a match by as many spaces."""
    return " " * len(match.group())
