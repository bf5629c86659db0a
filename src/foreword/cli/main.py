"""The entry point: parse the arguments, run a command, and turn every failure into a message and an exit code.

A command NAME is the function `run_NAME` of its module; its docstring is the help text. `add_NAME_options` adds its
arguments. Only the module of the running command is imported, so that a start costs no more than it needs.
"""

import argparse
import gc
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any, NoReturn

from foreword import __version__
from foreword.cli.output import print_error
from foreword.errors import BudgetError, ConfigError, ForewordError, InputError, suggest_name
from foreword.turn import normalize_name
from foreword.types import frozen

# The module and the summary of each command, in the order of `foreword --help`.
COMMANDS = {
    "chat": ("gateway_commands", "talk with an agent in the terminal"),
    "serve": ("gateway_commands", "run the gateway and its HTTP API"),
    "build": ("prompt_commands", "print the prompt of a turn"),
    "explain": ("prompt_commands", "show the verdict, the reason and the cost of every slot of a turn"),
    "diff": ("diff_command", "compare two prompts, and show the effect on the cache"),
    "price": ("price_command", "show what an edit of a file costs each session, before it takes effect"),
    "memory": ("memory_commands", "search, read, save, forget and review memories"),
    "instructions": ("memory_commands", "show, replace or clear a person's standing instructions"),
    "agent": ("data_commands", "show or set the stored soul, identity and responsibilities of an agent"),
    "token": ("gateway_commands", "create, list and revoke tokens of the HTTP API"),
    "pair": ("gateway_commands", "pair a person on a channel with a user, by a code"),
    "schedule": ("gateway_commands", "list, add, cancel and run scheduled messages to agents"),
    "sessions": ("status_commands", "list past conversations, and show one"),
    "status": ("status_commands", "show channels, sessions, memory, recent errors and next runs"),
    "logs": ("log_commands", "search recorded events, or follow them"),
    "trace": ("log_commands", "show everything that one turn did"),
    "cost": ("log_commands", "show spending by day, session, person and more"),
    "cache": ("cache_command", "show cache reads and the causes of cache breaks, or simulate a session"),
    "export": ("data_commands", "export recorded events, or all data of a person, as JSON Lines"),
    "forget": ("data_commands", "erase all data of a person, with a report"),
    "lint": ("workspace_commands", "find text that breaks caches, leaked secrets and unreachable slots"),
    "init": ("workspace_commands", "create a workspace"),
    "blueprints": ("prompt_commands", "list the blueprints, or print one"),
    "doctor": ("workspace_commands", "find problems in the installation and the workspace, with remedies"),
    "bench": ("workspace_commands", "run benchmarks, each with a baseline in the same run"),
}
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
EXIT_OVER_BUDGET = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + the signal number, as in shells
EXIT_PIPE_CLOSED = 141
# The modules of each extra. For a module in several extras, the first one is the smallest.
MODULES_BY_EXTRA = {
    "otlp": {"opentelemetry"},
    "gateway": {"anyio", "cronsim", "fastapi", "httpx2", "mcp", "mcp_types", "prompt_toolkit", "starlette", "uvicorn"},
    "local": {"xllamacpp"},
    "telegram": {"aiogram", "markdown_it", "wcwidth"},
}


@frozen
class CliCommand:
    """A subcommand of `foreword`."""

    name: str
    description: str
    examples: tuple[str, ...]
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def load_command(name: str) -> CliCommand:
    """Import a command. The examples follow its description in the docstring."""
    module = import_module(f"foreword.cli.{COMMANDS[name][0]}")
    run = getattr(module, f"run_{name}")
    description, _, examples = cleandoc(run.__doc__).partition("\n\nExamples:\n")
    return CliCommand(
        name=name,
        description=" ".join(description.split()),
        examples=tuple(line.strip() for line in examples.splitlines()),
        add_options=getattr(module, f"add_{name}_options", lambda _: None),
        run=run,
    )


class CommandParser(ArgumentParser):
    """An argument parser that raises InputError and suggests the nearest valid name."""

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        listed = "examples:\n" + "\n".join(f"  {example}" for example in examples)
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(epilog=listed, formatter_class=layout, allow_abbrev=False, **settings)

    @property
    def arguments(self) -> list[argparse.Action]:
        """All arguments and options, in order."""
        return self._actions

    @property
    def positionals(self) -> str:
        """The positional arguments, as the usage line shows them."""
        shown = {None: "{}", "?": "[{}]", "*": "[{} …]"}
        named = [action for action in self._actions if not action.option_strings and action.metavar]
        return " ".join(shown[action.nargs].format(action.metavar) for action in named)  # type: ignore[index]

    def format_help(self) -> str:
        """Return the help; the formatter keeps the lines of the examples, so the description is wrapped here."""
        from textwrap import fill

        self.description = fill(self.description or "", 78)
        return super().format_help()

    def refuse(self, extra: Sequence[str]) -> None:
        """Refuse the first word that no argument takes."""
        long_names = [max(action.option_strings, key=len) for action in self._actions if action.option_strings]
        for name in (word.partition("=")[0] for word in extra if word.startswith("-")):
            self.error(f"unknown option {name}{suggest_name(name, long_names)}")
        if extra:
            self.error(f"unexpected argument {extra[0]!r}")

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
            noun = str(action.metavar).lower()
            self.error((what or f"unknown {noun} {value!r}") + suggest_name(str(value), list(action.choices)))


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """Parse the arguments, or raise InputError with the nearest valid name."""
    for argument in arguments:
        if not is_utf8(argument):
            raise InputError(f"argument {argument!a} is not UTF-8")
    at = find_command(arguments)
    if arguments[at : at + 1] == [HELP_COMMAND]:  # a common convention
        arguments = [*arguments[:at], *arguments[at + 1 :], "--help"]
        at = find_command(arguments)
    name = arguments[at] if at < len(arguments) else ""
    chosen = [name] if name in COMMANDS else []
    parser, parsers = make_parsers(chosen, listed=chosen if at < len(arguments) else tuple(COMMANDS))
    args, extra = parser.parse_known_args(arguments[:at])
    parser.refuse(extra)
    if not name:
        raise InputError(f"missing command; use one of: {', '.join(COMMANDS)}\nsee: foreword --help")
    if not chosen:
        parser.error(f"unknown command {name!r}{suggest_name(name, list(COMMANDS))}")
    args, extra = parsers[name].parse_known_intermixed_args(arguments[at + 1 :], args)
    parsers[name].refuse(extra)
    for name in NAME_ARGUMENTS & vars(args).keys():
        if isinstance(value := getattr(args, name), str):
            setattr(args, name, normalize_name(value))
    return args


def make_parsers(
    loaded: Sequence[str] = tuple(COMMANDS), listed: Sequence[str] = tuple(COMMANDS)
) -> tuple[CommandParser, Mapping[str, CommandParser]]:
    """Make the parser of `foreword`, whose help lists commands, and the parsers of the commands to load."""
    usage = "foreword [-w DIR] COMMAND [options]"
    parser = CommandParser(prog="foreword", usage=usage, description=DESCRIPTION, examples=EXAMPLES)
    add_global_options(parser, default=None)
    parser.add_argument("--version", action="version", version=f"foreword {__version__}", help="show the version")
    parser.set_defaults(json=False)
    below = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser)
    parsers: dict[str, CommandParser] = {}
    for name in listed:
        if name not in loaded:
            below.add_parser(name, help=COMMANDS[name][1])
            continue
        command = load_command(name)
        shown: dict[str, Any] = {"description": command.description, "examples": command.examples}
        made = parsers[name] = below.add_parser(name, prog=f"foreword {name}", help=COMMANDS[name][1], **shown)
        command.add_options(made)
        made.usage = f"foreword {name} [options] {made.positionals}".rstrip()
        # Suppressed, so that the command's parser does not reset an option given before the command.
        add_global_options(made, default=argparse.SUPPRESS)
        made.set_defaults(run=command.run)
    return parser, parsers


def add_global_options(parser: ArgumentParser, default: str | None) -> None:
    """Add the options allowed before and after the command."""
    group = parser.add_argument_group("global options")
    about = "the workspace (default: the nearest folder upwards with a foreword.yaml)"
    group.add_argument("-w", "--workspace", metavar="DIR", default=default, help=about)
    group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")


def find_command(arguments: Sequence[str]) -> int:
    """Return the position of the command: the first word that is neither an option nor the value of -w."""
    for at, argument in enumerate(arguments):
        if not argument.startswith("-") and arguments[at - 1 : at] not in (["-w"], ["--workspace"]):
            return at
    return len(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in the arguments and return its exit code. User errors never cause a traceback."""
    prepare_streams()
    try:
        args = parse_own_arguments() if argv is None else parse_arguments(argv)
        code: int = args.run(args)
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


def parse_own_arguments() -> Namespace:
    """Parse the arguments of this process. Imports make no garbage; looking for it took a tenth of a start."""
    gc.disable()
    args = parse_arguments(sys.argv[1:])
    gc.freeze()
    gc.enable()
    return args


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


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; surrogates for undecodable bytes cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def prepare_streams() -> None:
    """Open closed standard streams on /dev/null, so that no other file gets their descriptors; write UTF-8."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):  # a prompt has the same bytes in every locale
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
