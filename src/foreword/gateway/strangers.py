"""Strangers: people whom the configuration does not know are answered at the owner's cost, so only so often."""

import sqlite3
from datetime import datetime, timedelta

from foreword.config.schema import Config
from foreword.gateway.letter import Letter, post
from foreword.gateway.message import Incoming
from foreword.gateway.moment import write_moment
from foreword.gateway.router import find_family

PERIOD = timedelta(hours=1)
NOTICE = "I answer people whom I do not know only so often, and that is used up for now. Please write again in an hour."
OWN = "SELECT count(*) FROM turns WHERE user_id = ? AND received > ?"
ALL = "SELECT count(*) FROM turns WHERE user_id >= ? AND user_id < ? AND received > ?"  # their names are identities


def is_bounded(incoming: Incoming, config: Config) -> bool:
    """Whether a message is a stranger's, in private or in a place that the owner has not listed as a room."""
    return incoming.user not in config.users and incoming.room not in config.rooms


def find_excess(state: sqlite3.Connection, incoming: Incoming, config: Config, now: datetime) -> str:
    """Say why a stranger is not answered now; nothing where they are."""
    bounds, since = config.strangers, write_moment(now - PERIOD)
    if state.execute(OWN, (incoming.user, since)).fetchone()[0] >= bounds.turns:
        return f"a stranger is answered {bounds.turns:,} times an hour at most"
    family = find_family(incoming.channel)
    if state.execute(ALL, (f"{family}:", f"{family};", since)).fetchone()[0] >= bounds.all_turns:
        return f"all strangers together are answered {bounds.all_turns:,} times an hour at most"
    return ""


def post_notice(state: sqlite3.Connection, incoming: Incoming, now: datetime) -> None:
    """Tell a stranger in private that they are not answered now, once in the time for which that holds."""
    period = int(now.timestamp() // PERIOD.total_seconds())
    key = f"answer\x00strangers\x00{incoming.user}\x00{period}"
    post(state, Letter(key=key, channel=incoming.channel, address=incoming.address, text=NOTICE), now)
