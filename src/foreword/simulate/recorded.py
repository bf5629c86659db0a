"""Recorded sessions: requests as they were captured, played against a provider's rules and prices."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from foreword.caching import Block, PrefixCache, list_blocks
from foreword.caching.cache import Counted
from foreword.config.schema import ModelOverride
from foreword.errors import ConfigError, Fault, InputError
from foreword.frozen import frozen
from foreword.ledger import Base, Frozen, Identity, Sent, Standing, advance, capture
from foreword.ledger.blame import Account
from foreword.ledger.breakpoints import choose
from foreword.ledger.state import find_part
from foreword.prices import Request, find_prices
from foreword.simulate.accounting import NOTHING, Asked, account_for
from foreword.simulate.captured import Recorded, make
from foreword.simulate.ours import mark
from foreword.simulate.run import Hand, price
from foreword.sources.document import is_unicode
from foreword.tokens import Counter, Meter, find

MOST = 20_000  # requests of one recording
Overrides = Mapping[str, ModelOverride]
Count = Callable[[str], int]
Meters = dict[str, Meter]


@frozen
class Replayed:
    """A recording as it was played: what each request reads and writes by the rules, and what was reported."""

    asked: tuple[Asked, ...]
    counted: tuple[Counted, ...]
    reported: tuple[Counted | None, ...]
    accounts: tuple[Account, ...]
    """Of what was reported, or where nothing was, of what the rules say."""
    usd: tuple[float | None, ...]

    @property
    def unmarked(self) -> bool:
        """Whether no request has a mark, though nothing is read without one."""
        needy = [one for one in self.asked if one.facts.marked and not one.facts.newest]
        return bool(needy) and not any(block.ttl for one in needy for block in one.blocks)


def read_recorded(lines: Iterable[str], file: str = "recording") -> list[Recorded]:
    """Read JSON lines, one request each, in the order of their times; or raise ConfigError with every fault."""
    recorded: list[Recorded] = []
    faults: list[Fault] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            recorded.append(make(read_line(line)))
        except InputError as error:
            faults.append(Fault(file=file, line=number, message=str(error)))
    if not recorded and not faults:
        faults.append(Fault(file=file, line=None, message="there is no request in it", remedy="one JSON object a line"))
    if len(recorded) > MOST:
        message = f"there are {len(recorded):,} requests in it, and at most {MOST:,} are played"
        faults.append(Fault(file=file, line=None, message=message))
    if faults:
        raise ConfigError(faults)
    return sorted(recorded, key=lambda one: one.at)


def read_line(line: str) -> Any:
    """Read the JSON of one line."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"this is not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError("this is nested too deeply or has a number that is too long") from None
    if "\\u" in line and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise InputError("this has half of a surrogate pair (\\ud800 to \\udfff), which is no character")
    return value


def replay(
    recorded: Sequence[Recorded], overrides: Overrides | None = None, *, model: str = "", count: Count | None = None
) -> list[Counted]:
    """Count what recorded requests read and write by the rules of their models, or of the one that is named.

    Tokens are counted as the model's own unless `count` counts them otherwise.
    """
    return use(prepare(recorded, overrides or {}, model, count))


def play_recorded(recorded: Sequence[Recorded], overrides: Overrides, model: str = "") -> Replayed:
    """Play a recording, with what each request costs and why something was read that could have been, or was not."""
    asked = prepare(recorded, overrides, model, None)
    counted = use(asked)
    reported = [None if model else one.usage for one in recorded]
    seen = [said or used for said, used in zip(reported, counted, strict=True)]
    accounts: dict[int, Account] = {}
    for session in dict.fromkeys(one.session for one in recorded):
        numbers = [at for at, one in enumerate(recorded) if one.session == session]
        found = account_for([asked[at] for at in numbers], [seen[at] for at in numbers])
        accounts.update(zip(numbers, found, strict=True))
    usd = [None if one.prices is None else price(used, one.prices) for one, used in zip(asked, counted, strict=True)]
    return Replayed(
        asked=tuple(asked),
        counted=tuple(counted),
        reported=tuple(reported),
        accounts=tuple(accounts[at] for at in range(len(asked))),
        usd=tuple(usd),
    )


def use(asked: Sequence[Asked]) -> list[Counted]:
    """Send requests to the caches of their models, one after the other."""
    clock = Hand(datetime.min.replace(tzinfo=UTC))
    caches: dict[str, PrefixCache] = {}
    counted = []
    for one in asked:
        clock.now = one.at
        cache = caches.setdefault(one.model, PrefixCache(clock, one.count))
        counted.append(cache.use(one.model, one.blocks, one.facts))
    return counted


def prepare(recorded: Sequence[Recorded], overrides: Overrides, model: str, count: Count | None) -> list[Asked]:
    """Make requests of a recording; those for another model stand in its order, with the marks of the ledger."""
    meters: Meters = {}
    for name in {model or one.model for one in recorded}:
        facts = find(name, overrides)
        meters[name] = Meter(facts, Counter(facts.tokenizer))
    asked = [ask(one, meters[model or one.model], overrides, count) for one in recorded]
    return list(address(recorded, asked)) if model else asked


def ask(one: Recorded, meter: Meter, overrides: Overrides, count: Count | None) -> Asked:
    """Make one request."""
    blocks, facts = list_blocks(one.shape, one.request), meter.facts.cache
    counting = count or meter.count
    tokens = sum(counting(block.text) for block in blocks)
    return Asked(
        at=one.at,
        model=meter.facts.name,
        blocks=blocks,
        facts=facts,
        prices=find_prices(meter.facts.name, overrides, Request(tokens=tokens, now=one.at)),
        count=counting,
    )


def address(recorded: Sequence[Recorded], asked: Sequence[Asked]) -> Iterator[Asked]:
    """Write requests of one provider for another: parts in its order, and marks where the ledger would have them."""
    frozen: dict[str, Frozen] = {}
    for was, one in zip(recorded, asked, strict=True):
        facts = one.facts
        parts = sorted(one.blocks, key=lambda block: facts.order.index(find_part(block.name)))
        blocks: Sequence[Block] = [replace(block, ttl="") for block in parts]
        before = frozen.get(was.session)
        sent = Sent(model=one.model, pieces=capture(blocks, facts, one.count), at=one.at)
        system = [at for at, block in enumerate(blocks) if find_part(block.name) == "system"]
        ttls = {each.at: each.ttl for each in choose(before, sent, facts, system)} if facts.marked else {}
        blocks, pieces = mark(blocks, ttls), mark(sent.pieces, ttls)
        standing = Standing(prompt=NOTHING, base=Base(), identity=Identity(model=one.model))
        frozen[was.session] = advance(before, standing, replace(sent, pieces=pieces), facts)
        yield replace(one, blocks=tuple(blocks))
