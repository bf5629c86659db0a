"""Facts: short sentences in one JSON file that all agents share."""

import json
import os

from foreword.errors import InputError
from foreword.memory.entry import drafted
from foreword.sources.document import Document, one_line
from foreword.sources.files import Files
from foreword.sources.memories import FACTS, LONGEST, read_facts


def add_fact(files: Files, text: str) -> None:
    """Add a fact to the file, whole or not at all; one that is there already is not added again."""
    fact = one_line(text)
    if len(fact) > LONGEST:
        raise InputError(f"a fact has at most {LONGEST} characters, and this one has {len(fact)}; promote it to a file")
    held, facts = read_file(files)
    if fact in map(one_line, facts):
        raise InputError(f"{FACTS} has this fact already")
    held.append(fact if all(isinstance(one, str) for one in held) else {"text": fact})
    place = files.locate(FACTS)
    try:
        with drafted(place, json.dumps(held, ensure_ascii=False, indent=2) + "\n") as draft:
            os.replace(draft, place)
    except OSError as error:
        raise InputError(f"{FACTS} cannot be written: {error.strerror or error}; nothing was changed") from None


def read_file(files: Files) -> tuple[list[object], list[str]]:
    """Read the list of the file as it stands, and the facts in it."""
    document = files.read(FACTS)
    if document is None:
        return [], []
    held = parse(document.body) if isinstance(document, Document) else None
    facts = read_facts(held)
    if not isinstance(held, list) or facts is None:
        raise InputError(f"{FACTS} holds no plain list of texts; mend it first")
    return held, facts


def parse(text: str) -> object:
    """Parse JSON, or give nothing where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
