"""The rule `variable`: names in a template that nothing fills in."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from foreword.lint.finding import Finding, Level
from foreword.lint.survey import Survey
from foreword.sources.template import VARIABLE, VARIABLES

RULE = "variable"
TEMPLATE = re.compile(r"(?:agents/[^/]+/)?SYSTEM\.md")


def check_variables(survey: Survey) -> Iterator[Finding]:
    """Find variables of SYSTEM.md that do not exist; in other files two braces are text."""
    for path, page in survey.pages.items():
        if not TEMPLATE.fullmatch(path):
            continue
        for match in VARIABLE.finditer(page.text, page.body[0]):
            if match[1] not in VARIABLES:
                yield Finding(
                    file=path,
                    line=page.line_of(match.start()),
                    rule=RULE,
                    level=Level.ERROR,
                    message=f"there is no variable {match[1]!r}, so nothing will stand here",
                    remedy=suggest(match[1]),
                )


def suggest(name: str) -> str:
    """Name the nearest variable, however it is written."""
    plain = {known.lower(): known for known in VARIABLES}
    near = get_close_matches(name.lower(), plain, n=1)
    return f"did you mean {plain[near[0]]}?" if near else f"there is {', '.join(VARIABLES)}"
