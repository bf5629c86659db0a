"""`foreword trace --prompt` shows the prompt that the model received."""

import json
from collections.abc import Sequence

import pytest

from foreword.cli.main import main
from foreword.events.log import EventLog
from foreword.events.sent_prompts import PromptStore
from foreword.testing import EventStream
from night import Reply, make_night, make_turn

NO_SUCH = "foreword: no such turn; foreword logs lists turns\n"
NO_PROMPT = "foreword: no recorded prompt for this turn; foreword logs lists turns\n"


@pytest.fixture
def say(tmp_path, capsys):
    """Send a turn and return a function that runs the command."""
    state = str(tmp_path / ".foreword")
    with EventLog(state) as log:
        night = make_night(tmp_path, EventStream(recorder=log, prompts=PromptStore(log)))
        trace = night.say(make_turn(), Reply(text="Yes."))
    assembly = night.workspace.assemble(make_turn())

    def type_in(*words: str, which: Sequence[str] = (trace.id[:8],)) -> str:
        capsys.readouterr()
        code = main(["-w", str(tmp_path), "trace", *which, *words])
        captured = capsys.readouterr()
        assert (code, captured.out == "") in ((0, False), (2, True))
        return captured.out or captured.err

    yield type_in, assembly
    night.workspace.close()


def test_prompt(say):
    """The prompt of a turn is shown exactly, as text and as JSON."""
    type_in, assembly = say
    assert type_in("--prompt").rstrip("\n") == assembly.prompt.text.rstrip("\n")
    (shown,) = json.loads(type_in("--prompt", "--json"))
    assert shown["text"] == assembly.prompt.text


def test_explain(say):
    """The table of the turn's slots is shown."""
    type_in, assembly = say
    assert type_in("--explain").rstrip("\n") == assembly.explain().rstrip("\n")


@pytest.mark.parametrize("time", ["2026-11-16T02:42", "2026-11-16T02:43:10", "2026-11-16"])
def test_at(say, time):
    """`--at` shows the prompt and the tree of a turn without its id."""
    type_in, assembly = say
    at = ("--at", time)
    assert type_in("--prompt", which=at).rstrip("\n") == assembly.prompt.text.rstrip("\n")
    assert type_in("--json", which=at) == type_in("--json")
    assert type_in(which=(*at, "--reader", "bob")) == NO_SUCH
    assert type_in("--prompt", which=(*at, "--reader", "bob")) == NO_PROMPT


def test_before_it(say):
    """Before the first turn there is no prompt."""
    type_in, _ = say
    at = ("--at", "2026-11-16T02:41")
    assert type_in(which=at) == NO_SUCH
    assert type_in("--prompt", which=at) == NO_PROMPT


def test_for_another(say):
    """Other users cannot see the prompt."""
    type_in, _ = say
    for option in ("--prompt", "--explain"):
        assert type_in(option, "--reader", "bob") == NO_PROMPT
