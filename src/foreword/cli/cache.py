"""`foreword cache`: what the prompt caches of providers do with a design."""

from argparse import ArgumentParser, Namespace

from foreword.cli.command import Command
from foreword.cli.simulation import add_simulation_options, simulate
from foreword.errors import InputError

ACTIONS = {"simulate": "[SCENARIO.yaml]: play a session against the rules and prices of providers"}


def add_options(parser: ArgumentParser) -> None:
    """Add the action, and what it is about."""
    listed = "; ".join(f"{name} {about}" for name, about in ACTIONS.items())
    parser.add_argument("action", metavar="ACTION", nargs="?", choices=ACTIONS, help=listed)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the scenario; else the session that ships")
    add_simulation_options(parser)


def run(args: Namespace) -> int:
    """Do what the action says."""
    if args.action is None:
        raise InputError(f"cache needs an action: {', '.join(ACTIONS)}\nsee: foreword cache --help")
    return simulate(args)


COMMAND = Command(
    name="cache",
    arguments="ACTION [FILE]",
    summary="simulate a design against the prompt caches of providers",
    description="Play a session against the rules and prices of prompt caches, in five designs: Foreword's own, the "
    "same without a cache, everything in one string with a clock, a static and a dynamic part with one mark, and an "
    "oracle that knows the future. With --recorded, requests that were captured are played instead, and what was "
    "reported stands beside what the rules say. The models are those that --model names, else that of the scenario, "
    "else those of the workspace; `models:` of a workspace overrides rules and prices, and none is needed.",
    examples=(
        "foreword cache simulate",
        "foreword cache simulate plan.yaml --model anthropic:claude-sonnet-5 --model openai:gpt-5.6",
        "foreword cache simulate plan.yaml --calls",
        "foreword cache simulate --recorded session.jsonl --json",
    ),
    add_options=add_options,
    run=run,
)
