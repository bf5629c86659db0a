"""A session's ledger: what it has sent, and the decisions about what a turn sends.

It advances only after a provider has accepted a request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from itertools import accumulate, compress, count, takewhile
from operator import attrgetter, ne
from typing import NamedTuple

from foreword.engine.render import Prompt, PromptBlock, Span
from foreword.promptcache.rules import CacheBlock, CachedPrefix, CacheUsage, NamedRequest, PrefixCache, split_blocks
from foreword.tokens.models import CacheFacts
from foreword.types import EditPolicy, Pace, Placement, TextEnum, Trust, frozen


class RemovalKind(TextEnum):
    """Kinds of removal that may be for privacy: none, a whole file, or an entry of a listing."""

    NONE = ""
    FILE = "file"
    LISTING = "listing"


@frozen(eq=True)
class SectionSnapshot:
    """A section as the ledger stores it."""

    id: str
    title: str
    pace: Pace
    text: str  # its text rendered alone, with all headings
    piece: str  # its text as rendered in the prompt, where a neighbour may carry the shared heading
    tokens: int
    governs: bool = False  # whether it governs safety; such a section is never sent in a user message
    policy: EditPolicy = EditPolicy.AUTO  # when a change reaches the session
    gated: RemovalKind = RemovalKind.NONE


Snapshots = tuple[SectionSnapshot, ...]


@frozen(eq=True)
class Prefix:
    """The leading stable part of a prompt in blocks: the part a provider can cache for a session."""

    blocks: tuple[Snapshots, ...] = ()

    @property
    def lines(self) -> Iterator[SectionSnapshot]:
        """All snapshots in order."""
        return (line for block in self.blocks for line in block)

    @property
    def text(self) -> str:
        """The text that is sent."""
        return "".join(line.piece for line in self.lines)

    @property
    def tokens(self) -> int:
        """Its tokens."""
        return sum(line.tokens for line in self.lines)


def render_blocks(prefix: Prefix) -> list[PromptBlock]:
    """Render a prefix as blocks with a span per section."""
    blocks = []
    for lines in prefix.blocks:
        spans, text = [], ""
        for line in lines:
            if line.piece:
                spans.append(Span(line.id, len(text), len(text) + len(line.piece), line.tokens))
            text += line.piece
        if text:
            tokens = sum(line.tokens for line in lines)
            block = PromptBlock(
                pace=lines[0].pace, placement=Placement.SYSTEM, text=text, tokens=tokens, spans=tuple(spans)
            )
            blocks.append(block)
    return blocks


def list_stable_blocks(blocks: Iterable[PromptBlock]) -> list[PromptBlock]:
    """List the blocks before the first one that may change each turn."""
    return list(takewhile(lambda block: block.pace is not Pace.TURN and block.placement is Placement.SYSTEM, blocks))


class UpdateChannel(TextEnum):
    """How an update is sent: with the newest message, or as a separate system message after it."""

    TAIL = "tail"
    SYSTEM = "system"


class UpdateKind(TextEnum):
    """What an update says about a section: replaced, amended, added, or removed."""

    REPLACES = "replaces"
    AMENDS = "amends"
    JOINS = "joins"
    ENDS = "ends"


@frozen(eq=True)
class Update:
    """A later message to the model about one section."""

    id: str
    title: str
    kind: UpdateKind
    channel: UpdateChannel
    said: str  # the text sent
    tokens: int
    line: SectionSnapshot | None = None  # the section's new state; None if the section was removed


def apply_updates(prefix: Prefix, updates: Sequence[Update]) -> Mapping[str, SectionSnapshot]:
    """Return the sections that apply for the model: the prefix with all updates applied."""
    told = {line.id: line for line in prefix.lines}
    for update in updates:
        if update.line is None:
            told.pop(update.id, None)
        else:
            told[update.id] = update.line
    return told


LOST_TTL_S = 0  # the TTL of a prefix that is known to be lost
ENGINE_RESTARTED = "the engine was restarted and lost its cache"
MAX_GAPS = 64  # gaps between calls that the ledger stores
KEY, TOKENS, TTL = attrgetter("key"), attrgetter("tokens"), attrgetter("ttl")


class SentBlock(NamedTuple):
    """A block of a request as the provider's cache sees it; a tuple, because long sessions have thousands."""

    key: str
    tokens: int
    size: int  # its size in bytes
    name: str  # the tool, `system`, or the message's number and role
    part: str  # `tools`, `system` or `messages`
    ttl: str = ""


@frozen(eq=True)
class SentRequest:
    """A request that a provider has accepted."""

    model: str
    pieces: tuple[SentBlock, ...]
    at: datetime
    turn: str = ""  # its turn; the calls of a tool loop share one
    answer: str = ""  # the provider's id of its answer, if the next request is to be compared with this one

    @property
    def tokens(self) -> int:
        """The tokens of the request by our count."""
        return sum(map(TOKENS, self.pieces))

    @property
    def marks(self) -> list[int]:
        """The positions of its cache breakpoints."""
        return list(compress(count(), map(TTL, self.pieces)))

    @property
    def ends(self) -> list[int]:
        """The cumulative tokens at the end of each block."""
        return list(accumulate(map(TOKENS, self.pieces)))

    def measure(self, part: str) -> int:
        """Count the tokens of one part of the request."""
        return sum(piece.tokens for piece in self.pieces if piece.part == part)


@frozen(eq=True)
class LivePrefix:
    """A prefix that should be cached: its last block, its expiry, and the TTL that each use renews."""

    at: int
    until: datetime
    seconds: int


@frozen(eq=True)
class HistoryHash:
    """Length and hash of the history before a turn, to detect that it was rewritten."""

    count: int = 0
    sha: str = ""

    def is_start_of(self, texts: Sequence[str]) -> bool:
        """Whether a history continues this one."""
        return not self.sha or hash_history(["\n\n".join(texts)[: self.count]]) == self


@frozen(eq=True)
class CacheIdentity:
    """What a cached prefix depends on besides its text: clearance, model and tools."""

    clearance: Trust = Trust.PUBLIC
    model: str = ""
    tools: str = ""  # the hash of the tool schemas


@frozen(eq=True)
class LedgerState:
    """The ledger state: everything relevant that a session has sent."""

    identity: CacheIdentity
    prefix: Prefix
    updates: tuple[Update, ...] = ()  # updates sent since the last rebase that still apply
    settled: tuple[Update, ...] = ()  # superseded updates that the history may still contain
    history: HistoryHash = HistoryHash()
    last: SentRequest
    alive: tuple[LivePrefix, ...] = ()
    gaps: tuple[float, ...] = ()  # seconds between the latest calls
    calls: int = 0
    turns: int = 0


def clear_ledger(state: LedgerState) -> LedgerState:
    """Clear the sent content: the next turn sends everything again, and the history holds no updates."""
    return replace(
        state,
        prefix=Prefix(),
        updates=(),
        settled=(),
        history=HistoryHash(),
        last=replace(state.last, pieces=(), answer=""),
        alive=(),
    )


def mark_lost(state: LedgerState) -> LedgerState:
    """Mark the cached prefix as lost: the engine was restarted."""
    gone = (replace(one, until=state.last.at, seconds=LOST_TTL_S) for one in state.alive)
    return replace(state, alive=tuple(gone))


def is_lost(state: LedgerState) -> bool:
    """Whether the cached prefix is known to be lost, regardless of its TTL."""
    return any(one.seconds == LOST_TTL_S for one in state.alive)


def hash_history(texts: Sequence[str]) -> HistoryHash:
    """Hash the history; two messages that are later merged hash the same."""
    text = "\n\n".join(texts)
    return HistoryHash(count=len(text), sha=sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32])


def make_sent_blocks(
    blocks: Sequence[CacheBlock], facts: CacheFacts, weigh: Callable[[str], int]
) -> tuple[SentBlock, ...]:
    """Convert the blocks of a request to the form the ledger stores."""
    seen = blocks if facts.marked else split_blocks(blocks)
    return tuple(
        SentBlock(
            key=sha256(block.key.encode("utf-8", "surrogatepass")).hexdigest()[:16],
            tokens=block.tokens if block.tokens >= 0 else weigh(block.text),
            size=len(block.text.encode("utf-8", "surrogatepass")),
            name=block.name,
            part=find_part(block.name),
            ttl=block.ttl,
        )
        for block in seen
    )


def find_part(name: str) -> str:
    """Return the part of a request a block belongs to; an opening system message belongs to `system`."""
    if name.startswith("tool "):
        return "tools"
    return "messages" if name[:1].isdigit() and name != "0 system" else "system"


def count_equal_blocks(before: Sequence[SentBlock], after: Sequence[SentBlock]) -> int:
    """Count the equal leading blocks."""
    differs = map(ne, map(KEY, before), map(KEY, after))
    return next(compress(count(), differs), min(len(before), len(after)))


def predict_usage(state: LedgerState | None, sent: SentRequest, facts: CacheFacts) -> CacheUsage:
    """Predict what a provider reads and writes for a request."""
    return predict_cache(state, sent, facts)[0]


def predict_cache(
    state: LedgerState | None, sent: SentRequest, facts: CacheFacts
) -> tuple[CacheUsage, tuple[LivePrefix, ...]]:
    """Predict what a provider reads and writes for a request, and the cached prefixes afterwards."""
    # Prefixes are equal if their lengths and all blocks are equal, so a number can replace the provider's hash.
    same = count_equal_blocks(state.last.pieces, sent.pieces) if state and state.last.model == sent.model else 0

    def name(at: int) -> str:
        return str(at) if at < same else f"{at} of this one"

    kept: dict[str, CachedPrefix] = {}
    for one in state.alive if state else ():
        # Without breakpoints, caching the longest prefix caches all shorter ones.
        for at in (one.at,) if facts.marked else range(one.at + 1):
            kept[str(at)] = CachedPrefix(until=one.until, seconds=one.seconds)
    cache, marks, last = PrefixCache(lambda: sent.at, lambda _: 0, kept), sent.marks, len(sent.pieces) - 1
    lives = [facts.find_ttl(sent.pieces[at].ttl) for at in marks]
    counted = cache.use_request(NamedRequest(name=name, ends=sent.ends, marks=marks, lives=lives), facts)
    # Without breakpoints, the longest prefix represents all of them.
    known = {one.at for one in state.alive if one.at < same} if state and facts.marked else set()
    found = ((at, cache.kept.get(name(at))) for at in sorted({*known, *marks, last}) if 0 <= at <= last)
    alive = (LivePrefix(at=at, until=kept.until, seconds=kept.seconds) for at, kept in found if kept is not None)
    return counted, tuple(one for one in alive if one.until > sent.at)


def count_warm_tokens(state: LedgerState, now: datetime, facts: CacheFacts) -> int:
    """Count the tokens of the last request that are still cached."""
    ends = state.last.ends
    warm = max((ends[one.at] for one in state.alive if one.until > now), default=0)
    return warm if warm >= facts.minimum else 0


class Action(TextEnum):
    """The action for a section that differs from the sent one."""

    REUSE = "reuse"
    APPEND = "append"
    REBASE = "rebase"
    HOLD = "hold"


class Reason(TextEnum):
    """Why the prefix is rebased."""

    COLD = "cold"
    MODEL = "model"
    TOOLS = "tools"
    COMPACTED = "compacted"
    CHEAPER = "cheaper"
    ORDERED = "ordered"
    PRIVATE = "private"
    GOVERNING = "governing"
    CROWDED = "crowded"
    DAMAGED = "damaged"


@frozen(eq=True)
class ChangeDecision:
    """The action for one section."""

    section: str
    what: str  # `changed`, `added` or `removed`
    action: Action
    reason: str
    policy: EditPolicy = EditPolicy.AUTO
    tokens: int = 0  # tokens of the update


@frozen(eq=True)
class Rebase:
    """The prefix is sent again from a section on."""

    code: Reason
    reason: str
    section: str  # the first section that differs; empty if the prefix itself is unchanged
    byte: int  # the first byte of the system part that differs
    tokens: int  # tokens billed again because of it; 0 if the rebase is free
    usd: float | None = None


@frozen
class PrefixDecision:
    """What a turn sends for its session, and why."""

    prompt: Prompt  # the prompt to send: the prefix, the blocks after it, and updates in the tail
    prefix: Prefix = Prefix()
    identity: CacheIdentity = CacheIdentity()
    reason: str = "no prefix yet: the session has sent nothing"
    decisions: tuple[ChangeDecision, ...] = ()
    rebase: Rebase | None = None
    new: tuple[Update, ...] = ()  # updates sent in this turn
    updates: tuple[Update, ...] = ()  # all updates that apply after this turn
    settled: tuple[Update, ...] = ()  # superseded updates that the history may still contain
    notice: str = ""  # the notice about updates superseded in this turn
    scrub: tuple[str, ...] = ()  # texts of earlier updates to remove from the history before anything is sent
    history: HistoryHash = HistoryHash()
    inserted: str = ""  # text sent as a separate system message after the newest message

    @property
    def action(self) -> Action:
        """Return the overall action: a rebase if there is one, else the strongest of the decisions."""
        done = {one.action for one in self.decisions} | ({Action.REBASE} if self.rebase else set())
        return next((action for action in (Action.REBASE, Action.APPEND, Action.HOLD) if action in done), Action.REUSE)

    @property
    def has_updates(self) -> bool:
        """Whether this turn's message carries updates that the model needs."""
        return bool(self.new or self.notice)


def advance_ledger(
    state: LedgerState | None, decision: PrefixDecision, sent: SentRequest, facts: CacheFacts
) -> LedgerState:
    """Return the ledger state after a request; all calls of a tool loop pass the decision of their turn."""
    goes_on = state is not None and state.last.turn == sent.turn and bool(sent.turn)
    gap = () if state is None else (max(0.0, (sent.at - state.last.at).total_seconds()),)
    return LedgerState(
        identity=decision.identity,
        prefix=decision.prefix,
        updates=decision.updates,
        settled=decision.settled,
        history=decision.history,
        last=sent,
        alive=predict_cache(state, sent, facts)[1],
        gaps=(*(state.gaps if state else ()), *gap)[-MAX_GAPS:],
        calls=(state.calls if state else 0) + 1,
        turns=(state.turns if state else 0) + (0 if goes_on else 1),
    )
