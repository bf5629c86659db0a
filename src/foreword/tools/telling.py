"""Events of the memory tools: the store, and the number of passages or entries."""

from collections.abc import Mapping
from typing import Any

from foreword.events.event import EventType
from foreword.events.trace import Teller
from foreword.tools.answer import Answer

NOTHING: Mapping[str, Any] = {}
TOLD = {
    "memory_search": EventType.MEMORY_SEARCH,
    "save_memory": EventType.MEMORY_WRITE,
    "share_memory": EventType.MEMORY_WRITE,
    "forget_memory": EventType.MEMORY_WRITE,
    "update_instructions": EventType.MEMORY_WRITE,
}


def tell_answer(teller: Teller, name: str, answer: object, arguments: Mapping[str, Any] = NOTHING) -> None:
    """Record what a tool that searches or changes memory answered, without its words.

    `arguments` holds those of the call where the owner has them recorded, else nothing.
    """
    if name in TOLD and isinstance(answer, Answer):
        teller.tell(TOLD[name], store=answer.store, count=answer.count, **arguments)
