"""Hints: what a verdict adds when a slot's text is used, and what the log of the process is told of it, once."""

import logging
from dataclasses import replace
from functools import cache

from foreword.sources.section import Item, Section


def add_hint(item: Item) -> Item:
    """Add its slot's hint to what a verdict says of a text."""
    hint = item.slot.hint
    if not hint or not isinstance(item, Section):
        return item
    log_once(hint)
    return replace(item, note="; ".join(filter(None, (item.note, hint))))


@cache
def log_once(hint: str) -> None:
    """Tell a hint to the log of the process, once."""
    logging.getLogger("foreword").info(hint)
