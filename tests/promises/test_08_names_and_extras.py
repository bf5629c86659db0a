"""Names of any script, suggestions, accepted lint findings, missing extras, and a blank SOUL.md."""

import os
import subprocess
import sys
from pathlib import Path
from unicodedata import normalize

import pytest

import foreword
from foreword.cli.main import main
from foreword.errors import ConfigError
from foreword.testing import make_workspace, write_files
from foreword.turn import Turn

ZOE = "zoë"
NAMES = [ZOE, "жанна", "名前", "मीरा", "علي", "o'k".replace("'", "-"), "zo.ë_2"]
REFUSED = {
    "a separator": "zoë/../x",
    "a backslash": "zoë\\x",
    "a leading dot": ".zoë",
    "two dots": "zo..ë",
    "a control character": "zo\x07ë",
    "a bidi control": "zo\u202eë",
    "a joiner": "zo\u200dë",
    "an invisible letter": "zo\u3164ë",
    "a variation selector": "名\ufe0f",
    "a space": "zo ë",
    "a leading mark": "\u0301zoë",
    "letters that look alike": "аlice",
    "an emoji": "🪶",
    "too many bytes": "名" * 80,
}
# A run without any installed extra.
BARE = """
import sys
for name in sorted({extras!r}):
    sys.modules[name] = None
from foreword.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def configure(user: str, more: str = "") -> str:
    """Return a configuration with an owner and one more user."""
    return f"owner: alice\nusers:\n  alice: {{trust: full}}\n  {user}: {{trust: familiar}}\n{more}"


@pytest.mark.parametrize("name", NAMES)
def test_letters_of_any_script_are_names(tmp_path: Path, name: str) -> None:
    """Users, agents, rooms, situations and stores may have names in any script, and their files are found."""
    config = configure(
        name,
        f"agents: {{{name}: {{model: 'openai:gpt-5'}}}}\nstores: {{{name}: {{trust: familiar}}}}\n"
        f"situations: {{{name}: {{ceiling: full}}}}\nrooms: {{'{name}': {{situation: {name}}}}}\n",
    )
    files = {
        "foreword.yaml": config.replace("trust: familiar}", "trust: inner}", 1),
        f"users/{name}/USER.md": "Keeps bees.",
        f"agents/{name}/SOUL.md": "You hum.",
    }
    with make_workspace(tmp_path, files) as ws:
        text = ws.assemble(Turn(user=name, agent=name, situation="dm", model="openai:gpt-5")).prompt.text
    assert "Keeps bees." in text
    assert "You hum." in text


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_two_spellings_are_one_name(tmp_path: Path, written: str, asked: str, capsys: pytest.CaptureFixture) -> None:
    """Both Unicode normal forms of a name are the same user, in the configuration, the library and the shell."""
    write_files(tmp_path, {"foreword.yaml": configure(normalize(written, ZOE))})
    with foreword.open(str(tmp_path)) as ws:
        assert ws.assemble(Turn(user=normalize(asked, ZOE), situation="dm")).clearance.reason.startswith(ZOE)
    assert main(["-w", str(tmp_path), "explain", "--user", normalize(asked, ZOE), "--model", "openai:gpt-5"]) == 0
    assert "is not known" not in capsys.readouterr().err


def test_references_have_either_spelling(tmp_path: Path) -> None:
    """A reference or key may use the other Unicode normal form of a name."""
    name, other = normalize("NFC", ZOE), normalize("NFD", ZOE)
    config = (
        f"owner: {other}\nusers: {{{name}: {{trust: full, identities: ['web:{other}']}}}}\n"
        f"agents: {{{name}: {{model: 'openai:gpt-5'}}}}\ntelegram: {{agent: {other}}}\n"
        f"situations: {{{name}: {{ceiling: full}}}}\n"
        f"rooms: {{{other}: {{situation: {other}, members: [{other}], group: {other}}}}}\n"
        f"budgets: {{users: {{{other}: {{daily_usd: 1}}}}, agents: {{{other}: {{daily_usd: 1}}}}}}\n"
        f"schedule: [{{user: {other}, agent: {other}, to: {other}, cron: '0 8 * * *', say: Hello}}]\n"
    )
    write_files(tmp_path, {"foreword.yaml": config})
    with foreword.open(str(tmp_path)) as ws:
        assert (ws.config.owner, [*ws.config.rooms], ws.config.rooms[name].members) == (name, [name], (name,))
    write_files(tmp_path, {"foreword.yaml": configure(name, f"  {other}: {{trust: full}}\n")})
    with pytest.raises(ConfigError, match="is given twice"):
        foreword.open(str(tmp_path))


def test_paths_and_texts_keep_their_spelling(tmp_path: Path) -> None:
    """Directories, files and texts are not normalised: a file system may distinguish the two forms."""
    name = normalize("NFD", ZOE)
    notes = tmp_path / name
    notes.mkdir()
    config = (
        f"owner: alice\nusers: {{alice: {{trust: full}}}}\n"
        f"agents: {{reid: {{model: 'openai:gpt-5', directories: ['{notes}'], soul: 'Loves {name}.'}}}}\n"
        f"prompt: {{files: [{{path: '{name}.md'}}]}}\n"
    )
    write_files(tmp_path / "ws", {"foreword.yaml": config, f"{name}.md": "Bees swarm in May."})
    with foreword.open(str(tmp_path / "ws")) as ws:
        agent = ws.config.agents["reid"]
        assert agent.folders[0].path == str(notes)
        assert agent.soul == f"Loves {name}."
        text = ws.assemble(Turn(user="alice", situation="dm", model="openai:gpt-5")).prompt.text
    assert "Bees swarm in May." in text


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
def test_unsafe_names_are_refused(tmp_path: Path, name: str) -> None:
    """A name that is unsafe as a folder, invisible, or confusable with another is refused with its line."""
    quoted = '"' + "".join(f"\\U{ord(sign):08x}" if not sign.isalnum() else sign for sign in name) + '"'
    write_files(tmp_path, {"foreword.yaml": configure(quoted)})
    with pytest.raises(ConfigError, match=r"foreword.yaml:4: .* is not a usable name"):
        foreword.open(str(tmp_path))


def test_init_takes_any_script(tmp_path: Path) -> None:
    """`init` makes a valid workspace for an owner whose name is not ASCII."""
    assert main(["init", str(tmp_path / "ws"), "--owner", normalize("NFD", ZOE), "--agent", "мила"]) == 0
    with foreword.open(str(tmp_path / "ws")) as ws:
        assert (ws.config.owner, [*ws.config.agents]) == (ZOE, ["мила"])


def test_memory_is_filed_under_its_author(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A user's memories are in a folder of that name, in any script."""
    write_files(tmp_path, {"foreword.yaml": configure("жанна")})
    words = ["memory", "save", "Bees swarm in May.", "--user", "жанна", "--store", "social"]
    assert main(["-w", str(tmp_path), *words]) == 0, capsys.readouterr().err
    (entry,) = [path for path in tmp_path.rglob("*.md") if "Bees swarm" in path.read_text()]
    assert "жанна" in entry.parts


@pytest.mark.parametrize(("typed", "meant"), [("Bob", "bob"), ("BOB", "bob"), ("Zoë", ZOE), ("bbo", "bob")])
def test_the_nearest_user_is_suggested(tmp_path: Path, typed: str, meant: str, capsys: pytest.CaptureFixture) -> None:
    """`--user Bob` warns that Bob is not known and suggests `bob`."""
    write_files(tmp_path, {"foreword.yaml": configure("bob", f"  {ZOE}: {{trust: inner}}\n")})
    assert main(["-w", str(tmp_path), "explain", "--user", typed, "--model", "openai:gpt-5"]) == 0
    assert f"did you mean the user {meant!r}?" in capsys.readouterr().err


def test_a_stranger_is_told_no_names(tmp_path: Path) -> None:
    """The library's warning about an unknown user names no configured user."""
    with make_workspace(tmp_path, {"foreword.yaml": configure("bob")}) as ws:
        (warning,) = ws.assemble(Turn(user="Bob", situation="dm")).clearance.warnings
    assert "'bob'" not in warning


FOUNDED = "The house was founded on 2019-05-04.\n"


@pytest.mark.parametrize("text", ["founded on 2019-05-04", ""])
def test_lint_accepts_a_line(tmp_path: Path, text: str, capsys: pytest.CaptureFixture) -> None:
    """An entry of `lint.accept` accepts the line with its text, or the rule in the whole file."""
    config = configure("bob", f'lint: {{accept: [{{file: AGENTS.md, rule: clock, text: "{text}"}}]}}\n')
    write_files(tmp_path, {"foreword.yaml": config.partition("lint:")[0], "AGENTS.md": f"Calm.\n{FOUNDED}"})
    main(["-w", str(tmp_path), "lint"])
    assert "AGENTS.md:2: warning clock" in capsys.readouterr().out
    write_files(tmp_path, {"foreword.yaml": config})
    assert main(["-w", str(tmp_path), "lint"]) == 0
    assert "AGENTS.md" not in capsys.readouterr().out


def test_lint_accepts_only_that_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Another line of the same file is still reported, and so is an entry that accepts nothing."""
    accept = '[{file: AGENTS.md, rule: clock, text: founded}, {file: SOUL.md, rule: clok, text: ""}]'
    config = configure("bob", f"lint: {{accept: {accept}}}\n")
    write_files(tmp_path, {"foreword.yaml": config, "AGENTS.md": f"{FOUNDED}Moved on 2020-01-02.\n"})
    main(["-w", str(tmp_path), "lint"])
    out = capsys.readouterr().out
    assert "AGENTS.md:2: warning clock" in out
    assert "AGENTS.md:1:" not in out
    assert (
        "foreword.yaml:5: warning accepted: accepts 'clok' in SOUL.md, which is not found; did you mean 'clock'?" in out
    )


@pytest.mark.parametrize(
    "words",
    [
        ["price", "SOUL.md"],
        ["schedule", "list"],
        ["schedule", "add", "--say", "x", "--cron", "0 8 * * *"],
        ["chat", "Hello"],
        ["serve", "--port", "0"],
        ["token", "list"],
        ["pair", "list"],
        ["sessions"],
        ["forget", "bob", "--dry-run"],
        ["export", "-", "--user", "bob"],
        ["agent", "show"],
        ["instructions", "show"],
        ["memory", "list"],
        ["cache"],
        ["status"],
        ["doctor"],
        ["explain"],
        ["diff", "--user", "alice", "--", "--user", "bob"],
    ],
    ids=" ".join,
)
def test_a_missing_extra_is_named(tmp_path: Path, words: list[str]) -> None:
    """Without any extra a command works, or names the extra to install; it never shows a traceback."""
    from foreword.cli.main import MODULES_BY_EXTRA

    write_files(tmp_path, {"foreword.yaml": configure("bob"), "SOUL.md": "Calm."})
    code = BARE.format(extras=set().union(*MODULES_BY_EXTRA.values()))
    command = [sys.executable, "-c", code, "-w", str(tmp_path), *words]
    environment = {**os.environ, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr
    if words[0] in ("price", "schedule", "chat", "serve"):
        assert done.returncode == 2
        assert "pip install 'foreword[" in done.stderr
    elif done.returncode == 2:
        assert "pip install 'foreword[" in done.stderr or "not installed" not in done.stderr


def test_the_extras_are_those_of_the_package() -> None:
    """Every extra that a message can name exists."""
    import tomllib

    from foreword.cli.main import MODULES_BY_EXTRA

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(MODULES_BY_EXTRA) <= set(project["optional-dependencies"])


def test_a_blank_soul_is_skipped(tmp_path: Path) -> None:
    """A blank SOUL.md counts as absent: the built-in soul is sent, and `explain` and the README say so."""
    with make_workspace(tmp_path, {"foreword.yaml": configure("bob"), "SOUL.md": " \n"}) as ws:
        assembly = ws.assemble(Turn(user="alice", situation="dm", model="openai:gpt-5"))
    assert "built-in soul" in assembly.explain()
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    assert "with a blank `SOUL.md` or none, the agent speaks with the built-in soul" in readme
