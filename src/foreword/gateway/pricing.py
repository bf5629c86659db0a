"""The price of an edit in every session that goes on: from the state and the files, and nothing is changed by it."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta

from foreword.assembly import Assembly
from foreword.errors import BudgetError, ForewordError
from foreword.events.event import NOWHERE, Reader
from foreword.events.visible import sees_all
from foreword.frozen import frozen
from foreword.gateway.bookkeeping import Books, read_books
from foreword.gateway.editing import Edit
from foreword.gateway.inbox import Claimed
from foreword.gateway.message import Incoming
from foreword.gateway.past import Row, read_past, tell_past
from foreword.gateway.preparing import Equipment, make_turn, shorten
from foreword.gateway.request import read_request
from foreword.gateway.session import COLUMNS, Session, read_session
from foreword.ledger import NOTHING_FROZEN, Draft, Ledger, Standing, Wanted, compare, want
from foreword.ledger.calibration import Calibration
from foreword.ledger.price import Offer, Quote, narrow, quote
from foreword.ledger.state import measure_warm
from foreword.store.ledgers import read_calibrations
from foreword.tools.equipped import find_equipped
from foreword.turn import Message, Turn
from foreword.words import Policy, Trust, Word
from foreword.workspace import Workspace

LATELY = timedelta(days=1)
"""A session that was not used for so long is not expected to go on, and no cache holds longer."""
PROBE = "What would be said here."
"""A text by which it is found out what depends on a file, also where there is no such file any more."""
EVERYTHING = Reader(user="", clearance=Trust.FULL)
Supposes = Callable[[Turn, Ledger], Assembly]


@frozen
class Going:
    """A session that has a ledger, with what its next turn goes on from."""

    session: Session
    books: Books
    incoming: Incoming
    """Its newest message, which says who speaks there and how."""
    past: Sequence[Row] = ()


@frozen
class Known:
    """What the state knows before an edit is priced."""

    going: tuple[Going, ...] = ()
    idle: int = 0
    """Sessions that were not used lately."""
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)


class Spared(Word):
    """Why an edit costs a session nothing."""

    SAME = "same"
    """It was told this text already."""
    APART = "apart"
    """Its prompt does not depend on the file."""
    PASSING = "passing"
    """The text is sent anew with every turn, and so never cached."""
    OVER = "over"
    """It cannot go on as it was, such as that of somebody who may see something else by now."""


@frozen
class Price:
    """What an edit costs one session, and what its next turn would do about it."""

    session: Session
    user: str
    """Who spoke there last."""
    model: str
    warm: int
    """Tokens that the provider still has of the session."""
    quote: Quote
    standing: Standing


@frozen
class Pricing:
    """What an edit costs all of them."""

    prices: tuple[Price, ...] = ()
    spared: tuple[Spared, ...] = ()
    """Why others have no price."""
    idle: int = 0
    """Sessions that were not used lately, and were not asked."""

    def sum_up(self, policy: Policy) -> Offer | None:
        """Sum an offer up over all sessions whose costs are money; none where there is no such session."""
        return add_up([one for price in self.prices for one in price.quote.offers if one.policy is policy and one.usd])


def is_open(pricing: Pricing, edit: Edit, policy: Policy) -> bool:
    """Whether there is something to decide about an edit.

    It is so where a session would learn something by it, or nobody has saved it yet. A session that was not used lately
    has nothing in a cache, and so only what waits for the next session makes a difference to it.
    """
    return bool(pricing.prices) or not edit.saved or (pricing.idle > 0 and policy is Policy.NEXT_SESSION)


def see_all(_: Session) -> bool:
    """See every session."""
    return True


def read_known(
    state: sqlite3.Connection,
    now: datetime,
    only: str = "",
    sees: Callable[[Session], bool] = see_all,
    reader: Reader = EVERYTHING,
) -> Known:
    """Read what the state knows of the sessions that were used lately, or of one, as far as somebody sees them."""
    asked = f"SELECT {COLUMNS} FROM sessions WHERE id IN (SELECT session_id FROM ledgers) ORDER BY used DESC"
    found = list(filter(sees, map(read_session, state.execute(asked))))
    chosen = [one for one in found if (one.id.startswith(only) if only else now - one.used <= LATELY)]
    going = [
        Going(
            session=one,
            # An engine that runs is believed to have run since.
            books=read_books(state, one.id, one.created).reveal(reader),
            incoming=find_last(state, one),
            past=read_past(state, one.id),
        )
        for one in chosen
    ]
    return Known(
        going=tuple(one for one in going if one.books.frozen),
        idle=0 if only else len(found) - len(chosen),
        calibrations=read_calibrations(state) if sees_all(reader) else {},
    )


def find_last(state: sqlite3.Connection, session: Session) -> Incoming:
    """Find the newest message of a session, without its words; a fork that has none yet is as its row says."""
    asked = "SELECT request FROM turns WHERE session_id = ? ORDER BY number DESC LIMIT 1"
    row = state.execute(asked, (session.id,)).fetchone()
    if row:
        return read_request("", row[0])
    lane = session.lane
    room = "" if lane.room.startswith("(") else lane.room
    return Incoming(
        text="", user=lane.user, channel=lane.channel, agent=lane.agent, situation=session.situation, room=room
    )


def price(workspace: Workspace, known: Known, edit: Edit, now: datetime) -> Pricing:
    """Price an edit in every session that goes on."""
    asking = Asking(workspace, edit, now)
    answers = [asking.ask(going) for going in known.going]
    return Pricing(
        prices=tuple(one for one in answers if isinstance(one, Price)),
        spared=tuple(one for one in answers if isinstance(one, Spared)),
        idle=known.idle,
    )


class Sketch:
    """A ledger that takes note of what a turn wants, and holds nothing against it."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def compare(self, draft: Draft) -> Standing:
        """Take note of it."""
        self.drafts.append(draft)
        return NOTHING_FROZEN.compare(draft)


class Asking:
    """Asks what an edit costs, session by session."""

    def __init__(self, workspace: Workspace, edit: Edit, now: datetime) -> None:
        self._workspace = workspace
        self._edit = edit
        self._now = now
        # What depends on a file is what differs when it says this, says something else, or is not there.
        others: list[Mapping[str, str | None]] = [{edit.path: None}, {edit.path: PROBE}]
        others += [] if edit.saved else [{}]
        self._would = workspace.suppose(edit.texts)
        self._others = tuple(map(workspace.suppose, others))

    def ask(self, going: Going) -> Price | Spared:
        """Ask one session what it costs, or why it costs nothing."""
        frozen, session = going.books.frozen, going.session
        if frozen is None or session.lane.agent not in self._workspace.config.agents:
            return Spared.OVER
        turn = self._make_turn(going, frozen.identity.model)
        try:
            assembly, wanted = draw(self._would, turn, going.books)
            if assembly.clearance.level != session.lane.clearance:
                return Spared.OVER
            others = [draw(supposes, turn, going.books) for supposes in self._others]
        except BudgetError:
            raise
        except ForewordError:
            return Spared.OVER
        touched = find_touched([wanted, *(other for _, other in others)])
        if not touched:
            moved = any(other.prompt.text != assembly.prompt.text for other, _ in others)
            return Spared.PASSING if moved else Spared.APART
        heard = tuple(message.text for message in list_said(going))
        narrowed = narrow(frozen, replace(wanted, said=heard), touched)
        moment = going.books.open(self._workspace, turn, self._now, folded=False).moment
        asked = quote(frozen, narrowed, moment)
        if not asked.sections:
            return Spared.SAME
        return Price(
            session=session,
            user=going.incoming.user,
            model=frozen.last.model,
            warm=moment.known.correct(measure_warm(frozen, self._now, moment.facts)),
            quote=asked,
            standing=compare(frozen, narrowed, moment),
        )

    def _make_turn(self, going: Going, model: str) -> Turn:
        """Make the turn that a session would have now, with the model that it spoke with last."""
        agent = self._workspace.config.agents[going.session.lane.agent]
        equipment = Equipment(tools=find_equipped(agent.folders), model=model)
        return make_turn(make_claimed(going), equipment, (), self._now)


def make_claimed(going: Going) -> Claimed:
    """Make a message of a session that nobody has sent."""
    return Claimed(
        turn="",
        session=going.session,
        incoming=going.incoming,
        attempt=1,
        place=NOWHERE,
        received=going.session.used,
    )


def list_said(going: Going) -> Sequence[Message]:
    """List what was said in a session, as its next turn would send it."""
    return tell_past(shorten(make_claimed(going), going.past))


def draw(supposes: Supposes, turn: Turn, books: Books) -> tuple[Assembly, Wanted]:
    """Assemble a turn, and say what it wants its session to know."""
    sketch = Sketch()
    assembly = supposes(turn, sketch)
    return assembly, want(sketch.drafts[0], books.edits)


def find_touched(wanted: Sequence[Wanted]) -> frozenset[str]:
    """Find the sections that are not the same in all of these."""
    texts = [{line.id: line.text for line in one.base.lines} for one in wanted]
    names = {name for one in texts for name in one}
    return frozenset(name for name in names if len({one.get(name) for one in texts}) > 1)


def add_up(offers: Sequence[Offer]) -> Offer | None:
    """Add up what several sessions pay under one policy; all of their further calls together are its calls."""
    if not offers:
        return None
    calls = sum(one.calls for one in offers)
    lasting = sum(one.calls * one.each for one in offers)
    return Offer(
        policy=offers[0].policy,
        again=sum(one.again for one in offers),
        more=sum(one.more for one in offers),
        once=sum(one.once for one in offers),
        each=lasting / calls if calls else 0.0,
        calls=calls,
        usd=True,
        allowed=all(one.allowed for one in offers),
    )
