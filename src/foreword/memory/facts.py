"""Facts: short sentences in one JSON file that all agents share."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from foreword.engine.sources.documents import Document, join_lines
from foreword.engine.sources.files import Files
from foreword.engine.sources.memory_sections import FACTS_FILE, MAX_FACT_CHARS, extract_facts
from foreword.errors import InputError
from foreword.memory.entry import Confirmed, list_fields

PATIENCE = 5.0  # seconds to wait for another process that writes
STALE = 60.0  # seconds after which a draft counts as abandoned
PAUSE = 0.01


def add_fact(files: Files, entry: Confirmed, patience: float = PATIENCE) -> tuple[str | None, str]:
    """Add a fact to the file, with its author and who confirmed it; returns the file's text before and after."""
    place = files.locate(FACTS_FILE)
    try:
        with claim(f"{place}.new", patience) as file:
            before, after = plan_fact(files, entry)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
            if os.path.exists(place):
                shutil.copymode(place, file.name)
            os.replace(file.name, place)
    except OSError as error:
        raise InputError(f"{FACTS_FILE} cannot be written: {error.strerror or error}; nothing was changed") from None
    return before, after


def plan_fact(files: Files, entry: Confirmed) -> tuple[str | None, str]:
    """Return the text of the file before and after a fact is added; a fact that it has is refused."""
    fact = join_lines(entry.text)
    if len(fact) > MAX_FACT_CHARS:
        raise InputError(
            f"a fact has at most {MAX_FACT_CHARS} characters, and this one has {len(fact)}; promote it to a file"
        )
    if os.path.islink(files.locate(FACTS_FILE)):
        raise InputError(f"{FACTS_FILE} is a link, which is not written through; nothing was changed")
    current = Files(files.root)
    held, facts = read_file(current)
    if fact in map(join_lines, facts):
        raise InputError(f"{FACTS_FILE} has this fact already; forget the entry instead: foreword memory forget PATH")
    text = current.read_text(FACTS_FILE)
    held.append({"text": fact, **list_fields(entry)})
    return (text if isinstance(text, str) else None), json.dumps(held, ensure_ascii=False, indent=2)


@contextmanager
def claim(draft: str, patience: float = PATIENCE) -> Iterator[TextIO]:
    """Open a draft that only one process can have at a time; what did not become the file is removed."""
    end = time.monotonic() + patience
    while True:
        try:
            # Half of a pair of surrogates, which JSON can name and UTF-8 cannot, stays the escape that it was.
            file = open(draft, "x", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - closed below
            break
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - os.stat(draft).st_mtime > STALE:  # of a process that is no more
                    os.unlink(draft)
                    continue
            if time.monotonic() > end:
                name = os.path.basename(draft).removesuffix(".new")
                raise InputError(f"{name} is being written by another process; if not, remove {name}.new") from None
            time.sleep(PAUSE)
    with file:
        try:
            yield file
        finally:
            with suppress(FileNotFoundError):  # it became the file; the next process may have a draft by now
                if os.path.samestat(os.stat(draft), os.fstat(file.fileno())):
                    os.unlink(draft)


def read_file(files: Files) -> tuple[list[object], list[str]]:
    """Read the list of the file, and the facts in it."""
    document = files.read(FACTS_FILE)
    if document is None:
        return [], []
    held = parse(document.body) if isinstance(document, Document) else None
    facts = extract_facts(held)
    if not isinstance(held, list) or facts is None:
        raise InputError(f"{FACTS_FILE} holds no plain list of texts; mend it first")
    return held, facts


def parse(text: str) -> object:
    """Parse JSON, or give nothing where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
