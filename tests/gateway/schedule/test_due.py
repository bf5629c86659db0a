"""Due times in zones with daylight saving: one run for each wall-clock time."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.config.schedule_settings import check_time
from foreword.gateway.schedule.creation import find_next_due, list_due_times
from foreword.storage.schedules import Timing, TimingKind

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",  # changes at midnight
    "Australia/Lord_Howe",  # changes by half an hour
    "Africa/Cairo",
    "Asia/Kathmandu",  # never changes
    "UTC",
)
BERLIN = "Europe/Berlin"


def list_runs(line, zone, start, end):
    """List the due times of a cron expression."""
    timing, runs, last = Timing(kind=TimingKind.CRON, moment=line, zone=zone), [], start
    while (last := find_next_due(timing, last)) and last < end:
        runs.append(last)
    return runs


def show(moment, zone):
    """Format the wall-clock time of a zone."""
    return f"{moment.astimezone(ZoneInfo(zone)):%m-%d %H:%M%z}"


@pytest.mark.parametrize(
    ("line", "day", "shown"),
    [
        ("30 2 * * *", (3, 29), ["03-29 03:00+0200"]),  # 02:30 does not exist
        ("30 2 * * *", (10, 25), ["10-25 02:30+0200"]),  # 02:30 exists twice
        ("*/20 2 * * *", (3, 29), ["03-29 03:00+0200"]),  # three skipped times become one run
        ("0 2,3 * * *", (3, 29), ["03-29 03:00+0200"]),  # so do a skipped and an existing one
        (
            "0 */2 29 3 *",
            (3, 29),
            [f"03-29 {hour:02}:00+{'0200' if hour else '0100'}" for hour in (0, 3, *range(4, 24, 2))],
        ),
        ("30 1-3 * * *", (10, 25), ["10-25 01:30+0200", "10-25 02:30+0200", "10-25 03:30+0100"]),
    ],
)
def test_a_clock_that_is_put_forward_or_back(line, day, shown):
    """A skipped wall-clock time runs once at the change, and a repeated one runs once."""
    start = datetime(2026, *day, tzinfo=ZoneInfo(BERLIN)).astimezone(UTC) - timedelta(seconds=1)
    end = datetime(2026, *day, tzinfo=ZoneInfo(BERLIN)) + timedelta(days=1)
    assert [show(run, BERLIN) for run in list_runs(line, BERLIN, start, end)] == shown


@pytest.mark.parametrize(("day", "hours"), [((3, 29), 23), ((10, 25), 25), ((6, 1), 24)])
@pytest.mark.parametrize("line", ["0 * * * *", "0 0-23 * * *"])
def test_every_hour_is_every_hour(line, day, hours):
    """An hourly schedule runs once per elapsed hour, however it is written."""
    start = datetime(2026, *day, tzinfo=ZoneInfo(BERLIN)).astimezone(UTC) - timedelta(seconds=1)
    end = (datetime(2026, *day, tzinfo=ZoneInfo(BERLIN)) + timedelta(days=1)).astimezone(UTC)
    runs = list_runs(line, BERLIN, start, end)
    assert len(runs) == hours
    assert {after - before for before, after in pairwise(runs)} == {timedelta(hours=1)}


def find_changes(zone, year):
    """Find the days of a year on which a zone changes its offset."""
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(366)]
    there = ZoneInfo(zone)
    return [
        day
        for day in days
        if day.astimezone(there).utcoffset() != (day + timedelta(days=1)).astimezone(there).utcoffset()
    ]


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    year=st.integers(2024, 2030),
    which=st.integers(0, 3),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=6),
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    offset=st.integers(0, 5 * 24 * 60 * 60),
)
def test_once_for_each_time_of_the_clock(*, zone, year, which, hours, minutes, offset):
    """Around every offset change each time of the expression has one run: at its time, or at the change if skipped."""
    changes = find_changes(zone, year) or [datetime(year, 3, 1, tzinfo=UTC)]
    start = changes[which % len(changes)] - timedelta(days=2)
    end, there = start + timedelta(days=5), ZoneInfo(zone)
    line = f"{','.join(map(str, sorted(minutes)))} {','.join(map(str, sorted(hours)))} * * *"
    runs = list_runs(line, zone, start, end)
    assert runs == sorted(set(runs))
    shown = [run.astimezone(there).replace(tzinfo=None) for run in runs]
    assert len(set(shown)) == len(shown)
    day = start.astimezone(there).replace(tzinfo=None)
    for minute in range(6 * 24 * 60):
        wall = day.replace(hour=0, minute=0, second=0) + timedelta(minutes=minute)
        if wall.hour not in hours or wall.minute not in minutes:
            continue
        first = wall.replace(tzinfo=there).astimezone(UTC)
        if not start + timedelta(hours=3) < first < end - timedelta(hours=3):
            continue
        if first.astimezone(there).replace(tzinfo=None) == wall:
            assert first in runs
        else:  # a skipped time has a run at the change
            assert any(abs(run - first) <= timedelta(hours=1) for run in runs)
    # The next run does not depend on the start of the search.
    began = start + timedelta(seconds=offset)
    expected = next((run for run in runs if run > began), None)
    found = find_next_due(Timing(kind=TimingKind.CRON, moment=line, zone=zone), began)
    assert expected is None or found == expected


def test_a_single_moment():
    """A moment without offset is in the schedule's zone; once past, there is no next run."""
    now = datetime(2026, 6, 1, tzinfo=UTC)
    timing = Timing(kind=TimingKind.AT, moment="2026-07-01T09:00", zone=BERLIN)
    assert find_next_due(timing, now) == datetime(2026, 7, 1, 7, tzinfo=UTC)
    assert find_next_due(timing, datetime(2026, 7, 1, 7, tzinfo=UTC)) is None
    named = Timing(kind=TimingKind.AT, moment="2026-07-01T09:00-05:00", zone=BERLIN)
    assert find_next_due(named, now) == datetime(2026, 7, 1, 14, tzinfo=UTC)
    skipped = Timing(kind=TimingKind.AT, moment="2027-03-28T02:15", zone=BERLIN)
    assert find_next_due(skipped, now) == datetime(2027, 3, 28, 1, tzinfo=UTC)


def test_heartbeats_keep_their_distance():
    """Heartbeats have fixed moments, whatever the current time."""
    timing = Timing(kind=TimingKind.HEARTBEAT, moment="30m")
    for minute in range(30):
        now = datetime(2026, 6, 1, 9, minute, 7, tzinfo=UTC)
        assert find_next_due(timing, now) == datetime(2026, 6, 1, 9, 30, tzinfo=UTC)
    due = datetime(2026, 6, 1, 9, 30, tzinfo=UTC)
    assert len(list_due_times(timing, due, due + timedelta(hours=2))) == 5


@pytest.mark.parametrize("line", ["0 0 29 2 *", "0 0 L * *", "0 9 * * MON#1", "0 9 LW * *", "0 0 1 JAN *"])
def test_rare_times_come(line):
    """Leap days, last days and first Mondays are found."""
    assert check_time("cron", line) == ""
    assert find_next_due(Timing(kind=TimingKind.CRON, moment=line, zone=BERLIN), datetime(2026, 6, 1, tzinfo=UTC))


@settings(max_examples=4 * settings.default.max_examples, deadline=None)
@given(
    line=st.one_of(
        st.text(max_size=40), st.from_regex(r"[0-9*/,#LWa-z-]{1,6}( [0-9*/,#LWa-z-]{1,6}){4}", fullmatch=True)
    )
)
def test_whatever_is_written(line):
    """A cron expression is either refused with a reason or has a next time."""
    if not check_time("cron", line):
        assert find_next_due(Timing(kind=TimingKind.CRON, moment=line, zone=BERLIN), datetime(2026, 6, 1, tzinfo=UTC))
