"""Claims about the command line as a whole: exit codes, mistyped names, and no traceback, whatever one types."""

import json
import os
import signal
import subprocess
import sys

import pytest

from foreword.cli.parser import parse
from foreword.errors import find_nearest
from foreword.testing import write_files

COMMANDS = ("build", "explain", "diff", "lint", "init", "blueprints", "doctor")
# Whoever started the tests may have had interrupts ignored, which a child would inherit.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
RUN = [sys.executable, "-c", f"{HEED}; import sys; from foreword.cli import main; sys.exit(main())"]


def test_version(say):
    """The version is printed to stdout."""
    answer = say("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("foreword ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help(say, command):
    """Each command explains itself with examples that name it."""
    answer = say(command, "--help")
    assert answer.code == 0
    assert "examples:" in answer.out
    assert f"foreword {command}" in answer.out


def test_help_names_commands(say):
    """The help names every command."""
    answer = say("--help")
    assert all(f"    {command} " in answer.out for command in COMMANDS)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("agent", "show [NAME]: print what"),
        ("instructions", "clear: remove them"),
        ("memory", "list: what can be loaded, each with its price; save TEXT: keep"),
        ("schedule", "add: plan something"),
        ("token", "revoke ID or USER: end one"),
    ],
)
def test_help_of_actions(say, command, told):
    """The help of a command with actions says of each what it takes, if anything, and what it is for."""
    assert told in " ".join(say(command, "--help").out.split())


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["help"], "foreword [-w DIR] COMMAND"),
        (["help", "trace"], "foreword trace"),
        (["-w", "x", "help", "chat"], "foreword chat"),
        (["memory", "search", "help"], ""),
    ],
)
def test_help_is_a_word_too(say, words, usage):
    """`foreword help` and `foreword help COMMAND` print what --help does; behind a command it is a word like others."""
    answer = say(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"usage: {usage}") is bool(usage)


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize("line", ["status", "diff - x", "chat", "nope"])
def test_closed_streams(folder, line, closed):
    """Where the shell has closed a stream, there is no traceback, and nothing is written in its place."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shell = f'exec {closed}>&-; exec "$@"'
    run = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *RUN, *line.split()],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == (0 if line == "status" else 2)
    assert b"Traceback" not in run.stderr
    assert all(path.read_bytes() == text for path, text in before.items())


@pytest.mark.parametrize("buffered", [True, False])
def test_a_full_disk(folder, buffered):
    """An output that takes nothing more is a message in words, whenever that is noticed."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with open("/dev/full", "w", encoding="utf-8") as full:
        run = subprocess.run(
            [*RUN, "status"], cwd=folder, env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (run.returncode, run.stderr) == (2, "foreword: No space left on device\n")


def test_no_command(say):
    """Without a command, the commands are listed and the exit code is 2."""
    answer = say()
    assert answer.code == 2
    assert all(command in answer.err for command in COMMANDS)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["buidl"], "did you mean 'build'?"),
        (["build", "--sitation", "dm"], "did you mean '--situation'?"),
        (["--worksapce", "x", "build"], "did you mean '--workspace'?"),
        (["build", "--mode", "ful"], "did you mean 'full'?"),
        (["build", "--format=jsn"], "did you mean 'json'?"),
        (["build", "--background", "sometimes"], "there is always, as_needed, never"),
        (["build", "more"], "unexpected argument 'more'"),
        (["build", "--user"], "expected one argument"),
        (["diff", "one"], "required: B"),
        (["memory", "serch", "x"], "unknown action 'serch'; did you mean 'search'?"),
        (["memory"], "which action? There is search, get, list,"),
        (["token"], "which action? There is create, list, revoke\nsee: foreword token --help"),
        (["memory", "reindex", "all"], "memory reindex takes nothing more, not 'all'"),
        (["memory", "list", "--store", "privat"], "unknown store 'privat'; did you mean 'private'?"),
        (["memory", "search", "x", "--store", "none"], "unknown store 'none'; there is"),
        (["memory", "review", "x.md"], "there is no entry 'x.md' that waits for review"),
        (["schedule", "list", "brief"], "schedule list takes nothing more, not 'brief'"),
        (["build", "--use", "bob"], "did you mean '--user'?"),
    ],
)
def test_mistyped(say, words, hint):
    """What is mistyped gets exit code 2 and the nearest valid name, on stderr alone."""
    answer = say(*words)
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err


@pytest.mark.parametrize(
    ("words", "held"),
    [
        (["cache", "simulate", "--model", "a:b", "plan.yaml"], {"action": "simulate", "file": "plan.yaml"}),
        (["cache", "--model", "a:b", "simulate", "plan.yaml"], {"action": "simulate", "file": "plan.yaml"}),
        (["price", "--with", "draft.md", "SOUL.md"], {"file": "SOUL.md", "new": "draft.md"}),
        (["agent", "show", "--json", "reid"], {"name": "reid"}),
        (["bench", "--json", "one", "two"], {"names": ["one", "two"]}),
        (["memory", "search", "old", "--user", "bob", "books"], {"words": ["old", "books"]}),
    ],
)
def test_options_before_words(words, held):
    """Options may stand before, between and behind the words of a command."""
    args = parse(words)
    assert {name: getattr(args, name) for name in held} == held


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["cache", "--model", "a:b", "simulat"], "did you mean 'simulate'?"),
        (["price", "--with", "draft.md", "SOUL.md", "USER.md"], "unexpected argument 'USER.md'"),
    ],
)
def test_words_that_nothing_takes(say, words, hint):
    """A word behind an option is checked like one before it, and one too many is refused."""
    answer = say(*words)
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err


@pytest.mark.parametrize("command", ["explain", "build"])
def test_usage_error_names_the_help(say, command):
    """A usage error says where the help of that command is."""
    assert f"see: foreword {command} --help" in say(command, "--sitation", "dm").err


def test_workspace_before_and_after(say, folder, monkeypatch):
    """The workspace may be named before the command or after it."""
    monkeypatch.chdir("/")
    assert say("-w", folder, "build").out == say("build", "--workspace", folder).out != ""


def test_workspace_upwards(say, folder, monkeypatch):
    """Below a workspace, the workspace is found."""
    monkeypatch.chdir(folder / "memory" / "private")
    assert "You are calm." in say("build", "--mode", "full").out


def test_no_workspace(say, tmp_path, monkeypatch):
    """Where there is no workspace, the way to one is shown."""
    monkeypatch.chdir(tmp_path)
    answer = say("build")
    assert answer.code == 2
    assert "foreword init" in answer.err


def test_missing_workspace(say, tmp_path):
    """A workspace that is not there is bad input."""
    answer = say("-w", tmp_path / "nowhere", "explain")
    assert answer.code == 2
    assert "is no folder" in answer.err


def test_vanished_folder(say, tmp_path, monkeypatch):
    """Standing in a folder that was deleted is told, not traced."""
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    answer = say("build")
    assert answer.code == 2
    assert "does not exist any more" in answer.err


@pytest.mark.parametrize("command", ["build", "explain", "lint", "blueprints"])
def test_broken_configuration(say, folder, monkeypatch, command):
    """Every fault of a configuration is shown at once, each with a path that can be opened and its line."""
    text = "owner: alice\nusers: {alice: {trust: ful}}\nagnets: {}\nsituations: {dm: {ceiling: 3}}\n"
    write_files(folder, {"foreword.yaml": text})
    monkeypatch.chdir(folder.parent)
    answer = say("-w", "ws", command)
    assert (answer.code, answer.out) == (2, "")
    assert "3 faults" in answer.err
    for line, hint in ((2, "'full'"), (3, "'agents'"), (4, "ceiling")):
        assert any(row.startswith(f"ws/foreword.yaml:{line}: ") and hint in row for row in answer.err.splitlines())


def test_broken_yaml(say, folder):
    """YAML that does not parse is one fault with its line."""
    write_files(folder, {"foreword.yaml": "owner: [alice\nusers: {}\n"})
    answer = say("build")
    assert answer.code == 2
    assert "foreword.yaml:2: this is not valid YAML" in answer.err


def test_impossible_budget(say, folder):
    """Required slots that do not fit end with exit code 1 and the arithmetic."""
    write_files(folder, {"foreword.yaml": 'owner: a\nusers: {a: {trust: full}}\nmodels: {"tiny": {window: 900}}\n'})
    answer = say("build", "--model", "tiny", "--mode", "full")
    assert (answer.code, answer.out) == (1, "")
    assert "core" in answer.err


def test_argument_not_utf8(say):
    """An argument that is not UTF-8 is bad input."""
    answer = say("build", "--message", os.fsdecode(b"\xff"))
    assert answer.code == 2
    assert "not UTF-8" in answer.err


def test_closed_pipe():
    """When the reader of the output has gone, nothing is said and the exit code is the shell's for that."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [*RUN, "build", "--json", "--model", "anthropic:claude-sonnet-5"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_interrupted():
    """An interrupt ends a command with 130 and no traceback."""
    process = subprocess.Popen(
        [*RUN, "diff", "-", "other.json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(b"{")
    process.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")


def test_ascii_locale(folder):
    """A prompt is UTF-8 in every locale."""
    write_files(folder, {"SOUL.md": "Très calme, 静か 🙂\n"})
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([*RUN, "build", "--mode", "full"], capture_output=True, env=environ, timeout=60, check=True)
    assert "Très calme, 静か 🙂" in done.stdout.decode()


def test_json_everywhere(say, tmp_path):
    """Every command answers in JSON when asked to."""
    (tmp_path / "a.json").write_text(say("build", "--json").out)
    calls = (
        ["build"],
        ["explain"],
        ["diff", tmp_path / "a.json", tmp_path / "a.json"],
        ["lint"],
        ["init", tmp_path / "new"],
        ["blueprints"],
        ["blueprints", "coop"],
        ["doctor"],
    )
    for call in calls:
        answer = say(*call, "--json")
        assert answer.code == 0, answer
        json.loads(answer.out)
        assert say("--json", *call).code in (0, 2), call


def test_a_far_fetched_name_is_not_offered(say):
    """A name that has little in common with what was typed is not offered."""
    answer = say("explain", "--frob")
    assert answer.code == 2
    assert "unknown option --frob" in answer.err
    assert "did you mean" not in answer.err
    assert find_nearest("/api", ["/api/held", "/v1/models"]) == ""
