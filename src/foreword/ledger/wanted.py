"""What a turn wants its session to know: the leading stable part of its prompt, line by line."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import sha256

from foreword.budget import Fit, Fitted
from foreword.frozen import frozen
from foreword.ledger.line import Base, Gate, Line, Update, lead
from foreword.ledger.state import Identity
from foreword.render import Block, Layout, Prompt, Span
from foreword.sources import Missing, Section
from foreword.turn import Message, Toolset
from foreword.words import Policy, Trust, Verdict

MENU = "menu"  # the source of sections that list many files
OWNED = ("agents", "users", "groups")  # folders in which somebody has a file of a name that others have, too


@frozen
class Wanted:
    """What a turn wants to be known, and what that depends on."""

    identity: Identity
    prompt: Prompt
    """The prompt as it was rendered."""
    base: Base
    """Its leading stable part."""
    layout: Layout
    """How updates are drawn, and weighed."""
    edits: Mapping[str, Policy] = field(default_factory=dict)
    """What was decided about single edits, by section; also for sections that are gone."""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """What holds for the edits of a file, by its path."""
    listings: frozenset[str] = frozenset()
    """Sections that list many files, a line for each."""
    withheld: frozenset[str] = frozenset()
    """Sections that this clearance may not see: if it has seen them before, they go at once and leave no trace."""
    broken: frozenset[str] = frozenset()
    """Sections whose files are broken: what was told of them stays."""
    joined: frozenset[str] = frozenset()
    """Sections of a template that is broken: a session that was sent the good one gets none of them."""
    said: tuple[str, ...] = ()
    """What was said before this turn, as it was sent."""
    folded: bool = False
    """Whether it is known to have been rewritten; else that is found out from what was said."""
    waits: bool = False
    """Whether nothing new can be said, since the turn goes on where it was left."""

    def heard_of(self, update: Update) -> bool:
        """Whether an update stands in what was said; where nothing is known of that, it does."""
        return not self.said or any(update.said in text for text in self.said)


@frozen
class Draft:
    """A prompt as it was rendered, with what the ledger needs to know about it."""

    prompt: Prompt
    fit: Fit
    layout: Layout
    clearance: Trust
    model: str
    tools: Toolset
    said: tuple[Message, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """What the owner has decided about edits, by file."""


def want(draft: Draft, decided: Mapping[tuple[str, str], Policy], *, folded: bool = False) -> Wanted:
    """Say what a turn wants; what was decided about a single edit wins over what holds for its file."""
    known = {one.item.id: one for run in draft.fit.runs for one in run.items if isinstance(one, Fitted)}
    places = (
        ((name, (one.item.path or one.item.origin, one.item.sha256)) for name, one in known.items()) if decided else ()
    )
    edits = {name: decided[place] for name, place in places if place in decided}
    schemas = "\n".join(tool.schema for tool in draft.tools.tools)
    return Wanted(
        identity=Identity(clearance=draft.clearance, model=draft.model, tools=sha256(schemas.encode()).hexdigest()),
        prompt=draft.prompt,
        base=find_base(draft, known),
        layout=draft.layout,
        edits=edits,
        policies=draft.policies,
        listings=frozenset(name for name, one in known.items() if one.item.slot.source == MENU),
        withheld=frozenset(list_withheld(draft.fit)),
        broken=frozenset(name for name, one in known.items() if one.item.broken),
        joined=frozenset(name for name, one in known.items() if one.item.broken and not one.item.opens),
        said=tuple(message.text for message in draft.said),
        folded=folded,
    )


def find_base(draft: Draft, known: Mapping[str, Fitted]) -> Base:
    """Find the lines of the leading stable part."""
    return Base(
        blocks=tuple(
            tuple(make_line(known[span.id], block, span, draft) for span in block.spans)
            for block in lead(draft.prompt.blocks)
        )
    )


def make_line(one: Fitted, block: Block, span: Span, draft: Draft) -> Line:
    """Make the line of a section."""
    section = one.item
    return Line(
        id=span.id,
        title=section.title or section.slot.title or section.id,
        pace=block.pace,
        text=draft.layout.draw(section, one.body or ""),
        piece=block.text[span.start : span.end],
        tokens=span.tokens,
        governs=section.slot.governs,
        policy=find_policy(draft.policies, section.path or section.origin),
        gated=find_gate(section),
    )


def find_gate(section: Section) -> Gate:
    """Find what it means when something leaves a section: what nobody may see is public, and leaves without haste."""
    if section.trust is Trust.PUBLIC:
        return Gate.NONE
    return Gate.LISTING if section.slot.source == MENU else Gate.FILE if section.path else Gate.NONE


def find_policy(policies: Mapping[str, Policy], path: str) -> Policy:
    """Find what holds for a file; what an agent, a person or a room has in its place is held to the same."""
    folder, _, rest = path.partition("/")
    shared = rest.partition("/")[2] if folder in OWNED else ""
    return policies.get(path) or policies.get(shared) or Policy.AUTO


def list_withheld(fit: Fit) -> Iterator[str]:
    """List the sections that the clearance of the turn may not see."""
    for run in fit.runs:
        for one in run.items:
            if one.verdict is Verdict.WITHHELD:
                yield one.id if isinstance(one, Missing) else one.item.id
