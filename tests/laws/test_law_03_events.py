"""Law 3 for what is recorded: no event and no kept prompt tells its reader of what stands above them."""

from datetime import UTC, datetime

from hypothesis import assume, given
from world_turns import assemble, turns
from worlds import CONFIGURED, worlds

from foreword.events.event import Usage
from foreword.events.row import make_row
from foreword.events.sent import Sent, describe, identify, take_apart
from foreword.testing import Heard, Listeners, MovedClock, Refusal, Reply, ScriptedLoop

USAGE = Usage(tokens_in=9_000, tokens_out=100, cache_read=4_000, cache_write=500)


def keep(assembly):
    """Show a kept prompt to a reader of the turn's own clearance, as JSON and as a table."""
    sent = Sent(
        hash=identify(assembly),
        facts=describe(assembly),
        pieces=tuple(take_apart(assembly)),
        clearance=assembly.clearance.level,
    )
    return f"{sent.to_dict()}\n{sent.explain()}\n{sent.tools}"


def tell(workspace, turn):
    """Run a turn by a script; return every row that it left, without the ids that chance gives."""
    heard = Heard()
    clock = MovedClock(datetime(2026, 11, 16, 12, tzinfo=UTC))
    loop = ScriptedLoop(workspace, Listeners(recorder=heard), clock)
    loop.receive(turn, [Refusal(429, "busy"), Reply(tools=("bash",), usage=USAGE), Reply(text="Yes.", usage=USAGE)])
    places = {event.place.span: str(number) for number, event in enumerate(heard.events)}
    rows = []
    for event in heard.events:
        values = make_row(event).values
        chance = {event.place.trace, event.place.span, event.place.parent}
        rows.append([value for value in values if value not in chance] + [places.get(event.place.parent, "")])
    return rows


@given(worlds(), turns())
def test_deleting_what_is_above_changes_no_row(world, turn):
    """Deleting every text above the clearance changes no row of a turn, and no byte of its kept prompt.

    Seen to fail when the loop told which files the private store holds.
    """
    level = world.level(turn)
    with world.opened() as whole, world.without(level).opened() as less:
        one, other = assemble(whole, turn), assemble(less, turn)
        assume(one is not None and other is not None)
        assert keep(one) == keep(other)
        assert tell(whole, turn) == tell(less, turn)


@given(worlds(), turns())
def test_no_canary_from_above_is_recorded(world, turn):
    """No row of a turn, and nothing that its own reader is shown of the kept prompt, holds a text from above.

    Seen to fail when `find_memories` did not ask for the trust of a store.
    """
    level = world.level(turn)
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        seen = f"{keep(assembly)}\n{tell(workspace, turn)}"
    for file in world.planted:
        assert file.trust <= level or file.canary not in seen
    for key in CONFIGURED:
        assert world.find_trust(key) <= level or f"kanari{key}" not in seen
