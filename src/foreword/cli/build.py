"""`foreword build`: the prompt of a turn, as text, as the whole assembly, or as a provider's request."""

from argparse import ArgumentParser, Namespace

from foreword.cli.command import Command
from foreword.cli.output import print_json, print_text
from foreword.cli.turns import add_turn_options, assemble
from foreword.errors import InputError

FORMATS = ("text", "json", "anthropic", "openai", "responses", "gemini", "plain")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of a turn and the format."""
    add_turn_options(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="text (the prompt alone), json (the whole assembly), or the request in a provider's shape; else text",
    )


def run(args: Namespace) -> int:
    """Print the prompt of a turn."""
    shape = choose_format(args)
    _, assembly = assemble(args)
    if shape == "text":
        print_text(assembly.prompt.text)
    elif shape == "json":
        from foreword.words import Trust

        print_json(assembly.to_dict(Trust.FULL))
    else:
        print_json(assembly.envelope(shape).request)
    return 0


def choose_format(args: Namespace) -> str:
    """Choose the format; `--json` is short for one of them and cannot go with another."""
    if args.json and args.format not in (None, "json"):
        raise InputError(f"--json and --format {args.format} ask for two things; leave one of them out")
    return "json" if args.json else args.format or "text"


COMMAND = Command(
    name="build",
    summary="print the prompt of a turn",
    description="Print the prompt of a turn. Without options the owner is speaking, in a private chat, and the agent "
    "has the tools that it would have in a turn. What was sent has: foreword trace TURN --prompt",
    examples=(
        "foreword build",
        "foreword build --user bob --room family --channel telegram",
        'foreword build --message "What is on today?" --format anthropic',
        "foreword build --json > before.json",
    ),
    add_options=add_options,
    run=run,
)
