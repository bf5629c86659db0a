"""Limits: how many characters a text may have, whatever room there is."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from foreword.blueprint.slot import Cut
from foreword.budget.shorten import (
    HEAD_SHARE,
    Gap,
    Shortened,
    fill_marker,
    find_open_fence,
    write_call,
    write_marker,
    write_stub,
)
from foreword.budget.verdict import Fitted, Terms, keep, leave_out
from foreword.sources import Section
from foreword.words import Verdict


def find_caps(sections: Iterable[Section]) -> Mapping[int, int]:
    """Find the texts that have more characters than their slot allows, and how many they may have.

    What is never cut keeps to its limit by itself.
    """
    limited = [one for one in sections if (one.slot.limit or one.slot.limit_all) and one.slot.cut is not Cut.NEVER]
    caps = {id(one): min(one.slot.limit or len(one.text), len(one.text)) for one in limited}
    over = {one.slot.id: -one.slot.limit_all for one in limited if one.slot.limit_all}
    for section in limited:
        if section.slot.id in over:
            over[section.slot.id] += caps[id(section)]
    for section in limited:
        # Of all texts of a slot, the first ones give way.
        cut = min(max(over.get(section.slot.id, 0), 0), caps[id(section)])
        if cut:
            over[section.slot.id] -= cut
            caps[id(section)] -= cut
    return {id(one): caps[id(one)] for one in limited if caps[id(one)] < len(one.text)}


def hold(section: Section, cap: int | None, terms: Terms) -> Fitted:
    """Take a section, or as much of it as its slot allows; without stubs a loss is told in the report alone."""
    if section.lost and not terms.blueprint.stub:
        return leave_out(section, 0, Verdict.DROPPED, "")
    if not section.text and not section.opens:
        return keep(section, 0)
    if cap is None:
        return keep(section, terms.scale.weigh(section, section.text))
    limit = f"{section.slot.limit or section.slot.limit_all:,} characters"
    if cap == 0:
        return miss(section, f"the {limit} of {section.slot.id} end before it", terms)
    cut = terms.scratch.recall(("cap", terms, section.id, section.text, cap), lambda: cut_at(section, cap, terms))
    rest = f"; rest: {cut.call}" if cut.call else ""
    reason = f"has {len(section.text):,} characters, and {cap:,} are shown; the limit is {limit}{rest}"
    return Fitted(
        item=section,
        verdict=Verdict.SHORTENED,
        reason="; ".join(filter(None, (section.note, reason))),
        body=cut.body,
        wanted=cut.tokens,
        tokens=cut.tokens,
    )


def miss(section: Section, reason: str, terms: Terms) -> Fitted:
    """Leave out a text for which its slot's limit has nothing left, and say so in its place."""
    gone = leave_out(section, 0, Verdict.DROPPED, reason)
    everything = Gap(lines=section.text.split("\n"), head=0, tail=0)
    body = write_stub(section, terms) or write_notice(section, 0, terms, everything)
    tokens = terms.scale.weigh(section, body)
    return replace(gone, body=body, wanted=tokens, tokens=tokens)


def cut_at(section: Section, cap: int, terms: Terms) -> Shortened:
    """Cut a text to so many characters, with the notice where the rest was."""
    text = section.text
    head = int(cap * HEAD_SHARE) if section.slot.cut is Cut.HEAD_TAIL else cap
    tail = cap - head
    gap = Gap(
        lines=text.split("\n"),
        head=text.count("\n", 0, head + 1),  # whole lines before the cut
        tail=text.count("\n", len(text) - tail) if tail else 0,
    )
    ending = text[len(text) - tail :].lstrip("\n") if tail else ""
    parts = (
        text[:head].rstrip("\n"),
        find_open_fence(text[:head].split("\n")),
        write_notice(section, cap, terms, gap),
        find_open_fence(text[: len(text) - tail].split("\n")) if ending else "",
        ending,
    )
    body = "\n".join(filter(None, parts))
    return Shortened(body=body, tokens=terms.scale.weigh(section, body), call=write_call(section, terms, gap))


def write_notice(section: Section, cap: int, terms: Terms, gap: Gap) -> str:
    """Say how much of a text is shown."""
    if not terms.blueprint.notice:
        return write_marker(section, terms, gap)
    more = {"limit": f"{cap:,}", "size": f"{len(section.text):,}", "name": section.title or section.slot.title}
    return fill_marker(terms.blueprint.notice, section, terms, gap, **more)
