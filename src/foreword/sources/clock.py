"""The clock in words: every way in which a form may tell the moment."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

# Not strftime's: those follow the locale of the process.
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@lru_cache(maxsize=4_096)
def spell_minute(minute: int, name: str) -> Mapping[str, str]:
    """Spell a minute out in a zone; a zone that is not known is UTC, and the empty field `note` says so if it is."""
    zone, note = find_zone(name)
    moment = datetime.fromtimestamp(minute * 60, zone)
    return {
        "weekday": DAYS[moment.weekday()],
        "date": f"{moment:%Y-%m-%d}",
        "day": str(moment.day),
        "day_2": f"{moment.day:02}",
        "month": MONTHS[moment.month - 1],
        "year": str(moment.year),
        "time": f"{moment.hour:02}:{moment.minute:02}",
        "time_12": f"{moment.hour % 12 or 12:02}:{moment.minute:02} {'AM' if moment.hour < 12 else 'PM'}",
        "timestamp": moment.isoformat(timespec="minutes"),
        "zone": zone.key,
        "note": note,
    }


def find_zone(name: str) -> tuple[ZoneInfo, str]:
    """Return the zone of this name, or UTC and a note that it is not known."""
    try:
        return ZoneInfo(name or "UTC"), ""
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC"), f"time zone {name!r} is not known, so UTC is used"
