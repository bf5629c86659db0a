"""What it costs to move a prefix, and to say something behind it instead."""

from foreword.frozen import frozen
from foreword.ledger.line import Base
from foreword.ledger.state import Frozen
from foreword.money import Prices
from foreword.tokens.caches import CacheFacts

FURTHER = 8  # calls that are expected of a session that has only begun; later, as many as it has had


@frozen(eq=True)
class Rates:
    """What a token costs that is read, written or neither, in US dollars, or tokens of input if no price is known."""

    read: float
    write: float
    input: float
    long: float
    """Written for the longest life that the provider offers."""
    usd: bool


def find_rates(facts: CacheFacts, prices: Prices | None) -> Rates:
    """Find what tokens cost: by the prices, or by the provider's factors where nobody knows them."""
    if prices is None or prices.input == 0:
        return Rates(read=facts.read, write=facts.usual.write, input=1.0, long=facts.lives[-1].write, usd=False)
    return Rates(
        read=prices.cache_read,
        write=prices.cache_write,
        input=prices.input,
        long=prices.cache_write_1h,
        usd=True,
    )


def expect_calls(frozen: Frozen) -> int:
    """Expect as many further calls as there were, which is what sessions of unknown length have on average."""
    return max(FURTHER, frozen.calls)


def measure_equal(before: Base, after: Base, facts: CacheFacts) -> int:
    """Weigh what two bases have in common at their beginning, as far as a cache can read it."""
    equal = 0
    for old, new in zip(before.blocks, after.blocks, strict=False):
        if old == new or "".join(line.piece for line in old) == "".join(line.piece for line in new):
            equal += sum(line.tokens for line in old)
            continue
        if not facts.marked:
            for was, now in zip(old, new, strict=False):
                if was.piece != now.piece:
                    break
                equal += was.tokens
        break
    return equal


def find_difference(before: Base, after: Base) -> tuple[str, int] | None:
    """Find the first section that is not what it was, and the first byte of the whole text that differs."""
    old, new = (base.text.encode("utf-8", "surrogatepass") for base in (before, after))
    return None if old == new else (find_section(before, after), find_byte(old, new))


def find_byte(old: bytes, new: bytes) -> int:
    """Find the first byte at which two texts differ, or where the shorter one ends."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def find_section(before: Base, after: Base) -> str:
    """Find the section that is to blame for a difference: gone, new, moved, or with another text."""
    was, now = list(before.lines), list(after.lines)
    stay = {line.id for line in now}
    for old, new in zip(was, now, strict=False):
        if old.id == new.id and old.piece == new.piece:
            continue
        return old.id if old.id not in stay else new.id
    rest = was[len(now) :] or now[len(was) :]
    return rest[0].id
