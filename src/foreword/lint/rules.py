"""The check: every rule over one survey of a workspace."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from foreword.lint.clock import check_clocks
from foreword.lint.finding import Finding, show
from foreword.lint.identifier import check_ids
from foreword.lint.injected import check_injections
from foreword.lint.secret import check_secrets
from foreword.lint.shadow import check_shadows
from foreword.lint.size import check_headers, check_readable, check_sizes
from foreword.lint.survey import Survey, survey
from foreword.lint.unreachable import check_reach
from foreword.lint.variable import check_variables
from foreword.workspace import Workspace

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
    """Find what is wrong with a workspace, sorted by file, line and rule."""
    seen = survey(workspace)
    findings = [*seen.faults, *(finding for rule in RULES.values() for finding in rule(seen))]
    printable = (replace(each, file=show(each.file), message=show(each.message)) for each in findings)
    return tuple(sorted(printable, key=lambda each: (each.file, each.line, each.rule, each.level.value, each.message)))
