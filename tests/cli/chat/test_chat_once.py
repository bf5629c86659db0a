"""`foreword chat` with one message: the interface for scripts."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from foreword.agent.providers.embedded_weights import find_weights
from foreword.testing import ScriptedCall, ScriptedError, ScriptedHang, ScriptedReply

RUN = [sys.executable, "-c", "import sys; from foreword.cli.main import main; sys.exit(main())"]


def test_argument(once, provider):
    """A message as an argument is answered on stdout, as plain text, and the exit code is 0."""
    provider.follow(ScriptedReply(text="# One\n\n**two** \x1b[31m"))
    run = once("What", "is", "on?")
    assert (run.code, run.out, run.err) == (0, "# One\n\n**two** �[31m\n", "")
    assert "What is on?" in json.dumps(provider.body["messages"])


def test_a_file_of_no_use(once, folder):
    """An unreadable file is a warning on stderr, and the message is still answered."""
    (folder / "SOUL.md").write_bytes(b"\x00\xff\xfe" * 100)
    run = once("What is on?")
    assert (run.code, run.out) == (0, "Yes.\n")
    (line,) = run.err.splitlines()
    assert line.startswith("foreword: warning: ")
    assert "SOUL.md" in line


@pytest.mark.parametrize(
    ("model", "shown", "code"),
    [
        ("anthropic:claude-next", "nothing is known about model 'anthropic:claude-next'", 0),
        ("antropic:claude-sonnet-5", "cannot answer: unknown provider 'antropic'; did you mean 'anthropic'? (or", 1),
        ("claude-sonnet-5", "cannot answer: model 'claude-sonnet-5' has no provider (write it as provider:name)", 1),
    ],
)
def test_a_model_that_is_not_known(once, folder, model, shown, code):
    """An unknown model of a known provider is a note; an unknown provider cannot answer."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("anthropic:claude-sonnet-5", model), encoding="utf-8")
    run = once("What is on?")
    assert run.code == code
    assert run.err.count(f"foreword: warning: {'' if code == 0 else model + ' '}{shown}") == 1


def test_a_server_that_does_not_listen(once, folder, monkeypatch):
    """An unreachable local model server is the only warning; there is no second one about its window."""
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("anthropic:claude-sonnet-5", "ollama:qwen"), encoding="utf-8")
    run = once("What is on?")
    assert run.code == 1
    (line,) = [line for line in run.err.splitlines() if "warning: " in line]
    assert line == (
        "foreword: warning: ollama:qwen cannot answer: no server answers at http://127.0.0.1:9 "
        "(start Ollama there, or choose another model)"
    )


def test_piped(once, provider):
    """Piped text is one message; it follows the text of the arguments."""
    assert once(piped=b"first line\nsecond line\n").out == "Yes.\n"
    assert "first line\\nsecond line" in provider.requests[-1].raw.decode()
    once("Explain:", piped=b"x = 1\n")
    assert "Explain:\\n\\nx = 1" in provider.requests[-1].raw.decode()


def test_it_goes_on(once, provider):
    """Separate messages form one conversation; --new starts another, and --session names one."""
    once("one")
    once("two")
    assert len(provider.body["messages"]) == 3
    reply = once("--new", "--json", "three").json
    assert len(provider.body["messages"]) == 1
    once("four")
    assert len(provider.body["messages"]) == 3
    again = once("--session", reply["session"][:8], "--json", "five").json
    assert again["session"] == reply["session"]
    assert len(provider.body["messages"]) == 5


def test_json(once, provider):
    """With --json only the reply is printed, with its state, tokens and cost."""
    provider.follow(ScriptedReply(calls=(ScriptedCall(name="memory_list", arguments={}),)), ScriptedReply(text="Done."))
    run = once("--json", "Hello")
    reply = run.json
    assert run.err == ""
    assert (reply["state"], reply["text"], reply["agent"], reply["user"]) == ("answered", "Done.", "reid", "alice")
    assert reply["usage"]["tokens_in"] > 0
    assert reply["cost_usd"] > 0
    assert reply["finished"] >= reply["received"]


def test_failure(once, provider):
    """A failed message gives the reason and a command for details on stderr, no stdout, and exit code 1."""
    provider.follow(ScriptedError(status=400, message="no"))
    run = once("Hello")
    assert (run.code, run.out) == (1, "")
    assert "status 400" in run.err
    assert "foreword logs --level error" in run.err


def test_command(once, provider):
    """A command can be run alone and is not sent to the agent."""
    run = once("/memory")
    assert run.code == 0
    assert "private/NOTES.md" in run.out
    assert once("/memry").code == 2
    assert once("/quit").code == 0
    assert provider.requests == []


@pytest.mark.parametrize(
    ("words", "piped", "said"),
    [
        ([], b"", "no message: stdin is empty"),
        ([], b"\xff\xfe", "not UTF-8"),
        (
            ["--session", "abcdef01", "x"],
            b"",
            "no session 'abcdef01' can be resumed here; foreword chat /sessions lists",
        ),
        (["--session", "abc", "x"], b"", "at least its first 4 digits"),
        (["--agent", "ried", "x"], b"", "did you mean 'reid'?"),
        (["--new", "--session", "abcdef01", "x"], b"", "give --new or --session, not both"),
        (["--project", "nowhere", "x"], b"", "is not a folder"),
        (["--model", "nonsense", "x"], b"", "is not a model name"),
        (["--model", "foo:bar", "x"], b"", "unknown provider 'foo'; there is anthropic, azure, bedrock, deepseek,"),
        ([], b"x\x00y", "NUL"),
        (["--json", "/cost"], b"", "which has no reply"),
    ],
)
def test_bad_input(once, words, piped, said):
    """Invalid input is reported on stderr, with exit code 2."""
    run = once(*words, piped=piped)
    assert (run.code, run.out) == (2, "")
    assert said in run.err


def test_strangers(once, provider):
    """An unknown user is a stranger and sees only public data."""
    run = once("--user", "mallory", "Hello")
    assert (run.code, run.out) == (0, "Yes.\n")
    assert "warning" in run.err
    assert "A secret" not in provider.requests[-1].raw.decode()
    assert "You are calm" not in provider.requests[-1].raw.decode()


def test_nobody_to_ask(once, provider, folder):
    """Without a terminal a call that needs approval is held: piped text may come from anyone."""
    (folder / "notes").mkdir()
    text = (folder / "foreword.yaml").read_text(encoding="utf-8")
    text = text.replace('claude-sonnet-5"', 'claude-sonnet-5", directories: [notes]')
    (folder / "foreword.yaml").write_text(text, encoding="utf-8")
    call = ScriptedCall(name="write_file", arguments={"path": "notes/tea.md", "text": "Green."})
    provider.follow(ScriptedReply(calls=(call,)), ScriptedReply(text="I could not."))
    run = once("Note the tea.")
    assert (run.code, run.out.partition("\n\n")[0]) == (0, "I could not.")
    assert "Waiting for your approval" in run.out
    assert not (folder / "notes" / "tea.md").exists()


def test_a_key_in_a_file(once, provider, folder, monkeypatch):
    """A key may be in the .env of the workspace, and an invalid line there is named."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    (folder / ".env").write_text("ANTHROPIC_API_KEY=of-the-file\n", encoding="utf-8")
    assert once("Hello").out == "Yes.\n"
    sent = " ".join(provider.requests[0].headers.values())
    assert "of-the-file" in sent
    (folder / ".env").write_text("nonsense\n", encoding="utf-8")
    run = once("Hello")
    assert (run.code, run.out) == (2, "")
    assert ".env:1: this line is not NAME=value" in run.err


def test_no_key(once, monkeypatch):
    """Without any key the embedded model is selected, and the chat says why."""
    pytest.importorskip("xllamacpp")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert once("/model").out.startswith("local:smollm2 (no key is set for anthropic")


def test_the_embedded_model_says_so(once, monkeypatch, tmp_path):
    """If the embedded model answers, stderr says why and how to configure another one."""
    pytest.importorskip("xllamacpp")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("FOREWORD_CACHE", str(tmp_path))
    weights = find_weights("smollm2")
    with (tmp_path / f"{weights.sha256[:16]}-{os.path.basename(weights.file)}").open("wb") as file:
        file.truncate(weights.size)  # no weights, so that nothing is computed
    run = once("Hello")
    assert run.code == 1
    assert run.err.startswith(
        "foreword: warning: no key is set for anthropic, so a 135M model answers: trust the quotes from your files"
    )
    assert "set ANTHROPIC_API_KEY" in run.err


def test_earlier_messages_come_first(once, provider, folder):
    """A message behind an unanswered one says so on stderr."""
    once("One")
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite")) as state, state:
        later = time.time() + 3_600
        state.execute("UPDATE turns SET state = 'queued', finished = NULL, due = ?", (later,))
    run = once("Two")
    assert (run.code, run.out) == (1, "")
    assert "1 earlier message in this session is answered first" in run.err
    assert len(provider.requests) == 1


def test_interrupt(provider, environ, folder):
    """Ctrl-C stops the turn and exits with 130, and the next message is answered."""
    provider.follow(ScriptedHang(seconds=60, text="It was a dark and stormy night, and it never ended."))
    process = subprocess.Popen(
        [*RUN, "chat", "Hello"], cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.read(6) == b"It was"
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    process.stdout.close()


def test_a_closed_pipe(provider, environ, folder):
    """If the reader of the answer closes the pipe, the turn is stopped and not resumed."""
    provider.follow(ScriptedHang(seconds=60, text="It was a dark and stormy night, and it never ended. " * 200))
    process = subprocess.Popen(
        [*RUN, "chat", "Hello"], cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.read(6) == b"It was"
    process.stdout.close()
    assert process.wait(120) == 141
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite")) as state:
        assert state.execute("SELECT state, attempt FROM turns").fetchall() == [("stopped", 1)]


def test_a_missing_package(folder, environ):
    """Without the gateway package the install command is shown; --help does not need the package."""
    code = "import sys; sys.modules['prompt_toolkit'] = None; from foreword.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code]
    run = subprocess.run([*command, "chat", "x"], cwd=folder, env=environ, capture_output=True, check=False)
    assert run.returncode == 2
    assert b"pip install 'foreword[gateway]'" in run.stderr
    run = subprocess.run([*command, "chat", "--help"], cwd=folder, env=environ, capture_output=True, check=False)
    assert run.returncode == 0


def test_help_is_light(folder, environ):
    """Neither --help nor another command imports modules of the chat."""
    code = (
        "import sys; from foreword.cli.main import main; main(['--help']);"
        "heavy = {'prompt_toolkit', 'rich', 'httpx2', 'markdown_it'} & set(sys.modules); sys.exit(bool(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, check=False)
    assert run.returncode == 0
