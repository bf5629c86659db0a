"""The rule `secret`: keys, tokens and passwords in a file that a prompt could carry to a provider."""

from collections.abc import Iterator

from foreword.lint.finding import Finding, Level
from foreword.lint.page import Page
from foreword.lint.survey import Survey
from foreword.secret import find_secrets

RULE = "secret"


def check_secrets(survey: Survey) -> Iterator[Finding]:
    """Find secrets in every file of the workspace, without repeating them."""
    for page in survey.pages.values():
        yield from check_page(page)


def check_page(page: Page) -> Iterator[Finding]:
    """Find the secrets of one page, one for each line."""
    lines: dict[int, Finding] = {}
    for secret in find_secrets(page.text):
        line = page.line_of(secret.start)
        finding = Finding(
            file=page.path,
            line=line,
            rule=RULE,
            level=Level.ERROR,
            message=f"{secret.what} stands here; whatever is in a prompt has left the house",
            remedy="revoke it, delete it here, and keep its successor in the environment or in .env",
        )
        lines.setdefault(line, finding)
    yield from lines.values()
