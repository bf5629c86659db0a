"""Claims about the public surface."""

import subprocess
import sys

import foreword

NAMES = [
    *("Assembly", "BudgetError", "Client", "ConfigError", "Delivery", "ForewordError", "Git", "Host", "InputError"),
    *("Message", "Mode", "Pace", "Sandbox", "Step", "Task", "Tool", "Toolset", "Trust", "Turn", "UnknownName"),
    *("Workspace", "WorkspaceError", "source"),
]
HEAVY = {"yaml", "rich", "pydantic", "sqlite3", "rs_bpe", "genai_prices", "asyncio", "json", "zoneinfo"}


def run(script: str, *args: str, **options: str) -> str:
    """Run a script in a process of its own."""
    done = subprocess.run(
        [sys.executable, *args, "-c", script], capture_output=True, text=True, check=True, cwd=options.get("cwd")
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_names() -> None:
    """The public names are these, each of them exists, and no other is handed out."""
    assert foreword.__all__ == NAMES
    assert all(getattr(foreword, name) is not None for name in NAMES)
    assert not hasattr(foreword, "assemble_everything")


def test_open() -> None:
    """`foreword.open` opens a workspace, and the builtin stays what it was."""
    assert foreword.open.__name__ == "open_workspace"
    assert open is not foreword.open
    assert {*NAMES, "open"} <= {*dir(foreword)}


def test_star() -> None:
    """A star import brings every public name and leaves the builtin `open` alone."""
    assert run("from foreword import *\nimport builtins\nprint(open is builtins.open, Turn.__name__)") == "True Turn"


def test_light() -> None:
    """Importing the package imports nothing heavy."""
    loaded = run("import sys; before = set(sys.modules); import foreword; print(*(set(sys.modules) - before))").split()
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)
    assert [name for name in loaded if name.startswith("foreword.")] == []


def test_engine_imports_no_gateway() -> None:
    """Assembling needs neither the command line's libraries nor any framework."""
    script = (
        "import sys, tempfile\n"
        "from foreword.testing import make_workspace\n"
        "from foreword import Turn\n"
        "make_workspace(tempfile.mkdtemp(), {}).assemble(Turn()).envelope('anthropic').json()\n"
        "print(*sys.modules)"
    )
    loaded = {name.partition(".")[0] for name in run(script).split()}
    assert loaded.isdisjoint({"rich", "pydantic", "genai_prices", "typer", "click", "jinja2", "httpx", "asyncio"})


def test_no_side_effects(tmp_path) -> None:
    """Importing prints nothing, writes nothing, starts no thread and changes no setting of the process."""
    script = (
        "import os, sys, threading, locale, signal\n"
        "def look(): return (os.getcwd(), dict(os.environ), threading.active_count(), locale.setlocale(0), "
        "signal.getsignal(2), sys.stdout, len(sys.meta_path), sys.getrecursionlimit())\n"
        "before = look()\n"
        "import foreword\n"
        "for name in foreword.__all__: getattr(foreword, name)\n"
        "assert look() == before\n"
    )
    assert run(script, "-B", cwd=str(tmp_path)) == ""
    assert list(tmp_path.iterdir()) == []


def test_version() -> None:
    """The version is where people look for it."""
    assert foreword.__version__.count(".") == 2


def test_errors() -> None:
    """Everything that is raised on purpose has one root, and what the caller can mend is an InputError."""
    from foreword import errors

    mendable = {"WorkspaceError", "ConfigError", "UnknownName", "PathRefused"}
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised == {"ForewordError", "InputError", "BudgetError", *mendable}
    assert all(issubclass(getattr(errors, name), errors.InputError) for name in mendable)
    assert not issubclass(errors.BudgetError, errors.InputError)
