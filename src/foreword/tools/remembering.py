"""Memory tools: search, list, save, read and forget, each within the clearance of its turn."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import Forbidden, InputError, UnknownName, show_name
from foreword.memory import Entry, Hit, Memory, Note
from foreword.memory.snippet import find_snippet
from foreword.sources.document import one_line
from foreword.sources.ground import Ground
from foreword.sources.own_memory import find_own_level, find_own_person, locate_path
from foreword.sources.provenance import find_author
from foreword.sources.section import write_get
from foreword.tools.answer import Answer
from foreword.trust import Audience, has_company
from foreword.turn import Tool, Toolset
from foreword.words import Trust

SNIPPET = 200  # characters of a result
RESULTS = 5
READ = 2_000  # tokens of what read_memory shows
LEVELS_BY_NAME = {str(level): level for level in Trust}

TEXT: Mapping[str, Any] = {"type": "string"}
STORE: Mapping[str, Any] = {"type": "string", "description": "One store only; all that you may see if left out."}


def make_tool(name: str, description: str, needed: tuple[str, ...], **properties: Mapping[str, Any]) -> Tool:
    """Make a memory tool that everybody with a memory may have."""
    parameters = {"type": "object", "properties": properties, "required": list(needed)}
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        trust=Trust.FAMILIAR,
        kind="memory",
        seconds=20,
    )


def make_writer(name: str, description: str, needed: tuple[str, ...], **properties: Mapping[str, Any]) -> Tool:
    """Make a memory tool that writes without asking: it reaches only what was saved for this person."""
    return replace(make_tool(name, description, needed, **properties), changes=True, confirm=False)


REMEMBERING = Toolset(
    [
        make_tool(
            "memory_search",
            "Find passages in memory that answer a question, each with its price and how to read on.",
            ("query",),
            query={**TEXT, "description": "What you want to know, in plain words."},
            limit={"type": "integer", "minimum": 1, "maximum": 20, "description": "How many passages; 5 if left out."},
            store=STORE,
        ),
        make_tool("memory_list", "List what is in memory, each with its price.", (), store=STORE),
        make_writer(
            "save_memory",
            "Keep a fact or a note for another time: in private for this person alone. Say in it who said so.",
            ("text",),
            text={**TEXT, "description": "One fact or one note that can be understood by itself."},
        ),
        replace(
            make_writer(
                "share_memory",
                "Copy an entry of this person to a store that others read. The person is asked first.",
                ("path", "store"),
                path={**TEXT, "description": "The path as save_memory or read_memory shows it."},
                store=TEXT,
            ),
            confirm=True,
        ),
        make_tool("read_memory", "Show what was saved for this person, and their standing instructions, whole.", ()),
        make_writer(
            "forget_memory",
            "Remove an entry that was saved for this person.",
            ("path",),
            path={**TEXT, "description": "The path as memory_search or read_memory shows it."},
        ),
    ]
)


class Remembering:
    """Runs the memory tools for one turn."""

    def __init__(self, assembly: Assembly, ground: Ground, memory: Memory, kept: str | None = None) -> None:
        """Take also the person's instructions as the store has them by now; None where it has none."""
        self._assembly = assembly
        self._ground = ground
        self._memory = memory
        self._kept = kept
        self._audience = assembly.audience

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
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

    def _answer(self, text: str, store: str = "", count: int = 0) -> Answer:
        return Answer(text=text, tokens=self._count(text), store=store, count=count)

    def _count(self, text: str) -> int:
        return self._assembly.terms.meter.count(text)

    def search(self, arguments: Mapping[str, Any]) -> Answer:
        """Find passages, the best first."""
        query, store = take_text(arguments, "query"), take_text(arguments, "store", "")
        limit = arguments.get("limit", RESULTS)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 20:
            raise InputError("'limit' is a whole number from 1 to 20")
        hits = self._memory.search(query, self._audience, limit=limit, store=store)
        found = "\n\n".join(self.show(number, hit, query) for number, hit in enumerate(hits, 1))
        return self._answer(found or "Nothing in memory answers that.", self._name_stores(store), len(hits))

    def show(self, number: int, hit: Hit, query: str) -> str:
        """Show one result: its place, its price, the passage, and what reading all of it costs."""
        snippet = find_snippet(hit.text, query, SNIPPET)
        head = f"{number}. {hit.path}, line {hit.first + snippet.line} ({self._count(snippet.text):,} tok)"
        heading = f" — {hit.heading}" if hit.heading else ""
        origin = f"\n({hit.provenance})" if hit.provenance else ""
        more = f"{write_get(hit.path, hit.first, hit.last)} ({self._count(hit.text):,} tok)"
        return f"{head}{heading}{origin}\n{snippet.text}\nmore: {more}"

    def list(self, arguments: Mapping[str, Any]) -> Answer:
        """List everything with its price."""
        store = take_text(arguments, "store", "")
        lines = self._memory.menu(self._audience, self._assembly.terms.meter, store)
        shown = self._cut(lines, "memory_list has no more room; name a store, or find the rest with memory_search")
        return self._answer("\n".join(shown) or "There is nothing in memory.", self._name_stores(store), len(lines))

    def _name_stores(self, store: str) -> str:
        """Name the stores that were looked into, for the log."""
        return ", ".join(self._memory.open_to(self._audience, store))

    def _cut(self, lines: Sequence[str], note: str) -> Iterator[str]:
        """Give as many lines as an answer holds, and say where there are more."""
        left = READ
        for line in lines:
            left -= self._count(line)
            if left < 0:
                yield f"({note})"
                return
            yield line

    def save(self, arguments: Mapping[str, Any]) -> Answer:
        """Save something at the clearance at which it was learned: in private as the person's own."""
        if "store" in arguments:
            raise InputError("save_memory takes no store; save it, and share it with share_memory")
        saved = self._memory.save(self._note(take_text(arguments, "text")), self._memory.find_store(self._audience))
        if saved.known:
            return self._answer(f"That is known already: {saved.path}.", saved.store)
        return self._answer(f"Saved as {saved.path}.", saved.store, 1)

    def _note(self, text: str) -> Note:
        """Note who says something, where and when."""
        turn = self._assembly.turn
        return Note(
            text=text,
            author=turn.user,
            clearance=self._audience.clearance,
            channel=turn.channel,
            session=turn.session,
            time=turn.now or self._memory.now(),
        )

    def share(self, arguments: Mapping[str, Any]) -> Answer:
        """Copy an entry of the person to the inbox of a store that others read; the person has confirmed the call."""
        path, store = take_text(arguments, "path"), take_text(arguments, "store")
        user = self._assembly.turn.user
        entries = self._memory.find_own(user, self._audience) if user else iter(())
        entry = next((one for one in entries if one.path == path), None)
        if entry is None:
            raise InputError(f"there is no {show_name(path)} of this person here")
        if store not in self._memory.list_shared(self._audience):
            raise InputError(f"there is no {show_name(store)} here that entries are shared in")
        saved = self._memory.save(self._copy(entry, user), store)
        if saved.known:
            return self._answer(f"That is known already: {saved.path}.", store)
        return self._answer(f"Shared as {saved.path}, which the owner reviews.", store, 1)

    def _copy(self, entry: Entry, confirmed: str) -> Note:
        """Copy an entry as it was learned; where its file does not say how, it is learned here."""
        origin, here = entry.provenance, self._note(entry.text)
        said = LEVELS_BY_NAME.get(origin.clearance, here.clearance)
        folder = find_own_level(locate_path(entry.path, self._audience.person)) if origin.own else said
        return replace(
            here,
            clearance=max(said, folder),
            channel=origin.channel,
            session=origin.session,
            time=read_time(origin.time) or here.time,
            confirmed=confirmed,
        )

    def read(self, _: Mapping[str, Any]) -> Answer:
        """Show the facts of the speaking person, and their whole instructions where nobody else reads them."""
        turn = self._assembly.turn
        waiting = list(self._memory.find_own(turn.user, self._audience)) if turn.user else []
        entries = [*waiting, *(self._memory.find_notes(turn.user, self._audience) if turn.user else ())]
        lines = [f"- {one_line(entry.text)} ({entry.path})" for entry in entries]
        facts = "\n".join(self._cut(lines, "more is found with memory_search"))
        facts = facts or "Nothing was saved for this person yet."
        own = "(not told where others read)" if has_company(turn) else self._show_instructions()
        return self._answer(f"{facts}\n\nStanding instructions:\n{own}", count=len(entries))

    def _show_instructions(self) -> str:
        """Show the instructions as they are kept, whole; where this prompt was made with others, those too."""
        begun = self._assembly.turn.instructions.strip()
        if self._kept is None or self._kept == begun:
            return begun or "(none)"
        others = f"\n\nThis prompt was made with others:\n{begun}" if begun else ""
        return f"{self._kept or '(none)'}{others}"

    def forget(self, arguments: Mapping[str, Any]) -> Answer:
        """Remove an entry of the speaking person; the owner may have any entry removed, and nothing written by hand."""
        path = take_text(arguments, "path")
        turn = self._assembly.turn
        own = {entry.path for entry in self._memory.find_own(turn.user, self._audience)} if turn.user else set()
        owner = turn.user == self._ground.config.owner and self._audience.clearance is Trust.FULL
        if owner and path not in own and not find_author(locate_path(path, self._audience.person)):
            raise Forbidden("what people wrote by hand is removed at the shell: foreword memory forget PATH")
        if path not in own and not owner:
            raise InputError(f"there is no {show_name(path)} of this person here")
        text = self._memory.forget(path, self._audience)
        note = forget_sent(self._memory, self._audience, path, text if owner else "")
        return self._answer(f"Forgotten: {path}. {note}".rstrip(), path.partition("/")[0], 1)


def forget_sent(memory: Memory, audience: Audience, path: str, text: str) -> str:
    """Remove a forgotten memory from what the log has of sent prompts, and say so; bulletins may hold it, too."""
    from foreword.events.forgetting import Forgotten, forget_recorded, make_wipe
    from foreword.store.bulletins import drop_bulletins
    from foreword.store.ledgers import empty_ledger, find_touched
    from foreword.store.state import STATE_FILE, use_state

    place = locate_path(path, audience.person)
    forgotten = Forgotten(path=path, person=find_own_person(place), text=text)
    if os.path.exists(os.path.join(memory.folder, STATE_FILE)):
        wipe = make_wipe(forgotten)
        with use_state(memory.folder) as state:
            if is_in_bulletins(place):
                drop_bulletins(state)
            touched = list(find_touched(state, lambda sent: wipe(sent) != sent))
            if forgotten.person:  # another person's memory may have the same path
                rows = state.execute("SELECT id FROM sessions WHERE user_id = ?", (forgotten.person,))
                touched = sorted({session for (session,) in rows} & set(touched))
            for session in touched:
                empty_ledger(state, session)
    return forget_recorded(memory.folder, forgotten)


def is_in_bulletins(path: str) -> bool:
    """Whether a bulletin may hold a memory: what people wrote by hand in a store that others read."""
    return not find_author(path) and not find_own_person(path)


def read_time(text: str) -> datetime | None:
    """Read the time in an entry's front matter; None where it is no time with a zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None


def take_text(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Take a text from the arguments of a call."""
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text")
    return value
