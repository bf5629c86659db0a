"""The rule `variable`: templates that cannot be read, and names in them that nothing fills in."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from foreword.lint.feeds import Feed
from foreword.lint.finding import Finding, Level
from foreword.lint.page import Page
from foreword.lint.survey import Survey
from foreword.sources.pattern import TemplateFault, compile_template
from foreword.sources.template import MOVING, NAMES

RULE = "variable"


def check_variables(survey: Survey) -> Iterator[Finding]:
    """Find what is wrong in templates; in other files two braces are text."""
    declared = {entry.path for entry in survey.config.prompt.files if entry.template}
    for path, page in survey.pages.items():
        feeds = [feed for feed in survey.feeds.get(path, ()) if feed.slot.source == "template" or path in declared]
        if feeds:
            yield from judge(page, feeds)


def judge(page: Page, feeds: list[Feed]) -> Iterator[Finding]:
    """Judge one template by the variables of each blueprint it stands in."""
    start = page.body[0]
    try:
        names = compile_template(page.text[start:].strip("\n").rstrip()).names
    except TemplateFault as fault:
        line = page.line_of(start) + max(fault.line - 1, 0)
        message = f"the file {fault.message}"
        yield report(page, line, message, "correct it; until then it is left out, or the built-in text stands in")
        return
    for name in sorted(names):
        line = find_line(page, name)
        if name == MOVING:
            message = f"{name} moves with every turn and would break the cached prefix, so no time stands here"
            yield report(page, line, message, "take it out; the time is told with each message")
        elif unknown := {feed.agent: known for feed in feeds if name not in (known := find_known(feed))}:
            # Agents are named only where the file is in order for others.
            agents = f" for {', '.join(sorted(unknown))}" if len(unknown) < len({feed.agent for feed in feeds}) else ""
            message = f"there is no variable {name!r}{agents}, so nothing will stand here"
            yield report(page, line, message, suggest(name, next(iter(unknown.values()))))


def find_known(feed: Feed) -> set[str]:
    """Find the variables that a template may name in one agent's prompt."""
    return {*NAMES, *(slot.variable for slot in feed.blueprint.slots if slot.variable)}


def find_line(page: Page, name: str) -> int:
    """Find the line on which a template first mentions a name."""
    found = re.compile(rf"\{{[{{%][^{{}}]*?\b{re.escape(name)}\b").search(page.text, page.body[0])
    return page.line_of(found.end()) if found else page.line_of(page.body[0])


def report(page: Page, line: int, message: str, remedy: str) -> Finding:
    """Make a finding of this rule."""
    return Finding(file=page.path, line=line, rule=RULE, level=Level.ERROR, message=message, remedy=remedy)


def suggest(name: str, known: set[str]) -> str:
    """Name the nearest variable, however it is written."""
    plain = {each.lower(): each for each in sorted(known)}
    near = get_close_matches(name.lower(), plain, n=1)
    return f"did you mean {plain[near[0]]}?" if near else f"there is {', '.join(sorted(known))}"
