"""The entry point: run a command, and turn every failure into a message and an exit code.

The description of a command: name, help, options and function. The argument parsers of all commands, with suggestions
for mistyped names.
"""

import argparse
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from foreword import __version__
from foreword.cli.output import print_error
from foreword.errors import BudgetError, ConfigError, ForewordError, InputError, suggest_name
from foreword.turn import normalize_name
from foreword.types import frozen


@frozen(eq=True)
class CliCommand:
    """A subcommand of `foreword`."""

    name: str
    arguments: str = ""
    """The positional arguments, as the usage line shows them."""
    summary: str
    description: str
    examples: tuple[str, ...]
    add_options: Callable[[ArgumentParser], None] = lambda _: None
    run: Callable[[Namespace], int]


def list_actions(actions: Mapping[str, str]) -> str:
    """List actions with their descriptions. A description may start with its arguments, in brackets or capitals."""
    takes = {name: about.startswith("[") or about[:2].isupper() for name, about in actions.items()}
    return "; ".join(f"{name} {about}" if takes[name] else f"{name}: {about}" for name, about in actions.items())


COMMAND_MODULES = {
    "chat": "chat.chat_command",
    "serve": "gateway_commands",
    "build": "prompt_commands",
    "explain": "prompt_commands",
    "diff": "diff_command",
    "price": "price_command",
    "memory": "memory_command",
    "instructions": "agent_commands",
    "agent": "agent_commands",
    "token": "gateway_commands",
    "pair": "gateway_commands",
    "schedule": "schedule_command",
    "sessions": "status_commands",
    "status": "status_commands",
    "logs": "log_commands",
    "trace": "log_commands",
    "cost": "log_commands",
    "cache": "cache_command",
    "export": "data_commands",
    "forget": "data_commands",
    "lint": "workspace_commands",
    "init": "workspace_commands",
    "blueprints": "prompt_commands",
    "doctor": "workspace_commands",
    "bench": "workspace_commands",
}
COMMAND_NAMES = tuple(COMMAND_MODULES)
HELP_COMMAND = "help"
ARGPARSE_REQUIRED = "the following arguments are required: "  # argparse's wording
DESCRIPTION = "Foreword assembles the prompt of an AI agent, and explains every byte of it."
EXAMPLES = (
    "foreword init assistant                      create a workspace",
    "foreword -w assistant explain                show the prompt slot by slot, with reasons",
    "foreword -w assistant build --user bob       print the prompt for another person",
    "foreword COMMAND --help                      list the options of a command",
)

# Arguments that are names; they are normalized, because Unicode has several spellings for some letters.
NAME_ARGUMENTS = {"user", "who", "what", "reader", "owner", "agent", "room", "channel", "situation", "store", "name"}


class CommandParser(ArgumentParser):
    """An argument parser that raises InputError and suggests the nearest valid name."""

    @property
    def arguments(self) -> list[argparse.Action]:
        """All arguments and options, in order."""
        return self._actions

    @property
    def options(self) -> list[str]:
        """The names of all options, the long form where there is one."""
        return [max(action.option_strings, key=len) for action in self._actions if action.option_strings]

    def take(self, args: Namespace, words: Sequence[str]) -> list[str]:
        """Assign words that follow an option to free positional arguments; return the rest."""
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
        """Raise InputError with the message and the help command."""
        missing = message.removeprefix(ARGPARSE_REQUIRED).split(", ") if message.startswith(ARGPARSE_REQUIRED) else []
        listed = [action for action in self._actions if action.metavar in missing and action.choices]
        if listed:  # the first missing argument determines the others
            message = f"missing {str(listed[0].metavar).lower()}; use {', '.join(map(str, listed[0].choices or ()))}"
        raise InputError(f"{message}\nsee: {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public hook between a wrong choice and its message.
        if action.choices is not None and value not in action.choices:
            what = f"unknown value {value!r} for {max(action.option_strings, key=len)}" if action.option_strings else ""
            noun = str(action.metavar or "command").lower()
            self.error((what or f"unknown {noun} {value!r}") + suggest_name(str(value), list(action.choices)))


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """Parse the arguments, or raise InputError with the nearest valid name."""
    leading, command = find_command(arguments)
    if command == HELP_COMMAND:  # a common convention
        asked = [argument for argument in arguments if argument != HELP_COMMAND]
        arguments, command = [*asked, "--help"], find_command(asked)[1]
    # Import only this command, so that a start costs no more than it needs.
    parser, commands = make_parsers((command,) if command in COMMAND_NAMES else COMMAND_NAMES)
    refuse_unknown_options(parser, leading)
    args, extra = parser.parse_known_args(arguments)
    if args.command is None:
        raise InputError(f"missing command; use one of: {', '.join(COMMAND_NAMES)}\nsee: foreword --help")
    chosen = commands[args.command]
    refuse_unknown_options(chosen, [argument for argument in extra if argument.startswith("-") and argument != "-"])
    # argparse leaves positional words after an option unparsed.
    if left := chosen.take(args, extra):
        chosen.error(f"unexpected argument {left[0]!r}")
    for name in NAME_ARGUMENTS & vars(args).keys():
        if isinstance(value := getattr(args, name), str):
            setattr(args, name, normalize_name(value))
    return args


def load_command(name: str) -> CliCommand:
    """Import a command."""
    module = import_module(f"foreword.cli.{COMMAND_MODULES[name]}")
    command: CliCommand = getattr(module, f"{name.upper()}_COMMAND")
    return command


def make_parsers(names: Sequence[str] = COMMAND_NAMES) -> tuple[CommandParser, Mapping[str, CommandParser]]:
    """Make the parser of `foreword` and those of the named commands."""
    parser = CommandParser(
        prog="foreword", usage="foreword [-w DIR] COMMAND [options]", **make_layout(DESCRIPTION, EXAMPLES)
    )
    add_global_options(parser, default=None)
    parser.add_argument("--version", action="version", version=f"foreword {__version__}", help="show the version")
    parser.set_defaults(json=False)
    below = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser)
    made: dict[str, CommandParser] = {}
    for command in map(load_command, names):
        each = below.add_parser(
            command.name,
            prog=f"foreword {command.name}",
            usage=f"foreword {command.name} [options] {command.arguments}".rstrip(),
            help=command.summary,
            **make_layout(command.description, command.examples),
        )
        command.add_options(each)
        # Suppressed, so that the command's parser does not reset an option given before the command.
        add_global_options(each, default=argparse.SUPPRESS)
        each.set_defaults(run=command.run)
        made[command.name] = each
    return parser, made


def make_layout(description: str, examples: Sequence[str]) -> dict[str, Any]:
    """Return the parser settings for the layout of the help text."""
    from textwrap import fill

    return {
        # This formatter keeps line breaks in the examples, but in the description as well, so wrap it here.
        "description": fill(description, 78),
        "epilog": "examples:\n" + "\n".join(f"  {example}" for example in examples),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


def add_global_options(parser: ArgumentParser, default: str | None) -> None:
    """Add the options allowed before and after the command."""
    group = parser.add_argument_group("global options")
    group.add_argument(
        "-w",
        "--workspace",
        metavar="DIR",
        default=default,
        help="the workspace (default: the nearest folder upwards with a foreword.yaml)",
    )
    group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")


def find_command(arguments: Sequence[str]) -> tuple[list[str], str]:
    """Return the long options before the command, and the command itself."""
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


def refuse_unknown_options(parser: CommandParser, options: Sequence[str]) -> None:
    """Refuse the first option that this parser does not have."""
    known = [name for action in parser.arguments for name in action.option_strings]
    for option in options:
        name = option.partition("=")[0]
        if name not in known:
            parser.error(f"unknown option {name}{suggest_name(name, parser.options)}")


EXIT_OVER_BUDGET = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + the signal number, as in shells
EXIT_PIPE_CLOSED = 141
# The modules of each extra. For a module in several extras, the first one is the smallest.
MODULES_BY_EXTRA = {
    "otlp": {"opentelemetry"},
    "gateway": {"anthropic", "cronsim", "fastapi", "google", "httpx2", "mcp", "openai", "prompt_toolkit"}
    | {"pydantic_ai", "starlette", "uvicorn"},
    "local": {"xllamacpp"},
    "telegram": {"aiogram", "markdown_it", "wcwidth"},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in the arguments and return its exit code. User errors never cause a traceback."""
    open_closed_streams()
    use_utf8()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = run_command(arguments)
        sys.stdout.flush()
    except SystemExit as done:
        # argparse exits this way after --help and --version.
        return int(done.code or 0)
    except BrokenPipeError:
        discard_output()
        return EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (ForewordError, OSError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and find_extra(error) is None:
            raise
        print_error(describe_error(error))
        try:
            sys.stdout.flush()
        except OSError:
            discard_output()
        return EXIT_OVER_BUDGET if isinstance(error, BudgetError) else EXIT_BAD_INPUT
    return code


def discard_output() -> None:
    """Discard unwritten output, so that Python does not fail on flushing it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find_extra(error: ModuleNotFoundError) -> str | None:
    """Return the extra that provides a missing module, or None if no extra does."""
    missing = (error.name or "").partition(".")[0]
    return next((extra for extra, modules in MODULES_BY_EXTRA.items() if missing in modules), None)


def describe_error(error: ForewordError | OSError | ModuleNotFoundError) -> str:
    """Return the error as one message; configuration faults have a line each."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed; install it with: pip install 'foreword[{find_extra(error)}]'"
    if isinstance(error, ConfigError) and len(error.faults) > 1:
        return f"{len(error.faults)} faults:\n{error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def run_command(arguments: Sequence[str]) -> int:
    """Parse the arguments and run their command."""
    for argument in arguments:
        if not is_utf8(argument):
            raise InputError(f"argument {argument!a} is not UTF-8")
    args = parse_arguments(arguments)
    code: int = args.run(args)
    return code


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; surrogates for undecodable bytes cannot."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def open_closed_streams() -> None:
    """Open closed standard streams on /dev/null, so that no other file gets their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open


def use_utf8() -> None:
    """Write UTF-8 to all outputs, so that a prompt has the same bytes in every locale."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
