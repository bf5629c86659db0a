"""The rules `oversize`, `unreadable` and `frontmatter`: files that a prompt gets in part, or not at all."""

import re
from collections.abc import Iterator

from foreword.blueprint.slot import SKILLS, Listing
from foreword.lint.feeds import Feed
from foreword.lint.finding import Finding, Level
from foreword.lint.survey import Survey
from foreword.sources.document import Document
from foreword.words import Pace

_LINE = re.compile(r"\bline ([\d,]+)")


def check_sizes(survey: Survey) -> Iterator[Finding]:
    """Find files that are larger than their slot can ever be."""
    for path, feeds in survey.feeds.items():
        document = survey.workspace.files.read(path) if path in survey.pages else None
        if isinstance(document, Document) and (worst := find_worst(survey, document.body, feeds)):
            tokens, limit, feed = worst
            yield Finding(
                file=path,
                line=1,
                rule="oversize",
                level=Level.WARNING,
                message=(
                    f"has {tokens:,} tokens, and slot {feed.slot.id} of agent {feed.agent} gets {limit:,} at most, "
                    "so it is always shortened or left out"
                ),
                remedy="shorten it, or move what is seldom needed to memory/",
            )


def find_worst(survey: Survey, body: str, feeds: tuple[Feed, ...]) -> tuple[int, int, Feed] | None:
    """Find the slot that a text exceeds by most, if any."""
    worst: tuple[int, int, Feed] | None = None
    for feed in feeds:
        if feed.slot.listed is Listing.ALWAYS or feed.slot.source == SKILLS:
            continue
        meter = survey.workspace.ground.measure(survey.config.agents[feed.agent].model)
        limit = find_limit(feed, meter.facts.window)
        # A token has at least one byte, so a short text needs no counting.
        if len(body) * 4 * meter.facts.factor <= limit or (tokens := meter.count(body)) <= limit:
            continue
        if worst is None or tokens - limit > worst[0] - worst[1]:
            worst = (tokens, limit, feed)
    return worst


def find_limit(feed: Feed, window: int) -> int:
    """Return the most that a slot can get when it has its tier for itself."""
    budget = feed.blueprint.budget
    if feed.slot.pace is Pace.TURN:
        return budget.turn_limit(window)
    limit = budget.limit(window)
    left = limit - int(limit * budget.session_share) if feed.slot.pace is Pace.STATIC else limit
    return left if feed.slot.required else min(int(limit * budget.tiers[feed.slot.tier]), left)


def check_readable(survey: Survey) -> Iterator[Finding]:
    """Find files that are there and cannot be read."""
    for trouble in survey.troubles:
        yield Finding(
            file=trouble.path,
            line=find_line(trouble.reason),
            rule="unreadable",
            level=Level.ERROR,
            message=trouble.reason,
            remedy="mend or remove it; no prompt has it until then",
        )


def check_headers(survey: Survey) -> Iterator[Finding]:
    """Find front matter that is ignored because it is broken."""
    for path in survey.names:
        document = survey.workspace.files.read(path) if path in survey.pages else None
        if isinstance(document, Document) and document.note:
            yield Finding(
                file=path,
                line=find_line(document.note),
                rule="frontmatter",
                level=Level.WARNING,
                message=document.note,
                remedy="write it as YAML, `name: value` in each line, between two lines of ---",
            )


def find_line(reason: str) -> int:
    """Find the line that a reason names."""
    match = _LINE.search(reason)
    return int(match[1].replace(",", "")) if match else 1
