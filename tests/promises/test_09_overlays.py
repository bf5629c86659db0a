"""Item 9: the overlay of a situation and the channel guidance are whole in every prompt, or there is no prompt."""

import asyncio
import os
from pathlib import Path

import pytest
from budget_house import (
    BLUEPRINTS,
    assemble,
    describe,
    find_verdicts,
    open_clockwork,
    open_house,
    read_log,
    read_system,
    say,
)

from foreword.cli.gateway_commands import warn_about_files
from foreword.cli.main import main
from foreword.errors import BudgetError, InputError, UnusableRules
from foreword.testing import ScriptedCall, ScriptedReply, make_workspace, run_fake_provider
from foreword.turn import Turn

GROUP = {"situation": "group", "channel": "telegram"}
OVERLAY, CHANNEL = "Speak to all of them.", "Two lines at most."
PATH = "prompts/group.md"
BEAT = "schedule: [{name: beat, heartbeat: 30m, user: alice}]\n"


@pytest.mark.parametrize("mode", ["full", "minimal", "brief", "none"])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_every_mode_has_the_rules(tmp_path: Path, blueprint: str, mode: str) -> None:
    """The overlay and the owner's channel file are in the prompt of every mode of every shipped blueprint."""
    text = assemble(tmp_path, blueprint, mode=mode, **GROUP).prompt.text
    assert OVERLAY in text
    assert CHANNEL in text


@pytest.mark.parametrize("window", [15_000, 20_000, 30_000, 40_000])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_no_file_pushes_the_rules_out(tmp_path: Path, blueprint: str, window: int) -> None:
    """A long AGENTS.md in a small window is shortened, and the overlay and the channel stay whole."""
    assembly = assemble(tmp_path, blueprint, f"window: {window}", long=True, **GROUP)
    assert OVERLAY in assembly.prompt.text
    assert CHANNEL in assembly.prompt.text
    assert find_verdicts(assembly)["overlay"] == "kept"


@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_rules_that_do_not_fit_are_an_error(tmp_path: Path, blueprint: str) -> None:
    """An overlay that is larger than the budget fails the assembly with the sum, and is never dropped or cut."""
    files = {**describe(blueprint, "window: 16000"), "prompts/group.md": "Speak to all of them.\n" * 3_000}
    with pytest.raises(BudgetError, match=r"the prompt does not fit: .*\boverlay 21,\d{3}\b.* are missing"):
        make_workspace(tmp_path, files).assemble(Turn(user="alice", situation="group"))


@pytest.mark.parametrize("blueprint", ["default", "coop"])
def test_a_heartbeat_has_rules_and_the_date(tmp_path: Path, blueprint: str) -> None:
    """A gateway heartbeat has the overlay of `system` in its system part, and the date."""
    config = describe(blueprint)["foreword.yaml"]
    rules = {"prompts/heartbeat.md": "Report due items only.\n", "HEARTBEAT.md": "- put the bins out\n"}

    async def run(stand_in) -> None:
        async with open_clockwork(tmp_path, stand_in, BEAT, config=config, **rules) as house:
            assert len(await house.at(8)) == 1

    with run_fake_provider() as stand_in:
        stand_in.follow(ScriptedReply(text="The bins go out."))
        asyncio.run(run(stand_in))
        body = stand_in.requests[0].body
    assert "Report due items only." in read_system(body)
    assert "2026" in str(body)


def test_a_subagent_has_the_rules(tmp_path: Path) -> None:
    """A subagent has the overlay and the channel guidance of the conversation that started it."""
    asks = ScriptedReply(calls=(ScriptedCall(name="delegate", arguments={"task": "Count the bees."}),))

    async def run(stand_in) -> None:
        async with open_house(tmp_path, stand_in, files=describe("coop")) as gateway:
            await say(gateway, "How many bees?", channel="telegram", room="den", situation="group")

    with run_fake_provider() as stand_in:
        stand_in.follow(asks, ScriptedReply(text="Forty."), ScriptedReply(text="There are forty."))
        asyncio.run(run(stand_in))
        helper = read_system(stand_in.requests[1].body)
    assert OVERLAY in helper
    assert CHANNEL in helper


def put_directory(file: Path) -> None:
    """Replace a file with a directory."""
    file.unlink()
    file.mkdir()


def put_foreign_link(file: Path) -> None:
    """Replace a file with a link that leads out of the workspace."""
    file.unlink()
    file.symlink_to("/etc/hostname")


def put_latin1(file: Path) -> None:
    """Save a file in an encoding other than UTF-8."""
    file.write_bytes("Speak to all of them.\nPlease: caf\u00e9.\n".encode("latin-1"))


BREAKS = {
    "is a directory": put_directory,
    "leads out of its workspace": put_foreign_link,
    "is not UTF-8 in line 2; save it as UTF-8": put_latin1,
}


@pytest.mark.parametrize("reason", BREAKS)
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_rules_that_cannot_be_read_are_an_error(tmp_path: Path, blueprint: str, reason: str) -> None:
    """An overlay that exists and cannot be read fails the assembly; the message names the file and the remedy."""
    workspace = make_workspace(tmp_path, describe(blueprint))
    BREAKS[reason](tmp_path / PATH)
    with pytest.raises(InputError) as failed:
        workspace.assemble(Turn(user="alice", **GROUP))
    assert str(failed.value).startswith(f"{PATH} {reason}")
    assert "repair the file, or remove it from prompt_overlay in foreword.yaml" in str(failed.value)
    assert workspace.assemble(Turn(user="alice", situation="dm")).prompt.text


def test_rules_without_permission_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An overlay without read permission fails the assembly."""
    workspace, opened = make_workspace(tmp_path, describe("default")), os.open

    def refuse(path: str, *args: int, **more: int) -> int:
        if str(path).endswith(PATH):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"prompts/group\.md cannot be read: permission denied\. .*repair the file"):
        workspace.assemble(Turn(user="alice", **GROUP))


def test_rules_that_are_no_template_are_an_error(tmp_path: Path) -> None:
    """An overlay that is declared as a template but is invalid fails the assembly with the line."""
    files = {**describe("default"), PATH: "Speak.\nTo {{ all of them.\n"}
    files["foreword.yaml"] += f"prompt: {{files: [{{path: {PATH}, template: true, trust: public}}]}}\n"
    with pytest.raises(InputError, match=r"prompts/group\.md .*line 2.*repair the file"):
        make_workspace(tmp_path, files).assemble(Turn(user="alice", **GROUP))


def test_missing_rules_are_no_error(tmp_path: Path) -> None:
    """A missing overlay is replaced by the built-in text, as `lint` says."""
    workspace = make_workspace(tmp_path, describe("default"))
    (tmp_path / PATH).unlink()
    assert find_verdicts(workspace.assemble(Turn(user="alice", **GROUP)))["overlay"] == "kept"


@pytest.mark.parametrize("reason", ["is a directory", "is not UTF-8 in line 2; save it as UTF-8"])
def test_a_running_gateway_keeps_the_last_rules(tmp_path: Path, reason: str) -> None:
    """A gateway preloads overlays, continues with the last good one, and logs the fault."""

    async def run(stand_in) -> None:
        async with open_house(tmp_path, stand_in, files=describe("default")) as gateway:
            gateway.reloading.look(now=True)
            BREAKS[reason](tmp_path / PATH)
            gateway.reloading.look(now=True)
            await say(gateway, "Hello", channel="telegram", room="den", situation="group")

    with run_fake_provider() as stand_in:
        asyncio.run(run(stand_in))
        assert OVERLAY in read_system(stand_in.requests[0].body)
    errors = [error for kind, level, error, _ in read_log(tmp_path) if kind == "config_reloaded" and level == "error"]
    assert len(errors) == 1
    assert errors[0].startswith(f"{PATH} {reason}")
    assert "the previous version stays in use" in errors[0]


def test_a_restarted_gateway_fails_the_turn(tmp_path: Path) -> None:
    """A gateway that starts with a broken overlay calls no model: the log names the file, the room's reply does not."""
    files = {**describe("default"), PATH: "Speak\0 to all of them.\n"}

    async def run(stand_in) -> str:
        async with open_house(tmp_path, stand_in, files=files) as gateway:
            gateway.reloading.look(now=True)
            reply = await say(gateway, "Hello", channel="telegram", room="den", situation="group")
            return reply.text

    with run_fake_provider() as stand_in:
        shown = asyncio.run(run(stand_in))
        assert stand_in.requests == []
    assert shown == UnusableRules.public
    assert PATH not in shown
    errors = [error for kind, level, error, _ in read_log(tmp_path) if kind == "config_reloaded" and level == "error"]
    assert any("turns in its situation fail until it is fixed" in error for error in errors)


def test_doctor_and_explain_name_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor` says that turns fail, and `explain` ends with 2; both name the file."""
    make_workspace(tmp_path, describe("default"))
    put_latin1(tmp_path / PATH)
    assert main(["-w", str(tmp_path), "doctor"]) == 1
    assert "turns in its situation fail" in capsys.readouterr().out
    assert main(["-w", str(tmp_path), "explain", "--situation", "group"]) == 2
    assert f"{PATH} is not UTF-8 in line 2" in capsys.readouterr().err


def test_serve_warns_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`serve` warns at its start of an unusable overlay, even for a situation that is not in use yet."""
    workspace = make_workspace(tmp_path, describe("default"))
    put_latin1(tmp_path / PATH)
    warn_about_files(workspace)
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"foreword: warning: {PATH} is not UTF-8 in line 2")
    assert warning.endswith("turns in its situation fail until it is fixed")
