"""Parsing of times as people write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from foreword.errors import InputError
from foreword.events.event import format_timestamp
from foreword.events.period import (
    TIME_FORMATS,
    Period,
    format_page_end,
    parse_last_moment,
    parse_period,
    parse_unpaged_period,
)

NOW = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)  # in Paris it is already the 16th


def since(text: str, zone: str = "Europe/Paris") -> str:
    """Parse a start."""
    return parse_period(text, "", NOW, zone).since.isoformat()


def until(text: str, zone: str = "Europe/Paris") -> str:
    """Parse an end."""
    return parse_period("", text, NOW, zone).until.isoformat()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1h", "2026-11-15T22:30:00+00:00"),
        ("12h", "2026-11-15T11:30:00+00:00"),
        ("30m", "2026-11-15T23:00:00+00:00"),
        ("90s", "2026-11-15T23:28:30+00:00"),
        ("7d", "2026-11-08T23:30:00+00:00"),
        ("2w", "2026-11-01T23:30:00+00:00"),
        (" 12 H ", "2026-11-15T11:30:00+00:00"),
        ("today", "2026-11-15T23:00:00+00:00"),
        ("Yesterday", "2026-11-14T23:00:00+00:00"),
        ("9:05", "2026-11-16T08:05:00+00:00"),
        ("14:03", "2026-11-16T13:03:00+00:00"),
        ("14:03:20", "2026-11-16T13:03:20+00:00"),
        ("1970-01-01", "1969-12-31T23:00:00+00:00"),
        ("2026-11-10", "2026-11-09T23:00:00+00:00"),
        ("20261110", "2026-11-09T23:00:00+00:00"),
        ("2026-11-10T08:30", "2026-11-10T07:30:00+00:00"),
        ("2026-11-10 08:30:15", "2026-11-10T07:30:15+00:00"),
        ("2026-11-10T08:30Z", "2026-11-10T08:30:00+00:00"),
        ("2026-11-10T08:30-05:00", "2026-11-10T13:30:00+00:00"),
    ],
)
def test_since(text, moment):
    """A start is a duration before now, a day in the reader's zone, or a time."""
    assert since(text) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1h", "2026-11-15T22:30:00+00:00"),
        ("today", "2026-11-16T23:00:00+00:00"),
        ("yesterday", "2026-11-15T23:00:00+00:00"),
        ("2026-11-10", "2026-11-10T23:00:00+00:00"),
        ("2026-11-10T08:30", "2026-11-10T07:30:00+00:00"),
    ],
)
def test_until(text, moment):
    """A day as an end includes the whole day; a time is exact."""
    assert until(text) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("14:03", "2026-11-16T13:03:59.999999+00:00"),
        ("2026-11-10T14:03", "2026-11-10T13:03:59.999999+00:00"),
        ("2026-11-10 14:03Z", "2026-11-10T14:03:59.999999+00:00"),
        ("2026-11-10T14:03+02:00", "2026-11-10T12:03:59.999999+00:00"),
        ("2026-11-10T14:03:20", "2026-11-10T13:03:19.999999+00:00"),
        ("2026-11-10", "2026-11-10T22:59:59.999999+00:00"),
        ("1h", "2026-11-15T22:29:59.999999+00:00"),
    ],
)
def test_at(text, moment):
    """`at` with a minute or a day means the end of that minute or day."""
    assert parse_last_moment(text, NOW, ZoneInfo("Europe/Paris")).isoformat() == moment


def test_a_further_page():
    """A page cursor is accepted as an end, and refused by queries without pages."""
    for shown in (0, 7):
        text = format_page_end(NOW, shown)
        assert parse_period("", text, NOW) == Period(until=NOW, shown=shown)
    with pytest.raises(InputError, match="is not a time"):
        parse_unpaged_period("", text, NOW)


def test_the_zone_decides_what_today_is():
    """`today` depends on the reader's zone; an unknown zone counts as UTC."""
    assert since("today", "America/New_York") == "2026-11-15T05:00:00+00:00"
    assert since("today", "UTC") == since("today", "Mars/Olympus") == "2026-11-15T00:00:00+00:00"


def test_a_day_of_23_hours():
    """A day with a clock change has its real length."""
    now = datetime(2026, 3, 29, 12, tzinfo=UTC)
    period = parse_period("today", "today", now, "Europe/Paris")
    assert (period.until - period.since).total_seconds() == 23 * 3600


@pytest.mark.parametrize(
    "text",
    [
        "soon", "1x", "-1h", "1.5h", "h", "999999999w", "9999999999h", "2026-13-01", "2026-02-30", "2026-11-15T25:00",
        "0001-01-01", "0001-02-01", "9999-12-31T23:59", "9999-12-31", "1969-12-30", "3000w", "24:00", "9:3", "1:02:03",
        "2026-11-15T12:00Z#x", "#3", "12h#3", "٣h", "1h; DROP TABLE events", "' OR 1=1 --",
        "\x00", "today\ntoday", "x" * 10_000, " ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["since", "until"])
def test_impossible(text, end):
    """Invalid times are refused with a short list of accepted forms."""
    ends = {"since": "", "until": ""} | {end: text}
    with pytest.raises(InputError, match="is not a time") as caught:
        parse_period(ends["since"], ends["until"], NOW, "Europe/Paris")
    assert TIME_FORMATS in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("first", "last"), [("1h", "2h"), ("today", "yesterday"), ("2026-11-02", "2026-11-01")])
def test_backwards(first, last):
    """A period that ends before it begins is refused."""
    with pytest.raises(InputError, match="is not before"):
        parse_period(first, last, NOW)


def test_a_stamp_has_one_width_and_comes_back():
    """Timestamps sort by time and round-trip, for any zone, year or microsecond."""
    moments = [
        datetime(1, 1, 2, tzinfo=UTC),
        datetime(2026, 11, 15, 12, 0, 0, 1, tzinfo=ZoneInfo("Europe/Paris")),
        datetime(2026, 11, 15, 12, tzinfo=UTC),
    ]
    stamps = [format_timestamp(moment) for moment in moments]
    assert {len(each) for each in stamps} == {27}
    assert sorted(stamps) == stamps
    assert [datetime.fromisoformat(each) for each in stamps] == moments
