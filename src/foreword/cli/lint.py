"""`foreword lint`: what is wrong in the files of a workspace, each with its place."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import count, make_plain, print_json
from foreword.cli.place import open_here, show_path

if TYPE_CHECKING:
    from foreword.lint import Finding


def add_options(parser: ArgumentParser) -> None:
    """Add nothing: a workspace is linted as a whole."""


def run(args: Namespace) -> int:
    """Print every finding, and fail if one is an error."""
    from foreword.lint import check

    with open_here(args) as workspace:
        findings = check(workspace)
        root = workspace.files.root
    errors = sum(str(finding.level) == "error" for finding in findings)
    warnings = len(findings) - errors
    if args.json:
        print_json({"findings": [show(finding) for finding in findings], "errors": errors, "warnings": warnings})
    else:
        for finding in findings:
            place = show_path(root, finding.file) + (f":{finding.line}" if finding.line else "")
            remedy = f" ({finding.remedy})" if finding.remedy else ""
            print(f"{place}: {finding.level} {finding.rule}: {finding.message}{remedy}")
        print(f"{count(errors, 'error')}, {count(warnings, 'warning')}" if findings else "nothing to complain about")
    return 1 if errors else 0


def show(finding: "Finding") -> dict[str, object]:
    """Write a finding as JSON has it; its file is relative to the workspace."""
    names = ("file", "line", "rule", "level", "message", "remedy")
    return {name: make_plain(getattr(finding, name)) for name in names}


COMMAND = Command(
    name="lint",
    summary="find what breaks caches, leaks secrets or cannot be reached",
    description="Find clocks and other movers in static files, secrets, injections, oversize files, unknown variables "
    "and slots that no turn can reach. Exits with 1 if there is an error.",
    examples=("foreword lint", "foreword -w assistant lint --json"),
    add_options=add_options,
    run=run,
)
