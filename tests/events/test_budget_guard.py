"""Budgets: reserved before a call, settled after it, shared by all processes."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from foreword.config.load import load_config
from foreword.errors import ConfigError
from foreword.events.cost import BudgetGuard, Cost
from foreword.events.event import Context, Level
from foreword.storage.database import EVENTS_FILE, open_events
from foreword.testing import EventStream, FakeRecorder, ManualClock
from foreword.types import Trust
from night import CONFIG, USAGE, Reply, make_clock, make_night, make_turn

ALICE = Context(trust=Trust.FULL, user="alice", agent="reid", channel="signal", schedule="morning")
BOB = replace(ALICE, user="bob", trust=Trust.FAMILIAR)
START = datetime(2026, 11, 16, 12, tzinfo=UTC)


def make_guard(folder, budgets, clock=None, zone="UTC"):
    """Make the BudgetGuard of a configuration."""
    config = load_config(CONFIG.replace("timezone: UTC", f"timezone: {zone}") + f"budgets: {budgets}\n")
    return BudgetGuard(str(folder), config, clock or ManualClock(START))


def usd(amount):
    return Cost(usd=amount)


def spend(guard, amount, context=ALICE, turn="t1"):
    """Reserve and settle a call of the given cost."""
    reservation = guard.reserve(context, turn, usd(amount))
    if reservation.allowed:
        guard.settle(reservation, amount)
    return reservation


def test_no_limits(tmp_path):
    """Without limits no file is read, written or created."""
    guard = make_guard(tmp_path, "{}")
    assert spend(guard, 1e9).allowed
    assert os.listdir(tmp_path) == []


def test_refusal(tmp_path):
    """At 100 % a call is refused with the exact arithmetic and the date of the reset."""
    guard = make_guard(tmp_path, "{daily_usd: 5}")
    assert spend(guard, 4.5).allowed
    held = guard.reserve(ALICE, "t2", usd(0.25))
    refused = guard.reserve(ALICE, "t3", usd(0.5))
    assert not refused.allowed
    assert refused.reason == (
        "the daily budget is $5.0000, and $4.5000 spent + $0.2500 reserved by calls under way + $0.5000 for this call"
        " at most = $5.2500; it resets on 2026-11-17"
    )
    guard.release(held)
    assert guard.reserve(ALICE, "t3", usd(0.5)).allowed, "exactly the limit is within it"


def test_warning_once(tmp_path):
    """At 80 % there is one warning per period, with the sum for readers who may see all sums."""
    guard = make_guard(tmp_path, "{daily_usd: 10}")
    grants = [spend(guard, amount) for amount in (7.9, 0.1, 0.5)]
    assert [reservation.sums for reservation in grants] == [
        (),
        ("the daily budget is used to 80 %: $8.0000 of $10.0000",),
        (),
    ]
    assert [reservation.warnings for reservation in grants] == [(), ("the daily budget is nearly used up",), ()]


@pytest.mark.parametrize(
    ("scope", "other"),
    [
        ("agents: {reid: ", replace(ALICE, agent="sol")),
        ("users: {alice: ", BOB),
        ("channels: {signal: ", replace(ALICE, channel="web")),
        ("schedules: {morning: ", replace(ALICE, schedule="")),
    ],
)
@pytest.mark.parametrize("period", ["daily_usd", "monthly_usd", "per_turn_usd"])
def test_scopes(tmp_path, scope, other, period):
    """Every agent, user, channel and schedule may have each limit, and the limit applies to no other."""
    guard = make_guard(tmp_path, f"{{{scope}{{{period}: 1}}}}}}")
    assert spend(guard, 0.9).allowed
    refused = spend(guard, 0.2)
    assert not refused.allowed
    assert scope.rstrip(": {").replace("s: {", " ") in refused.reason
    assert spend(guard, 0.2, other).allowed


def test_a_turn(tmp_path):
    """The limit of a turn covers all calls of the turn and resets for the next turn."""
    guard = make_guard(tmp_path, "{per_turn_usd: 0.5}")
    assert [spend(guard, 0.3, turn=turn).allowed for turn in ("t1", "t1", "t2")] == [True, False, True]


def test_periods_follow_the_owner(tmp_path):
    """Days and months begin in the owner's time zone."""
    clock = ManualClock(datetime(2026, 11, 30, 22, 59, tzinfo=UTC))
    guard = make_guard(tmp_path, "{daily_usd: 1, monthly_usd: 1.5}", clock, "Europe/Paris")
    assert spend(guard, 1).allowed
    assert "resets on 2026-12-01" in spend(guard, 0.6).reason
    clock.move(120)
    assert spend(guard, 0.6).allowed


def test_settled_where_it_was_reserved(tmp_path):
    """A call over midnight counts for the day on which it was reserved."""
    clock = ManualClock(datetime(2026, 11, 16, 23, 59, tzinfo=UTC))
    guard = make_guard(tmp_path, "{daily_usd: 1}", clock)
    reservation = guard.reserve(ALICE, "t", usd(0.9))
    clock.move(300)
    guard.settle(reservation, 0.9)
    assert spend(guard, 0.9).allowed


def test_settling(tmp_path):
    """The actual cost of a call counts; if it is unknown, the reservation counts."""
    guard = make_guard(tmp_path, "{daily_usd: 1}")
    guard.settle(guard.reserve(ALICE, "t", usd(0.9)), 0.1)
    guard.settle(guard.reserve(ALICE, "t", usd(0.8)), None)
    assert "$0.9000 spent" in guard.reserve(ALICE, "t", usd(0.2)).reason


def test_what_the_dead_reserved(tmp_path):
    """The reservation of a dead process counts for one day."""
    clock = ManualClock(START)
    make_guard(tmp_path, "{monthly_usd: 1}", clock).reserve(ALICE, "t", usd(0.9))
    guard = make_guard(tmp_path, "{monthly_usd: 1}", clock)
    assert "reserved by calls under way" in guard.reserve(ALICE, "t", usd(0.2)).reason
    clock.now += timedelta(days=1)
    assert guard.reserve(ALICE, "t", usd(0.2)).allowed


def test_no_price(tmp_path):
    """A call without a known price is allowed with a warning that no budget limits it."""
    reservation = make_guard(tmp_path, "{daily_usd: 1}").reserve(ALICE, "t", Cost(usd=None, reason="no price is known"))
    assert reservation.allowed
    assert reservation.warnings == ("no budget limits this call: no price is known",)


def test_others_sums_are_not_told(tmp_path):
    """A refusal shows the user's sums and no others."""
    guard = make_guard(tmp_path, "{daily_usd: 5, users: {bob: {daily_usd: 1}}}")
    spend(guard, 4.75)
    assert guard.reserve(BOB, "t", usd(0.5)).message == "the daily budget is used up; it resets on 2026-11-17"
    assert (
        "$0.0000 spent + $2.0000 for this call"
        in make_guard(tmp_path, "{users: {bob: {daily_usd: 1}}}").reserve(BOB, "t", usd(2)).message
    )


def test_others_sums_are_not_in_a_warning(tmp_path):
    """A warning shows the user's sums and no others."""
    guard = make_guard(tmp_path, "{daily_usd: 5, users: {bob: {daily_usd: 1}}}")
    spend(guard, 3.5)
    assert spend(guard, 0.8, BOB).warnings == (
        "the daily budget is nearly used up",
        "the daily budget of user bob is used to 80 %: $0.8000 of $1.0000",
    )


@pytest.mark.parametrize("limit", ["users: {bob: {daily_usd: 1}}", "per_turn_usd: 1"])
def test_no_sums_in_a_room(tmp_path, limit):
    """In a room, warnings and refusals show no sums, because everyone reads the answer."""
    guard = make_guard(tmp_path, f"{{{limit}}}")
    kitchen = replace(BOB, room="kitchen")
    shown = (*spend(guard, 0.9, kitchen).warnings, guard.reserve(kitchen, "t1", usd(0.5)).message)
    assert len(shown) == 2
    assert not [said for said in shown if "$" in said or "%" in said or "bob" in said]


def test_a_damaged_log(tmp_path):
    """Spending still counts after the event log is damaged and moved aside."""
    guard = make_guard(tmp_path, "{monthly_usd: 10}")
    spend(guard, 9.9)
    guard.close()
    (tmp_path / EVENTS_FILE).write_text("no database at all, and long enough to be taken for one" * 20)
    open_events(str(tmp_path)).connection.close()
    assert not make_guard(tmp_path, "{monthly_usd: 10}").reserve(ALICE, "t", usd(9.9)).allowed


def test_any_number(tmp_path):
    """Any numeric type is accepted as a cost; for NaN the reservation counts."""
    guard = make_guard(tmp_path, "{daily_usd: 1}")
    for cost in (Decimal("0.25"), math.nan):
        guard.settle(guard.reserve(ALICE, "t", usd(0.375)), cost)
    assert "$0.6250 spent" in guard.reserve(ALICE, "t", usd(0.5)).reason


def test_closing_settles(tmp_path):
    """Spending that could not be written while the file was locked is written on close."""
    guard = make_guard(tmp_path, "{monthly_usd: 10}")
    reservation = guard.reserve(ALICE, "t", usd(9))
    blocker = make_guard(tmp_path, "{monthly_usd: 10}")._connect()
    blocker.execute("BEGIN IMMEDIATE")
    guard.settle(reservation, 9)
    blocker.execute("ROLLBACK")
    guard.close()
    assert blocker.execute("SELECT usd FROM budget_spent").fetchall() == [(9.0,)]
    blocker.close()


def test_a_locked_database(tmp_path):
    """If the budgets cannot be read, the call is allowed with a warning and counted later."""
    guard = make_guard(tmp_path, "{daily_usd: 1}")
    spend(guard, 0.1)
    blocker = make_guard(tmp_path, "{daily_usd: 1}")._connect()
    blocker.execute("BEGIN IMMEDIATE")
    reservation = guard.reserve(ALICE, "t", usd(0.5))
    assert reservation.allowed
    assert "cannot be read" in reservation.warnings[0]
    guard.settle(reservation, 0.5)
    blocker.execute("ROLLBACK")
    assert "$0.6000 spent" in guard.reserve(ALICE, "t", usd(0.5)).reason


def test_a_file_that_was_replaced(tmp_path):
    """After the file is moved aside, the next call uses its replacement."""
    guard = make_guard(tmp_path, "{daily_usd: 1}")
    spend(guard, 0.9)
    for name in os.listdir(tmp_path):
        os.rename(tmp_path / name, tmp_path / f"aside-{name}")
    assert spend(guard, 0.9).allowed
    assert not make_guard(tmp_path, "{daily_usd: 1}").reserve(ALICE, "t", usd(0.2)).allowed


RACE = """\
import json, sys
from datetime import UTC, datetime
from foreword.config.load import load_config
from foreword.events.cost import BudgetGuard
from foreword.events.cost import Cost
from foreword.events.event import Context
config = load_config("owner: a\\nusers: {a: {}}\\nbudgets: {daily_usd: 1}\\n")
guard = BudgetGuard(sys.argv[1], config, lambda: datetime(2026, 11, 16, tzinfo=UTC))
grants = [guard.reserve(Context(), "t", Cost(usd=0.1)) for _ in range(20)]
for reservation in grants[::2]:
    if reservation.allowed: guard.settle(reservation, 0.1)
print(json.dumps([reservation.allowed for reservation in grants]))
"""


def test_processes_share_a_budget(tmp_path):
    """Concurrent processes never reserve more than the budget in total."""
    make_guard(tmp_path, "{daily_usd: 1}")._connect()
    racers = [subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path)], stdout=subprocess.PIPE) for _ in range(4)]
    allowed = [sum(json.loads(racer.communicate(timeout=120)[0])) for racer in racers]
    assert sum(allowed) == 10


def test_a_loop_within_its_budget(tmp_path):
    """A loop first records a warning on its call, then a refusal as an error that the user also receives.

    The overall sums are in rows without a user, for full trust only.
    """
    purse_of = f"{CONFIG}budgets: {{daily_usd: 0.07}}\n"
    heard, clock = FakeRecorder(), make_clock()
    guard = BudgetGuard(str(tmp_path / "state"), load_config(purse_of), clock)
    night = make_night(tmp_path, EventStream(recorder=heard, budgets=guard), purse_of, clock=clock)
    for _ in range(6):
        night.say(make_turn(user="bob"), Reply(text="Yes.", usage=USAGE))
    own = [event for event in heard.events if event.context.user == "bob"]
    others = [event for event in heard.events if event.context.user != "bob"]
    assert [event.facts["budget"] for event in own if event.level is Level.WARN and "budget" in event.facts] == [
        "the daily budget is nearly used up"
    ]
    assert "the daily budget is used up" in next(event.error for event in own if event.type.value == "api_error")
    assert "the daily budget is used up" in night.sent[-1]
    assert "$" not in str([(event.error, event.facts.get("budget")) for event in own])
    assert {event.context for event in others} == {Context(trust=Trust.FULL)}
    assert "the daily budget is used to" in others[0].facts["budget"]
    assert "for this call at most = " in others[-1].facts["budget"]
    assert {event.position.trace for event in others} <= {event.position.trace for event in own}


@pytest.mark.parametrize(
    ("budgets", "fault"),
    [
        ("{daily_usd: -1}", "budgets.daily_usd must not be below 0"),
        ("{users: {bob: {per_turn_usd: -0.5}}}", "budgets.users.bob.per_turn_usd must not be below 0"),
        ("{users: {bobb: {daily_usd: 1}}}", "did you mean 'bob'"),
        ("{agents: {rei: {daily_usd: 1}}}", "did you mean 'reid'"),
        ("{weekly_usd: 1}", "budgets.weekly_usd is not a known key"),
        ("{daily_usd: lots}", "budgets.daily_usd must be"),
    ],
)
def test_faults(budgets, fault):
    """An invalid budget is a configuration error with its line."""
    with pytest.raises(ConfigError, match=r"foreword\.yaml:6") as caught:
        load_config(f"{CONFIG}budgets: {budgets}\n")
    assert fault in str(caught.value)
