"""Accounts of requests that were played: what each design or recording lost of its cache, and why."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from foreword.caching import Block
from foreword.caching.cache import Counted
from foreword.frozen import frozen
from foreword.ledger import Base, Frozen, Identity, Sent, Standing, advance, capture
from foreword.ledger.blame import Account, Answered, Blame, Cause, account
from foreword.ledger.cost import find_byte
from foreword.ledger.state import find_part
from foreword.money import Prices
from foreword.render import Prompt
from foreword.tokens.caches import CacheFacts

PARTS = {Cause.SECTION: "system", Cause.TOOLS: "tools", Cause.HISTORY: "messages"}
NOTHING = Prompt(blocks=())
LONGEST = 60  # characters of a heading
MOVED = "the system part is not what it was, and stands before what was said"


@frozen
class Asked:
    """A request as it was written, and by whose rules and prices it is accounted for."""

    at: datetime
    model: str
    blocks: tuple[Block, ...]
    facts: CacheFacts
    prices: Prices | None
    count: Callable[[str], int]
    base: Base | None = None
    """The sections of its system part, where they are known."""


def account_for(asked: Sequence[Asked], used: Sequence[Counted]) -> list[Account]:
    """Account for the requests of one session, each beside the one before it."""
    accounts: list[Account] = []
    frozen: Frozen | None = None
    for at, (one, counted) in enumerate(zip(asked, used, strict=True)):
        sent = Sent(model=one.model, pieces=capture(one.blocks, one.facts, one.count), at=one.at)
        base = one.base or Base()
        found = account(frozen, Answered(base=base, sent=sent, reported=counted), one.facts, one.prices)
        if found.blame and one.base is None:
            found = replace(found, blame=sharpen(found.blame, asked[at - 1].blocks, one.blocks))
        accounts.append(found)
        standing = Standing(prompt=NOTHING, base=base, identity=Identity(model=one.model))
        frozen = advance(frozen, standing, sent, one.facts)
    return accounts


def sharpen(blame: Blame, before: Sequence[Block], after: Sequence[Block]) -> Blame:
    """Name the very byte and the heading above it, where only texts are known and no sections."""
    part = PARTS.get(blame.cause)
    if part is None:
        return blame
    old, new = ([block for block in blocks if find_part(block.name) == part] for blocks in (before, after))
    start = 0
    for at, was in enumerate(old):
        now = new[at] if at < len(new) else None
        if now and now.key == was.key:
            start += len(was.text.encode())
            continue
        inside = find_byte(was.text.encode(), now.text.encode()) if now else 0
        heading = find_heading(was.text.encode(), inside) if part == "system" else ""
        reason = MOVED if part == "system" else blame.reason
        return replace(blame, byte=start + inside, where=heading or blame.where, reason=reason)
    return blame


def find_heading(text: bytes, byte: int) -> str:
    """Find the heading of a text that a byte stands under, or in."""
    end = text.find(b"\n", byte)
    lines = text[: end if end >= 0 else len(text)].decode(errors="ignore").split("\n")
    headings = (line.lstrip("#").strip() for line in reversed(lines) if line.startswith("#"))
    return next((heading[:LONGEST] for heading in headings if heading), "")
