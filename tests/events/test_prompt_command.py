"""Claims about `foreword trace --prompt`: what the model saw, shown again."""

import json
from collections.abc import Sequence

import pytest
from night import make_night, make_turn

from foreword.cli import main
from foreword.events.log import EventLog
from foreword.events.prompts import Prompts
from foreword.testing import Listeners, Reply

NO_SUCH = "foreword: there is no such turn; foreword logs shows turns\n"
NO_PROMPT = "foreword: no prompt of such a turn is recorded; foreword logs shows turns\n"


@pytest.fixture
def say(tmp_path, capsys):
    """A turn that was sent, and a way to ask about it."""
    state = str(tmp_path / ".foreword")
    prompts = Prompts(state)
    with EventLog(state) as log:
        loop, _ = make_night(tmp_path, Listeners(recorder=log, prompts=prompts))
        trace = loop.receive(make_turn(), [Reply(text="Yes.")])
    prompts.close()
    assembly = loop._workspace.assemble(make_turn())

    def type_in(*words: str, which: Sequence[str] = (trace.id[:8],)) -> str:
        capsys.readouterr()
        code = main(["-w", str(tmp_path), "trace", *which, *words])
        captured = capsys.readouterr()
        assert (code, captured.out == "") in ((0, False), (2, True))
        return captured.out or captured.err

    yield type_in, assembly
    loop._workspace.close()


def test_prompt(say):
    """The prompt of a turn is shown to the byte, as text and as JSON."""
    type_in, assembly = say
    assert type_in("--prompt").rstrip("\n") == assembly.prompt.text.rstrip("\n")
    (told,) = json.loads(type_in("--prompt", "--json"))
    assert told["text"] == assembly.prompt.text


def test_explain(say):
    """So is the table of what became of its slots."""
    type_in, assembly = say
    assert type_in("--explain").rstrip("\n") == assembly.explain().rstrip("\n")


@pytest.mark.parametrize("time", ["2026-11-16T02:42", "2026-11-16T02:43:10", "2026-11-16"])
def test_at(say, time):
    """What the model saw at a time is asked without the turn's id, and so is the tree."""
    type_in, assembly = say
    at = ("--at", time)
    assert type_in("--prompt", which=at).rstrip("\n") == assembly.prompt.text.rstrip("\n")
    assert type_in("--json", which=at) == type_in("--json")
    assert type_in(which=(*at, "--reader", "bob")) == NO_SUCH
    assert type_in("--prompt", which=(*at, "--reader", "bob")) == NO_PROMPT


def test_before_it(say):
    """Before the first turn the model saw nothing."""
    type_in, _ = say
    at = ("--at", "2026-11-16T02:41")
    assert type_in(which=at) == NO_SUCH
    assert type_in("--prompt", which=at) == NO_PROMPT


def test_for_another(say):
    """Nobody else is shown it."""
    type_in, _ = say
    for option in ("--prompt", "--explain"):
        assert type_in(option, "--reader", "bob") == NO_PROMPT
