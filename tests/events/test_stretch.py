"""Splitting a period into days, quarter hours and moments."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from foreword.events.period import split_period

MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 4), timezones=st.just(UTC))  # noqa: DTZ001
ROUND = MOMENTS.map(lambda moment: moment.replace(minute=moment.minute // 15 * 15, second=0, microsecond=0))


@given(since=st.none() | MOMENTS | ROUND, until=st.none() | MOMENTS | ROUND, at=MOMENTS | ROUND)
def test_every_moment_once(since, until, at):
    """Every moment of a period is in exactly one part, and no other moment is in any."""
    stretch = split_period(since, until)
    text = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    quarter = at.replace(minute=at.minute // 15 * 15).strftime("%Y-%m-%dT%H:%M")
    hits = sum(first <= text < last for first, last in stretch.moments)
    hits += sum(first <= quarter < last for first, last in stretch.quarters)
    if stretch.days:
        hits += stretch.days[0] <= text[:10] < stretch.days[1]
    inside = (since is None or since <= at) and (until is None or at < until)
    assert hits == inside


def test_whole_days_are_days():
    """UTC days need no quarter hours; a day in Kathmandu needs nothing finer than quarter hours."""
    day = datetime(2026, 11, 16, tzinfo=UTC)
    assert split_period(day, day + timedelta(days=2)).quarters == ()
    kathmandu = split_period(day.replace(tzinfo=timezone(timedelta(hours=5, minutes=45))), None)
    assert kathmandu.moments == ()
    assert kathmandu.quarters == (("2026-11-15T18:15", "2026-11-16T00:00"),)
