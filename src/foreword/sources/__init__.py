"""Sources: the only stage that opens anything, and only what the plan allows."""

from foreword.sources import (  # noqa: F401 - importing registers the sources
    catalogue,
    duties,
    facts,
    memories,
    outside,
    recall,
    signals,
    template,
    texts,
    tooling,
)
from foreword.sources.files import Files
from foreword.sources.read import read
from foreword.sources.registry import SOURCES, source
from foreword.sources.section import Filled, Missing, Section
from foreword.sources.view import SessionView, StaticView, TurnView, View

__all__ = [
    "SOURCES",
    "Files",
    "Filled",
    "Missing",
    "Section",
    "SessionView",
    "StaticView",
    "TurnView",
    "View",
    "read",
    "source",
]
