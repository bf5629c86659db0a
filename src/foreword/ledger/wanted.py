"""What a turn wants its session to know: the leading stable part of its prompt, line by line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from foreword.budget import Fit, Fitted
from foreword.frozen import frozen
from foreword.ledger.line import Base, Line, lead
from foreword.ledger.state import Identity
from foreword.render import Layout, Prompt
from foreword.sources import Missing
from foreword.words import Policy, Verdict


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
    tool_tokens: int = 0
    edits: Mapping[str, Policy] = field(default_factory=dict)
    """What was decided about single edits, by section; also for sections that are gone."""
    withheld: frozenset[str] = frozenset()
    """Sections that this clearance may not see: if it has seen them before, they go at once and leave no trace."""
    said: tuple[str, ...] = ()
    """What was said before this turn, as it was sent."""


@frozen
class Rules:
    """What the owner has decided about edits, for files and for single edits."""

    files: Mapping[str, Policy] = field(default_factory=dict)
    """By path."""
    edits: Mapping[str, Policy] = field(default_factory=dict)
    """By section, for this edit alone; they win."""


def want(identity: Identity, prompt: Prompt, fit: Fit, layout: Layout, rules: Rules, said: Sequence[str]) -> Wanted:
    """Say what a turn wants, from its fitted sections and the prompt that was rendered of them."""
    return Wanted(
        identity=identity,
        prompt=prompt,
        base=find_base(prompt, fit, layout, rules),
        layout=layout,
        tool_tokens=fit.tool_tokens,
        edits=rules.edits,
        withheld=frozenset(list_withheld(fit)),
        said=tuple(said),
    )


def find_base(prompt: Prompt, fit: Fit, layout: Layout, rules: Rules) -> Base:
    """Find the lines of the leading stable part."""
    known = {one.item.id: one for run in fit.runs for one in run.items if isinstance(one, Fitted)}
    blocks = []
    for block in lead(prompt.blocks):
        lines = []
        for span in block.spans:
            one, piece = known[span.id], block.text[span.start : span.end]
            section = one.item
            lines.append(
                Line(
                    id=span.id,
                    title=section.title or section.slot.title or section.id,
                    pace=block.pace,
                    text=layout.draw(section, one.body or ""),
                    piece=piece,
                    tokens=span.tokens,
                    governs=section.slot.governs,
                    policy=rules.edits.get(span.id, rules.files.get(section.path, Policy.AUTO)),
                )
            )
        blocks.append(tuple(lines))
    return Base(blocks=tuple(blocks))


def list_withheld(fit: Fit) -> Iterator[str]:
    """List the sections that the clearance of the turn may not see."""
    for run in fit.runs:
        for one in run.items:
            missing = isinstance(one, Missing)
            verdict = one.verdict
            if verdict is Verdict.WITHHELD:
                yield one.id if missing else one.item.id
