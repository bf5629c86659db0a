"""Law 13: a schedule acts as its creator, at the lower of the clearance at its creation and that of its destination."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from foreword.config import load
from foreword.config.scheduling import Missed
from foreword.errors import InputError
from foreword.gateway.lane import find_lane
from foreword.gateway.message import Errand, Incoming
from foreword.gateway.schedule.destination import Refused, bound, clear, read_destination, settle_destination
from foreword.gateway.schedule.due import Kind, Timing
from foreword.gateway.schedule.schedules import SITUATION, Destination, Origin, Schedule
from foreword.store.state import open_state
from foreword.trust import resolve
from foreword.turn import Turn
from foreword.words import Delivery, Trust

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
LEVELS = st.sampled_from([str(level) for level in Trust])
PLACES = ("", "telegram:1001", "telegram:1002", "telegram:7", "kitchen", "telegram:-5", "telegram:-6")
WORLD = st.fixed_dictionaries(
    {
        "alice": st.one_of(st.none(), LEVELS),
        "bob": LEVELS,
        "dm": LEVELS,
        "group": LEVELS,
        "system": LEVELS,
        "kitchen": st.one_of(st.none(), LEVELS),
        "paired": st.sampled_from(("", "alice", "bob")),
    }
)


def make_config(world):
    """Write the configuration of a world; whoever has no trust is not in it."""
    alice = f"alice: {{trust: {world['alice']}, identities: ['telegram:1001']}}, " if world["alice"] else ""
    ceiling = f", ceiling: {world['kitchen']}" if world["kitchen"] else ""
    return load(
        "owner: bob\nagents: {reid: {}}\n"
        f"users: {{{alice}bob: {{trust: {world['bob']}, identities: ['telegram:1002']}}}}\n"
        f"situations: {{dm: {{ceiling: {world['dm']}}}, group: {{ceiling: {world['group']}}},"
        f" system: {{ceiling: {world['system']}}}}}\n"
        f"rooms: {{kitchen: {{places: ['telegram:-5']{ceiling}}}}}\n"
    )


def read_to(written, config):
    """Read a destination, or one as it was before the configuration refused it."""
    try:
        return read_destination(written, "alice", config)
    except InputError:
        channel, _, address = written.partition(":")
        return Destination(channel=channel, address=address)


def make_state(folder, world):
    """Make a state in which an address was paired with somebody."""
    state = open_state(str(folder)).connection
    if world["paired"]:
        row = ("telegram:7", world["paired"], "2026-01-01")
        state.execute("INSERT INTO identities (identity, user_id, paired) VALUES (?, ?, ?)", row)
    return state


def find_own(world):
    """Find the private addresses of alice."""
    paired = {("telegram", "7")} if world["paired"] == "alice" else set()
    return ({("telegram", "1001")} | paired) if world["alice"] else set()


@settings(max_examples=300, deadline=None)
@given(
    before=WORLD,
    after=WORLD,
    to=st.sampled_from(PLACES),
    origin=st.sampled_from(Origin),
    room=st.sampled_from(("", "kitchen", "telegram:-6")),
)
@example(
    before=dict.fromkeys(("alice", "bob", "dm", "group", "system"), "full") | {"kitchen": None, "paired": ""},
    after=dict.fromkeys(("alice", "bob", "dm", "group", "system"), "full") | {"kitchen": "public", "paired": ""},
    to="kitchen",
    origin=Origin.CONFIG,
    room="",
)
def test_the_lower_of_two(tmp_path_factory, *, before, after, to, origin, room):
    """Whoever made it, wherever it goes and whatever changed since: no run sees more than either allows."""
    then, now = make_config(before), make_config(after)
    made_at = resolve(Turn(user="alice", room=room, situation="group" if room else "dm"), then).level
    schedule = Schedule(
        id="s",
        name="s",
        origin=origin,
        agent="reid",
        user="alice",
        timing=Timing(kind=Kind.CRON, moment="0 8 * * *"),
        say="x",
        delivery=Delivery.ALWAYS,
        to=read_to(to, then),
        clearance=made_at,
        missed=Missed.ONCE,
        created=NOW,
    )
    with closing(make_state(tmp_path_factory.mktemp("law"), after)) as state:
        try:
            where = settle_destination(state, schedule, now, ("telegram",))
            allowed = bound(schedule, where, now)
        except Refused:
            check_refusal(schedule, after, now, state)
            return
    # Never to somebody else's private address.
    assert where.room or not where.address or (where.channel, where.address) in find_own(after)
    there = clear("alice", where, now)
    assert allowed <= min(made_at, there)
    errand = Errand(schedule="s", delivery=Delivery.ALWAYS, ceiling=allowed)
    fields = {"user": "alice", "channel": "scheduled", "room": where.room, "situation": SITUATION}
    lane = find_lane(Incoming(text="x", errand=errand, **fields), now).lane
    assert lane.clearance == allowed
    assert lane.clearance <= Trust[after["alice"].upper()]
    if where.room == "kitchen" and after["kitchen"]:
        assert lane.clearance <= Trust[after["kitchen"].upper()]
    if where.room:
        assert lane.clearance <= Trust[after["group"].upper()]
    if origin is Origin.AGENT:  # words that were written at a clearance are not said below it
        assert lane.clearance == made_at


def check_refusal(schedule, world, config, state):
    """A run is refused for a reason: nobody is there, the address is another's, or its words are from above."""
    gone = not world["alice"]
    to = schedule.to
    foreign = bool(to.address) and not to.room and (to.channel, to.address) not in find_own(world)
    if gone or foreign:
        return
    where = settle_destination(state, schedule, config, ("telegram",))
    assert schedule.origin is Origin.AGENT
    assert clear("alice", where, config) < schedule.clearance


def test_a_ceiling_only_lowers():
    """No ceiling gives a turn more than the person, the situation and the room allow."""
    config = load("owner: bob\nusers: {bob: {trust: inner}}\nrooms: {kitchen: {}}\n")
    for level in Trust:
        for room in ("", "kitchen"):
            turn = Turn(user="bob", situation="dm", room=room)
            free, held = resolve(turn, config), resolve(replace(turn, ceiling=level), config)
            assert held.level == min(level, free.level)
            if level < free.level:
                assert "the ceiling of this turn" in held.reason
