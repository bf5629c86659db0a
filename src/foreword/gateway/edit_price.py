"""The price of an edit in every active session, computed from the state and the files without changing either.

An edit of a file, saved or proposed, and the cost of a new session that starts with it. The cost of an edit as JSON-
ready values, for the command line and the API.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from foreword.agent.tools.registry import find_gateway_tools
from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.engine.file_access import find_own_person
from foreword.engine.sources.documents import FileProblem
from foreword.engine.sources.files import MAX_FILE_BYTES
from foreword.engine.sources.views import is_internal
from foreword.errors import BudgetError, ForewordError, InputError
from foreword.events.event import NO_POSITION, Reader, sees_all
from foreword.gateway.equipment import Equipment
from foreword.gateway.history import HistoryRow, list_plain_messages, load_history
from foreword.gateway.inbox import ClaimedTurn
from foreword.gateway.messages import RoutedMessage, load_message
from foreword.gateway.session_state import StoredLedger, load_ledger
from foreword.gateway.turn_inputs import limit_history, make_turn
from foreword.promptcache.calibration import Calibration
from foreword.promptcache.changes import PromptDraft, WantedPrefix, make_wanted_prefix
from foreword.promptcache.decision import NO_LEDGER, Ledger, decide_prefix
from foreword.promptcache.ledger import PrefixDecision, count_warm_tokens
from foreword.promptcache.ledger_json import quote_to_json
from foreword.promptcache.price import EditQuote, PolicyCost, estimate, limit_to_sections, measure_prefix, quote_edit
from foreword.storage.ledgers import read_calibrations
from foreword.storage.sessions import SESSION_COLUMNS, Session, read_session
from foreword.tokens.prices import PricedRequest, find_prices
from foreword.turn import Message, Turn
from foreword.types import EditPolicy, TextEnum, Trust, frozen
from foreword.workspace import Workspace


@frozen(eq=True)
class FileEdit:
    """The saved or proposed text of a file; None if the file is deleted."""

    path: str
    text: str | None
    saved: bool = True
    """Whether the file already has this text."""
    closed: bool = False
    """Whether the file was not opened, because the reader may not see every file; a turn may open it."""

    @property
    def sha256(self) -> str:
        """Return the hash that identifies this edit."""
        return sha256((self.text or "").encode()).hexdigest()

    @property
    def texts(self) -> Mapping[str, str | None]:
        """Return the overrides to assemble with."""
        return {} if self.saved else {self.path: self.text}


@frozen(eq=True)
class NewSessionCost:
    """The cost of a new session that starts with an edit."""

    agent: str
    user: str
    model: str
    tokens: int
    """Tokens of its first call before any message: tools and prompt."""
    prefix: int
    """Tokens that stay in the provider's cache."""
    own: int
    """Tokens that come from the file."""
    cold_usd: float | None
    """Cost of the first call; None without a known price."""
    warm_usd: float | None
    """Cost of each further call."""


def find_edit(workspace: Workspace, path: str, asker: str, text: str | None = None) -> FileEdit:
    """Return the edit of a file: its text on disk, or a proposed text.

    A file of a person's own memory is opened only for that person.
    """
    files = workspace.files
    place = files.locate(path)
    if is_internal(path):
        raise InputError(f"{path} is not part of any prompt: it belongs to the configuration or the state")
    if {find_own_person(path), find_own_person(files.find_target(path))} - {"", asker}:
        raise InputError(f"{path} is not part of any prompt of {asker}: it is another person's memory")
    if os.path.isdir(place):
        raise InputError(f"{path} is a folder; name a file in it")
    if text is not None:
        if len(text.encode()) > MAX_FILE_BYTES:
            raise InputError(f"the text for {path} is longer than {MAX_FILE_BYTES:,} bytes, the limit for a file")
        return FileEdit(path=path, text=text, saved=files.read_text(path) == text)
    found = files.read_text(path)
    if isinstance(found, FileProblem):
        raise InputError(f"{path} {found.reason}")
    return FileEdit(path=path, text=found)


def make_unopened_edit(workspace: Workspace, path: str, text: str | None = None) -> FileEdit:
    """Make an edit without opening the file, for a reader who may not see every file."""
    workspace.files.locate(path)
    return FileEdit(path=path, text=text, saved=text is None, closed=True)


def find_typical_turn(path: str, config: Config) -> Turn:
    """Find a typical reader of a file by its folder; by default the owner in a private chat."""
    folder, _, rest = path.partition("/")
    name = rest.partition("/")[0].removesuffix(".md")
    usual = Turn(agent=next(iter(config.agents)), user=config.owner, situation="dm")
    if folder == "agents" and name in config.agents:
        return replace(usual, agent=name)
    if folder == "users" and name in config.users:
        return replace(usual, user=name)
    if folder == "channels" and name:
        return replace(usual, channel=name)
    if folder == "groups" and name in config.rooms:
        return replace(usual, room=name, situation=config.rooms[name].situation)
    return usual


def estimate_new_session(
    workspace: Workspace, edit: FileEdit, place: Turn, calibrations: Mapping[str, Calibration], now: datetime
) -> NewSessionCost | None:
    """Estimate the cost of a new session in a place; None if its prompt does not depend on the file."""
    config = workspace.config
    agent = place.agent or next(iter(config.agents))
    turn = replace(place, agent=agent, tools=find_gateway_tools(config.agents[agent].folders), now=now)
    supposed = (edit.texts, {edit.path: None})
    assembly, without = (workspace.suppose(texts)(turn, NO_LEDGER) for texts in supposed)
    if assembly.prompt.text == without.prompt.text:
        return None
    facts = assembly.terms.meter.facts
    known = calibrations.get(facts.name, Calibration(model=facts.name))
    return estimate_prompt(assembly, assembly.used - without.used, known, config, now)


def estimate_prompt(assembly: Assembly, own: int, known: Calibration, config: Config, now: datetime) -> NewSessionCost:
    """Estimate the cost of an assembled prompt."""
    turn, facts = assembly.turn, assembly.terms.meter.facts
    prices = find_prices(facts.name, config.models, PricedRequest(tokens=assembly.used, now=now))
    cost = estimate(assembly, prices) if prices else None
    return NewSessionCost(
        agent=turn.agent,
        user=turn.user,
        model=facts.name,
        tokens=known.correct(assembly.used),
        prefix=known.correct(measure_prefix(assembly)),
        own=round(own * (known.ratio if known.calls else 1)),
        cold_usd=cost.cold_usd * known.ratio if cost else None,
        warm_usd=cost.warm_usd * known.ratio if cost else None,
    )


ACTIVE_PERIOD = timedelta(days=1)
"""A session not used for this long is not expected to continue, and no cache lasts longer."""
PROBE_TEXT = "What would be said here."
"""A text that shows which sections depend on a file, even if the file does not exist."""
FULL_READER = Reader(user="", clearance=Trust.FULL)
Supposes = Callable[[Turn, Ledger], Assembly]


@frozen
class PricedSession:
    """A session with a ledger, and the inputs of its next turn."""

    session: Session
    books: StoredLedger
    incoming: RoutedMessage
    """Its newest message, without text."""
    past: Sequence[HistoryRow] = ()


@frozen
class PricingInputs:
    """The state of the active sessions before an edit is priced."""

    going: tuple[PricedSession, ...] = ()
    idle: int = 0
    """Sessions that were not used recently."""
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)


class NoCostReason(TextEnum):
    """Why an edit costs a session nothing."""

    SAME = "same"
    """The session already has this text."""
    APART = "apart"
    """Its prompt does not depend on the file."""
    PASSING = "passing"
    """The text is sent with every turn, so it is never cached."""
    OVER = "over"
    """The session cannot continue unchanged, for example because its person's clearance changed."""


@frozen
class SessionEditCost:
    """The cost of an edit for one session, and the decision of its next turn."""

    session: Session
    user: str
    """The person who wrote last."""
    model: str
    warm: int
    """Tokens of the session that the provider still caches."""
    quote: EditQuote
    standing: PrefixDecision


@frozen
class EditCosts:
    """The cost of an edit for all sessions."""

    prices: tuple[SessionEditCost, ...] = ()
    spared: tuple[NoCostReason, ...] = ()
    """Why other sessions have no price."""
    idle: int = 0
    """Sessions that were not used recently and were not priced."""

    def sum_up(self, policy: EditPolicy) -> PolicyCost | None:
        """Add up the offers of a policy over all sessions with a cost in money; None if there are none."""
        return add_up_offers(
            [one for price in self.prices for one in price.quote.offers if one.policy is policy and one.usd]
        )


def needs_decision(pricing: EditCosts, edit: FileEdit, policy: EditPolicy) -> bool:
    """Return whether there is something to decide about an edit.

    This is the case if a session would receive it, or if it is not saved yet. An idle session has no cached prefix, so
    it only matters under `next_session`.
    """
    return bool(pricing.prices) or not edit.saved or (pricing.idle > 0 and policy is EditPolicy.NEXT_SESSION)


def include_all(_: Session) -> bool:
    """Include every session."""
    return True


def read_pricing_inputs(
    state: sqlite3.Connection,
    now: datetime,
    only: str = "",
    sees: Callable[[Session], bool] = include_all,
    reader: Reader = FULL_READER,
) -> PricingInputs:
    """Read the recently used sessions, or those whose id starts with `only`, as far as the reader may see them."""
    asked = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id IN (SELECT session_id FROM ledgers) ORDER BY used DESC"
    found = list(filter(sees, map(read_session, state.execute(asked))))
    chosen = [one for one in found if (one.id.startswith(only) if only else now - one.used <= ACTIVE_PERIOD)]
    going = [
        PricedSession(
            session=one,
            # A running engine is assumed to have run since then.
            books=load_ledger(state, one.id, one.created).reveal(reader),
            incoming=find_newest_message(state, one),
            past=load_history(state, one.id),
        )
        for one in chosen
    ]
    return PricingInputs(
        going=tuple(one for one in going if one.books.frozen),
        idle=0 if only else len(found) - len(chosen),
        calibrations=read_calibrations(state) if sees_all(reader) else {},
    )


def find_newest_message(state: sqlite3.Connection, session: Session) -> RoutedMessage:
    """Find the newest message of a session, without its text; for a fork without messages, derive it from its row."""
    asked = "SELECT request FROM turns WHERE session_id = ? ORDER BY number DESC LIMIT 1"
    row = state.execute(asked, (session.id,)).fetchone()
    if row:
        return load_message("", row[0])
    lane = session.lane
    room = "" if lane.room.startswith("(") else lane.room
    return RoutedMessage(
        text="", user=lane.user, channel=lane.channel, agent=lane.agent, situation=session.situation, room=room
    )


def price_edit(workspace: Workspace, known: PricingInputs, edit: FileEdit, now: datetime) -> EditCosts:
    """Price an edit in every active session."""
    asking = EditPricer(workspace, edit, now)
    answers = [asking.ask(going) for going in known.going]
    return EditCosts(
        prices=tuple(one for one in answers if isinstance(one, SessionEditCost)),
        spared=tuple(one for one in answers if isinstance(one, NoCostReason)),
        idle=known.idle,
    )


class DraftRecorder:
    """A ledger that records the draft of a turn, and freezes nothing."""

    def __init__(self) -> None:
        self.drafts: list[PromptDraft] = []

    def compare(self, draft: PromptDraft) -> PrefixDecision:
        """Record the draft."""
        self.drafts.append(draft)
        return NO_LEDGER.compare(draft)


class EditPricer:
    """Prices an edit, session by session."""

    def __init__(self, workspace: Workspace, edit: FileEdit, now: datetime) -> None:
        self._workspace = workspace
        self._edit = edit
        self._now = now
        # A section depends on the file if it differs between this text, another text and no file.
        others: list[Mapping[str, str | None]] = [{edit.path: None}, {edit.path: PROBE_TEXT}]
        others += [] if edit.saved else [{}]
        self._would = workspace.suppose(edit.texts)
        self._others = tuple(map(workspace.suppose, others))

    def ask(self, going: PricedSession) -> SessionEditCost | NoCostReason:
        """Price an edit in one session, or return why it costs nothing."""
        frozen, session = going.books.frozen, going.session
        if frozen is None or session.lane.agent not in self._workspace.config.agents:
            return NoCostReason.OVER
        turn = self._make_turn(going, frozen.identity.model)
        try:
            assembly, wanted = assemble_draft(self._would, turn, going.books)
            if assembly.clearance.level != session.lane.clearance:
                return NoCostReason.OVER
            others = [assemble_draft(supposes, turn, going.books) for supposes in self._others]
        except BudgetError:
            raise
        except ForewordError:
            return NoCostReason.OVER
        touched = find_changed_sections([wanted, *(other for _, other in others)])
        if not touched:
            moved = any(other.prompt.text != assembly.prompt.text for other, _ in others)
            return NoCostReason.PASSING if moved else NoCostReason.APART
        heard = tuple(message.text for message in list_history(going))
        narrowed = limit_to_sections(frozen, replace(wanted, said=heard), touched)
        moment = going.books.open(self._workspace, turn, self._now, folded=False).moment
        asked = quote_edit(frozen, narrowed, moment)
        if not asked.sections:
            return NoCostReason.SAME
        return SessionEditCost(
            session=session,
            user=going.incoming.user,
            model=frozen.last.model,
            warm=moment.known.correct(count_warm_tokens(frozen, self._now, moment.facts)),
            quote=asked,
            standing=decide_prefix(frozen, narrowed, moment),
        )

    def _make_turn(self, going: PricedSession, model: str) -> Turn:
        """Make the next turn of a session, with its last model."""
        agent = self._workspace.config.agents[going.session.lane.agent]
        equipment = Equipment(tools=find_gateway_tools(agent.folders), model=model)
        return make_turn(make_claimed(going), equipment, (), self._now)


def make_claimed(going: PricedSession) -> ClaimedTurn:
    """Make a claimed turn for a message that is not sent."""
    return ClaimedTurn(
        turn="",
        session=going.session,
        incoming=going.incoming,
        attempt=1,
        place=NO_POSITION,
        received=going.session.used,
    )


def list_history(going: PricedSession) -> Sequence[Message]:
    """List the history that the next turn of a session would send."""
    return list_plain_messages(limit_history(make_claimed(going), going.past))


def assemble_draft(supposes: Supposes, turn: Turn, books: StoredLedger) -> tuple[Assembly, WantedPrefix]:
    """Assemble a turn; return it with the prefix it wants."""
    sketch = DraftRecorder()
    assembly = supposes(turn, sketch)
    return assembly, make_wanted_prefix(sketch.drafts[0], books.edits)


def find_changed_sections(wanted: Sequence[WantedPrefix]) -> frozenset[str]:
    """Find the sections that differ between these drafts."""
    texts = [{line.id: line.text for line in one.base.lines} for one in wanted]
    names = {name for one in texts for name in one}
    return frozenset(name for name in names if len({one.get(name) for one in texts}) > 1)


def add_up_offers(offers: Sequence[PolicyCost]) -> PolicyCost | None:
    """Add up the offers of several sessions for one policy; the calls are summed."""
    if not offers:
        return None
    calls = sum(one.calls for one in offers)
    lasting = sum(one.calls * one.each for one in offers)
    return PolicyCost(
        policy=offers[0].policy,
        again=sum(one.again for one in offers),
        more=sum(one.more for one in offers),
        once=sum(one.once for one in offers),
        each=lasting / calls if calls else 0.0,
        calls=calls,
        usd=True,
        allowed=all(one.allowed for one in offers),
    )


POLICIES = (EditPolicy.NOW, EditPolicy.APPEND, EditPolicy.COLD, EditPolicy.NEXT_SESSION)


def describe_prices(pricing: EditCosts, edit: FileEdit, fresh: NewSessionCost | None) -> dict[str, Any]:
    """Return the cost of an edit for each session, for all together, and for a new session."""
    spared = Counter(map(str, pricing.spared))
    return {
        "path": edit.path,
        "sha256": None if edit.text is None or edit.closed else edit.sha256,
        "saved": edit.saved,
        "sessions": [describe_price(one) for one in pricing.prices],
        "all": quote_to_json(sum_up_quotes(pricing)),
        "spared": {name: spared.get(name, 0) for name in ("same", "apart", "passing", "over")},
        "idle": pricing.idle,
        "fresh": fresh and {**asdict(fresh), "user": fresh.user or None},
    }


def describe_price(price: SessionEditCost) -> dict[str, Any]:
    """Return the cost of an edit for one session."""
    session, decided = price.session, price.standing.decisions
    return {
        "session": session.id,
        "agent": session.lane.agent,
        "channel": session.lane.channel,
        "room": session.lane.room or None,
        "user": price.user or None,
        "model": price.model,
        "warm": price.warm,
        "deed": str(price.standing.deed),
        "reason": decided[0].reason if decided else price.standing.reason,
        **quote_to_json(price.quote),
    }


def sum_up_quotes(pricing: EditCosts) -> EditQuote:
    """Add up the prices of all sessions, and find the cheapest policy that takes effect in all of them."""
    offers = tuple(offer for policy in POLICIES if (offer := pricing.sum_up(policy)))
    able = [one for one in offers if takes_effect(one) and one.allowed]
    best = min(able, key=lambda one: one.total).policy if able else None
    return EditQuote(sections=tuple(sorted({name for one in pricing.prices for name in one.quote.sections})),
                 offers=offers, best=best)  # fmt: skip


def takes_effect(offer: PolicyCost) -> bool:
    """Return whether an active session receives the edit with its next message."""
    return offer.policy in (EditPolicy.NOW, EditPolicy.APPEND)
