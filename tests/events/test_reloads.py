"""Claims about telling that a configuration was edited."""

import pytest

from foreword.events.event import NOBODY, Level
from foreword.events.reloads import Reloads
from foreword.testing import Heard, make_workspace, write_files

GOOD = "owner: alice\nusers: {alice: {trust: full}}\n"
FAULTY = "owner: alice\nusers: {alice: {trust: sk-ant-api03-secret}}\n"


@pytest.fixture
def edited(tmp_path):
    """A workspace whose configuration can be edited, who looks at it, and what they tell."""
    workspace, heard = make_workspace(tmp_path, {"foreword.yaml": GOOD}), Heard()
    reloads = Reloads(workspace, heard)

    def edit(text):
        write_files(tmp_path, {"foreword.yaml": text})
        workspace.refresh(now=True)
        reloads.look()
        reloads.look()
        told, heard.events = heard.events, []
        assert all((event.context, event.place.parent) == (NOBODY, "") for event in told)
        return [(event.level, event.error, dict(event.facts)) for event in told]

    return edit


def test_an_edit_is_told_once(edited):
    """An edit that came into force is told once, with the parts that changed and for full trust alone."""
    assert edited(GOOD) == []
    assert edited(GOOD + "budgets: {daily_usd: 5}\n") == [(Level.INFO, "", {"changed": "budgets"})]
    assert edited(GOOD + "budgets: {daily_usd: 5}  # enough\n") == [(Level.INFO, "", {"changed": "nothing"})]


def test_a_faulty_edit_is_told_once(edited):
    """A faulty edit is an error with file and line, told once until it comes back, and quotes nothing."""
    told = [(Level.ERROR, "foreword.yaml:2 is faulty: what was in force before still is", {})]
    assert edited(FAULTY) == told
    assert edited(FAULTY + "# still\n") == []
    assert edited(GOOD) == []
    assert edited(FAULTY) == told
    assert edited("owner: [\n")[0][1].startswith("foreword.yaml:")
