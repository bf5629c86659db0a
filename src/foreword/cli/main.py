"""The entry of the command line: one command is run, and every failure becomes one message and an exit code."""

import os
import sys
from collections.abc import Sequence

from foreword.cli.output import complain
from foreword.cli.parser import parse
from foreword.errors import BudgetError, ConfigError, ForewordError, InputError

NO_FIT = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 and the number of the signal, as shells count
PIPE_CLOSED = 141
# The modules that each extra brings; the first extra that brings one is the smallest.
EXTRAS = {
    "store": {"alembic", "sqlalchemy"},
    "otlp": {"opentelemetry"},
    "gateway": {"anthropic", "cronsim", "fastapi", "google", "httpx2", "mcp", "openai", "prompt_toolkit"}
    | {"pydantic_ai", "starlette", "uvicorn"},
    "local": {"xllamacpp"},
    "telegram": {"aiogram", "markdown_it", "wcwidth"},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return its exit code; nothing a user can cause is a traceback."""
    open_closed()
    speak_utf8()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = run(arguments)
        sys.stdout.flush()
    except SystemExit as done:
        # argparse leaves this way after --help and --version.
        return int(done.code or 0)
    except BrokenPipeError:
        leave_unwritten()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ForewordError, OSError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and find_extra(error) is None:
            raise
        complain(describe(error))
        try:
            sys.stdout.flush()
        except OSError:
            leave_unwritten()
        return NO_FIT if isinstance(error, BudgetError) else BAD_INPUT
    return code


def leave_unwritten() -> None:
    """Leave what the output does not take: at exit, Python would try to write it once more and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find_extra(error: ModuleNotFoundError) -> str | None:
    """Return the extra of ours that brings a missing module, or None for a module that none of them brings."""
    missing = (error.name or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if missing in modules), None)


def describe(error: ForewordError | OSError | ModuleNotFoundError) -> str:
    """Say in one message what went wrong; a configuration's faults have a line each."""
    if isinstance(error, ModuleNotFoundError):
        return f"this needs {error.name}, which is not installed: pip install 'foreword[{find_extra(error)}]'"
    if isinstance(error, ConfigError) and len(error.faults) > 1:
        return f"{len(error.faults)} faults:\n{error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def run(arguments: Sequence[str]) -> int:
    """Parse the arguments and run their command."""
    for argument in arguments:
        if not is_utf8(argument):
            raise InputError(f"the argument {argument!a} is not UTF-8")
    args = parse(arguments)
    code: int = args.run(args)
    return code


def is_utf8(text: str) -> bool:
    """Tell whether a text can be written as UTF-8, which bytes smuggled in as surrogates cannot."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def open_closed() -> None:
    """Open what the shell has closed on nothing, lest a file of ours takes its number and is written on."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open


def speak_utf8() -> None:
    """Write UTF-8 wherever the output goes, so that a prompt has the same bytes in every locale."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
