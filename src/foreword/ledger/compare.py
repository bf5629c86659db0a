"""Comparing what a turn wants with what its session has sent; nothing is changed by it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from foreword.errors import InputError
from foreword.ledger.change import list_changes
from foreword.ledger.choice import HIDDEN, Case, Choice, Moment, choose, look
from foreword.ledger.cost import find_difference
from foreword.ledger.line import Base, Channel, Update, draw_blocks, lead, replay
from foreword.ledger.listing import Waiting, hold_entries
from foreword.ledger.notice import add_tail, settle, write
from foreword.ledger.standing import Decision, Deed, Ground, Rebase, Standing, pick
from foreword.ledger.state import Frozen, digest
from foreword.ledger.wanted import Wanted
from foreword.render import Prompt
from foreword.words import Policy

REMEMBERED = 500  # updates that count no longer and may stand in some part of the history
WAITS = "waits for the next turn, since this one goes on where it was left"
BROKEN = "its file cannot be used as it is, so what the session was told stays"
DAMAGED = "the ledger of this session could not be read: history rewritten without earlier updates, all is sent anew"
SAME = "the prefix is the same, byte for byte"
MOVING = (Ground.MODEL, Ground.TOOLS, Ground.COMPACTED)  # they move what was sent even where the base stays


def compare(frozen: Frozen | None, wanted: Wanted, moment: Moment) -> Standing:
    """Decide what is done about every section that differs from what the session has been told."""
    if frozen is None:
        return Standing(prompt=wanted.prompt, base=wanted.base, identity=wanted.identity, heard=digest(wanted.said))
    if frozen.identity.clearance != wanted.identity.clearance:
        was, now = frozen.identity.clearance, wanted.identity.clearance
        raise InputError(f"a session keeps its clearance for life: this one is {was}, and the turn is {now}")
    told, outlook = replay(frozen.base, frozen.updates), look(frozen, wanted, moment)
    wanted, waiting = hold_entries(told, wanted, warm=outlook.warm > 0)
    changes = tuple(list_changes(told, frozen.base, wanted))
    case = Case(frozen=frozen, wanted=wanted, told=told, changes=changes, outlook=outlook, facts=moment.facts)
    choice, ground, reason = choose(case)
    if list_gone(case):  # what was said is rewritten, whatever else moves
        ground, reason = Ground.PRIVATE, HIDDEN
    standing = carry_out(case, choice, find_rebase(case, choice, ground, reason), reason)
    return add_waiting(standing, waiting) if waiting else standing


def begin_anew(wanted: Wanted) -> Standing:
    """Send everything anew, where a session has a past of which its ledger cannot tell any more what was sent."""
    rebase = Rebase(ground=Ground.DAMAGED, reason=DAMAGED, section="", byte=0, tokens=0)
    return Standing(
        prompt=wanted.prompt,
        base=wanted.base,
        identity=wanted.identity,
        reason=DAMAGED,
        rebase=rebase,
        heard=digest(wanted.said),
    )


def add_waiting(standing: Standing, waiting: Sequence[Waiting]) -> Standing:
    """Say of what waits on a menu that it waits."""
    held = tuple(
        Decision(
            section=one.section,
            what=one.what,
            deed=Deed.HOLD,
            reason=f"{one.path} {hold(one.policy)}",
            policy=one.policy,
        )
        for one in waiting
    )
    reason = standing.reason if standing.decisions or standing.rebase else held[0].reason
    return replace(standing, decisions=(*standing.decisions, *held), reason=reason)


def find_rebase(case: Case, choice: Choice, ground: Ground | None, reason: str) -> Rebase | None:
    """Find where the prefix moves, if it does, and what that costs."""
    moved, outlook = find_difference(case.frozen.base, choice.base), case.outlook
    if moved is None and ground is not Ground.PRIVATE:
        ground, reason = (outlook.ground, outlook.reason) if outlook.ground in MOVING else (None, "")
    if ground is None:
        return None
    section, byte = moved or ("", len(case.frozen.base.text.encode("utf-8", "surrogatepass")))
    known, rates = outlook.known, outlook.rates
    usd = choice.lost * known.factor * (rates.write - rates.read) if rates.usd else None
    tokens = known.correct(choice.lost)
    return Rebase(ground=ground, reason=reason, section=section, byte=byte, tokens=tokens, usd=usd)


def carry_out(case: Case, choice: Choice, rebase: Rebase | None, reason: str) -> Standing:
    """Make what is sent of a choice."""
    wanted, frozen, layout = case.wanted, case.frozen, case.wanted.layout
    gone = list_gone(case)
    settled = tuple(update for update in choice.settled if update not in gone)
    notice = settle(layout, filter(wanted.heard_of, settled))
    decisions = tuple(decide(case, choice, rebase, reason))
    tail = write(layout, pick(choice.appended, Channel.TAIL), notice)
    return Standing(
        prompt=add_tail(join(choice.base, wanted.prompt), layout, tail),
        base=choice.base,
        identity=wanted.identity,
        reason=rebase.reason if rebase else find_reason(decisions, reason),
        decisions=decisions,
        rebase=rebase,
        new=choice.appended,
        updates=(*choice.kept, *choice.appended),
        settled=tuple(one for one in (*frozen.settled, *settled) if one not in gone)[-REMEMBERED:],
        notice=notice,
        scrub=tuple(sorted((update.said for update in gone), key=len, reverse=True)),
        heard=digest(wanted.said),
        inserted=write(layout, pick(choice.appended, Channel.SYSTEM), ""),
    )


def list_gone(case: Case) -> tuple[Update, ...]:
    """List the updates of which no word may stay."""
    return tuple(update for update in (*case.frozen.settled, *case.frozen.updates) if update.id in case.gone)


def find_reason(decisions: tuple[Decision, ...], reason: str) -> str:
    """Find why nothing moves: what is said behind it, or else what waits."""
    if not decisions:
        return SAME
    return reason if any(one.deed is Deed.APPEND for one in decisions) else decisions[0].reason


def join(base: Base, prompt: Prompt) -> Prompt:
    """Put a base in the place of a prompt's own leading part."""
    return Prompt(blocks=(*draw_blocks(base), *prompt.blocks[len(lead(prompt.blocks)) :]))


def decide(case: Case, choice: Choice, rebase: Rebase | None, reason: str) -> Iterator[Decision]:
    """Say what is done about each change."""
    said = {update.id: update for update in choice.appended}
    for change in case.changes:
        if change.id in choice.held:
            why = WAITS if case.wanted.waits else BROKEN if change.broken else hold(change.policy)
            deed = Deed.HOLD
        elif change.id in said:
            deed, why = (
                Deed.APPEND,
                reason if rebase is None else f"its block stays where it is, though {rebase.reason}",
            )
        else:
            deed, why = Deed.REBASE, rebase.reason if rebase else SAME
        tokens = case.outlook.known.correct(said[change.id].tokens) if change.id in said else 0
        yield Decision(section=change.id, what=change.what, deed=deed, reason=why, policy=change.policy, tokens=tokens)


def hold(policy: Policy) -> str:
    """Say until when a change waits."""
    if policy is Policy.NEXT_SESSION:
        return "waits for the next session, as its policy says"
    return "waits until the cache is cold, as its policy says"
