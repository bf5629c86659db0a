"""The memory tools: search, list, save, share, read and forget, within the clearance of the turn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from foreword.agent.tools.declaration import MAX_LINE_CHARS, MAX_READING_TOKENS, ToolRun, tool
from foreword.agent.tools.reading_tools import read_memory_lines
from foreword.engine.sources.documents import join_lines
from foreword.engine.sources.sections import write_memory_get
from foreword.engine.trust import Audience, find_author, find_own_level, find_own_person, has_other_readers, locate_path
from foreword.errors import Forbidden, InputError, quote_name
from foreword.memory.entry import Note
from foreword.memory.search import find_snippet
from foreword.memory.stores import Entry, Hit, Memory
from foreword.turn import ToolAnswer, Toolset
from foreword.types import Trust

if TYPE_CHECKING:
    from pydantic import Field

SNIPPET_CHARS = 200  # characters of a search result
LONG_SNIPPET_CHARS = 1_000  # the same if no call reads the passage
DEFAULT_RESULTS, MAX_RESULTS = 5, 20
MAX_ANSWER_TOKENS = 2_000  # tokens of an answer of read_memory
LEVELS_BY_NAME = {str(level): level for level in Trust}


@tool(kind="memory", trust=Trust.FAMILIAR, seconds=20)
def memory_search(
    run: ToolRun,
    query: str,
    limit: Annotated[int, Field(ge=1, le=MAX_RESULTS)] = DEFAULT_RESULTS,
    store: str = "",
    **_: object,
) -> ToolAnswer:
    """Find passages in memory that answer a question, each with its price and how to read on.

    Args:
        query: What you want to know, in plain words.
        limit: How many passages; 5 if left out.
        store: One store only; all that you may see if left out.
    """
    hits = run.workspace.memory.search(query, run.assembly.audience, limit=limit, store=store)
    found = "\n\n".join(render_hit(run, number, hit, query) for number, hit in enumerate(hits, 1))
    return run.answer(found or "Nothing in memory answers that.", name_stores(run, store), len(hits))


def render_hit(run: ToolRun, number: int, hit: Hit, query: str) -> str:
    """Format one result: path, tokens, passage, and the call that reads all of it, if there is one."""
    price = price_reading(run, hit)
    snippet = find_snippet(hit.text, query, LONG_SNIPPET_CHARS if price is None else SNIPPET_CHARS)
    head = f"{number}. {hit.path}, line {hit.first + snippet.line} ({run.count(snippet.text):,} tok)"
    heading = f" — {hit.heading}" if hit.heading else ""
    origin = f"\n({hit.provenance})" if hit.provenance else ""
    call = write_memory_get(hit.path, hit.first, hit.last)
    more = f"\nmore: {call} ({price:,} tok)" if price is not None else ""
    return f"{head}{heading}{origin}\n{snippet.text}{more}"


def price_reading(run: ToolRun, hit: Hit) -> int | None:
    """Return the tokens of the call that reads a passage; None if the call would not reach it."""
    tokens = run.count(hit.text)
    if not hit.part and not hit.provenance and len(hit.text) <= MAX_LINE_CHARS and tokens <= MAX_READING_TOKENS:
        return tokens  # what the call returns, without making it
    reading = read_memory_lines(run, hit.path, hit.first, hit.last - hit.first + 1)
    return reading.tokens if join_lines(hit.text) in join_lines(reading.text) else None


@tool(kind="memory", trust=Trust.FAMILIAR, seconds=20)
def memory_list(run: ToolRun, store: str = "", **_: object) -> ToolAnswer:
    """List what is in memory, each with its price.

    Args:
        store: One store only; all that you may see if left out.
    """
    lines = run.workspace.memory.menu(run.assembly.audience, run.assembly.meter, store)
    shown = cut_to_limit(run, lines, "memory_list has no more room; name a store, or find the rest with memory_search")
    return run.answer("\n".join(shown) or "There is nothing in memory.", name_stores(run, store), len(lines))


def name_stores(run: ToolRun, store: str) -> str:
    """Return the names of the searched stores, for the event log."""
    return ", ".join(run.workspace.memory.open_to(run.assembly.audience, store))


def cut_to_limit(run: ToolRun, lines: Sequence[str], note: str) -> Iterator[str]:
    """Yield lines up to the token limit, then a note if there are more."""
    left = MAX_ANSWER_TOKENS
    for line in lines:
        left -= run.count(line)
        if left < 0:
            yield f"({note})"
            return
        yield line


# Saving and forgetting need no approval: they change only this person's entries.
@tool(kind="memory", trust=Trust.FAMILIAR, seconds=20, changes=True, confirm=False)
def save_memory(run: ToolRun, text: str, **others: object) -> ToolAnswer:
    """Keep a fact or a note for another time: in private for this person alone. Say in it who said so.

    Args:
        text: One fact or one note that can be understood by itself.
    """
    if "store" in others:
        raise InputError("save_memory takes no store; save it, and share it with share_memory")
    memory = run.workspace.memory
    saved = memory.save(make_note(run, text), memory.find_store(run.assembly.audience))
    if saved.known:
        return run.answer(f"That is known already: {saved.path}.", saved.store)
    return run.answer(f"Saved as {saved.path}.", saved.store, 1)


def make_note(run: ToolRun, text: str) -> Note:
    """Make a note with author, clearance, channel, session and time of the turn."""
    turn = run.turn
    return Note(
        text=text,
        author=turn.user,
        clearance=run.assembly.audience.clearance,
        channel=turn.channel,
        session=turn.session,
        time=turn.now or run.workspace.memory.now(),
    )


@tool(kind="memory", trust=Trust.FAMILIAR, seconds=20, changes=True)
def share_memory(run: ToolRun, path: str, store: str, **_: object) -> ToolAnswer:
    """Copy an entry of this person to a store that others read. The person is asked first.

    Args:
        path: The path as save_memory or read_memory shows it.
    """
    memory, audience = run.workspace.memory, run.assembly.audience
    entry = next((one for one in list_own_entries(run) if one.path == path), None)
    if entry is None:
        raise InputError(f"there is no {quote_name(path)} of this person here")
    if store not in memory.list_shared(audience):
        raise InputError(f"there is no {quote_name(store)} here that entries are shared in")
    saved = memory.save(copy_entry(run, entry), store)
    if saved.known:
        return run.answer(f"That is known already: {saved.path}.", store)
    return run.answer(f"Shared as {saved.path}, which the owner reviews.", store, 1)


def list_own_entries(run: ToolRun) -> list[Entry]:
    """List the entries that were saved for the person."""
    return list(run.workspace.memory.find_own(run.turn.user, run.assembly.audience)) if run.turn.user else []


def copy_entry(run: ToolRun, entry: Entry) -> Note:
    """Make a confirmed note from an entry with its recorded origin; missing facts come from this turn."""
    origin, here = entry.provenance, make_note(run, entry.text)
    said = LEVELS_BY_NAME.get(origin.clearance, here.clearance)
    folder = find_own_level(locate_path(entry.path, run.assembly.audience.person)) if origin.own else said
    return replace(
        here,
        clearance=max(said, folder),
        channel=origin.channel,
        session=origin.session,
        time=parse_entry_time(origin.time) or here.time,
        confirmed=run.turn.user,
    )


@tool(kind="memory", trust=Trust.FAMILIAR, seconds=20)
def read_memory(run: ToolRun, **_: object) -> ToolAnswer:
    """Show what was saved for this person, and their standing instructions, whole."""
    user = run.turn.user
    notes = run.workspace.memory.find_notes(user, run.assembly.audience) if user else ()
    entries = [*list_own_entries(run), *notes]
    lines = [f"- {join_lines(entry.text)} ({entry.path})" for entry in entries]
    facts = "\n".join(cut_to_limit(run, lines, "more is found with memory_search"))
    facts = facts or "Nothing was saved for this person yet."
    own = "(not told where others read)" if has_other_readers(run.turn) else show_instructions(run)
    return run.answer(f"{facts}\n\nStanding instructions:\n{own}", count=len(entries))


def show_instructions(run: ToolRun) -> str:
    """Return the stored instructions; add those of this prompt if they differ."""
    stored, used = run.workspace.find_instructions(run.turn), run.turn.instructions.strip()
    if stored is None or stored == used:
        return used or "(none)"
    others = f"\n\nThis prompt was made with others:\n{used}" if used else ""
    return f"{stored or '(none)'}{others}"


# The owner may remove any entry, but no hand-written file.
@tool(kind="memory", trust=Trust.FAMILIAR, seconds=20, changes=True, confirm=False)
def forget_memory(run: ToolRun, path: str, **_: object) -> ToolAnswer:
    """Remove an entry that was saved for this person.

    Args:
        path: The path as memory_search or read_memory shows it.
    """
    memory, audience = run.workspace.memory, run.assembly.audience
    is_own = path in {entry.path for entry in list_own_entries(run)}
    is_owner = run.turn.user == run.workspace.context.config.owner and audience.clearance is Trust.FULL
    if is_owner and not is_own and not find_author(locate_path(path, audience.person)):
        raise Forbidden("what people wrote by hand is removed at the shell: foreword memory forget PATH")
    if not is_own and not is_owner:
        raise InputError(f"there is no {quote_name(path)} of this person here")
    text = memory.forget(path, audience)
    note = erase_from_records(memory, audience, path, text if is_owner else "")
    return run.answer(f"Forgotten: {path}. {note}".rstrip(), path.partition("/")[0], 1)


MEMORY_TOOLS = Toolset([memory_search, memory_list, save_memory, share_memory, read_memory, forget_memory])


def erase_from_records(memory: Memory, audience: Audience, path: str, text: str) -> str:
    """Erase a forgotten memory from recorded prompts, ledgers and bulletins; return a note for the answer."""
    from foreword.events.redaction import ForgottenMemory, make_redactor, remove_recorded_memory
    from foreword.storage.database import STATE_FILE, use_state
    from foreword.storage.ledgers import empty_ledger, find_sessions_with_text
    from foreword.storage.profiles import clear_bulletins

    place = locate_path(path, audience.person)
    forgotten = ForgottenMemory(path=path, person=find_own_person(place), text=text)
    if os.path.exists(os.path.join(memory.folder, STATE_FILE)):
        wipe = make_redactor(forgotten)
        with use_state(memory.folder) as state:
            if not find_author(place) and not forgotten.person:  # a hand-written file of a shared store
                clear_bulletins(state)
            touched = list(find_sessions_with_text(state, lambda sent: wipe(sent) != sent))
            if forgotten.person:  # another person's memory may use the same path
                rows = state.execute("SELECT id FROM sessions WHERE user_id = ?", (forgotten.person,))
                touched = sorted({session for (session,) in rows} & set(touched))
            for session in touched:
                empty_ledger(state, session)
    return remove_recorded_memory(memory.folder, forgotten)


def parse_entry_time(text: str) -> datetime | None:
    """Parse the time in an entry's front matter; None if it is not a time with a zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None
