"""Budgets: money is reserved before a call, in one transaction that every process sees, and settled after it."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import Lock

from foreword.config.schema import Budgets, Config, Limits
from foreword.events import fork
from foreword.events.cost import Cost
from foreword.events.event import Context
from foreword.events.row import read_amount
from foreword.frozen import frozen
from foreword.money import show_usd
from foreword.sources.clock import find_zone
from foreword.store.open import BUDGETS, Opened, identify, open_budgets
from foreword.store.schema import StoreError

WARNING = 0.8  # the share of a limit at which people are warned, once in its period
ABANDONED = timedelta(days=1)  # after which what a dead process reserved no longer counts
TURNS = timedelta(days=40)  # how long the sums of single turns and days are kept
SLACK = 1e-9  # of a dollar, for the noise of adding
PATIENCE = 1.0  # seconds that a call waits at most for another process that writes
BRIEF = 0.02  # seconds that it waits after such a wait was in vain, until the file can be written again
FAULTS = (sqlite3.Error, OSError, StoreError)

Key = tuple[str, str, str]
"""Whose money, and of which period: scope, name, period."""


@frozen(eq=True)
class Line:
    """One limit that a call comes under."""

    key: Key
    limit: float
    kind: str
    """Which limit it is, such as `the daily budget`."""
    whose: str
    """Whose it is, such as ` of user bob`; nothing where it is everybody's."""
    own: bool
    """Whether its sums are about nobody but the person who asks, and nobody else reads the answer."""
    anew: str
    """When it begins anew."""

    @property
    def title(self) -> str:
        """How people know it, such as `the daily budget of user bob`."""
        return self.kind + self.whose


@frozen(eq=True)
class Grant:
    """Whether a call may be made, and why not."""

    allowed: bool
    reason: str = ""
    """The arithmetic of a refusal, for the log and whoever sees everybody's."""
    told: str = ""
    """What may be told to the person who asked: without the sums of others."""
    warnings: tuple[str, ...] = ()
    """What the person who asked may be warned of: without the sums of others."""
    sums: tuple[str, ...] = ()
    """The same with the arithmetic, for whoever sees everybody's."""
    id: str = ""
    usd: float = 0.0
    keys: tuple[Key, ...] = ()


class Purse:
    """The budgets of a workspace; without limits nothing is read or written."""

    def __init__(self, folder: str, config: Config, clock: Callable[[], datetime]) -> None:
        self._folder = folder
        self._clock = clock
        self._config: Config | None = None
        self.follow(config)
        self._opened: Opened | None = None
        self.reset()
        fork.follow(self)

    def follow(self, config: Config) -> None:
        """Hold to another configuration from now on; what was spent stays spent."""
        if config is self._config:
            return
        self._config = config
        self._budgets = config.budgets
        owner = config.users.get(config.owner)
        self._zone, _ = find_zone((owner.timezone if owner else "") or config.host.timezone)

    def reset(self) -> None:
        """Begin without a lock, a connection and what is unwritten, as a forked process must: they are the parent's."""
        if self._opened is not None:
            fork.leave(self._opened)
        self._opened = None
        self._lock = Lock()
        self._file = (0, 0)
        self._stuck = False
        self._unwritten: list[tuple[Grant, float, int]] = []

    def concerns(self, context: Context) -> bool:
        """Whether any limit is set for these calls; without one there is nothing to reserve or to wait for."""
        return any(find_lines(self._budgets, context, "", self._clock().astimezone(self._zone)))

    def reserve(self, context: Context, turn: str, cost: Cost) -> Grant:
        """Reserve the most that a call can cost, or refuse it with the arithmetic."""
        now = self._clock()
        lines = list(find_lines(self._budgets, context, turn, now.astimezone(self._zone)))
        if not lines:
            return Grant(allowed=True)
        if cost.usd is None:
            note = f"no budget holds this call: {cost.reason}"
            return Grant(allowed=True, warnings=(note,), sums=(note,))
        with self._lock:
            try:
                with self._writing(now) as connection:
                    return reserve(connection, lines, cost.usd, now)
            except FAULTS as error:
                note = "the budgets cannot be looked at now; the call is made, and counted when they can"
                return Grant(
                    allowed=True,
                    warnings=(note,),
                    sums=(f"{note}: {error}",),
                    id=os.urandom(8).hex(),
                    usd=cost.usd,
                    keys=tuple(dict.fromkeys(line.key for line in lines)),
                )

    def settle(self, grant: Grant, usd: float | None) -> None:
        """Count what a call really cost; where nobody knows it, what was reserved for it."""
        known = read_amount(usd)
        self._end(grant, grant.usd if known is None else known, 1)

    def release(self, grant: Grant) -> None:
        """Give back what was reserved for a call that was not made, or that the provider refused."""
        self._end(grant, 0.0, 0)

    def _end(self, grant: Grant, usd: float, calls: int) -> None:
        if not grant.keys:
            return
        with self._lock:
            self._unwritten.append((grant, usd, calls))
            try:
                with self._writing(self._clock()):
                    pass
            except FAULTS:
                return  # it is written with the next call

    @contextmanager
    def _writing(self, now: datetime) -> Iterator[sqlite3.Connection]:
        """Write in one transaction, first of all what could not be written before; closing takes back what failed."""
        patience = BRIEF if self._stuck else PATIENCE
        try:
            connection = self._connect(patience)
            connection.execute(f"PRAGMA busy_timeout={patience * 1_000:.0f}")
            connection.execute("BEGIN IMMEDIATE")
            for grant, usd, calls in self._unwritten:
                settle(connection, grant, (usd, calls), now)
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            self._stuck = True
            self._disconnect()
            raise
        self._stuck = False
        self._unwritten.clear()

    def _connect(self, patience: float = PATIENCE) -> sqlite3.Connection:
        """Open the file, or the one that has taken its place since: a damaged one is put aside."""
        path = os.path.join(self._folder, BUDGETS)
        if self._opened and self._file != identify(path):
            self._disconnect()
        if self._opened is None:
            self._opened = open_budgets(self._folder, patience)
            self._file = identify(path)
        return self._opened.connection

    def _disconnect(self) -> None:
        if self._opened:
            self._opened.connection.close()
        self._opened = None

    def close(self) -> None:
        """Close the file, after one more try to write what could not be written before."""
        with self._lock:
            self._stuck = False
            if self._unwritten:
                with suppress(*FAULTS), self._writing(self._clock()):
                    pass
            self._disconnect()


def find_lines(budgets: Budgets, context: Context, turn: str, now: datetime) -> Iterator[Line]:
    """Find every limit that a call of this turn comes under, at a moment in the owner's zone."""
    whole = Limits(daily_usd=budgets.daily_usd, monthly_usd=budgets.monthly_usd, per_turn_usd=budgets.per_turn_usd)
    yield from list_limits(("all", ""), whole, context, turn, now)
    named = (
        ("agent", context.agent, budgets.agents),
        ("user", context.user or context.spender, budgets.users),
        ("channel", context.channel, budgets.channels),
        ("schedule", context.schedule, budgets.schedules),
    )
    for scope, name, limits in named:
        if name in limits:
            yield from list_limits((scope, name), limits[name], context, turn, now)


def list_limits(who: tuple[str, str], limits: Limits, context: Context, turn: str, now: datetime) -> Iterator[Line]:
    """List the limits of one name; in a room everybody reads the answer, so that no sums are told there."""
    scope, name = who
    whose = f" of {scope} {name}" if name else ""
    alone = not context.room
    own = alone and scope == "user"
    if limits.daily_usd is not None:
        key, anew = (scope, name, f"{now:%Y-%m-%d}"), f"{now.date() + timedelta(days=1)}"
        yield Line(key=key, limit=limits.daily_usd, kind="the daily budget", whose=whose, own=own, anew=anew)
    if limits.monthly_usd is not None:
        key, anew = (scope, name, f"{now:%Y-%m}"), f"{(now.date().replace(day=1) + timedelta(days=32)).replace(day=1)}"
        yield Line(key=key, limit=limits.monthly_usd, kind="the monthly budget", whose=whose, own=own, anew=anew)
    if limits.per_turn_usd is not None:
        key, kind = ("turn", turn, ""), "the budget of one turn"
        yield Line(key=key, limit=limits.per_turn_usd, kind=kind, whose=whose, own=alone, anew="the next turn")


def reserve(connection: sqlite3.Connection, lines: Sequence[Line], usd: float, now: datetime) -> Grant:
    """Reserve an amount under every line, or under none; the caller holds the transaction."""
    sums = {line.key: add_up(connection, line.key, now) for line in lines}
    warnings, told, warned = [], [], []
    for line in lines:
        spent, reserved, known = sums[line.key]
        total = spent + reserved + usd
        if total > line.limit + SLACK:
            return refuse(line, spent, reserved, usd)
        if total >= line.limit * WARNING and line.limit and not known:
            warnings.append(show_use(line, total))
            told.append(warnings[-1] if line.own else f"{line.kind} is nearly used up")
            warned.append(line.key)
    grant = Grant(
        allowed=True,
        warnings=tuple(dict.fromkeys(told)),
        sums=tuple(warnings),
        id=os.urandom(8).hex(),
        usd=usd,
        keys=tuple(sums),
    )
    stamp = write_stamp(now)
    connection.executemany(
        "INSERT INTO budget_reserved (scope, name, period, reservation, usd, made) VALUES (?, ?, ?, ?, ?, ?)",
        [(*key, grant.id, usd, stamp) for key in sums],
    )
    connection.executemany(
        "INSERT INTO budget_spent (scope, name, period, usd, calls, warned, updated) VALUES (?, ?, ?, 0, 0, 1, ?)"
        " ON CONFLICT (scope, name, period) DO UPDATE SET warned = 1, updated = excluded.updated",
        [(*key, stamp) for key in warned],
    )
    return grant


def refuse(line: Line, spent: float, reserved: float, usd: float) -> Grant:
    """Refuse a call, with the sum that shows why."""
    held = f" + {show_usd(reserved)} reserved by calls under way" if reserved else ""
    total = (
        f"{show_usd(spent)} spent{held} + {show_usd(usd)} for this call at most = {show_usd(spent + reserved + usd)}"
    )
    reason = f"{line.title} is {show_usd(line.limit)}, and {total}; it begins anew with {line.anew}"
    told = reason if line.own else f"{line.kind} is used up; it begins anew with {line.anew}"
    return Grant(allowed=False, reason=reason, told=told)


def show_use(line: Line, total: float) -> str:
    """Show how far a limit is used."""
    share = f"{total / line.limit:.0%}".replace("%", " %")
    return f"{line.title} is used to {share}: {show_usd(total)} of {show_usd(line.limit)}"


def add_up(connection: sqlite3.Connection, key: Key, now: datetime) -> tuple[float, float, bool]:
    """Add up what was spent and what is reserved under a key, and say whether somebody was warned."""
    spent = connection.execute(
        "SELECT usd, warned FROM budget_spent WHERE scope = ? AND name = ? AND period = ?", key
    ).fetchone()
    (reserved,) = connection.execute(
        "SELECT coalesce(sum(usd), 0.0) FROM budget_reserved WHERE scope = ? AND name = ? AND period = ? AND made > ?",
        (*key, write_stamp(now - ABANDONED)),
    ).fetchone()
    return (spent[0], reserved, bool(spent[1])) if spent else (0.0, reserved, False)


def settle(connection: sqlite3.Connection, grant: Grant, used: tuple[float, int], now: datetime) -> None:
    """Turn a reservation into what was spent, in the periods it was made in; old sums of turns go on the way."""
    usd, calls = used
    stamp = write_stamp(now)
    connection.execute("DELETE FROM budget_reserved WHERE reservation = ?", (grant.id,))
    if calls:
        connection.executemany(
            "INSERT INTO budget_spent (scope, name, period, usd, calls, updated) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (scope, name, period)"
            " DO UPDATE SET usd = usd + excluded.usd, calls = calls + excluded.calls, updated = excluded.updated",
            [(*key, usd, calls, stamp) for key in grant.keys],
        )
    old = write_stamp(now - TURNS)
    connection.execute("DELETE FROM budget_spent WHERE updated < ?", (old,))
    connection.execute("DELETE FROM budget_reserved WHERE made < ?", (old,))


def write_stamp(moment: datetime) -> str:
    """Write a moment as the store has it."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
