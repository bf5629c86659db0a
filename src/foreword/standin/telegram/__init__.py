"""A stand-in for Telegram's Bot API: it keeps its rules, fails as it is told, and remembers what it was sent."""

from foreword.standin.telegram.bot import Flood, Sent, StandInBot
from foreword.standin.telegram.faults import Delays, Drops, Errs, Fault
from foreword.standin.telegram.server import listen_telegram

__all__ = ["Delays", "Drops", "Errs", "Fault", "Flood", "Sent", "StandInBot", "listen_telegram"]
