"""Claims about the ledger on the real engine: of each turn it evaluates what is new, and next to nothing else."""

import asyncio

from bench.on_engine import by_turn, divide, play_all
from embedded import MODEL, Embedded

from foreword import Turn
from foreword.events.event import EventType
from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.ledger import Deed
from foreword.simulate import read_scenario
from foreword.simulate.design import OneString, set_stage
from foreword.simulate.ours import Kept, make_service
from foreword.simulate.session import play
from foreword.tokens import find
from foreword.words import Mode

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
MOST = 1.05  # times what is new, as the engine itself counts it
TEMPLATE = 24  # tokens that the template puts around the messages of one turn, with what is counted a little low


def test_only_what_is_new(environ):
    """Through edits, clock ticks and a tool call the engine evaluates what is new; with a clock in it, much more."""
    scenario = read_scenario(SHORT, "short.yaml")
    stage = set_stage(scenario)
    kept = Kept(stage, make_service(find(MODEL, {}), None))
    designs = {"ours": kept, "string": OneString(stage)}
    done = asyncio.run(play_all(play(scenario), designs, environ, 6))
    ours, string = ([one for one in done[name] if one.turn > 1] for name in designs)
    assert [standing.deed for standing in kept.standings[1:]] == [
        Deed.REUSE, Deed.APPEND, Deed.REUSE, Deed.APPEND, Deed.REUSE
    ]  # fmt: skip
    assert [one for one in by_turn(ours) if not 1.0 <= divide(one) <= MOST] == []
    assert divide(string) > 2 * MOST


def test_a_question_beside_a_conversation(tmp_path, environ):
    """Who asks the model for a summary, or has a subagent ask it, finds the conversation in its slot afterwards."""

    async def talk():
        async with Embedded(tmp_path, environ, longest=4) as house:
            await house.say("a", "Hello, who are you?")
            beside = Turn(user="alice", situation="dm", session="a", message="Sum it up.", mode=Mode.NONE)
            assembly = house.workspace.assemble(beside)
            with Trace(house.heard, find_context(assembly)).step(EventType.SESSION_COMPACTED) as step:
                await house.loop.ask(assembly, step)
            helper = Turn(user="alice", situation="dm", session="a", message="Find a fruit.", mode=Mode.MINIMAL)
            await house.run(helper, apart=True)
            outcome = await house.say("a", "Name a fruit.")
            fresh = outcome.usage.tokens_in - outcome.usage.cache_read
            tail = sum(block.tokens for block in house.assembly.prompt.blocks[-1:])
            assert 0 < fresh <= house.assembly.terms.meter.count("Name a fruit.") + tail + TEMPLATE, outcome.usage

    asyncio.run(talk())
