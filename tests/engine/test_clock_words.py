"""Claims about how the clock is written."""

from datetime import UTC, datetime

import pytest

from foreword.host import format_minute, load_zone

UNKNOWN = (
    "Mars/Base",
    "Europe",
    "europe/paris/x",
    "../../etc/passwd",
    "/etc/passwd",
    "Europe/Paris\n",
    "a\0b",
    "\ud800",
    "+02:00",
    "tzdata.zi",
    "x" * 5_000,
)


def minute(*moment: int) -> int:
    """Count the minutes up to a moment."""
    return int(datetime(*moment, tzinfo=UTC).timestamp()) // 60


def test_words() -> None:
    """A moment is written in every way that a form may request."""
    assert format_minute(minute(2026, 11, 5, 9, 7), "Europe/Paris") == {
        "weekday": "Thursday",
        "date": "2026-11-05",
        "day": "5",
        "day_2": "05",
        "month": "November",
        "year": "2026",
        "time": "10:07",
        "time_12": "10:07 AM",
        "timestamp": "2026-11-05T10:07+01:00",
        "zone": "Europe/Paris",
        "note": "",
    }


@pytest.mark.parametrize(
    ("hour", "said"), [(0, "12:30 AM"), (1, "01:30 AM"), (11, "11:30 AM"), (12, "12:30 PM"), (13, "01:30 PM")]
)
def test_half_days(hour: int, said: str) -> None:
    """Midnight and noon are both twelve, on their own side of the day."""
    assert format_minute(minute(2026, 3, 1, hour, 30), "UTC")["time_12"] == said


@pytest.mark.parametrize(
    ("zone", "moment", "said"),
    [
        ("Asia/Kathmandu", (2026, 1, 1, 0, 0), "2026-01-01T05:45+05:45"),
        ("Pacific/Kiritimati", (2026, 1, 1, 12, 0), "2026-01-02T02:00+14:00"),
        ("America/New_York", (2026, 3, 8, 6, 59), "2026-03-08T01:59-05:00"),
        ("America/New_York", (2026, 3, 8, 7, 0), "2026-03-08T03:00-04:00"),
        ("Europe/Paris", (2026, 10, 25, 0, 59), "2026-10-25T02:59+02:00"),
        ("Europe/Paris", (2026, 10, 25, 1, 0), "2026-10-25T02:00+01:00"),
    ],
)
def test_zones(zone: str, moment: tuple[int, ...], said: str) -> None:
    """A zone moves the day as well as the hour, on both sides of a change of the clocks."""
    assert format_minute(minute(*moment), zone)["timestamp"] == said


@pytest.mark.parametrize("zone", UNKNOWN)
def test_unknown_zone(zone: str) -> None:
    """A zone that is not known is UTC, with a note that names it."""
    shown = format_minute(minute(2026, 11, 15, 12, 0), zone)
    assert (shown["zone"], shown["time"]) == ("UTC", "12:00")
    assert shown["note"] == f"time zone {zone!r} is not known, so UTC is used"


def test_no_zone() -> None:
    """A missing zone is UTC, without a note."""
    zone, note = load_zone("")
    assert (zone.key, note) == ("UTC", "")


def test_weekdays_and_months() -> None:
    """Every month and every weekday has its English name."""
    days = [format_minute(minute(2026, month, 1, 0, 0), "UTC") for month in range(1, 13)]
    assert [shown["month"][:3] for shown in days] == [
        *("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    ]
    week = [format_minute(minute(2026, 6, day, 0, 0), "UTC")["weekday"] for day in range(1, 8)]
    assert week == ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
