"""`foreword doctor`: what is wrong with this installation and this workspace, and how to mend it."""

from argparse import ArgumentParser, Namespace

from foreword.cli.command import Command
from foreword.cli.output import count, make_plain, print_json
from foreword.cli.place import find_folder


def add_options(parser: ArgumentParser) -> None:
    """Add nothing: everything is looked at."""


def run(args: Namespace) -> int:
    """Print every check with its remedy, and fail if one of them is an error."""
    from foreword.cli.checks import check_installation
    from foreword.cli.examination import examine

    checks = [*check_installation(), *examine(find_folder(args))]
    errors, warnings = (sum(check.level == level for check in checks) for level in ("error", "warning"))
    if args.json:
        print_json({"checks": make_plain(checks), "errors": errors, "warnings": warnings})
    else:
        width = max(len(check.subject) for check in checks)
        for check in checks:
            remedy = f"; {check.remedy}" if check.remedy else ""
            print(f"{check.level:7}  {check.subject:{width}}  {check.message}{remedy}")
        print(f"\n{count(errors, 'error')}, {count(warnings, 'warning')}" if errors or warnings else "\nall is well")
    return 1 if errors else 0


COMMAND = Command(
    name="doctor",
    summary="say what is wrong with this installation and how to mend it",
    description="Look at Python, the tokenizer, the prices, git, and everything about the workspace that can be wrong "
    "before a turn. Keys are named, never shown. Exits with 1 if there is an error.",
    examples=("foreword doctor", "foreword -w assistant doctor --json"),
    add_options=add_options,
    run=run,
)
