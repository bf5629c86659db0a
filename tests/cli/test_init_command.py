"""`foreword init`: a workspace that works at once, without overwriting files."""

import json
import os

import pytest

from foreword.cli.workspace_commands import SCHEMA_FILE, TEMPLATE_FILES, find_login_name
from foreword.config.json_schema import make_json_schema
from foreword.config.load import load_config
from foreword.config.schema import Config
from foreword.testing import write_files


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Set the user and the folder."""
    monkeypatch.setenv("USER", "sam")
    monkeypatch.setenv("TZ", "Europe/Paris")


def test_new_workspace(say, tmp_path):
    """All files are created, and the next steps are named."""
    answer = say("init", tmp_path / "new")
    assert (answer.code, answer.err) == (0, "")
    assert all(path in answer.out for path in TEMPLATE_FILES)
    assert all(f"foreword -w {tmp_path / 'new'} {name} " in answer.out for name in ("explain", "chat", "serve"))
    assert ".foreword/" in (tmp_path / "new" / ".gitignore").read_text().split()
    assert ".env" in (tmp_path / "new" / ".gitignore").read_text().split()


def test_works_at_once(say, tmp_path):
    """A new workspace has no lint findings, and its turn has no problematic verdict."""
    say("init", tmp_path / "new")
    assert say("-w", tmp_path / "new", "lint", "--json").json["findings"] == []
    explained = say("-w", tmp_path / "new", "explain", "--json", "--model", "anthropic:claude-sonnet-5")
    assert explained.err == ""
    assert {row["verdict"] for row in explained.json["sections"]} <= {"kept", "absent"}
    assert explained.json["clearance"]["level"] == "full"
    assert say("-w", tmp_path / "new", "doctor").code == 0


def test_comments_are_not_sent(say, tmp_path):
    """Comments in the files are not sent to the model."""
    say("init", tmp_path / "new")
    assert "<!--" not in say("-w", tmp_path / "new", "build").out


def test_names(say, tmp_path):
    """Owner, agent and model are those of the options."""
    say("init", tmp_path / "new", "--owner", "alice", "--agent", "reid", "--model", "openai:gpt-5.4")
    config = load_config((tmp_path / "new" / "foreword.yaml").read_text())
    assert (config.owner, list(config.agents), config.agents["reid"].model) == ("alice", ["reid"], "openai:gpt-5.4")
    assert config.users["alice"].timezone == "Europe/Paris"


@pytest.mark.parametrize("name", ["7", "null", "1e5", "yes", "2026-11-15", "a.b"])
def test_names_that_yaml_would_mistake(say, tmp_path, name):
    """A name that YAML would parse as another type is still a name."""
    assert say("init", tmp_path / "new", "--owner", name, "--agent", name).code == 0
    assert load_config((tmp_path / "new" / "foreword.yaml").read_text()).owner == name


@pytest.mark.parametrize("name", ["", "a b", "../x", "a..b", "é\u202e", "a: b"])
def test_bad_names(say, tmp_path, name):
    """A name that cannot be a folder name is bad input, and nothing is created."""
    answer = say("init", tmp_path / "new", f"--owner={name}")
    assert answer.code == 2
    assert "not a usable name" in answer.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("model", ["", "nope", "anthropic:", ":claude-sonnet-5"])
def test_bad_models(say, tmp_path, model):
    """An impossible model name is bad input, and nothing is created."""
    answer = say("init", tmp_path / "new", f"--model={model}")
    assert answer.code == 2
    assert "write it as provider:name, such as anthropic:" in answer.err
    assert not (tmp_path / "new").exists()


def test_schema_for_editors(say, tmp_path):
    """Editors find the configuration schema at the path in its first line."""
    say("init", tmp_path / "new")
    first = (tmp_path / "new" / "foreword.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=.foreword/schema.json"
    assert json.loads((tmp_path / "new" / ".foreword" / "schema.json").read_text()) == make_json_schema(Config)


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_state_is_private(say, tmp_path):
    """The state folder is private from the start; the files of the workspace follow the umask."""
    say("init", tmp_path / "new")
    assert (tmp_path / "new" / ".foreword").stat().st_mode & 0o777 == 0o700


def test_nothing_is_overwritten(say, tmp_path):
    """An existing file is left unchanged and named; the others are created."""
    write_files(tmp_path / "new", {"SOUL.md": "mine", ".gitignore": "*.log"})
    answer = say("init", tmp_path / "new")
    assert (answer.code, answer.err) == (0, "")
    assert "\nleft unchanged: SOUL.md, .gitignore\n" in answer.out
    assert "  SOUL.md\n" not in answer.out
    assert (tmp_path / "new" / "SOUL.md").read_text() == "mine"
    assert all((tmp_path / "new" / path).exists() for path in TEMPLATE_FILES)


def test_kept_in_json(say, tmp_path):
    """The JSON separates created files from existing ones."""
    write_files(tmp_path / "new", {"SOUL.md": "mine"})
    made = say("init", tmp_path / "new", "--json").json
    assert made["kept"] == ["SOUL.md"]
    assert {*made["created"], "SOUL.md"} == {*TEMPLATE_FILES, SCHEMA_FILE}


def test_workspace_already(say, tmp_path):
    """If there is a configuration, even a dangling link, nothing is created."""
    write_files(tmp_path / "new", {"foreword.yaml": "mine"})
    answer = say("init", tmp_path / "new")
    assert (answer.code, answer.out) == (2, "")
    assert "is already a workspace (it has a foreword.yaml); nothing was created" in answer.err
    assert os.listdir(tmp_path / "new") == ["foreword.yaml"]
    (tmp_path / "new" / "foreword.yaml").unlink()
    (tmp_path / "new" / "foreword.yaml").symlink_to(tmp_path / "elsewhere")
    assert say("init", tmp_path / "new").code == 2
    assert not (tmp_path / "elsewhere").exists()


def test_dangling_link_is_not_followed(say, tmp_path):
    """A dangling link counts as existing, and nothing is written through it."""
    place = tmp_path / "new"
    place.mkdir()
    (place / "SOUL.md").symlink_to(tmp_path / "elsewhere")
    assert say("init", place, "--json").json["kept"] == ["SOUL.md"]
    assert not (tmp_path / "elsewhere").exists()


def test_folder_is_a_file(say, tmp_path):
    """A file in place of the folder or of a parent folder is bad input."""
    (tmp_path / "file").write_text("")
    assert "is not a folder" in say("init", tmp_path / "file").err
    assert say("init", tmp_path / "file" / "below").code == 2


def test_here(say, tmp_path, monkeypatch):
    """Without a folder the workspace is created in the current folder, and commands need no -w."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    assert "  foreword explain " in say("init").out
    assert os.path.exists("foreword.yaml")


@pytest.mark.parametrize(
    ("environ", "owner"),
    [
        ({"USER": "Sam"}, "sam"),
        ({}, "me"),
        ({"USER": "root"}, "me"),
        ({"USER": "DOMAIN\\sam"}, "me"),
        ({"LOGNAME": "kim"}, "kim"),
    ],
)
def test_owner(environ, owner):
    """The owner is the system user name, if it is valid and not the administrator's."""
    assert find_login_name(environ) == owner
