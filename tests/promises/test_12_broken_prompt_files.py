"""Item 12: with a broken SYSTEM.md or IDENTITY.md the last good text stays in use, and the owner is notified."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chat_house import find_environ, make_shell, sit_at_chat
from dialect_house import open_house, read_log, run, say, serve_workspace

from foreword.testing import make_workspace, run_fake_provider, write_files
from foreword.turn import Turn
from waiting import wait

CONFIG = """\
owner: alice
users: {{alice: {{trust: full}}, bob: {{trust: familiar}}}}
agents: {{reid: {{model: "anthropic:claude-sonnet-5", blueprint: {}}}}}
"""
ALICE = Turn(user="alice", situation="dm")
GOOD = {"SYSTEM.md": "Keep the ledger tidy.\n", "IDENTITY.md": "---\nname: Wren\n---\n"}
BROKEN = {"SYSTEM.md": "One.\nTwo {{ name.\n", "IDENTITY.md": "---\nname: Wren\nvibe: [x\n---\n"}
BLUEPRINTS = {"SYSTEM.md": "osa", "IDENTITY.md": "moltis"}
SAID = {"SYSTEM.md": "Keep the ledger tidy.", "IDENTITY.md": "Your name is Wren."}
FAULT = r"{} .*in line \d"
MODEL = ("--model", "anthropic:claude-sonnet-5")
LEGACY = "consider moving it into SYSTEM.md"


@pytest.fixture(params=GOOD)
def path(request: pytest.FixtureRequest) -> str:
    """The file that breaks."""
    return str(request.param)


def files(path: str, texts: dict[str, str] = GOOD) -> dict[str, str]:
    """Make a workspace whose blueprint shows the file."""
    return {"foreword.yaml": CONFIG.format(BLUEPRINTS[path]), path: texts[path]}


def test_the_last_good_text_stays(tmp_path: Path, path: str) -> None:
    """An edit that breaks the file changes no byte of the prompt, explain says why, and a repaired file applies."""
    workspace = make_workspace(tmp_path, files(path))
    before = workspace.assemble(ALICE)
    assert SAID[path] in before.prompt.text
    (tmp_path / path).write_text(BROKEN[path])
    workspace.refresh(now=True)
    after = workspace.assemble(ALICE)
    assert after.prompt.text == before.prompt.text
    (reason,) = [row.reason for row in after.rows() if "the last good text stays" in row.reason]
    assert re.search(r"in line \d", reason)
    (tmp_path / path).write_text(GOOD[path].replace("tidy", "clean").replace("Wren", "Robin"))
    workspace.refresh(now=True)
    repaired = workspace.assemble(ALICE).prompt.text
    assert "clean" in repaired or "Robin" in repaired


def test_explain_does_not_call_it_blank(tmp_path: Path, path: str) -> None:
    """The verdict of a file that was never valid has its fault and the line."""
    rows = make_workspace(tmp_path, files(path, BROKEN)).assemble(ALICE).rows()
    shown = [row.reason for row in rows if path in row.reason]
    assert shown
    assert all(re.search(r"in line \d", reason) for reason in shown)


def test_a_restart_keeps_what_a_session_was_sent(tmp_path: Path, path: str) -> None:
    """A session that was sent the good text is sent the same bytes after a restart with the broken file."""

    async def talk(text: str, given: dict[str, str]) -> None:
        async with open_house(tmp_path, provider, given) as gateway:
            await say(gateway, text)

    with run_fake_provider() as provider:
        asyncio.run(talk("One", files(path)))
        asyncio.run(talk("Two", files(path, BROKEN)))
        one, two = provider.requests
    stable = one.body["system"][0]["text"]
    assert SAID[path] in stable
    assert two.body["system"][0]["text"] == stable


def test_a_reload_over_http_tells(tmp_path: Path, path: str) -> None:
    """`POST /api/reload` and the log name the file and the line, even if no turn has read the file."""
    with serve_workspace(tmp_path, files=files(path)) as served, served.ask_as("alice") as alice:
        assert alice.post("/api/reload").json()["faults"] == []
        (tmp_path / path).write_text(BROKEN[path])
        (fault,) = alice.post("/api/reload").json()["faults"]
        assert re.match(FAULT.format(path), fault)
        (shown,) = [one["error"] for one in served.list_events(type="config_reloaded", level="error")]
        assert shown == f"{fault}: the previous version stays in use; see: foreword doctor"
        (tmp_path / path).write_text(GOOD[path])
        assert alice.post("/api/reload").json()["faults"] == []


def test_a_gateway_tells_at_its_start(tmp_path: Path, path: str) -> None:
    """A gateway that starts with a broken file reports it before any turn."""

    async def look() -> None:
        async with open_house(tmp_path, provider, files(path, BROKEN)) as gateway:
            gateway.reloading.look(now=True)

    with run_fake_provider() as provider:
        asyncio.run(look())
    errors = [error for kind, level, error, _ in read_log(tmp_path) if kind == "config_reloaded" and level == "error"]
    assert len(errors) == 1
    assert re.match(FAULT.format(path), errors[0])


STILL = r"{} [^\[\]]*in line \d[^\[\]]*; the previous version stays in use"


def test_reload_in_the_chat_tells(tmp_path: Path, path: str) -> None:
    """`/reload` in an open chat names the file and the line, and the next turn is sent the last good text."""
    write_files(tmp_path, files(path))
    with run_fake_provider() as provider, sit_at_chat(tmp_path, find_environ(provider.url)) as terminal:
        terminal.send("/reload")
        terminal.see("no changes")
        (tmp_path / path).write_text(BROKEN[path])
        terminal.send("/reload")
        terminal.wait(lambda: re.search(STILL.format(path), "".join(terminal.screen.lines)), "the fault")
        terminal.send("Hello.")
        terminal.see("Yes.")
        assert SAID[path] in provider.requests[0].raw.decode()
        (tmp_path / path).write_text(GOOD[path].replace("tidy", "clean").replace("Wren", "Robin"))
        terminal.send("/reload")
        terminal.see("changed: ")
        terminal.wait_for_prompt()
        assert len(re.findall(STILL.format(path), "".join(terminal.screen.lines))) == 1


def test_reload_tells_of_a_file_that_never_was_good(
    tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`foreword chat /reload` reports to the owner that a built-in text replaces a file that was never valid."""
    write_files(tmp_path, files(path, BROKEN))
    shell = make_shell(capsys, monkeypatch, tmp_path)
    assert re.search(rf"{path} .*in line \d.*; a built-in text is used instead", shell("chat", "/reload").out)
    bob = shell("chat", "--user", "bob", "/reload")
    assert (bob.code, bob.out) == (0, "no changes\n")


def test_serve_tells_at_its_start(tmp_path: Path, path: str) -> None:
    """`foreword serve` warns once of the file and the line when it starts, before any turn."""
    write_files(tmp_path / "ws", files(path, BROKEN))
    environ = {**os.environ, **find_environ("http://127.0.0.1:9"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "foreword", "-w", str(tmp_path / "ws"), "serve", "--port", "0", "--quiet"]
    printed = tmp_path / "printed"
    with printed.open("w") as file, subprocess.Popen(command, env=environ, stdout=file, stderr=file) as process:
        try:
            wait(lambda: "warning" in printed.read_text() or process.poll() is not None)
        finally:
            process.terminate()
            process.wait(120)
    (warning,) = [line for line in printed.read_text().splitlines() if "warning" in line]
    assert re.match(rf"foreword: warning: {path}:? .*in line \d", warning)


def test_doctor_tells(tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`foreword doctor` reports an error with file and line, and `foreword build` warns."""
    make_workspace(tmp_path, files(path, BROKEN))
    code, printed = run(capsys, tmp_path, "doctor")
    assert code == 1
    assert re.search(rf"error +{path} .*in line \d", printed)
    assert re.search(r"in line \d", run(capsys, tmp_path, "build", *MODEL)[1])


def test_legacy_files_are_hinted_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor` and `build` warn once about a legacy SOUL.md; with a SYSTEM.md there is no warning."""
    make_workspace(tmp_path, {"foreword.yaml": CONFIG.format("osa"), "SOUL.md": "Old.\n", "IDENTITY.md": "Old.\n"})
    for words in (("doctor",), ("build", *MODEL)):
        assert run(capsys, tmp_path, *words)[1].count(LEGACY) == 1
    (tmp_path / "SYSTEM.md").write_text("New.\n")
    assert LEGACY not in run(capsys, tmp_path, "doctor")[1]
