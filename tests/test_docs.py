"""Claims about the documentation that is generated: it is not stale, and it is whole."""

import os

import pytest
from docs.generate import FOLDER, render

from foreword.cli.main import make_parsers


@pytest.mark.parametrize("name", sorted(render()))
def test_not_stale(name):
    """What is generated is what would be generated now; `make docs` writes it."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        assert file.read() == render()[name]


def test_every_option_is_documented():
    """Every command and every option has a help text, and stands in the reference."""
    parser, commands = make_parsers()
    page = render()["commands.md"]
    for name, each in {"": parser, **commands}.items():
        assert not name or f"## foreword {name}\n" in page
        for action in each.arguments:
            assert action.dest == "command" or action.help, (name, action)
            assert all(option in page for option in action.option_strings)
