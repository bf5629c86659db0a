"""Law 13: a schedule runs as its creator, at the lower of its creation clearance and its destination's clearance."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from foreword.config.load import load_config
from foreword.config.schedule_settings import MissedRuns
from foreword.engine.trust import resolve_trust
from foreword.errors import InputError
from foreword.gateway.messages import RoutedMessage, ScheduledRun
from foreword.gateway.schedule.destinations import (
    RunRefused,
    parse_destination,
    resolve_destination,
    resolve_destination_clearance,
    resolve_run_clearance,
)
from foreword.gateway.session_manager import resolve_session_key
from foreword.storage.database import open_state
from foreword.storage.schedules import RUN_SITUATION, Destination, ScheduleOrigin, StoredSchedule, Timing, TimingKind
from foreword.turn import Turn
from foreword.types import Delivery, Trust

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
    """Build the configuration of a world; users without trust are left out."""
    alice = f"alice: {{trust: {world['alice']}, identities: ['telegram:1001']}}, " if world["alice"] else ""
    ceiling = f", ceiling: {world['kitchen']}" if world["kitchen"] else ""
    return load_config(
        "owner: bob\nagents: {reid: {}}\n"
        f"users: {{{alice}bob: {{trust: {world['bob']}, identities: ['telegram:1002']}}}}\n"
        f"situations: {{dm: {{ceiling: {world['dm']}}}, group: {{ceiling: {world['group']}}},"
        f" system: {{ceiling: {world['system']}}}}}\n"
        f"rooms: {{kitchen: {{places: ['telegram:-5']{ceiling}}}}}\n"
    )


def read_to(written, config):
    """Read a destination, including one that the current configuration refuses."""
    try:
        return parse_destination(written, "alice", config)
    except InputError:
        channel, _, address = written.partition(":")
        return Destination(channel=channel, address=address)


def make_state(folder, world):
    """Make a state in which an address is paired with a user."""
    state = open_state(str(folder)).connection
    if world["paired"]:
        row = ("telegram:7", world["paired"], "2026-01-01")
        state.execute("INSERT INTO identities (identity, user_id, paired) VALUES (?, ?, ?)", row)
    return state


def find_own(world):
    """Return alice's private addresses."""
    paired = {("telegram", "7")} if world["paired"] == "alice" else set()
    return ({("telegram", "1001")} | paired) if world["alice"] else set()


@settings(deadline=None)
@given(
    before=WORLD,
    after=WORLD,
    to=st.sampled_from(PLACES),
    origin=st.sampled_from(ScheduleOrigin),
    room=st.sampled_from(("", "kitchen", "telegram:-6")),
)
@example(
    before=dict.fromkeys(("alice", "bob", "dm", "group", "system"), "full") | {"kitchen": None, "paired": ""},
    after=dict.fromkeys(("alice", "bob", "dm", "group", "system"), "full") | {"kitchen": "public", "paired": ""},
    to="kitchen",
    origin=ScheduleOrigin.CONFIG,
    room="",
)
def test_the_lower_of_two(tmp_path_factory, *, before, after, to, origin, room):
    """No run gets more clearance than its creation and its destination allow, for any creator and any change."""
    then, now = make_config(before), make_config(after)
    made_at = resolve_trust(Turn(user="alice", room=room, situation="group" if room else "dm"), then).level
    schedule = StoredSchedule(
        id="s",
        name="s",
        origin=origin,
        agent="reid",
        user="alice",
        timing=Timing(kind=TimingKind.CRON, moment="0 8 * * *"),
        say="x",
        delivery=Delivery.ALWAYS,
        to=read_to(to, then),
        clearance=made_at,
        missed=MissedRuns.ONCE,
        created=NOW,
    )
    with closing(make_state(tmp_path_factory.mktemp("law"), after)) as state:
        try:
            where = resolve_destination(state, schedule, now, ("telegram",))
            allowed = resolve_run_clearance(schedule, where, now)
        except RunRefused:
            check_refusal(schedule, after, now, state)
            return
    # The destination is never another user's private address.
    assert where.room or not where.address or (where.channel, where.address) in find_own(after)
    there = resolve_destination_clearance("alice", where, now)
    assert allowed <= min(made_at, there)
    scheduled = ScheduledRun(schedule="s", delivery=Delivery.ALWAYS, ceiling=allowed)
    fields = {"user": "alice", "channel": "scheduled", "room": where.room, "situation": RUN_SITUATION}
    key = resolve_session_key(RoutedMessage(text="x", scheduled_run=scheduled, **fields), now).key
    assert key.clearance == allowed
    assert key.clearance <= Trust[after["alice"].upper()]
    if where.room == "kitchen" and after["kitchen"]:
        assert key.clearance <= Trust[after["kitchen"].upper()]
    if where.room:
        assert key.clearance <= Trust[after["group"].upper()]
    if origin is ScheduleOrigin.AGENT:  # text written at a clearance is not sent below it
        assert key.clearance == made_at


def check_refusal(schedule, world, config, state):
    """Check the reason of a refusal: unknown user, another user's address, or text from a higher clearance."""
    gone = not world["alice"]
    to = schedule.to
    foreign = bool(to.address) and not to.room and (to.channel, to.address) not in find_own(world)
    if gone or foreign:
        return
    where = resolve_destination(state, schedule, config, ("telegram",))
    assert schedule.origin is ScheduleOrigin.AGENT
    assert resolve_destination_clearance("alice", where, config) < schedule.clearance


def test_a_ceiling_only_lowers():
    """A ceiling never gives a turn more than the user, the situation and the room allow."""
    config = load_config("owner: bob\nusers: {bob: {trust: inner}}\nrooms: {kitchen: {}}\n")
    for level in Trust:
        for room in ("", "kitchen"):
            turn = Turn(user="bob", situation="dm", room=room)
            free, held = resolve_trust(turn, config), resolve_trust(replace(turn, ceiling=level), config)
            assert held.level == min(level, free.level)
            if level < free.level:
                assert "the ceiling of this turn" in held.reason
