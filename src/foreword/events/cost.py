"""The cost of a model call, in total and per section, and the budgets from which it is reserved and settled."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock

from foreword.assembly import Assembly
from foreword.config.schema import Budgets, Config, ModelOverride, SpendingLimits
from foreword.events.event import Context, Usage, format_timestamp
from foreword.events.record import convert_amount
from foreword.host import load_zone
from foreword.storage.database import BUDGETS_FILE, OpenDatabase, StorageError, identify_file, open_budgets, writing
from foreword.tokens.models import PricedRequest, Prices, find_prices, format_usd
from foreword.types import Placement, frozen

# The parts of a request that are not sections. The brackets distinguish them from slot names.
TOOLS_PART, HISTORY_PART, MESSAGE_PART, REPLY_PART = "(tool schemas)", "(history)", "(message)", "(reply)"
IMAGES_PART = "(images)"  # of the history and the message
WARNING_SHARE = 0.8  # share of a limit that triggers a warning, once per period
RESERVATION_LIFETIME = timedelta(days=1)  # age after which reservations of dead processes no longer count
SUMS_LIFETIME = timedelta(days=40)  # retention of the sums of turns and days
ROUNDING_USD = 1e-9  # dollars; tolerance for rounding errors
LOCK_TIMEOUT_S = 1.0  # seconds that a call waits for another process's write lock
STORAGE_ERRORS = (sqlite3.Error, OSError, StorageError)

BudgetKey = tuple[str, str, str]
"""Scope, name and period of an account."""


@frozen(eq=True)
class PricedCall:
    """The properties of a model call that determine its price."""

    model: str
    usage: Usage
    time: datetime | None = None
    hour: bool = False  # whether cache writes have a lifetime of one hour

    def find_write_price(self, prices: Prices) -> float:
        """Return the price of writing one token to the cache."""
        return prices.cache_write_1h if self.hour else prices.cache_write


@frozen(eq=True)
class Cost:
    """The cost of a call in US dollars, or the reason why it is unknown."""

    usd: float | None
    reason: str = ""
    prices: Prices | None = None


@frozen(eq=True)
class SectionShare:
    """The share of one section in a call: tokens, cached tokens and US dollars."""

    section: str
    tokens: int
    cached: int
    usd: float | None

    @property
    def row(self) -> list[str | int | float | None]:
        """The share as stored in the facts of an event."""
        return [self.section, self.tokens, self.cached, self.usd]


def price_call(call: PricedCall, overrides: Mapping[str, ModelOverride]) -> Cost:
    """Price a call. Prices from the configuration take precedence. An unknown price is None, not zero."""
    usage = call.usage
    if problem := check_usage(usage):
        return Cost(usd=None, reason=problem)
    prices = find_prices(call.model, overrides, PricedRequest(tokens=usage.tokens_in, now=call.time))
    if prices is None:
        return Cost(usd=None, reason=f"no price is known for {call.model or 'a call without a model'}; see models")
    if prices.output is None and usage.tokens_out:
        return Cost(usd=None, reason=f"no output price is known for {call.model}; see models", prices=prices)
    fresh = usage.tokens_in - usage.cache_read - usage.cache_write
    read, write = usage.cache_read * prices.cache_read, usage.cache_write * call.find_write_price(prices)
    return Cost(usd=fresh * prices.input + read + write + usage.tokens_out * (prices.output or 0.0), prices=prices)


def check_usage(usage: Usage) -> str:
    """Return why reported usage cannot be priced, or an empty string."""
    if min(usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write) < 0:
        return "the reported usage has negative numbers"
    if usage.cache_read + usage.cache_write > usage.tokens_in:
        return "the reported usage has more cached tokens than input tokens"
    return ""


def estimate_max_cost(assembly: Assembly, overrides: Mapping[str, ModelOverride], max_tokens: int) -> Cost:
    """Estimate the maximum cost of a call: no cache reads, and a reply of maximum length."""
    tokens = assembly.used + assembly.conversation
    usage = Usage(tokens_in=tokens, tokens_out=max_tokens)
    plain = price_call(PricedCall(model=assembly.meter.facts.name, usage=usage, time=assembly.turn.now), overrides)
    if plain.usd is None or plain.prices is None:
        return plain
    dearer = max(0.0, plain.prices.cache_write - plain.prices.input)
    return Cost(usd=plain.usd + tokens * dearer, prices=plain.prices)


def split_cost(assembly: Assembly, call: PricedCall, cost: Cost) -> tuple[SectionShare, ...]:
    """Split a call over the parts of its request, in wire order. The shares add up to the call's cost.

    A cache holds a prefix: the request starts with the tokens read from it, followed by the written ones.
    """
    usage = call.usage
    if check_usage(usage):
        return ()
    prices = cost.prices if cost.usd is not None else None
    written = usage.cache_read + usage.cache_write
    shares: dict[str, SectionShare] = {}
    at = 0
    for name, tokens in scale_parts(list(list_part_tokens(assembly)), usage.tokens_in):
        read = max(0, min(at + tokens, usage.cache_read) - at)
        wrote = max(0, min(at + tokens, written) - max(at, usage.cache_read))
        usd = None
        if prices:
            plain = (tokens - read - wrote) * prices.input
            usd = plain + read * prices.cache_read + wrote * call.find_write_price(prices)
        known = shares.get(name, SectionShare(section=name, tokens=0, cached=0, usd=0.0 if prices else None))
        usd = known.usd + usd if known.usd is not None and usd is not None else None
        # A template can split a section into several spans.
        shares[name] = SectionShare(section=name, tokens=known.tokens + tokens, cached=known.cached + read, usd=usd)
        at += tokens
    if usage.tokens_out:
        usd = usage.tokens_out * prices.output if prices and prices.output is not None else None
        shares[REPLY_PART] = SectionShare(section=REPLY_PART, tokens=usage.tokens_out, cached=0, usd=usd)
    return tuple(shares.values())


def list_part_tokens(assembly: Assembly) -> Iterator[tuple[str, int]]:
    """Yield the parts of the request with our token counts, in wire order."""
    message, blocks = assembly.meter.count(assembly.message), assembly.prompt.blocks
    if assembly.fit.tool_tokens:
        yield TOOLS_PART, assembly.fit.tool_tokens
    yield from ((span.id, span.tokens) for one in blocks if one.placement is not Placement.TAIL for span in one.spans)
    images = assembly.turn.image_tokens
    if assembly.conversation > message + images:
        yield HISTORY_PART, assembly.conversation - message - images
    if images:
        yield IMAGES_PART, images
    yield from ((span.id, span.tokens) for one in blocks if one.placement is Placement.TAIL for span in one.spans)
    yield MESSAGE_PART, message


def scale_parts(parts: list[tuple[str, int]], total: int) -> Iterable[tuple[str, int]]:
    """Scale the parts to the provider's count: the message takes a surplus, appended later; a deficit shrinks all."""
    counted = sum(tokens for _, tokens in parts)
    if counted <= total:
        name, last = parts[-1]
        return [*parts[:-1], (name, last + total - counted)]
    scaled, before, after = [], 0, 0
    for name, tokens in parts:
        before += tokens
        end = before * total // counted  # cumulative, so that rounding errors do not add up
        scaled.append((name, end - after))
        after = end
    return scaled


@frozen(eq=True)
class BudgetLimit:
    """One limit that applies to a call."""

    key: BudgetKey
    usd: float
    kind: str  # the name of the limit, such as `the daily budget`
    title: str  # the full name, such as `the daily budget of user bob`
    own: bool  # whether the sums concern only the person who asks, who alone reads the answer
    reset: str  # when the limit resets


@frozen(eq=True)
class Reservation:
    """The result of a reservation: whether a call may be made, and why not."""

    allowed: bool
    reason: str = ""  # the calculation behind a refusal, for the log and for readers who see all sums
    message: str = ""  # the refusal for the person who asked, without sums of others
    warnings: tuple[str, ...] = ()  # warnings for the person who asked, without sums of others
    sums: tuple[str, ...] = ()  # the same warnings with the calculation, for readers who see all sums
    id: str = ""
    usd: float = 0.0
    keys: tuple[BudgetKey, ...] = ()


class BudgetGuard:
    """The budget guard of a workspace. Without limits it neither reads nor writes."""

    def __init__(self, folder: str, config: Config, clock: Callable[[], datetime]) -> None:
        self._folder = folder
        self._clock = clock
        self.follow(config)
        self._opened: OpenDatabase | None = None
        self._lock = Lock()
        self._file = (0, 0)
        self._unwritten: list[tuple[Reservation, float, int]] = []

    def follow(self, config: Config) -> None:
        """Apply a new configuration. Recorded spending is unchanged."""
        self._budgets = config.budgets
        owner = config.users.get(config.owner)
        self._zone, _ = load_zone((owner.timezone if owner else "") or config.host.timezone)

    def has_limits(self, context: Context) -> bool:
        """Return whether any limit applies to calls with this context."""
        return any(find_limits(self._budgets, context, "", self._clock().astimezone(self._zone)))

    def reserve(self, context: Context, turn: str, cost: Cost) -> Reservation:
        """Reserve the maximum cost of a call, or refuse it with the calculation."""
        now = self._clock()
        limits = list(find_limits(self._budgets, context, turn, now.astimezone(self._zone)))
        if not limits:
            return Reservation(allowed=True)
        if cost.usd is None:
            note = f"no budget limits this call: {cost.reason}"
            return Reservation(allowed=True, warnings=(note,), sums=(note,))
        with self._lock:
            try:
                with self._writing(now) as connection:
                    return reserve_amount(connection, limits, cost.usd, now)
            except STORAGE_ERRORS as error:
                note = "the budgets cannot be read now; the call is made and counted later"
                made = make_reservation(limits, cost.usd)
                return replace(made, warnings=(note,), sums=(f"{note}: {error}",))

    def settle(self, reservation: Reservation, usd: float | None) -> None:
        """Record the actual cost of a call, or the reserved amount if the cost is unknown."""
        actual = convert_amount(usd)
        self._end(reservation, reservation.usd if actual is None else actual, 1)

    def release(self, reservation: Reservation) -> None:
        """Cancel the reservation of a call that was not made or that the provider refused."""
        self._end(reservation, 0.0, 0)

    def _end(self, reservation: Reservation, usd: float, calls: int) -> None:
        if not reservation.keys:
            return
        with self._lock:
            self._unwritten.append((reservation, usd, calls))
            self._write_settlements()

    def _write_settlements(self) -> None:
        with suppress(*STORAGE_ERRORS), self._writing(self._clock()):  # else written with the next call
            pass

    @contextmanager
    def _writing(self, now: datetime) -> Iterator[sqlite3.Connection]:
        """Open a transaction and write pending settlements first. After a failure, reopen the file."""
        try:
            connection = self._connect()
            with writing(connection):
                for reservation, usd, calls in self._unwritten:
                    settle_reservation(connection, reservation, (usd, calls), now)
                yield connection
        except BaseException:
            self._disconnect()
            raise
        self._unwritten.clear()

    def _connect(self) -> sqlite3.Connection:
        """Open the file, or reopen it if a damaged one was replaced."""
        path = os.path.join(self._folder, BUDGETS_FILE)
        if self._opened and self._file != identify_file(path):
            self._disconnect()
        if self._opened is None:
            self._opened = open_budgets(self._folder, LOCK_TIMEOUT_S)
            self._file = identify_file(path)
        return self._opened.connection

    def _disconnect(self) -> None:
        if self._opened:
            self._opened.connection.close()
        self._opened = None

    def close(self) -> None:
        """Close the file after a last attempt to write pending settlements."""
        with self._lock:
            if self._unwritten:
                self._write_settlements()
            self._disconnect()


def find_limits(budgets: Budgets, context: Context, turn: str, now: datetime) -> Iterator[BudgetLimit]:
    """Find every limit that applies to a call of this turn, at a time in the owner's timezone."""
    whole = SpendingLimits(
        daily_usd=budgets.daily_usd, monthly_usd=budgets.monthly_usd, per_turn_usd=budgets.per_turn_usd
    )
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


def list_limits(
    who: tuple[str, str], limits: SpendingLimits, context: Context, turn: str, now: datetime
) -> Iterator[BudgetLimit]:
    """List the limits of one name. In a room everybody reads the answer, so no sums are shown there."""
    scope, name = who
    whose = f" of {scope} {name}" if name else ""
    alone = not context.room
    month = (now.date().replace(day=1) + timedelta(days=32)).replace(day=1)
    periods = (
        ("the daily budget", limits.daily_usd, (scope, name, f"{now:%Y-%m-%d}"), f"{now.date() + timedelta(days=1)}"),
        ("the monthly budget", limits.monthly_usd, (scope, name, f"{now:%Y-%m}"), f"{month}"),
        ("the budget of one turn", limits.per_turn_usd, ("turn", turn, ""), "the next turn"),
    )
    for kind, usd, key, reset in periods:
        if usd is not None:
            own = alone and (scope == "user" or key[0] == "turn")
            yield BudgetLimit(key=key, usd=usd, kind=kind, title=kind + whose, own=own, reset=reset)


def make_reservation(limits: Iterable[BudgetLimit], usd: float) -> Reservation:
    """Make a reservation under every limit."""
    keys = tuple(dict.fromkeys(limit.key for limit in limits))
    return Reservation(allowed=True, id=os.urandom(8).hex(), usd=usd, keys=keys)


def reserve_amount(
    connection: sqlite3.Connection, limits: Sequence[BudgetLimit], usd: float, now: datetime
) -> Reservation:
    """Reserve an amount under every limit or under none. The caller holds the transaction."""
    accounts = {limit.key: sum_account(connection, limit.key, now) for limit in limits}
    sums, warnings, warned = [], [], []
    for limit in limits:
        spent, reserved, was_warned = accounts[limit.key]
        total = spent + reserved + usd
        if total > limit.usd + ROUNDING_USD:
            return refuse_call(limit, spent, reserved, usd)
        if total >= limit.usd * WARNING_SHARE and limit.usd and not was_warned:
            share = f"{total / limit.usd:.0%}".replace("%", " %")
            sums.append(f"{limit.title} is used to {share}: {format_usd(total)} of {format_usd(limit.usd)}")
            warnings.append(sums[-1] if limit.own else f"{limit.kind} is nearly used up")
            warned.append(limit.key)
    made = make_reservation(limits, usd)
    reservation = replace(made, warnings=tuple(dict.fromkeys(warnings)), sums=tuple(sums))
    stamp = format_timestamp(now)
    connection.executemany(
        "INSERT INTO budget_reserved (scope, name, period, reservation, usd, made) VALUES (?, ?, ?, ?, ?, ?)",
        [(*key, reservation.id, usd, stamp) for key in accounts],
    )
    connection.executemany(
        "INSERT INTO budget_spent (scope, name, period, usd, calls, warned, updated) VALUES (?, ?, ?, 0, 0, 1, ?)"
        " ON CONFLICT (scope, name, period) DO UPDATE SET warned = 1, updated = excluded.updated",
        [(*key, stamp) for key in warned],
    )
    return reservation


def refuse_call(limit: BudgetLimit, spent: float, reserved: float, usd: float) -> Reservation:
    """Refuse a call, with the calculation."""
    held = f" + {format_usd(reserved)} reserved by calls under way" if reserved else ""
    added = f"{format_usd(spent)} spent{held} + {format_usd(usd)} for this call at most"
    total = f"{added} = {format_usd(spent + reserved + usd)}"
    reason = f"{limit.title} is {format_usd(limit.usd)}, and {total}; it resets on {limit.reset}"
    message = reason if limit.own else f"{limit.kind} is used up; it resets on {limit.reset}"
    return Reservation(allowed=False, reason=reason, message=message)


def sum_account(connection: sqlite3.Connection, key: BudgetKey, now: datetime) -> tuple[float, float, bool]:
    """Return the spent and reserved amounts of a key, and whether a warning was given."""
    spent = connection.execute(
        "SELECT usd, warned FROM budget_spent WHERE scope = ? AND name = ? AND period = ?", key
    ).fetchone()
    (reserved,) = connection.execute(
        "SELECT coalesce(sum(usd), 0.0) FROM budget_reserved WHERE scope = ? AND name = ? AND period = ? AND made > ?",
        (*key, format_timestamp(now - RESERVATION_LIFETIME)),
    ).fetchone()
    return (spent[0], reserved, bool(spent[1])) if spent else (0.0, reserved, False)


def settle_reservation(
    connection: sqlite3.Connection, reservation: Reservation, used: tuple[float, int], now: datetime
) -> None:
    """Convert a reservation to spending in the periods of the reservation. Delete expired sums."""
    usd, calls = used
    stamp = format_timestamp(now)
    connection.execute("DELETE FROM budget_reserved WHERE reservation = ?", (reservation.id,))
    if calls:
        connection.executemany(
            "INSERT INTO budget_spent (scope, name, period, usd, calls, updated) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (scope, name, period)"
            " DO UPDATE SET usd = usd + excluded.usd, calls = calls + excluded.calls, updated = excluded.updated",
            [(*key, usd, calls, stamp) for key in reservation.keys],
        )
    old = format_timestamp(now - SUMS_LIFETIME)
    connection.execute("DELETE FROM budget_spent WHERE updated < ?", (old,))
    connection.execute("DELETE FROM budget_reserved WHERE made < ?", (old,))
