"""Memory tools: search, list, save, read and forget, each within the clearance of its turn."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from foreword.assembly import Assembly
from foreword.budget.shorten import quote
from foreword.errors import InputError, UnknownName
from foreword.memory import Hit, Memory, Note
from foreword.sources.document import Document, one_line
from foreword.sources.ground import Ground
from foreword.tools.answer import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Trust

SNIPPET = 200  # characters of a result
RESULTS = 5
STEM = 5  # letters by which two words are taken for the same
WORD = re.compile(r"\w{3,}")
READ = 2_000  # tokens of what read_memory shows

TEXT: Mapping[str, Any] = {"type": "string"}
STORE: Mapping[str, Any] = {"type": "string", "description": "One store only; all that you may see if left out."}


def make_tool(name: str, description: str, needed: tuple[str, ...], **properties: Mapping[str, Any]) -> Tool:
    """Make a memory tool that everybody with a memory may have."""
    parameters = {"type": "object", "properties": properties, "required": list(needed)}
    return Tool(name=name, description=description, parameters=parameters, trust=Trust.FAMILIAR, kind="memory")


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
        make_tool(
            "save_memory",
            "Keep a fact or a note for another time. Say in it who said so.",
            ("text",),
            text={**TEXT, "description": "One fact or one note that can be understood by itself."},
            store={**TEXT, "description": "Where more people may see it; a person has to confirm that."},
        ),
        make_tool("read_memory", "Show what was saved for this person, and their standing instructions, whole.", ()),
        make_tool(
            "forget_memory",
            "Remove an entry that was saved for this person.",
            ("path",),
            path={**TEXT, "description": "The path as memory_search or read_memory shows it."},
        ),
    ]
)


class Remembering:
    """Runs the memory tools for one turn."""

    def __init__(self, assembly: Assembly, ground: Ground, memory: Memory) -> None:
        self._assembly = assembly
        self._ground = ground
        self._memory = memory
        self._level = assembly.clearance.level

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
            "memory_search": self.search,
            "memory_list": self.list,
            "save_memory": self.save,
            "read_memory": self.read,
            "forget_memory": self.forget,
        }
        if name not in self._assembly.terms.tools or name not in tools:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & tools.keys())
        text = tools[name](arguments)
        return Answer(text=text, tokens=self._count(text))

    def _count(self, text: str) -> int:
        return self._assembly.terms.meter.count(text)

    def search(self, arguments: Mapping[str, Any]) -> str:
        """Find passages, the best first."""
        query, store = take_text(arguments, "query"), take_text(arguments, "store", "")
        limit = arguments.get("limit", RESULTS)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 20:
            raise InputError("'limit' is a whole number from 1 to 20")
        hits = self._memory.search(query, self._level, limit=limit, store=store)
        if not hits:
            return "Nothing in memory answers that."
        return "\n\n".join(self.show(number, hit, query) for number, hit in enumerate(hits, 1))

    def show(self, number: int, hit: Hit, query: str) -> str:
        """Show one result: where it stands, what it costs, the passage, and how to read on."""
        text = find_snippet(hit.text, query)
        head = f"{number}. {hit.path}, line {hit.first} ({self._count(text):,} tok)"
        heading = f" — {hit.heading}" if hit.heading else ""
        origin = f"\n({hit.provenance})" if hit.provenance else ""
        lines = hit.last - hit.first + 1
        return f"{head}{heading}{origin}\n{text}\nmore: memory_get({quote(hit.path)}, from={hit.first}, lines={lines})"

    def list(self, arguments: Mapping[str, Any]) -> str:
        """List everything with its price."""
        lines = self._memory.menu(self._level, self._assembly.terms.meter, take_text(arguments, "store", ""))
        return "\n".join(lines) or "There is nothing in memory."

    def save(self, arguments: Mapping[str, Any]) -> str:
        """Save something at the clearance at which it was learned; a store for more people waits for a person."""
        turn = self._assembly.turn
        own = self._memory.find_store(self._level)
        wanted = take_text(arguments, "store", "") or own
        if wanted not in self._memory.open_to(self._level):
            raise InputError(f"there is no {wanted!r} here")
        note = Note(
            text=take_text(arguments, "text"),
            author=turn.user,
            clearance=self._level,
            channel=turn.channel,
            session=turn.session,
            time=turn.now or self._memory.now(),
            wanted=wanted if wanted != own else "",
        )
        saved = self._memory.save(note, own)
        if saved.known:
            return f"That is known already: {saved.path}."
        waiting = (
            f" It is to be in {wanted}, which a person has to confirm first: foreword memory review."
            if note.wanted
            else ""
        )
        return f"Saved as {saved.path}.{waiting}"

    def read(self, _: Mapping[str, Any]) -> str:
        """Show the facts of the speaking person, and their whole instructions."""
        turn = self._assembly.turn
        entries = list(self._memory.find_own(turn.user, self._level)) if turn.user else []
        parts: list[str] = []
        left = READ
        for entry in entries:
            text = f"- {one_line(entry.text)} ({entry.path})"
            left -= self._count(text)
            if left < 0:
                parts.append("(more is found with memory_search)")
                break
            parts.append(text)
        facts = "\n".join(parts) or "Nothing was saved for this person yet."
        return f"{facts}\n\nStanding instructions:\n{turn.instructions.strip() or '(none)'}"

    def forget(self, arguments: Mapping[str, Any]) -> str:
        """Remove an entry of the speaking person; the owner may remove any."""
        path = take_text(arguments, "path")
        turn = self._assembly.turn
        own = {entry.path for entry in self._memory.find_own(turn.user, self._level)} if turn.user else set()
        owner = turn.user == self._ground.config.owner and self._level is Trust.FULL
        if path not in own and not owner:
            raise InputError(f"there is no {path!r} of this person here")
        known = self._ground.files.read(f"memory/{path}")
        self._memory.forget(path, self._level)
        note = self.forget_sent(known.body, owner=owner) if isinstance(known, Document) else ""
        return f"Forgotten: {path}. {note}".rstrip()

    def forget_sent(self, text: str, *, owner: bool) -> str:
        """Remove a forgotten text from what the log has of sent prompts, and say so."""
        from foreword.events.forgetting import forget_recorded

        return forget_recorded(self._memory.folder, text, owner=owner)


def take_text(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Take a text from the arguments of a call."""
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text")
    return value


def find_snippet(text: str, query: str) -> str:
    """Find the lines of a passage that share most words with a query, in two hundred characters or so."""
    words = {word[:STEM] for word in WORD.findall(query.lower())}
    lines = [one_line(line) for line in text.split("\n") if line.strip()]
    scores = [len(words & {word[:STEM] for word in WORD.findall(line.lower())}) for line in lines]
    first = last = max(range(len(lines)), key=lambda at: scores[at])
    while (size := sum(map(len, lines[first : last + 1]))) < SNIPPET // 2 and last + 1 < len(lines):
        if size + len(lines[last + 1]) > SNIPPET:
            break
        last += 1
    return cut_around(" ".join(lines[first : last + 1]), words)


def cut_around(line: str, words: set[str]) -> str:
    """Cut a line that is too long around the words that matter."""
    if len(line) <= SNIPPET:
        return line
    places = [match.start() for match in WORD.finditer(line.lower()) if match[0][:STEM] in words]
    best = max(places, key=lambda at: sum(at <= other < at + SNIPPET for other in places), default=0)
    start = max(0, min(best - 20, len(line) - SNIPPET))
    start = line.find(" ", start) + 1 if start else 0
    end = line.rfind(" ", start, start + SNIPPET)
    end = end if end > start else start + SNIPPET
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
