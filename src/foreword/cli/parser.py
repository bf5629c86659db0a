"""Parsing: the parsers of all commands, and a nearest valid name for whatever is mistyped."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from foreword import __version__
from foreword.cli.command import Command
from foreword.errors import InputError, suggest
from foreword.names import normalize_name

COMMANDS = (
    "chat", "serve", "build", "explain", "diff", "price", "memory", "instructions", "agent", "token", "pair",
    "schedule", "sessions", "status", "logs", "trace", "cost", "cache", "export", "forget", "lint", "init",
    "blueprints", "doctor", "bench",
)  # fmt: skip
HELP = "help"
REQUIRED = "the following arguments are required: "  # the words of argparse
DESCRIPTION = "Foreword decides what an agent is told before it speaks, and explains every byte of it."
EXAMPLES = (
    "foreword init assistant                      make a workspace",
    "foreword -w assistant explain                what its agent would be told, and why",
    "foreword -w assistant build --user bob       the prompt itself, for somebody else",
    "foreword COMMAND --help                      the options of a command",
)

# Options and arguments that are names; Unicode has several spellings for some letters.
NAMED = {"user", "who", "what", "reader", "owner", "agent", "room", "channel", "situation", "store", "name"}


class Parser(ArgumentParser):
    """A parser that raises what it has to say, and offers the nearest valid name."""

    @property
    def arguments(self) -> list[argparse.Action]:
        """Everything that can be given, in order."""
        return self._actions

    @property
    def options(self) -> list[str]:
        """The options by name, each in its long form if it has one."""
        return [max(action.option_strings, key=len) for action in self._actions if action.option_strings]

    def take(self, args: Namespace, words: Sequence[str]) -> list[str]:
        """Give words that stand behind an option to the arguments that they are meant for, and return what is left."""
        left = list(words)
        for action in self._actions:
            held = None if action.option_strings else getattr(args, action.dest, None)
            if left and action.nargs == "*" and isinstance(held, list):
                setattr(args, action.dest, held + left)
                left = []
            elif left and action.nargs == "?" and not action.option_strings and held == action.default:
                self._check_value(action, left[0])
                setattr(args, action.dest, left.pop(0))
        return left

    def error(self, message: str) -> NoReturn:
        """Refuse what was typed."""
        missing = message.removeprefix(REQUIRED).split(", ") if message.startswith(REQUIRED) else []
        listed = [action for action in self._actions if action.metavar in missing and action.choices]
        if listed:  # the first of them decides what else is needed
            message = f"which {str(listed[0].metavar).lower()}? There is {', '.join(map(str, listed[0].choices or ()))}"
        raise InputError(f"{message}\nsee: {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public place between a wrong choice and its own message.
        if action.choices is not None and value not in action.choices:
            what = f"unknown value {value!r} for {max(action.option_strings, key=len)}" if action.option_strings else ""
            noun = str(action.metavar or "command").lower()
            self.error((what or f"unknown {noun} {value!r}") + suggest(str(value), list(action.choices)))


def parse(arguments: Sequence[str]) -> Namespace:
    """Parse what was typed, or raise InputError with the nearest valid name."""
    leading, command = split(arguments)
    if command == HELP:  # as many programs have it
        asked = [argument for argument in arguments if argument != HELP]
        arguments, command = [*asked, "--help"], split(asked)[1]
    # The other commands are not even imported: a start should cost what its command costs.
    parser, commands = make_parsers((command,) if command in COMMANDS else COMMANDS)
    refuse_unknown(parser, leading)
    args, extra = parser.parse_known_args(arguments)
    if args.command is None:
        raise InputError(f"which command? There is {', '.join(COMMANDS)}\nsee: foreword --help")
    chosen = commands[args.command]
    refuse_unknown(chosen, [argument for argument in extra if argument.startswith("-") and argument != "-"])
    # argparse takes no words behind an option for what they are.
    if left := chosen.take(args, extra):
        chosen.error(f"unexpected argument {left[0]!r}")
    for name in NAMED & vars(args).keys():
        if isinstance(value := getattr(args, name), str):
            setattr(args, name, normalize_name(value))
    return args


def load(name: str) -> Command:
    """Load a command."""
    command: Command = import_module(f"foreword.cli.{name}").COMMAND
    return command


def make_parsers(names: Sequence[str] = COMMANDS) -> tuple[Parser, Mapping[str, Parser]]:
    """Make the parser of `foreword` itself and those of the named commands."""
    parser = Parser(prog="foreword", usage="foreword [-w DIR] COMMAND [options]", **shape(DESCRIPTION, EXAMPLES))
    add_globals(parser, default=None)
    parser.add_argument("--version", action="version", version=f"foreword {__version__}", help="show the version")
    parser.set_defaults(json=False)
    below = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    made: dict[str, Parser] = {}
    for command in map(load, names):
        each = below.add_parser(
            command.name,
            prog=f"foreword {command.name}",
            usage=f"foreword {command.name} [options] {command.arguments}".rstrip(),
            help=command.summary,
            **shape(command.description, command.examples),
        )
        command.add_options(each)
        # Suppressed, so that an option given before the command is not reset by its absence after it.
        add_globals(each, default=argparse.SUPPRESS)
        each.set_defaults(run=command.run)
        made[command.name] = each
    return parser, made


def shape(description: str, examples: Sequence[str]) -> dict[str, Any]:
    """Choose how a parser reads, and how its help begins and ends."""
    from textwrap import fill

    return {
        # The formatter that keeps the lines of the examples keeps those of the description, too.
        "description": fill(description, 78),
        "epilog": "examples:\n" + "\n".join(f"  {example}" for example in examples),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def add_globals(parser: ArgumentParser, default: str | None) -> None:
    """Add the options that may stand before or after the command."""
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "-w",
        "--workspace",
        metavar="DIR",
        default=default,
        help="the workspace; else the nearest folder upwards that has a foreword.yaml",
    )
    group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")


def split(arguments: Sequence[str]) -> tuple[list[str], str]:
    """Find the long options before the command, and the command; a mistyped option's value could be taken for one."""
    leading: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            return leading, argument
        if argument in ("-w", "--workspace"):
            next(rest, None)
        elif argument.startswith("--"):
            leading.append(argument)
    return leading, ""


def refuse_unknown(parser: Parser, options: Sequence[str]) -> None:
    """Refuse the first option that this parser does not have."""
    known = [name for action in parser.arguments for name in action.option_strings]
    for option in options:
        name = option.partition("=")[0]
        if name not in known:
            parser.error(f"unknown option {name}{suggest(name, parser.options)}")
