"""Passages: the parts of a file that reach the static prompt, where nothing may move."""

from collections.abc import Iterator

from foreword.blueprint.slot import SKILLS
from foreword.lint.feeds import Feed
from foreword.lint.page import Page, Span
from foreword.lint.survey import Survey
from foreword.sources.texts import IDENTITY
from foreword.words import Pace

FIELDS = {SKILLS: ("name", "description"), "identity": (*IDENTITY, "emoji")}


def find_static(survey: Survey) -> Iterator[tuple[Page, Span]]:
    """Find every passage of every file that a static slot sends."""
    for path, feeds in survey.feeds.items():
        page = survey.pages.get(path)
        static = [feed for feed in feeds if feed.slot.pace is Pace.STATIC]
        if page and static:
            spans = {span for feed in static for span in find_spans(page, feed)}
            yield from ((page, span) for span in sorted(spans))


def find_spans(page: Page, feed: Feed) -> Iterator[Span]:
    """Find what one slot takes from a page: fields of its front matter, its body, or both."""
    yield from page.find_fields(FIELDS.get(feed.slot.source, ("",)))
    if feed.slot.source != SKILLS:
        yield page.body
