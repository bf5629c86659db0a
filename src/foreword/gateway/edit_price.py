"""The price of an edit in every active session, computed from the state and the files without changing either."""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.engine.context import is_internal
from foreword.engine.sources.documents import FileProblem
from foreword.engine.sources.files import MAX_FILE_BYTES
from foreword.engine.trust import find_own_person
from foreword.errors import BudgetError, ForewordError, InputError
from foreword.events.event import NO_POSITION, Reader, sees_all
from foreword.gateway.equipment import Equipment
from foreword.gateway.gateway_tools import find_gateway_tools
from foreword.gateway.inbox import ClaimedTurn
from foreword.gateway.messages import RoutedMessage, load_message
from foreword.gateway.session_state import HistoryRow, StoredLedger, list_plain_messages, load_history, load_ledger
from foreword.gateway.turn_inputs import limit_history, make_turn
from foreword.promptcache import price
from foreword.promptcache.changes import PromptDraft, WantedPrefix, make_wanted_prefix
from foreword.promptcache.decision import NO_LEDGER, Ledger, decide_prefix
from foreword.promptcache.ledger import PrefixDecision, count_warm_tokens
from foreword.promptcache.ledger_json import quote_to_json
from foreword.promptcache.rules import Calibration
from foreword.storage.ledgers import read_calibrations
from foreword.storage.sessions import Session, list_sessions_with_ledgers
from foreword.storage.turns import find_newest_request
from foreword.tokens.models import PricedRequest, find_prices
from foreword.turn import Turn
from foreword.types import EditPolicy, TextEnum, Trust, frozen
from foreword.workspace import Workspace

ACTIVE_PERIOD = timedelta(days=1)
"""A session not used for this long is not expected to continue, and no cache lasts longer."""
PROBE_TEXT = "What would be said here."
"""A text that shows which sections depend on a file, even if the file does not exist."""
FULL_READER = Reader(user="", clearance=Trust.FULL)
POLICIES = (EditPolicy.NOW, EditPolicy.APPEND, EditPolicy.COLD, EditPolicy.NEXT_SESSION)
IMMEDIATE_POLICIES = (EditPolicy.NOW, EditPolicy.APPEND)  # an active session gets the edit with its next message
AssembleTurn = Callable[[Turn, Ledger], Assembly]


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


def find_edit(workspace: Workspace, path: str, reader: str, text: str | None = None) -> FileEdit:
    """Return the edit of a file: its text on disk, or a proposed text.

    A file of a person's own memory is opened only for that person.
    """
    files = workspace.files
    place = files.locate(path)
    if is_internal(path):
        raise InputError(f"{path} is not part of any prompt: it belongs to the configuration or the state")
    if {find_own_person(path), find_own_person(files.find_target(path))} - {"", reader}:
        raise InputError(f"{path} is not part of any prompt of {reader}: it is another person's memory")
    if os.path.isdir(place):
        raise InputError(f"{path} is a folder; name a file in it")
    if text is not None and len(text.encode()) > MAX_FILE_BYTES:
        raise InputError(f"the text for {path} is longer than {MAX_FILE_BYTES:,} bytes, the limit for a file")
    stored = files.read_text(path)
    if text is not None:
        return FileEdit(path=path, text=text, saved=stored == text)
    if isinstance(stored, FileProblem):
        raise InputError(f"{path} {stored.reason}")
    return FileEdit(path=path, text=stored)


def make_unopened_edit(workspace: Workspace, path: str, text: str | None = None) -> FileEdit:
    """Make an edit without opening the file, for a reader who may not see every file."""
    workspace.files.locate(path)
    return FileEdit(path=path, text=text, saved=text is None, closed=True)


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


def find_typical_turn(path: str, config: Config) -> Turn:
    """Find a typical reader of a file by its folder; by default the owner in a private chat."""
    folder, _, rest = path.partition("/")
    name = rest.partition("/")[0].removesuffix(".md")
    typical = Turn(agent=next(iter(config.agents)), user=config.owner, situation="dm")
    if folder == "agents" and name in config.agents:
        return replace(typical, agent=name)
    if folder == "users" and name in config.users:
        return replace(typical, user=name)
    if folder == "channels" and name:
        return replace(typical, channel=name)
    if folder == "groups" and name in config.rooms:
        return replace(typical, room=name, situation=config.rooms[name].situation)
    return typical


def estimate_new_session(
    workspace: Workspace, edit: FileEdit, place: Turn, calibrations: Mapping[str, Calibration], now: datetime
) -> NewSessionCost | None:
    """Estimate the cost of a new session in a place; None if its prompt does not depend on the file."""
    config = workspace.config
    agent = place.agent or next(iter(config.agents))
    turn = replace(place, agent=agent, tools=find_gateway_tools(config.agents[agent].folders), now=now)
    assembly = workspace.suppose(edit.texts)(turn, NO_LEDGER)
    without = workspace.suppose({edit.path: None})(turn, NO_LEDGER)
    if assembly.prompt.text == without.prompt.text:
        return None
    model = assembly.meter.facts.name
    calibration = calibrations.get(model, Calibration(model=model))
    prices = find_prices(model, config.models, PricedRequest(tokens=assembly.used, now=now))
    cost = price.estimate(assembly, prices) if prices else None
    return NewSessionCost(
        agent=turn.agent,
        user=turn.user,
        model=model,
        tokens=calibration.correct(assembly.used),
        prefix=calibration.correct(assembly.count_cached_tokens()),
        own=round((assembly.used - without.used) * (calibration.ratio if calibration.calls else 1)),
        cold_usd=cost.cold_usd * calibration.ratio if cost else None,
        warm_usd=cost.warm_usd * calibration.ratio if cost else None,
    )


@frozen
class PricedSession:
    """A session with a ledger, and the inputs of its next turn."""

    turn: ClaimedTurn
    """A turn that is not sent, with the attributes of the newest message."""
    ledger: StoredLedger
    history: Sequence[HistoryRow] = ()


@frozen
class PricingInputs:
    """The state of the active sessions before an edit is priced."""

    sessions: tuple[PricedSession, ...] = ()
    idle: int = 0
    """Sessions that were not used recently."""
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)


def read_pricing_inputs(
    state: sqlite3.Connection,
    now: datetime,
    id_prefix: str = "",
    is_visible: Callable[[Session], bool] = lambda _: True,
    reader: Reader = FULL_READER,
) -> PricingInputs:
    """Read the recently used sessions, or those whose id starts with `id_prefix`, as far as the reader may see them."""
    visible = list(filter(is_visible, list_sessions_with_ledgers(state)))
    if id_prefix:
        chosen = [session for session in visible if session.id.startswith(id_prefix)]
    else:
        chosen = [session for session in visible if now - session.used <= ACTIVE_PERIOD]
    sessions = [
        PricedSession(
            turn=ClaimedTurn(
                turn="",
                session=session,
                incoming=find_newest_message(state, session),
                attempt=1,
                position=NO_POSITION,
                received=session.used,
            ),
            # A running engine is assumed to have run since then.
            ledger=load_ledger(state, session.id, session.created).redact_for(reader),
            history=load_history(state, session.id),
        )
        for session in chosen
    ]
    return PricingInputs(
        sessions=tuple(session for session in sessions if session.ledger.ledger_state),
        idle=0 if id_prefix else len(visible) - len(chosen),
        calibrations=read_calibrations(state) if sees_all(reader) else {},
    )


def find_newest_message(state: sqlite3.Connection, session: Session) -> RoutedMessage:
    """Find the newest message of a session, without its text; for a fork without messages, derive it from its row."""
    if request := find_newest_request(state, session.id):
        return load_message("", request)
    key = session.key
    room = "" if key.room.startswith("(") else key.room
    return RoutedMessage(
        text="", user=key.user, channel=key.channel, agent=key.agent, situation=session.situation, room=room
    )


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
    quote: price.EditQuote
    decision: PrefixDecision


@frozen
class EditCosts:
    """The cost of an edit for all sessions."""

    prices: tuple[SessionEditCost, ...] = ()
    spared: tuple[NoCostReason, ...] = ()
    """Why other sessions have no price."""
    idle: int = 0
    """Sessions that were not used recently and were not priced."""


def price_edit(workspace: Workspace, inputs: PricingInputs, edit: FileEdit, now: datetime) -> EditCosts:
    """Price an edit in every active session."""
    # A section depends on the file if it differs between this text, another text, no file and the stored file.
    variants = [edit.texts, {edit.path: None}, {edit.path: PROBE_TEXT}, *([] if edit.saved else [{}])]
    assemblers = [workspace.suppose(texts) for texts in variants]
    results = [price_session(workspace, session, assemblers, now) for session in inputs.sessions]
    return EditCosts(
        prices=tuple(result for result in results if isinstance(result, SessionEditCost)),
        spared=tuple(result for result in results if isinstance(result, NoCostReason)),
        idle=inputs.idle,
    )


def price_session(
    workspace: Workspace, priced: PricedSession, assemblers: Sequence[AssembleTurn], now: datetime
) -> SessionEditCost | NoCostReason:
    """Price an edit in one session, or return why it costs nothing. The first assembler has the edit."""
    ledger, session = priced.ledger.ledger_state, priced.turn.session
    if ledger is None or session.key.agent not in workspace.config.agents:
        return NoCostReason.OVER
    tools = find_gateway_tools(workspace.config.agents[session.key.agent].folders)
    turn = make_turn(priced.turn, Equipment(tools=tools, model=ledger.identity.model), (), now)
    try:
        drafts = [assemble_draft(assembler, turn, priced.ledger) for assembler in assemblers]
    except BudgetError:
        raise
    except ForewordError:
        return NoCostReason.OVER
    assembly, wanted = drafts[0]
    if assembly.clearance.level != session.key.clearance:
        return NoCostReason.OVER
    changed = find_changed_sections([wanted for _, wanted in drafts])
    if not changed:
        is_sent = any(other.prompt.text != assembly.prompt.text for other, _ in drafts)
        return NoCostReason.PASSING if is_sent else NoCostReason.APART
    history = list_plain_messages(limit_history(priced.turn, priced.history))
    wanted = replace(wanted, said=tuple(message.text for message in history))
    wanted = price.limit_to_sections(ledger, wanted, changed)
    context = priced.ledger.open(workspace, turn, now, compacted=False).moment
    quote = price.quote_edit(ledger, wanted, context)
    if not quote.sections:
        return NoCostReason.SAME
    return SessionEditCost(
        session=session,
        user=priced.turn.incoming.user,
        model=ledger.last.model,
        warm=context.known.correct(count_warm_tokens(ledger, now, context.facts)),
        quote=quote,
        decision=decide_prefix(ledger, wanted, context),
    )


class DraftRecorder:
    """A ledger that records the draft of a turn, and freezes nothing."""

    def __init__(self) -> None:
        self.drafts: list[PromptDraft] = []

    def compare(self, draft: PromptDraft) -> PrefixDecision:
        """Record the draft."""
        self.drafts.append(draft)
        return NO_LEDGER.compare(draft)


def assemble_draft(assembler: AssembleTurn, turn: Turn, ledger: StoredLedger) -> tuple[Assembly, WantedPrefix]:
    """Assemble a turn; return it with the prefix it wants."""
    recorder = DraftRecorder()
    assembly = assembler(turn, recorder)
    return assembly, make_wanted_prefix(recorder.drafts[0], ledger.edits)


def find_changed_sections(prefixes: Sequence[WantedPrefix]) -> frozenset[str]:
    """Find the sections that differ between these prefixes."""
    texts = [{section.id: section.text for section in wanted.prefix.lines} for wanted in prefixes]
    names = {name for sections in texts for name in sections}
    return frozenset(name for name in names if len({sections.get(name) for sections in texts}) > 1)


def needs_decision(pricing: EditCosts, edit: FileEdit, policy: EditPolicy) -> bool:
    """Return whether there is something to decide about an edit.

    This is the case if a session would receive it, or if it is not saved yet. An idle session has no cached prefix, so
    it only matters under `next_session`.
    """
    return bool(pricing.prices) or not edit.saved or (pricing.idle > 0 and policy is EditPolicy.NEXT_SESSION)


def sum_up_quotes(pricing: EditCosts) -> price.EditQuote:
    """Add up the costs in money of all sessions, and find the cheapest policy that takes effect in all of them."""
    quoted = [offer for cost in pricing.prices for offer in cost.quote.offers if offer.usd]
    by_policy = ([offer for offer in quoted if offer.policy is policy] for policy in POLICIES)
    offers = tuple(add_up_offers(offers) for offers in by_policy if offers)
    allowed = [offer for offer in offers if offer.allowed and offer.policy in IMMEDIATE_POLICIES]
    return price.EditQuote(
        sections=tuple(sorted({name for cost in pricing.prices for name in cost.quote.sections})),
        offers=offers,
        best=min(allowed, key=lambda offer: offer.total).policy if allowed else None,
    )


def add_up_offers(offers: Sequence[price.PolicyCost]) -> price.PolicyCost:
    """Add up the offers of several sessions for one policy; the calls are summed."""
    calls = sum(offer.calls for offer in offers)
    return price.PolicyCost(
        policy=offers[0].policy,
        again=sum(offer.again for offer in offers),
        more=sum(offer.more for offer in offers),
        once=sum(offer.once for offer in offers),
        each=sum(offer.calls * offer.each for offer in offers) / calls if calls else 0.0,
        calls=calls,
        usd=True,
        allowed=all(offer.allowed for offer in offers),
    )


def describe_prices(pricing: EditCosts, edit: FileEdit, fresh: NewSessionCost | None) -> dict[str, Any]:
    """Return the cost of an edit for each session, for all together, and for a new session, as JSON values."""
    spared = Counter(pricing.spared)
    return {
        "path": edit.path,
        "sha256": None if edit.text is None or edit.closed else edit.sha256,
        "saved": edit.saved,
        "sessions": [describe_price(cost) for cost in pricing.prices],
        "all": quote_to_json(sum_up_quotes(pricing)),
        "spared": {str(reason): spared[reason] for reason in NoCostReason},
        "idle": pricing.idle,
        "fresh": fresh and {**asdict(fresh), "user": fresh.user or None},
    }


def describe_price(cost: SessionEditCost) -> dict[str, Any]:
    """Return the cost of an edit for one session as JSON values."""
    session, decisions = cost.session, cost.decision.decisions
    return {
        "session": session.id,
        "agent": session.key.agent,
        "channel": session.key.channel,
        "room": session.key.room or None,
        "user": cost.user or None,
        "model": cost.model,
        "warm": cost.warm,
        "deed": str(cost.decision.action),
        "reason": decisions[0].reason if decisions else cost.decision.reason,
        **quote_to_json(cost.quote),
    }
