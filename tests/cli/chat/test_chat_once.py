"""Claims about `foreword chat` with one message: what a script can rely on."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from foreword.local.catalogue import find_weights
from foreword.testing import Called, Hangs, Refuses, Says

RUN = [sys.executable, "-c", "import sys; from foreword.cli import main; sys.exit(main())"]


def test_argument(once, provider):
    """A message as an argument is answered on stdout, as plain text, and the exit code is 0."""
    provider.follow(Says(text="# One\n\n**two** \x1b[31m"))
    run = once("What", "is", "on?")
    assert (run.code, run.out, run.err) == (0, "# One\n\n**two** �[31m\n", "")
    assert "What is on?" in json.dumps(provider.body["messages"])


def test_a_file_of_no_use(once, folder):
    """A file that cannot be read is warned of on stderr, and the message is answered all the same."""
    (folder / "SOUL.md").write_bytes(b"\x00\xff\xfe" * 100)
    run = once("What is on?")
    assert (run.code, run.out) == (0, "Yes.\n")
    (line,) = run.err.splitlines()
    assert line.startswith("foreword: warning: ")
    assert "SOUL.md" in line


@pytest.mark.parametrize(
    ("model", "told", "code"),
    [
        ("anthropic:claude-next", "nothing is known about model 'anthropic:claude-next'", 0),
        ("antropic:claude-sonnet-5", "cannot answer: unknown provider 'antropic'; did you mean 'anthropic'? (or", 1),
        ("claude-sonnet-5", "cannot answer: 'claude-sonnet-5' names no provider (write it as provider:name)", 1),
    ],
)
def test_a_model_that_is_not_known(once, folder, model, told, code):
    """A model of a known provider may be newer than our table, which is a note; what nobody provides cannot answer."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("anthropic:claude-sonnet-5", model), encoding="utf-8")
    run = once("What is on?")
    assert run.code == code
    assert run.err.count(f"foreword: warning: {'' if code == 0 else model + ' '}{told}") == 1


def test_a_server_that_does_not_listen(once, folder, monkeypatch):
    """A local model server that does not listen is the one warning; its window is not guessed about."""
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("anthropic:claude-sonnet-5", "ollama:qwen"), encoding="utf-8")
    run = once("What is on?")
    assert run.code == 1
    (line,) = [line for line in run.err.splitlines() if "warning: " in line]
    assert line == (
        "foreword: warning: ollama:qwen cannot answer: nothing answers at http://127.0.0.1:9 "
        "(start Ollama there, or name another model)"
    )


def test_piped(once, provider):
    """What is piped in is one message, whole; with words before it, it follows them."""
    assert once(piped=b"first line\nsecond line\n").out == "Yes.\n"
    assert "first line\\nsecond line" in provider.requests[-1].raw.decode()
    once("Explain:", piped=b"x = 1\n")
    assert "Explain:\\n\\nx = 1" in provider.requests[-1].raw.decode()


def test_it_goes_on(once, provider):
    """Messages one by one are one conversation; --new begins another, and --session names one."""
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
    """With --json the reply is printed with its state, tokens and cost, and nothing else is."""
    provider.follow(Says(calls=(Called(name="memory_list", arguments={}),)), Says(text="Done."))
    run = once("--json", "Hello")
    reply = run.json
    assert run.err == ""
    assert (reply["state"], reply["text"], reply["agent"], reply["user"]) == ("answered", "Done.", "reid", "alice")
    assert reply["usage"]["tokens_in"] > 0
    assert reply["cost_usd"] > 0
    assert reply["finished"] >= reply["received"]


def test_failure(once, provider):
    """What is not answered says why on stderr, and how to see more, leaves stdout empty and exits with 1."""
    provider.follow(Refuses(status=400, message="no"))
    run = once("Hello")
    assert (run.code, run.out) == (1, "")
    assert "status 400" in run.err
    assert "foreword logs --level error" in run.err


def test_command(once, provider):
    """A command can be run alone, and is not said to the agent."""
    run = once("/memory")
    assert run.code == 0
    assert "private/NOTES.md" in run.out
    assert once("/memry").code == 2
    assert once("/quit").code == 0
    assert provider.requests == []


@pytest.mark.parametrize(
    ("words", "piped", "said"),
    [
        ([], b"", "there is nothing to say"),
        ([], b"\xff\xfe", "not UTF-8"),
        (
            ["--session", "abcdef01", "x"],
            b"",
            "no session 'abcdef01' to go on with here; foreword chat /sessions lists",
        ),
        (["--session", "abc", "x"], b"", "the first 4 digits or more"),
        (["--agent", "ried", "x"], b"", "did you mean 'reid'?"),
        (["--new", "--session", "abcdef01", "x"], b"", "give one of them"),
        (["--project", "nowhere", "x"], b"", "is no folder"),
        (["--model", "nonsense", "x"], b"", "names no model"),
        (["--model", "foo:bar", "x"], b"", "unknown provider 'foo'; there is anthropic, deepseek, gemini, google,"),
        ([], b"x\x00y", "NUL"),
        (["--json", "/cost"], b"", "prints no reply"),
    ],
)
def test_bad_input(once, words, piped, said):
    """What cannot be used is said on stderr, with exit code 2."""
    run = once(*words, piped=piped)
    assert (run.code, run.out) == (2, "")
    assert said in run.err


def test_strangers(once, provider):
    """Who is not known speaks as a stranger, and nothing is told that is not public."""
    run = once("--user", "mallory", "Hello")
    assert (run.code, run.out) == (0, "Yes.\n")
    assert "warning" in run.err
    assert "A secret" not in provider.requests[-1].raw.decode()
    assert "You are calm" not in provider.requests[-1].raw.decode()


def test_nobody_to_ask(once, provider, folder):
    """Where nobody can be asked, the call is held: what is piped in may have been written by anybody."""
    (folder / "notes").mkdir()
    text = (folder / "foreword.yaml").read_text(encoding="utf-8")
    text = text.replace('claude-sonnet-5"', 'claude-sonnet-5", directories: [notes]')
    (folder / "foreword.yaml").write_text(text, encoding="utf-8")
    call = Called(name="write_file", arguments={"path": "notes/tea.md", "text": "Green."})
    provider.follow(Says(calls=(call,)), Says(text="I could not."))
    run = once("Note the tea.")
    assert (run.code, run.out.partition("\n\n")[0]) == (0, "I could not.")
    assert "Waiting for your approval" in run.out
    assert not (folder / "notes" / "tea.md").exists()


def test_a_key_in_a_file(once, provider, folder, monkeypatch):
    """A key may stand in the .env of the workspace, and a wrong line there is named."""
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
    """Without any key the embedded model is chosen, and the chat says why."""
    pytest.importorskip("xllamacpp")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert once("/model").out.startswith("local:smollm2 (no key is set for anthropic")


def test_the_embedded_model_says_so(once, monkeypatch, tmp_path):
    """Where the embedded model answers one message, stderr says why, and how to get a real one."""
    pytest.importorskip("xllamacpp")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("FOREWORD_CACHE", str(tmp_path))
    weights = find_weights("smollm2")
    with (tmp_path / f"{weights.sha256[:16]}-{os.path.basename(weights.file)}").open("wb") as file:
        file.truncate(weights.size)  # no weights at all, so that nothing is computed
    run = once("Hello")
    assert run.code == 1
    assert run.err.startswith(
        "foreword: warning: no key is set for anthropic, so a 135M model answers: trust the quotes from your files"
    )
    assert "set ANTHROPIC_API_KEY" in run.err


def test_earlier_messages_come_first(once, provider, folder):
    """A message behind one that is not answered yet says so on stderr."""
    once("One")
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite")) as state, state:
        later = time.time() + 3_600
        state.execute("UPDATE turns SET state = 'queued', finished = NULL, due = ?", (later,))
    run = once("Two")
    assert (run.code, run.out) == (1, "")
    assert "1 earlier message of this session is answered first" in run.err
    assert len(provider.requests) == 1


def test_interrupt(provider, environ, folder):
    """Ctrl-C stops the turn and exits with 130, and the next message is answered."""
    provider.follow(Hangs(seconds=60, text="It was a dark and stormy night, and it never ended."))
    process = subprocess.Popen(
        [*RUN, "chat", "Hello"], cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.read(6) == b"It was"
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    process.stdout.close()


def test_a_closed_pipe(provider, environ, folder):
    """Where what reads the answer goes away, the turn is stopped, and nobody goes on with it."""
    provider.follow(Hangs(seconds=60, text="It was a dark and stormy night, and it never ended. " * 200))
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
    """Where the gateway is not installed, the command that installs it is named; the help needs nothing of it."""
    code = "import sys; sys.modules['prompt_toolkit'] = None; from foreword.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code]
    run = subprocess.run([*command, "chat", "x"], cwd=folder, env=environ, capture_output=True, check=False)
    assert run.returncode == 2
    assert b"pip install 'foreword[gateway]'" in run.stderr
    run = subprocess.run([*command, "chat", "--help"], cwd=folder, env=environ, capture_output=True, check=False)
    assert run.returncode == 0


def test_help_is_light(folder, environ):
    """Neither the help nor another command imports anything of the chat."""
    code = (
        "import sys; from foreword.cli import main; main(['--help']);"
        "heavy = {'prompt_toolkit', 'rich', 'pydantic_ai', 'markdown_it'} & set(sys.modules); sys.exit(bool(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, check=False)
    assert run.returncode == 0
