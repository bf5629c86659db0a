"""The ledger on the real engine: each turn evaluates little more than the new text."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from bench.on_engine import by_turn, divide, play_all
from embedded import MODEL, Embedded, ask, goes_on

from foreword.agent.agent_events import TurnSpending
from foreword.agent.providers.embedded_engine import EmbeddedEngine
from foreword.agent.providers.embedded_weights import EngineSettings
from foreword.events.event import EventType, find_context
from foreword.events.tracer import Tracer
from foreword.promptcache.designs import LedgerDesign, list_calls, make_simulated_model, make_stage
from foreword.promptcache.ledger import Action
from foreword.promptcache.scenario import read_scenario
from foreword.testing import NOON
from foreword.tokens.models import find_model
from foreword.turn import Turn
from foreword.types import Mode

SHORT = """
name: short
seed: 3
sections: [{id: soul, tokens: 72}, {id: rules, tokens: 48}, {id: user, pace: session, tokens: 36}]
turns: 6
work: [{turn: 2, calls: 1}]
message: 24
result: 24
edits: [{turn: 3, section: soul, grow: 12}, {turn: 5, section: user, grow: 12}]
"""
MOST = 1.05  # times the new tokens, as the engine itself counts them


def test_only_what_is_new(environ):
    """With edits, clock ticks and a tool call, a turn evaluates the new text and at most a twentieth more."""
    scenario = read_scenario(SHORT, "short.yaml")
    kept = LedgerDesign(make_stage(scenario), make_simulated_model(find_model(MODEL, {}), None))
    done = asyncio.run(play_all(list_calls(scenario), {"ours": kept}, environ, 6))["ours"]
    later = [one for one in done if one.turn > 1]
    assert [decision.action for decision in kept.decisions[1:]] == [
        Action.REUSE, Action.APPEND, Action.REUSE, Action.APPEND, Action.REUSE
    ]  # fmt: skip
    assert [turn for turn in by_turn(later) if not 1.0 <= divide(turn) <= MOST] == []


def test_a_question_beside_a_conversation(tmp_path, environ):
    """A summary or a subagent's request does not replace the conversation in its slot."""

    async def talk():
        async with Embedded(tmp_path, environ, longest=4) as house:
            before = await house.say("a", "Hello, who are you?")
            other = Turn(user="alice", situation="dm", session="a", message="Sum it up.", mode=Mode.NONE)
            assembly = house.workspace.assemble(other)
            with Tracer(house.heard, find_context(assembly)).step(EventType.SESSION_COMPACTED) as step:
                await house.loop.ask(assembly, step, TurnSpending())
            helper = Turn(user="alice", situation="dm", session="a", message="Find a fruit.", mode=Mode.MINIMAL)
            await house.run(helper, is_side_request=True)
            outcome = await house.say("a", "Name a fruit.")
            assert goes_on(before.text, before.usage, outcome.usage), (before.usage, outcome.usage)

    asyncio.run(talk())


def test_more_sessions_than_slots(weights):
    """A session that lost its slot gets its cached conversation back."""
    engine = EmbeddedEngine(EngineSettings(path=weights, weights=None, window=512, slots=1, spill_mb=64))
    try:
        running = engine.start()

        def say(name):
            shown = {"role": "system", "content": f"{name} keeps a garden by the river. " * 10}
            said = [shown, {"role": "user", "content": f"Hello, {name}."}]
            return ask(running, "/v1/chat/completions", {"messages": said, "id_slot": 0, "max_tokens": 1})["timings"]

        first = say("Ada")["prompt_n"]
        assert say("Bob")["prompt_n"] > 0.9 * first
        assert say("Ada")["prompt_n"] == 1  # one is evaluated in any case
    finally:
        engine.stop()


def test_asked_while_it_starts(weights):
    """A request during the start of the engine gets the same cache lifetime as one before it."""
    engine, done = EmbeddedEngine(EngineSettings(path=weights, weights=None, window=256, slots=1)), threading.Event()
    since = engine.find_cache_start(NOON)

    def ask_on():
        while not done.is_set():
            engine.find_cache_start(NOON + timedelta(hours=1))

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask_on) for _ in range(2)]
        try:
            engine.start()
        finally:
            done.set()
        assert [one.result() for one in asking] == [None, None]
    try:
        assert engine.find_cache_start(NOON + timedelta(hours=2)) == since
    finally:
        engine.stop()
