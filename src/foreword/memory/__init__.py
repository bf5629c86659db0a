"""Memory: stores with one minimum trust each, a search that finds, and entries that know where they come from."""

from foreword.memory.entry import Note
from foreword.memory.memory import Entry, Hit, Memory, Saved
from foreword.memory.notes import Promotion
from foreword.memory.upkeep import Progress, Stock
from foreword.sources.provenance import Provenance

__all__ = ["Entry", "Hit", "Memory", "Note", "Progress", "Promotion", "Provenance", "Saved", "Stock"]
