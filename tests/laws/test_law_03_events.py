"""Law 3 for records: no event and no stored prompt reveals a text above its reader's clearance."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import assume, given
from world_turns import assemble, turns
from worlds import CONFIGURED, worlds

from foreword.events.event import Usage
from foreword.events.record import make_row
from foreword.events.sent_prompts import SentPrompt, describe_prompt, hash_prompt, split_prompt
from foreword.testing import EventStream, FakeRecorder, ManualClock
from night import Refusal, Reply, ScriptedNight

USAGE = Usage(tokens_in=9_000, tokens_out=100, cache_read=4_000, cache_write=500)
SCRIPT = (
    Refusal(status=429, kind="rate_limit_error", message="busy"),
    Reply(text="Let me look.", tools=("bash", "memory_list", "memory_saerch"), usage=USAGE),
    Reply(text="Yes.", usage=USAGE),
)


def keep(assembly):
    """Render a stored prompt for a reader at the turn's clearance, as JSON and as a table."""
    sent = SentPrompt(
        hash=hash_prompt(assembly),
        facts=describe_prompt(assembly),
        pieces=tuple(split_prompt(assembly)),
        clearance=assembly.clearance.level,
    )
    return f"{sent.to_dict()}\n{sent.explain()}\n{sent.tools}"


def describe(workspace, turn):
    """Run a scripted turn and return every row that it wrote, without the random ids."""
    heard = FakeRecorder()
    clock = ManualClock(datetime(2026, 11, 16, 12, tzinfo=UTC))
    night = ScriptedNight(workspace, EventStream(recorder=heard), clock)
    night.say(replace(turn, message=turn.message or "Hi"), *SCRIPT)
    places = {event.position.span: str(number) for number, event in enumerate(heard.events)}
    rows = []
    for event in heard.events:
        values = make_row(event).values
        chance = {event.position.trace, event.position.span, event.position.parent}
        rows.append([value for value in values if value not in chance] + [places.get(event.position.parent, "")])
    return rows


@given(worlds(), turns())
def test_deleting_what_is_above_changes_no_row(world, turn):
    """Deleting every text above the clearance changes no row of a turn and no byte of its stored prompt.

    Seen to fail when the loop recorded which files the private store contains.
    """
    level = world.level(turn)
    with world.opened() as whole, world.without(level).opened() as less:
        one, other = assemble(whole, turn), assemble(less, turn)
        assume(one is not None and other is not None)
        assert keep(one) == keep(other)
        assert describe(whole, turn) == describe(less, turn)


@given(worlds(), turns())
def test_no_canary_from_above_is_recorded(world, turn):
    """No row of a turn, and no part of the stored prompt that its reader sees, contains a text from above.

    Seen to fail when the listing of memories did not check the trust of a store.
    """
    level = world.level(turn)
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        seen = f"{keep(assembly)}\n{describe(workspace, turn)}"
    for file in world.planted:
        assert file.trust <= level or file.canary not in seen
    for key in CONFIGURED:
        assert world.find_trust(key) <= level or f"kanari{key}" not in seen
