"""Hints: what a verdict adds when a slot's text is used, and what the log of the process is told of it, once."""

import logging
import threading
from dataclasses import replace
from functools import cache

from foreword.sources.section import STORE, Item, Section

LOGGING = threading.Lock()  # threads that assemble at the same time log a hint once


def add_hint(item: Item) -> Item:
    """Add its slot's hint to what a verdict says of a text; it is about files, so what the store keeps has none."""
    hint = item.slot.hint
    if not hint or not isinstance(item, Section) or item.origin == STORE:
        return item
    with LOGGING:
        log_once(hint)
    return replace(item, note="; ".join(filter(None, (item.note, hint))))


@cache
def log_once(hint: str) -> None:
    """Tell a hint to the log of the process, once."""
    logging.getLogger("foreword").info(hint)
