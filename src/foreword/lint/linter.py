"""The entry point of the linter, and the rules about files that a prompt cannot use, or only in part."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
            message = (
                f"has {tokens:,} tokens, and slot {feed.slot.id} of agent {feed.agent} gets {limit:,} at most, "
                "so it is always shortened or left out"
            )
            remedy = "shorten it, or move rarely needed parts to memory/"
            yield Finding(path, 1, "oversize", Severity.WARNING, message, remedy)


def find_most_exceeded_slot(
    survey: WorkspaceSurvey, body: str, feeds: tuple[Feed, ...]
) -> tuple[int, int, Feed] | None:
    """Find the slot that a text exceeds most, if any."""
    worst: tuple[int, int, Feed] | None = None
    for feed in feeds:
        if feed.slot.listed is MenuListing.ALWAYS or feed.slot.source == SKILLS_SOURCE:
            continue
        meter = survey.workspace.context.measure(survey.config.agents[feed.agent].model)
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
    remedy = "repair or remove it; until then no prompt includes it"
    for problem in survey.unreadable_files:
        line = parse_line_number(problem.reason)
        yield Finding(problem.path, line, "unreadable", Severity.ERROR, problem.reason, remedy)


def check_headers(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find invalid front matter, which is ignored."""
    remedy = "write it as YAML, `name: value` in each line, between two lines of ---"
    for path in survey.names:
        document = survey.workspace.files.read(path) if path in survey.pages else None
        if isinstance(document, Document) and document.note:
            line = parse_line_number(document.note)
            yield Finding(path, line, "frontmatter", Severity.WARNING, document.note, remedy)


def parse_line_number(reason: str) -> int:
    """Return the line that a reason mentions."""
    match = _LINE.search(reason)
    return int(match[1].replace(",", "")) if match else 1


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
        remedy = "correct it; until then it is omitted or replaced by the built-in text"
        yield Finding(page.path, line, "variable", Severity.ERROR, f"the file {fault.message}", remedy)
        return
    known = {
        feed.agent: {*TEMPLATE_VARIABLES, *(slot.variable for slot in feed.blueprint.slots if slot.variable)}
        for feed in feeds
    }
    for name in sorted(names):
        mention = re.compile(rf"\{{[{{%][^{{}}]*?\b{re.escape(name)}\b").search(page.text, start)
        line = page.line_of(mention.end() if mention else start)
        if name == CLOCK_VARIABLE:
            message = f"{name} changes every turn and would invalidate the cached prefix, so it renders no time"
            remedy = "remove it; each message carries the time"
            yield Finding(page.path, line, "variable", Severity.ERROR, message, remedy)
        elif unknown := {agent: variables for agent, variables in known.items() if name not in variables}:
            # Name agents only if the file is valid for others.
            agents = f" for {', '.join(sorted(unknown))}" if len(unknown) < len(known) else ""
            message = f"unknown variable {name!r}{agents}; it renders as nothing"
            plain = {each.lower(): each for each in sorted(next(iter(unknown.values())))}
            near = get_close_matches(name.lower(), plain, n=1)
            remedy = f"did you mean {plain[near[0]]}?" if near else f"known variables: {', '.join(plain.values())}"
            yield Finding(page.path, line, "variable", Severity.ERROR, message, remedy)


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
    survey = survey_workspace(workspace)
    findings = [*survey.faults, *(finding for rule in RULES.values() for finding in rule(survey))]
    printable = (
        finding._replace(file=make_printable(finding.file), message=make_printable(finding.message))
        for finding in apply_acceptances(survey, findings)
    )
    return tuple(sorted(printable, key=lambda each: (each.file, each.line, each.rule, each.level.value, each.message)))


def apply_acceptances(survey: WorkspaceSurvey, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Remove findings that `lint.accept` accepts, and report entries that match nothing."""
    unused = dict(enumerate(survey.config.lint.accept))
    for finding in findings:
        page = survey.pages.get(finding.file)
        matches = [index for index, entry in enumerate(survey.config.lint.accept) if is_accepted(entry, finding, page)]
        for index in matches:
            unused.pop(index, None)
        if not matches:
            yield finding
    for index, entry in unused.items():
        nearest = suggest_name(entry.rule, list(RULES)) if entry.rule not in RULES else ""
        message = f"accepts {entry.rule!r} in {entry.file}, which is not found{nearest}"
        line, remedy = survey.line_of("lint", "accept", index), "delete the entry, or correct it"
        yield Finding(CONFIG_FILE, line, "accepted", Severity.WARNING, message, remedy)


def is_accepted(entry: AcceptedFinding, finding: Finding, page: LintedFile | None) -> bool:
    """Whether an entry accepts a finding; its words must still be in the line."""
    if (entry.file, entry.rule) != (finding.file, finding.rule):
        return False
    lines = page.text.split("\n") if page else []
    return not entry.text or entry.text in (lines[finding.line - 1] if 0 < finding.line <= len(lines) else "")
