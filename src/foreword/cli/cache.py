"""`foreword cache`: what the prompt caches of providers did with our prompts, and what they would do with a design."""

from argparse import ArgumentParser, Namespace

from foreword.cli.breaks import add_break_options, show_breaks
from foreword.cli.command import Command, list_actions
from foreword.cli.simulation import add_simulation_options, simulate
from foreword.errors import InputError

ACTIONS = {"simulate": "[SCENARIO.yaml]: play a session against the rules and prices of providers"}
RECORDED = ("since", "until", "session", "user", "reader", "room")
SIMULATED = ("model", "recorded", "calls")


def add_options(parser: ArgumentParser) -> None:
    """Add the action, and what it is about."""
    listed = list_actions(ACTIONS)
    parser.add_argument(
        "action", metavar="ACTION", nargs="?", choices=ACTIONS, help=f"nothing: what was read and lost; {listed}"
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the scenario; else the session that ships")
    add_break_options(parser)
    add_simulation_options(parser)


def run(args: Namespace) -> int:
    """Do what the action says, or show what became of the calls that were made."""
    strange = SIMULATED if args.action is None else RECORDED
    for name in strange:
        if getattr(args, name):
            place = "foreword cache simulate" if args.action is None else "foreword cache without an action"
            raise InputError(f"--{name} belongs to {place}\nsee: foreword cache --help")
    return show_breaks(args) if args.action is None else simulate(args)


COMMAND = Command(
    name="cache",
    arguments="[ACTION] [FILE]",
    summary="show what was read from providers' caches and why not more, or simulate a design",
    description="Print how much of the input was read from the caches of providers, beside what was predicted; what "
    "was lost to breaks, by cause; the newest breaks, each with its section and byte; what the ledger decided about "
    "edits; and how far counts of tokens are off. Without a time it is about today. "
    "`foreword cache simulate` plays a session against the rules and prices of prompt caches, in five designs: "
    "Foreword's own, the same without a cache, everything in one string with a clock, a static and a dynamic part "
    "with one mark, and an oracle that knows the future. With --recorded, requests that were captured are played "
    "instead, and what was reported stands beside what the rules say. The models are those that --model names, else "
    "that of the scenario, else those of the workspace; `models:` of a workspace overrides rules and prices, and none "
    "is needed.",
    examples=(
        "foreword cache",
        "foreword cache --since 7d --session 56a92fa4",
        "foreword cache simulate",
        "foreword cache simulate plan.yaml --model anthropic:claude-sonnet-5 --model openai:gpt-5.6",
        "foreword cache simulate plan.yaml --calls",
        "foreword cache simulate --recorded session.jsonl --json",
    ),
    add_options=add_options,
    run=run,
)
