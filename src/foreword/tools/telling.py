"""Telling the log what a memory tool did: the store, and how many passages or entries it was."""

from foreword.events.event import EventType
from foreword.events.trace import Teller
from foreword.tools.answer import Answer

TOLD = {
    "memory_search": EventType.MEMORY_SEARCH,
    "save_memory": EventType.MEMORY_WRITE,
    "forget_memory": EventType.MEMORY_WRITE,
    "update_instructions": EventType.MEMORY_WRITE,
}


def tell_answer(teller: Teller, name: str, answer: object) -> None:
    """Tell what a tool answered, where it is one that searches memory or changes it; of the words nothing is told."""
    if name in TOLD and isinstance(answer, Answer):
        teller.tell(TOLD[name], store=answer.store, count=answer.count)
