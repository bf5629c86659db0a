"""Claims about secrets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.env import Secrets
from foreword.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=plain", "plain"),
        ("export KEY=plain", "plain"),
        ("  KEY = spaced out  ", "spaced out"),
        ("KEY=a#b # a comment", "a#b"),
        ("KEY=# a comment", ""),
        ("KEY=", ""),
        ("KEY='single # \\n' # a comment", "single # \\n"),
        ('KEY="double # \\"q\\"\\n"', 'double # "q"\n'),
        ("KEY=a=b==", "a=b=="),
        ("KEY=$HOME/${X}", "$HOME/${X}"),
        ("KEY=windows\r", "windows"),
        ("KEY=first\nKEY=last", "last"),
        ("\ufeffKEY=marked", "marked"),
        ("# comment\n\nKEY=after", "after"),
    ],
)
def test_line(line: str, value: str) -> None:
    """A line gives its value without quotes or comment, and nothing is interpolated."""
    assert Secrets.read(line, {}).get("KEY") == value


def test_file(tmp_path: Path) -> None:
    """The text of a real file is read unchanged."""
    file = tmp_path / ".env"
    file.write_text("ONE=1\nTWO='2'\n")
    secrets = Secrets.read(file.read_text(), {})
    assert (secrets.get("ONE"), secrets.get("TWO"), secrets.get("THREE")) == ("1", "2", None)


def test_environment_wins() -> None:
    """The environment wins over the file, and the origin says so."""
    secrets = Secrets.read("BOTH=file\nFILE=file", {"BOTH": "process"})
    assert (secrets.get("BOTH"), secrets.origin("BOTH")) == ("process", "environment")
    assert (secrets.get("FILE"), secrets.origin("FILE")) == ("file", ".env")
    assert secrets.origin("NEITHER") is None


def test_snapshot() -> None:
    """A later change of the environment does not change the secrets."""
    environ = {"KEY": "before"}
    secrets = Secrets.read("", environ)
    environ["KEY"] = "after"
    assert secrets.get("KEY") == "before"


def test_malformed_lines() -> None:
    """Every malformed line is a fault with its number."""
    with pytest.raises(ConfigError) as caught:
        Secrets.read('GOOD=1\nno equals\n1KEY=a\nOPEN=\'a\nTAIL="a" b', {})
    assert [fault.line for fault in caught.value.faults] == [2, 3, 4, 5]


@pytest.mark.parametrize("line", ["hunter2", "MY KEY=hunter2", "KEY='hunter2", 'KEY="hunter2', "hunter2 KEY=a"])
def test_message_hides_value(line: str) -> None:
    """No part of a malformed line is in the message."""
    with pytest.raises(ConfigError) as caught:
        Secrets.read(line, {})
    assert "hunter2" not in str(caught.value)


@given(st.text(alphabet="abcdefgh0123456789", min_size=12))
def test_printing_hides_values(value: str) -> None:
    """No way of printing the secrets shows a value."""
    secrets = Secrets.read(f"FILE={value}", {"PROCESS": value})
    assert value not in f"{secrets}{secrets!r}{secrets!s}{[secrets]}"


@given(st.text())
def test_arbitrary_text(text: str) -> None:
    """Any text either reads or raises ConfigError."""
    try:
        Secrets.read(text, {})
    except ConfigError as error:
        assert error.faults  # noqa: PT017
