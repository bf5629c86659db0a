"""Claims about the generated documentation: it is current and complete."""

import os

import pytest
from docs.generate import FOLDER, render

from foreword.cli.main import make_parsers


@pytest.mark.parametrize("name", sorted(render()))
def test_not_stale(name):
    """The generated pages are current; `make docs` writes them."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        assert file.read() == render()[name]


def test_every_option_is_documented():
    """Every command and every option has a help text and is in the reference."""
    parser, commands = make_parsers()
    page = render()["commands.md"]
    for name, each in {"": parser, **commands}.items():
        assert not name or f"## foreword {name}\n" in page
        for action in each.arguments:
            assert action.dest == "command" or action.help, (name, action)
            assert all(option in page for option in action.option_strings)
