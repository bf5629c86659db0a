"""The memory tools: search, list, save, share, read and forget, within the clearance of the turn."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.assembly import Assembly
from foreword.engine.context import AssemblyContext
from foreword.engine.sources.documents import join_lines
from foreword.engine.sources.sections import write_memory_get
from foreword.engine.trust import Audience, find_author, find_own_level, find_own_person, has_other_readers, locate_path
from foreword.errors import Forbidden, InputError, UnknownName, quote_name
from foreword.memory.entry import Note
from foreword.memory.snippet import find_snippet
from foreword.memory.stores import Entry, Hit, Memory
from foreword.turn import Tool, ToolAnswer, Toolset
from foreword.types import Trust

SNIPPET_CHARS = 200  # characters of a search result
DEFAULT_RESULTS = 5
MAX_ANSWER_TOKENS = 2_000  # tokens of an answer of read_memory
LEVELS_BY_NAME = {str(level): level for level in Trust}

TEXT_PARAMETER: Mapping[str, Any] = {"type": "string"}
STORE_PARAMETER: Mapping[str, Any] = {
    "type": "string",
    "description": "One store only; all that you may see if left out.",
}


def make_memory_tool(name: str, description: str, needed: tuple[str, ...], **properties: Mapping[str, Any]) -> Tool:
    """Make a memory tool that needs familiar trust."""
    parameters = {"type": "object", "properties": properties, "required": list(needed)}
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        trust=Trust.FAMILIAR,
        kind="memory",
        seconds=20,
    )


def make_writing_memory_tool(
    name: str, description: str, needed: tuple[str, ...], **properties: Mapping[str, Any]
) -> Tool:
    """Make a memory tool that writes without approval: it changes only this person's entries."""
    return replace(make_memory_tool(name, description, needed, **properties), changes=True, confirm=False)


MEMORY_TOOLS = Toolset(
    [
        make_memory_tool(
            "memory_search",
            "Find passages in memory that answer a question, each with its price and how to read on.",
            ("query",),
            query={**TEXT_PARAMETER, "description": "What you want to know, in plain words."},
            limit={"type": "integer", "minimum": 1, "maximum": 20, "description": "How many passages; 5 if left out."},
            store=STORE_PARAMETER,
        ),
        make_memory_tool("memory_list", "List what is in memory, each with its price.", (), store=STORE_PARAMETER),
        make_writing_memory_tool(
            "save_memory",
            "Keep a fact or a note for another time: in private for this person alone. Say in it who said so.",
            ("text",),
            text={**TEXT_PARAMETER, "description": "One fact or one note that can be understood by itself."},
        ),
        replace(
            make_writing_memory_tool(
                "share_memory",
                "Copy an entry of this person to a store that others read. The person is asked first.",
                ("path", "store"),
                path={**TEXT_PARAMETER, "description": "The path as save_memory or read_memory shows it."},
                store=TEXT_PARAMETER,
            ),
            confirm=True,
        ),
        make_memory_tool(
            "read_memory", "Show what was saved for this person, and their standing instructions, whole.", ()
        ),
        make_writing_memory_tool(
            "forget_memory",
            "Remove an entry that was saved for this person.",
            ("path",),
            path={**TEXT_PARAMETER, "description": "The path as memory_search or read_memory shows it."},
        ),
    ]
)


class MemoryTools:
    """Runs the memory tools for one turn."""

    def __init__(self, assembly: Assembly, ground: AssemblyContext, memory: Memory, kept: str | None = None) -> None:
        """Take the turn and its memory; `kept` is the stored instructions of the person, None if there are none."""
        self._assembly = assembly
        self._ground = ground
        self._memory = memory
        self._kept = kept
        self._audience = assembly.audience

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run one tool."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], ToolAnswer]] = {
            "memory_search": self.search,
            "memory_list": self.list,
            "save_memory": self.save,
            "share_memory": self.share,
            "read_memory": self.read,
            "forget_memory": self.forget,
        }
        if name not in self._assembly.terms.tools or name not in tools:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & tools.keys())
        return tools[name](arguments)

    def _answer(self, text: str, store: str = "", count: int = 0) -> ToolAnswer:
        return ToolAnswer(text=text, tokens=self._count(text), store=store, count=count)

    def _count(self, text: str) -> int:
        return self._assembly.terms.meter.count(text)

    def search(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Find passages, the best first."""
        query, store = read_text_argument(arguments, "query"), read_text_argument(arguments, "store", "")
        limit = arguments.get("limit", DEFAULT_RESULTS)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 20:
            raise InputError("'limit' is a whole number from 1 to 20")
        hits = self._memory.search(query, self._audience, limit=limit, store=store)
        found = "\n\n".join(self.show(number, hit, query) for number, hit in enumerate(hits, 1))
        return self._answer(found or "Nothing in memory answers that.", self._name_stores(store), len(hits))

    def show(self, number: int, hit: Hit, query: str) -> str:
        """Format one result: path, tokens, passage, and the call that reads all of it."""
        snippet = find_snippet(hit.text, query, SNIPPET_CHARS)
        head = f"{number}. {hit.path}, line {hit.first + snippet.line} ({self._count(snippet.text):,} tok)"
        heading = f" — {hit.heading}" if hit.heading else ""
        origin = f"\n({hit.provenance})" if hit.provenance else ""
        more = f"{write_memory_get(hit.path, hit.first, hit.last)} ({self._count(hit.text):,} tok)"
        return f"{head}{heading}{origin}\n{snippet.text}\nmore: {more}"

    def list(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """List all visible memories with their tokens."""
        store = read_text_argument(arguments, "store", "")
        lines = self._memory.menu(self._audience, self._assembly.terms.meter, store)
        shown = self._cut(lines, "memory_list has no more room; name a store, or find the rest with memory_search")
        return self._answer("\n".join(shown) or "There is nothing in memory.", self._name_stores(store), len(lines))

    def _name_stores(self, store: str) -> str:
        """Return the names of the searched stores, for the event log."""
        return ", ".join(self._memory.open_to(self._audience, store))

    def _cut(self, lines: Sequence[str], note: str) -> Iterator[str]:
        """Yield lines up to the token limit, then a note if there are more."""
        left = MAX_ANSWER_TOKENS
        for line in lines:
            left -= self._count(line)
            if left < 0:
                yield f"({note})"
                return
            yield line

    def save(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Save an entry at the clearance of the turn; in a private conversation in the person's own memory."""
        if "store" in arguments:
            raise InputError("save_memory takes no store; save it, and share it with share_memory")
        saved = self._memory.save(
            self._note(read_text_argument(arguments, "text")), self._memory.find_store(self._audience)
        )
        if saved.known:
            return self._answer(f"That is known already: {saved.path}.", saved.store)
        return self._answer(f"Saved as {saved.path}.", saved.store, 1)

    def _note(self, text: str) -> Note:
        """Make a note with author, clearance, channel, session and time of the turn."""
        turn = self._assembly.turn
        return Note(
            text=text,
            author=turn.user,
            clearance=self._audience.clearance,
            channel=turn.channel,
            session=turn.session,
            time=turn.now or self._memory.now(),
        )

    def share(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Copy an entry of the person to the inbox of a shared store; the person has approved the call."""
        path, store = read_text_argument(arguments, "path"), read_text_argument(arguments, "store")
        user = self._assembly.turn.user
        entries = self._memory.find_own(user, self._audience) if user else iter(())
        entry = next((one for one in entries if one.path == path), None)
        if entry is None:
            raise InputError(f"there is no {quote_name(path)} of this person here")
        if store not in self._memory.list_shared(self._audience):
            raise InputError(f"there is no {quote_name(store)} here that entries are shared in")
        saved = self._memory.save(self._copy(entry, user), store)
        if saved.known:
            return self._answer(f"That is known already: {saved.path}.", store)
        return self._answer(f"Shared as {saved.path}, which the owner reviews.", store, 1)

    def _copy(self, entry: Entry, confirmed: str) -> Note:
        """Make a note from an entry with its recorded origin; missing facts come from this turn."""
        origin, here = entry.provenance, self._note(entry.text)
        said = LEVELS_BY_NAME.get(origin.clearance, here.clearance)
        folder = find_own_level(locate_path(entry.path, self._audience.person)) if origin.own else said
        return replace(
            here,
            clearance=max(said, folder),
            channel=origin.channel,
            session=origin.session,
            time=parse_entry_time(origin.time) or here.time,
            confirmed=confirmed,
        )

    def read(self, _: Mapping[str, Any]) -> ToolAnswer:
        """Return the person's entries, and in a private conversation their whole standing instructions."""
        turn = self._assembly.turn
        waiting = list(self._memory.find_own(turn.user, self._audience)) if turn.user else []
        entries = [*waiting, *(self._memory.find_notes(turn.user, self._audience) if turn.user else ())]
        lines = [f"- {join_lines(entry.text)} ({entry.path})" for entry in entries]
        facts = "\n".join(self._cut(lines, "more is found with memory_search"))
        facts = facts or "Nothing was saved for this person yet."
        own = "(not told where others read)" if has_other_readers(turn) else self._show_instructions()
        return self._answer(f"{facts}\n\nStanding instructions:\n{own}", count=len(entries))

    def _show_instructions(self) -> str:
        """Return the stored instructions; add those of this prompt if they differ."""
        begun = self._assembly.turn.instructions.strip()
        if self._kept is None or self._kept == begun:
            return begun or "(none)"
        others = f"\n\nThis prompt was made with others:\n{begun}" if begun else ""
        return f"{self._kept or '(none)'}{others}"

    def forget(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Remove an entry of the person; the owner may remove any entry, but no hand-written file."""
        path = read_text_argument(arguments, "path")
        turn = self._assembly.turn
        own = {entry.path for entry in self._memory.find_own(turn.user, self._audience)} if turn.user else set()
        owner = turn.user == self._ground.config.owner and self._audience.clearance is Trust.FULL
        if owner and path not in own and not find_author(locate_path(path, self._audience.person)):
            raise Forbidden("what people wrote by hand is removed at the shell: foreword memory forget PATH")
        if path not in own and not owner:
            raise InputError(f"there is no {quote_name(path)} of this person here")
        text = self._memory.forget(path, self._audience)
        note = erase_from_records(self._memory, self._audience, path, text if owner else "")
        return self._answer(f"Forgotten: {path}. {note}".rstrip(), path.partition("/")[0], 1)


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
            if is_in_bulletins(place):
                clear_bulletins(state)
            touched = list(find_sessions_with_text(state, lambda sent: wipe(sent) != sent))
            if forgotten.person:  # another person's memory may use the same path
                rows = state.execute("SELECT id FROM sessions WHERE user_id = ?", (forgotten.person,))
                touched = sorted({session for (session,) in rows} & set(touched))
            for session in touched:
                empty_ledger(state, session)
    return remove_recorded_memory(memory.folder, forgotten)


def is_in_bulletins(path: str) -> bool:
    """Return whether a bulletin may contain a memory: a hand-written file of a shared store."""
    return not find_author(path) and not find_own_person(path)


def parse_entry_time(text: str) -> datetime | None:
    """Parse the time in an entry's front matter; None if it is not a time with a zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def read_text_argument(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text argument of a call."""
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text")
    return value
