"""The command line as a whole: exit codes, mistyped names, and no traceback for any input."""

import json
import os
import signal
import subprocess
import sys

import pytest

from foreword.cli.main import parse_arguments
from foreword.errors import find_nearest
from foreword.testing import write_files

COMMANDS = ("build", "explain", "diff", "lint", "init", "blueprints", "doctor")
# The parent process may ignore interrupts, which a child would inherit.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
RUN = [sys.executable, "-c", f"{HEED}; import sys; from foreword.cli.main import main; sys.exit(main())"]


def test_version(say):
    """The version is printed to stdout."""
    answer = say("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("foreword ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help(say, command):
    """Each command's help has examples that name the command."""
    answer = say(command, "--help")
    assert answer.code == 0
    assert "examples:" in answer.out
    assert f"foreword {command}" in answer.out


def test_help_names_commands(say):
    """The help names every command."""
    answer = say("--help")
    assert all(f"    {command} " in answer.out for command in COMMANDS)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("agent", "show [NAME]: print the stored soul"),
        ("instructions", "clear: remove the instructions"),
        ("memory", "list: list the memories that can be loaded, each with its size in tokens; save TEXT: save"),
        ("schedule", "add: add a schedule"),
        ("token", "revoke ID or USER: revoke one"),
    ],
)
def test_help_of_actions(say, command, shown):
    """The help of a command with actions gives the arguments and the purpose of each action."""
    assert shown in " ".join(say(command, "--help").out.split())


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
    """`foreword help [COMMAND]` prints the same as --help; after a command, `help` is a plain argument."""
    answer = say(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"usage: {usage}") is bool(usage)


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize("line", ["status", "diff - x", "chat", "nope"])
def test_closed_streams(folder, line, closed):
    """A closed standard stream causes no traceback, and no file is written in its place."""
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
    """A full disk on stdout is a plain error message, with and without buffering."""
    environ = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with open("/dev/full", "w", encoding="utf-8") as full:
        run = subprocess.run(
            [*RUN, "status"], cwd=folder, env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (run.returncode, run.stderr) == (2, "foreword: No space left on device\n")


def test_no_command(say):
    """Without a command the commands are listed, with exit code 2."""
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
        (["memory"], "missing action; use search, get, list,"),
        (["token"], "missing action; use create, list, revoke\nsee: foreword token --help"),
        (["memory", "reindex", "all"], "memory reindex takes no argument, got 'all'"),
        (["memory", "list", "--store", "privat"], "unknown store 'privat'; did you mean 'private'?"),
        (["memory", "search", "x", "--store", "none"], "unknown store 'none'; there is"),
        (["memory", "review", "x.md"], "no entry 'x.md' waits for review"),
        (["schedule", "list", "brief"], "schedule list takes no id, got 'brief'"),
        (["build", "--use", "bob"], "did you mean '--user'?"),
    ],
)
def test_mistyped(say, words, hint):
    """A mistyped name gets exit code 2 and the nearest valid name, on stderr only."""
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
    """Options may be before, between and after the positional arguments."""
    args = parse_arguments(words)
    assert {name: getattr(args, name) for name in held} == held


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["cache", "--model", "a:b", "simulat"], "did you mean 'simulate'?"),
        (["price", "--with", "draft.md", "SOUL.md", "USER.md"], "unexpected argument 'USER.md'"),
    ],
)
def test_words_that_nothing_takes(say, words, hint):
    """An argument after an option is checked like one before it, and a surplus argument is refused."""
    answer = say(*words)
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err


@pytest.mark.parametrize("command", ["explain", "build"])
def test_usage_error_names_the_help(say, command):
    """A usage error names the help of that command."""
    assert f"see: foreword {command} --help" in say(command, "--sitation", "dm").err


def test_workspace_before_and_after(say, folder, monkeypatch):
    """The workspace may be named before or after the command."""
    monkeypatch.chdir("/")
    assert say("-w", folder, "build").out == say("build", "--workspace", folder).out != ""


def test_workspace_upwards(say, folder, monkeypatch):
    """The workspace is found from its subfolders."""
    monkeypatch.chdir(folder / "memory" / "private")
    assert "You are calm." in say("build", "--mode", "full").out


def test_no_workspace(say, tmp_path, monkeypatch):
    """Without a workspace the error shows how to create one."""
    monkeypatch.chdir(tmp_path)
    answer = say("build")
    assert answer.code == 2
    assert "foreword init" in answer.err


def test_missing_workspace(say, tmp_path):
    """A missing workspace is bad input."""
    answer = say("-w", tmp_path / "nowhere", "explain")
    assert answer.code == 2
    assert "is not a folder" in answer.err


def test_vanished_folder(say, tmp_path, monkeypatch):
    """A deleted current folder is an error message, not a traceback."""
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    answer = say("build")
    assert answer.code == 2
    assert "no longer exists" in answer.err


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
    """Required slots that do not fit give exit code 1 and the arithmetic."""
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
    """If the reader of stdout has closed it, there is no message and the exit code is the shell's."""
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
    """Every command supports --json."""
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
    """A name with little similarity to the input is not suggested."""
    answer = say("explain", "--frob")
    assert answer.code == 2
    assert "unknown option --frob" in answer.err
    assert "did you mean" not in answer.err
    assert find_nearest("/api", ["/api/held", "/v1/models"]) == ""
