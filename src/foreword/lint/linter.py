"""The rules `oversize`, `unreadable` and `frontmatter`: files that a prompt cannot use, or only in part.

The rule `variable`: invalid templates, and unknown variables in them. The linter's entry point: applies every rule to
one survey of a workspace.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from foreword.config.schema import AcceptedFinding
from foreword.engine.blueprint import SKILLS_SOURCE, MenuListing
from foreword.engine.sources.documents import Document
from foreword.engine.sources.template_language import InvalidTemplate, compile_template
from foreword.engine.sources.templates import CLOCK_VARIABLE, TEMPLATE_VARIABLES
from foreword.errors import suggest_name
from foreword.lint.reachability import check_reach, check_shadows
from foreword.lint.survey import Feed, Finding, LintedFile, Severity, WorkspaceSurvey, make_printable, survey_workspace
from foreword.lint.text_rules import check_clocks, check_ids, check_injections, check_secrets
from foreword.types import Pace
from foreword.workspace import CONFIG_FILE, Workspace

_LINE = re.compile(r"\bline ([\d,]+)")


def check_sizes(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find files that exceed the maximum of their slot."""
    for path, feeds in survey.feeds.items():
        document = survey.workspace.files.read(path) if path in survey.pages else None
        if isinstance(document, Document) and (worst := find_most_exceeded_slot(survey, document.body, feeds)):
            tokens, limit, feed = worst
            yield Finding(
                file=path,
                line=1,
                rule="oversize",
                level=Severity.WARNING,
                message=(
                    f"has {tokens:,} tokens, and slot {feed.slot.id} of agent {feed.agent} gets {limit:,} at most, "
                    "so it is always shortened or left out"
                ),
                remedy="shorten it, or move rarely needed parts to memory/",
            )


def find_most_exceeded_slot(
    survey: WorkspaceSurvey, body: str, feeds: tuple[Feed, ...]
) -> tuple[int, int, Feed] | None:
    """Find the slot that a text exceeds most, if any."""
    worst: tuple[int, int, Feed] | None = None
    for feed in feeds:
        if feed.slot.listed is MenuListing.ALWAYS or feed.slot.source == SKILLS_SOURCE:
            continue
        meter = survey.workspace.ground.measure(survey.config.agents[feed.agent].model)
        limit = find_slot_limit(feed, meter.facts.window)
        # A token has at least one byte, so a short text needs no counting.
        if len(body) * 4 * meter.facts.factor <= limit or (tokens := meter.count(body)) <= limit:
            continue
        if worst is None or tokens - limit > worst[0] - worst[1]:
            worst = (tokens, limit, feed)
    return worst


def find_slot_limit(feed: Feed, window: int) -> int:
    """Return the maximum of a slot when it has its tier alone."""
    budget = feed.blueprint.budget
    if feed.slot.pace is Pace.TURN:
        return budget.turn_limit(window)
    limit = budget.limit(window)
    left = limit - int(limit * budget.session_share) if feed.slot.pace is Pace.STATIC else limit
    return left if feed.slot.required else min(int(limit * budget.tiers[feed.slot.tier]), left)


def check_readable(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find files that exist but cannot be read."""
    for trouble in survey.unreadable_files:
        yield Finding(
            file=trouble.path,
            line=parse_line_number(trouble.reason),
            rule="unreadable",
            level=Severity.ERROR,
            message=trouble.reason,
            remedy="repair or remove it; until then no prompt includes it",
        )


def check_headers(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find invalid front matter, which is ignored."""
    for path in survey.names:
        document = survey.workspace.files.read(path) if path in survey.pages else None
        if isinstance(document, Document) and document.note:
            yield Finding(
                file=path,
                line=parse_line_number(document.note),
                rule="frontmatter",
                level=Severity.WARNING,
                message=document.note,
                remedy="write it as YAML, `name: value` in each line, between two lines of ---",
            )


def parse_line_number(reason: str) -> int:
    """Return the line that a reason mentions."""
    match = _LINE.search(reason)
    return int(match[1].replace(",", "")) if match else 1


VARIABLE_RULE = "variable"


def check_variables(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find problems in templates; in other files braces are plain text."""
    declared = {entry.path for entry in survey.config.prompt.files if entry.template}
    for path, page in survey.pages.items():
        feeds = [feed for feed in survey.feeds.get(path, ()) if feed.slot.source == "template" or path in declared]
        if feeds:
            yield from check_template(page, feeds)


def check_template(page: LintedFile, feeds: list[Feed]) -> Iterator[Finding]:
    """Check one template against the variables of each blueprint that uses it."""
    start = page.body[0]
    try:
        names = compile_template(page.text[start:].strip("\n").rstrip()).names
    except InvalidTemplate as fault:
        line = page.line_of(start) + max(fault.line - 1, 0)
        message = f"the file {fault.message}"
        yield make_variable_finding(
            page, line, message, "correct it; until then it is omitted or replaced by the built-in text"
        )
        return
    for name in sorted(names):
        line = find_variable_line(page, name)
        if name == CLOCK_VARIABLE:
            message = f"{name} changes every turn and would invalidate the cached prefix, so it renders no time"
            yield make_variable_finding(page, line, message, "remove it; each message carries the time")
        elif unknown := {feed.agent: known for feed in feeds if name not in (known := list_variables(feed))}:
            # Name agents only if the file is valid for others.
            agents = f" for {', '.join(sorted(unknown))}" if len(unknown) < len({feed.agent for feed in feeds}) else ""
            message = f"unknown variable {name!r}{agents}; it renders as nothing"
            yield make_variable_finding(page, line, message, suggest_variable(name, next(iter(unknown.values()))))


def list_variables(feed: Feed) -> set[str]:
    """Return the variables that a template may use in an agent's prompt."""
    return {*TEMPLATE_VARIABLES, *(slot.variable for slot in feed.blueprint.slots if slot.variable)}


def find_variable_line(page: LintedFile, name: str) -> int:
    """Return the line where a template first mentions a name."""
    found = re.compile(rf"\{{[{{%][^{{}}]*?\b{re.escape(name)}\b").search(page.text, page.body[0])
    return page.line_of(found.end()) if found else page.line_of(page.body[0])


def make_variable_finding(page: LintedFile, line: int, message: str, remedy: str) -> Finding:
    """Make a finding of this rule."""
    return Finding(file=page.path, line=line, rule=VARIABLE_RULE, level=Severity.ERROR, message=message, remedy=remedy)


def suggest_variable(name: str, known: set[str]) -> str:
    """Suggest the nearest variable, ignoring case."""
    plain = {each.lower(): each for each in sorted(known)}
    near = get_close_matches(name.lower(), plain, n=1)
    return f"did you mean {plain[near[0]]}?" if near else f"known variables: {', '.join(sorted(known))}"


ACCEPTED_RULE = "accepted"

RULES: Mapping[str, Callable[[WorkspaceSurvey], Iterator[Finding]]] = {
    "clock": check_clocks,
    "id": check_ids,
    "secret": check_secrets,
    "injection": check_injections,
    "oversize": check_sizes,
    "unreadable": check_readable,
    "frontmatter": check_headers,
    "variable": check_variables,
    "unreachable": check_reach,
    "shadow": check_shadows,
}


def lint_workspace(workspace: Workspace) -> tuple[Finding, ...]:
    """Find all problems of a workspace, sorted by file, line and rule, without accepted ones."""
    seen = survey_workspace(workspace)
    findings = apply_acceptances(seen, [*seen.faults, *(finding for rule in RULES.values() for finding in rule(seen))])
    printable = (
        replace(each, file=make_printable(each.file), message=make_printable(each.message)) for each in findings
    )
    return tuple(sorted(printable, key=lambda each: (each.file, each.line, each.rule, each.level.value, each.message)))


def apply_acceptances(seen: WorkspaceSurvey, findings: Sequence[Finding]) -> list[Finding]:
    """Remove findings that `lint.accept` accepts, and report entries that match nothing."""
    entries = seen.config.lint.accept
    used = {index for finding in findings for index, entry in enumerate(entries) if is_accepted(entry, finding, seen)}
    left = [finding for finding in findings if not any(is_accepted(entry, finding, seen) for entry in entries)]
    idle = (index for index in range(len(entries)) if index not in used)
    return [*left, *(make_unused_finding(seen, index) for index in idle)]


def is_accepted(entry: AcceptedFinding, finding: Finding, seen: WorkspaceSurvey) -> bool:
    """Whether an entry accepts a finding; its words must still be in the line."""
    if (entry.file, entry.rule) != (finding.file, finding.rule):
        return False
    page = seen.pages.get(finding.file)
    lines = page.text.split("\n") if page else []
    return not entry.text or entry.text in (lines[finding.line - 1] if 0 < finding.line <= len(lines) else "")


def make_unused_finding(seen: WorkspaceSurvey, index: int) -> Finding:
    """Report an unused entry of `lint.accept`."""
    entry = seen.config.lint.accept[index]
    nearest = suggest_name(entry.rule, list(RULES)) if entry.rule not in RULES else ""
    return Finding(
        file=CONFIG_FILE,
        line=seen.line_of("lint", "accept", index),
        rule=ACCEPTED_RULE,
        level=Severity.WARNING,
        message=f"accepts {entry.rule!r} in {entry.file}, which is not found{nearest}",
        remedy="delete the entry, or correct it",
    )
