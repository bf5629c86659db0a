"""Claims about the public surface."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pytest

import foreword
from foreword.errors import InputError, UnknownName
from foreword.turn import Extension, Step, Task, Tool, Toolset, Turn
from foreword.types import Delivery, Mode

NAMES = [
    *("Assembly", "BudgetError", "Bulletin", "Client", "Communication", "ConfigError", "Delivery", "Extension"),
    *(
        "FileEntry",
        "ForewordError",
        "Git",
        "Host",
        "InputError",
        "Message",
        "Mode",
        "Pace",
        "Reply",
        "Sandbox",
        "Session",
        "Signal",
        "State",
        "Step",
        "Task",
        "Tool",
        "ToolAnswer",
        "ToolError",
        "ToolRun",
        "Toolset",
    ),
    *("Trust", "Turn", "UnknownName", "Workspace", "WorkspaceError", "build_agent_prompt", "classify", "is_noise"),
    *("source", "tool"),
]
HEAVY = {"yaml", "rich", "pydantic", "sqlite3", "splintr", "genai_prices", "asyncio", "json", "zoneinfo"}


def run(script: str, *args: str, **options: str) -> str:
    """Run a script in a separate process."""
    done = subprocess.run(
        [sys.executable, *args, "-c", script], capture_output=True, text=True, check=True, cwd=options.get("cwd")
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_names() -> None:
    """The package exports exactly these names, and each of them exists."""
    assert foreword.__all__ == NAMES
    assert all(getattr(foreword, name) is not None for name in NAMES)
    assert not hasattr(foreword, "assemble_everything")


def test_page() -> None:
    """The page of the public names has each of them."""
    page = (Path(__file__).parents[1] / "docs" / "public.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in page] == []


def test_open() -> None:
    """`foreword.open` opens a workspace, and the builtin `open` is unchanged."""
    assert foreword.open.__name__ == "open_workspace"
    assert open is not foreword.open
    assert {*NAMES, "open"} <= {*dir(foreword)}


def test_star() -> None:
    """A star import includes the public names and does not replace the builtin `open`."""
    assert run("from foreword import *\nimport builtins\nprint(open is builtins.open, Turn.__name__)") == "True Turn"


def test_light() -> None:
    """Importing the package imports no expensive module."""
    loaded = run("import sys; before = set(sys.modules); import foreword; print(*(set(sys.modules) - before))").split()
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)
    assert [name for name in loaded if name.startswith("foreword.")] == []


def test_engine_imports_no_gateway() -> None:
    """Assembling imports neither the libraries of the command line nor a framework."""
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
    """Importing prints nothing, writes nothing, starts no thread and changes no process setting."""
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
    """The package has a version."""
    assert foreword.__version__.count(".") == 2


def test_errors() -> None:
    """All exceptions have one root, and those that the caller can fix are subclasses of InputError."""
    from foreword import errors

    mendable = {"WorkspaceError", "ConfigError", "UnknownName", "Forbidden", "PathRefused", "UnusableRules"}
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised == {"ForewordError", "InputError", "BudgetError", "ToolError", *mendable}
    assert all(issubclass(getattr(errors, name), errors.InputError) for name in mendable)
    assert not issubclass(errors.BudgetError, errors.InputError)


def test_turn_takes_written_words() -> None:
    """A mode and a delivery can be given as strings."""
    turn = Turn(mode="minimal", background="never")
    assert (turn.mode, turn.background) == (Mode.MINIMAL, Delivery.NEVER)
    assert turn == Turn(mode=Mode.MINIMAL, background=Delivery.NEVER)


@pytest.mark.parametrize(("field", "value"), [("mode", "ful"), ("mode", 3), ("background", "sometimes")])
def test_turn_refuses_unknown_words(field: str, value: object) -> None:
    """The error for an unknown value names its field."""
    with pytest.raises(UnknownName, match=f"unknown {field} '{value}'"):
        Turn(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        *(
            (name, value, "names and texts must be strings")
            for name in ("agent", "user", "channel")
            for value in (None, 3)
        ),
        *(
            (name, b"x", "names and texts must be strings")
            for name in ("room", "situation", "session", "message", "project")
        ),
        *((name, ["x"], "names and texts must be strings") for name in ("instructions", "blueprint", "model")),
        ("now", datetime(2026, 11, 15), "now needs a time zone"),  # noqa: DTZ001 - the claim is about such a time
        ("now", "2026-11-15", "now must be a datetime, not '2026-11-15'"),
        ("now", 1_700_000_000, "now must be a datetime"),
        ("tools", [], "tools must be a Toolset"),
        ("tools", [Tool(name="x")], "tools must be a Toolset"),
        ("signal", "EXECUTE", "signal must be a Signal"),
        ("state", {}, "state must be a State"),
        ("extensions", (Extension(name="x"), Extension(name="x")), "two extensions have the same name"),
    ],
)
def test_turn_checks_its_fields(field: str, value: object, words: str) -> None:
    """A turn with a field of the wrong type is refused on creation, with a message that names the problem."""
    with pytest.raises(InputError, match=words):
        Turn(**{field: value})


def test_whole_turn() -> None:
    """A turn with an aware time and a toolset is valid."""
    assert Turn(now=datetime(2026, 11, 15, tzinfo=UTC), tools=Toolset()).now is not None


@pytest.mark.parametrize("name", ["a", "mcp.files-read_2", "A" * 128])
def test_tool_name(name: str) -> None:
    """A tool name can have letters, digits and three punctuation characters, which every provider accepts."""
    assert Tool(name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a/b", "é", "a\n", "A" * 129])
def test_bad_tool_name(name: str) -> None:
    """Any other tool name is refused before a provider can refuse the request."""
    with pytest.raises(InputError, match="is not a valid tool name"):
        Tool(name=name)


CYCLE: dict[str, object] = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize("value", [{1, 2}, object(), MappingProxyType({}), float("nan"), {1: 2, "a": 3}, CYCLE])
def test_schema_that_is_no_json(value: object) -> None:
    """A schema that is not JSON-serialisable is refused with the name of its tool."""
    with pytest.raises(InputError, match="the parameters of tool 'dig' cannot be written as JSON: "):
        Tool(name="dig", parameters={"properties": {"x": {"default": value}}})


def test_step_and_task() -> None:
    """A step with an unknown status and a task with non-string texts are refused on creation."""
    with pytest.raises(UnknownName, match="unknown status of a step 'bogus'"):
        Step(text="Dig.", status="bogus")
    for step in ({"text": None}, {"text": "Dig.", "status": 3}):
        with pytest.raises(InputError, match="a step's text and status must be strings"):
            Step(**step)
    for task in ({"id": 7}, {"title": None}, {"description": 1}, {"status": None}):
        with pytest.raises(InputError, match="a task's id and texts must be strings"):
            Task(**{"id": "7", "title": "Dig", **task})
    with pytest.raises(InputError, match=r"each of a task's steps must be a Step, not 'Dig"):
        Task(id="7", title="Dig", steps=("Dig.",))
