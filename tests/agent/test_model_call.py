"""The ledger after a restart of the embedded engine."""

from datetime import timedelta

import pytest

from foreword.agent.conversation import Answer
from foreword.agent.model_call import TurnLedger
from foreword.agent.providers.model_clients import OpenModel
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.events.event import Usage
from foreword.promptcache.cache_usage import Cause
from foreword.promptcache.ledger import ENGINE_RESTARTED
from foreword.testing import NOON, make_workspace
from foreword.turn import Turn

FILES = {
    "foreword.yaml": 'owner: alice\nagents: {reid: {model: "local:smollm2"}}\nusers: {alice: {trust: full}}\n',
    "AGENTS.md": "Be brief, and say what you know.\n" * 20,
}
LATER = NOON + timedelta(minutes=1)


class Engine:
    """An engine with scripted answers about the start of its cache."""

    def __init__(self, *answers):
        self._answers = [*answers]

    def find_cache_start(self, _at):
        """Return the next answer."""
        return self._answers.pop(0)


@pytest.fixture
def call(tmp_path):
    """Make a call that repeats the previous request, of which the engine reads a share."""
    assembly = make_workspace(tmp_path, FILES).assemble(Turn(user="alice", situation="dm", message="Hi", now=NOON))
    request = assembly.envelope("openai").request

    def call(ledger_state, at, engine, read=0.0):
        start = engine.find_cache_start if engine else None
        opened = OpenModel(provider=None, wire=WIRE_SHAPES["openai"], family="openai", find_cache_start=start)
        accounting = TurnLedger(assembly, opened, ledger_state, str(at))
        accounting.mark(request, (), at)
        usage = Usage(tokens_in=1_000, tokens_out=1, cache_read=int(read * 1_000))
        return accounting.settle(AnswerDone(answer=Answer(), usage=usage), {})

    return call


@pytest.mark.parametrize("answers", [(LATER, LATER), (NOON, LATER)], ids=["before", "meanwhile"])
def test_what_an_engine_had_is_lost_with_it(call, answers):
    """After a restart before or during a call, no cache read is predicted, and the restart is the cause."""
    first = call(None, NOON, Engine(NOON, NOON))
    made = call(first.ledger_state, LATER, Engine(*answers)).account
    assert made.predicted.read == 0
    assert (made.blame.cause, made.blame.reason) == (Cause.EXPIRED, ENGINE_RESTARTED)


def test_an_engine_that_lives(call):
    """A running engine, or one of unknown lifetime, is predicted to read its cache."""
    first = call(None, NOON, Engine(NOON, NOON))
    for engine in (Engine(NOON, NOON), None):
        made = call(first.ledger_state, LATER, engine, read=1.0).account
        assert made.predicted.read > 0
        assert made.blame is None


def test_what_is_sent_to_the_new_one_is_there(call):
    """The first request to the new engine is warm from then on."""
    first = call(None, NOON, Engine(NOON, NOON))
    second = call(first.ledger_state, LATER, Engine(LATER, LATER))
    third = call(second.ledger_state, LATER + timedelta(minutes=1), Engine(LATER, LATER), read=1.0)
    assert third.account.predicted.read > 0
    assert third.account.blame is None
