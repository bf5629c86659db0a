"""Item 10: a tool is offered only where its effect shows, and no prompt names a tool that the turn lacks."""

import re
from pathlib import Path

import pytest
from budget_house import BLUEPRINTS, GATEWAY_TOOLS, assemble, find_verdicts

from foreword.assembly import Assembly
from foreword.engine.sources.documents import read_builtin
from foreword.turn import Tool, Toolset
from foreword.types import Mode, Trust

SHOWS = {
    "workflow_write": {"default", "osa"},
    "task_write": {"default", "osa", "nova"},
    "responsibility_add": {"default", "nova"},
    "read_skill": {"default", "coop", "moltis"},
    "update_instructions": set(BLUEPRINTS),
}
BUILT_IN_NAMES = GATEWAY_TOOLS.names | {"read_file", "write_file", "list_files", "search_files"}
OTHER_NAMES = {"file_read", "file_edit", "file_grep", "file_glob", "dir_list"}


def find_named(assembly: Assembly) -> set[str]:
    """Find the built-in tools that the text of a prompt names."""
    return set(re.findall(r"\w+", assembly.prompt.text)) & (BUILT_IN_NAMES | OTHER_NAMES)


@pytest.mark.parametrize("name", SHOWS)
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_only_where_it_shows(tmp_path: Path, blueprint: str, name: str) -> None:
    """A tool that writes a slot is offered in the blueprints that show the slot, and in no other."""
    assert (name in assemble(tmp_path, blueprint).tools) == (blueprint in SHOWS[name])


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.MINIMAL])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_standing_instructions_are_shown(tmp_path: Path, blueprint: str, mode: Mode) -> None:
    """Every shipped blueprint shows a user's standing instructions, in its minimal prompt as well."""
    assert "Answer in French." in assemble(tmp_path, blueprint, mode=mode, instructions="Answer in French.").prompt.text


@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_not_in_rooms(tmp_path: Path, blueprint: str) -> None:
    """`update_instructions` is refused in rooms, so it is neither offered nor named there."""
    assembly = assemble(tmp_path, blueprint, room="den", situation="group", instructions="Answer in French.")
    assert "update_instructions" not in assembly.tools
    assert "update_instructions" not in assembly.prompt.text
    assert "French" not in assembly.prompt.text


@pytest.mark.parametrize("user", ["alice", "bob", "mallory"])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_nobody_is_told_of_tools_they_lack(tmp_path: Path, blueprint: str, user: str) -> None:
    """A prompt names no built-in tool that its turn is not offered."""
    assembly = assemble(tmp_path, blueprint, user=user)
    assert find_named(assembly) <= assembly.tools.names


@pytest.mark.parametrize("tools", [("read_file", "list_files"), ("search_files", "write_file"), ()])
def test_osa_names_the_tools_that_exist(tmp_path: Path, tools: tuple[str, ...]) -> None:
    """OSA's routing rule names the file tools of the turn and no others."""
    own = Toolset(Tool(name=name, trust=Trust.FAMILIAR, kind="files") for name in tools)
    assembly = assemble(tmp_path, "osa", tools=own)
    assert find_named(assembly) == set(tools)
    assert ("- Routing:" in assembly.prompt.text) == bool(tools)


def test_moltis_names_its_shell(tmp_path: Path) -> None:
    """Moltis' introduction names the tool that runs commands, and mentions no shell if there is none."""
    shell = Tool(name="run", description="Run a command.", trust=Trust.INNER, kind="shell")
    armed = assemble(tmp_path / "a", "moltis", tools=Toolset([*GATEWAY_TOOLS.tools, shell]))
    assert "among them run, which runs shell commands" in armed.prompt.text
    plain = assemble(tmp_path / "b", "moltis").prompt.text.replace(read_builtin("moltis/soul"), "")
    assert "shell" not in plain
    assert "exec" not in plain


def test_a_stranger_has_no_memory_mandate(tmp_path: Path) -> None:
    """SPEC-010's memory mandate is shown only to turns that have read_memory."""
    assert find_verdicts(assemble(tmp_path / "a", "spec010"))["memory"] == "kept"
    stranger = assemble(tmp_path / "b", "spec010", user="mallory")
    assert find_verdicts(stranger)["memory"] == "absent"
    assert "read_memory" not in stranger.prompt.text
