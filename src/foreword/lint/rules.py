"""The check: every rule over one survey of a workspace."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from foreword.config.schema import Accepted
from foreword.errors import suggest
from foreword.lint.clock import check_clocks
from foreword.lint.finding import Finding, Level, show
from foreword.lint.identifier import check_ids
from foreword.lint.injected import check_injections
from foreword.lint.secret import check_secrets
from foreword.lint.shadow import check_shadows
from foreword.lint.size import check_headers, check_readable, check_sizes
from foreword.lint.survey import Survey, survey
from foreword.lint.unreachable import check_reach
from foreword.lint.variable import check_variables
from foreword.workspace import CONFIG, Workspace

ACCEPTED = "accepted"

RULES: Mapping[str, Callable[[Survey], Iterator[Finding]]] = {
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


def check(workspace: Workspace) -> tuple[Finding, ...]:
    """Find what is wrong with a workspace, sorted by file, line and rule; accepted findings are left out."""
    seen = survey(workspace)
    findings = accept(seen, [*seen.faults, *(finding for rule in RULES.values() for finding in rule(seen))])
    printable = (replace(each, file=show(each.file), message=show(each.message)) for each in findings)
    return tuple(sorted(printable, key=lambda each: (each.file, each.line, each.rule, each.level.value, each.message)))


def accept(seen: Survey, findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what `lint.accept` accepts, and find the entries that accept nothing."""
    entries = seen.config.lint.accept
    used = {index for finding in findings for index, entry in enumerate(entries) if covers(entry, finding, seen)}
    left = [finding for finding in findings if not any(covers(entry, finding, seen) for entry in entries)]
    idle = (index for index in range(len(entries)) if index not in used)
    return [*left, *(report_idle(seen, index) for index in idle)]


def covers(entry: Accepted, finding: Finding, seen: Survey) -> bool:
    """Whether an entry accepts a finding; a changed line needs another look, so its words are compared."""
    if (entry.file, entry.rule) != (finding.file, finding.rule):
        return False
    page = seen.pages.get(finding.file)
    lines = page.text.split("\n") if page else []
    return not entry.text or entry.text in (lines[finding.line - 1] if 0 < finding.line <= len(lines) else "")


def report_idle(seen: Survey, index: int) -> Finding:
    """Report an entry of `lint.accept` that no finding needs."""
    entry = seen.config.lint.accept[index]
    nearest = suggest(entry.rule, list(RULES)) if entry.rule not in RULES else ""
    return Finding(
        file=CONFIG,
        line=seen.line_of("lint", "accept", index),
        rule=ACCEPTED,
        level=Level.WARNING,
        message=f"accepts {entry.rule!r} in {entry.file}, which is not found{nearest}",
        remedy="delete the entry, or correct it",
    )
