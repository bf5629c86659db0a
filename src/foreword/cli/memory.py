"""`foreword memory`: search, read, list, save, forget and review what is remembered, under a chosen clearance."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foreword.cli.command import Command, list_actions
from foreword.cli.output import count, make_plain, print_json, print_text, warn, warn_of_names
from foreword.cli.place import open_here
from foreword.cli.turns import find_situation
from foreword.errors import InputError, UnknownName, show_name

if TYPE_CHECKING:
    from foreword.assembly import Assembly
    from foreword.sources.provenance import Provenance
    from foreword.workspace import Workspace

RESULTS = 20  # passages of one search

ACTIONS = {
    "search": "QUERY: find passages, each with its price and how to read on",
    "get": "PATH: read a memory, or lines of it (--from, --lines)",
    "list": "what can be loaded, each with its price",
    "save": "TEXT: keep something; with --store, for more people",
    "forget": "PATH: remove a memory from files, index and recorded prompts",
    "review": "[PATH]: what agents saved and nobody has looked at; --promote moves one out of the inbox",
    "reindex": "build the search index anew",
}


def add_options(parser: ArgumentParser) -> None:
    """Add the action, what it is about, and whose eyes it is seen with."""
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help="one of the actions above")
    parser.add_argument("words", metavar="TEXT", nargs="*", default=[], help="the query, the path or the text")
    who = parser.add_argument_group("whose eyes")
    who.add_argument("--user", metavar="NAME", help="the person to act as; else the owner")
    who.add_argument("--situation", metavar="NAME", help="the situation; else that of the room, else dm")
    who.add_argument("--room", metavar="NAME", default="", help="the room, where several people read the reply")
    what = parser.add_argument_group("what")
    what.add_argument("--store", metavar="NAME", default="", help="one store only, or the store to save in")
    what.add_argument("--limit", metavar="N", type=int, default=5, help="how many passages; else 5")
    what.add_argument("--from", metavar="LINE", dest="first", type=int, default=1, help="the first line to read")
    what.add_argument("--lines", metavar="N", type=int, help="how many lines to read")
    what.add_argument("--promote", metavar="PLACE", help="with review PATH: STORE/NAME.md, or memories.json for a fact")


def run(args: Namespace) -> int:
    """Do what the action says."""
    actions: Mapping[str, Callable[[Namespace, Workspace], object]] = {
        "search": search,
        "get": get,
        "list": show_menu,
        "save": save,
        "forget": forget,
        "review": review,
        "reindex": reindex,
    }
    if args.words and args.action in ("list", "reindex"):
        raise InputError(f"memory {args.action} takes nothing more, not {args.words[0]!r}\nsee: foreword memory --help")
    with open_here(args) as workspace:
        answer = actions[args.action](args, workspace)
        if workspace.memory.notice:
            warn(workspace.memory.notice)
    if args.json:
        print_json(answer if not isinstance(answer, str) else {"text": answer})
    elif isinstance(answer, str):
        print_text(answer)
    return 0


def stand_in(args: Namespace, workspace: "Workspace") -> "Assembly":
    """Assemble the turn whose clearance the action has."""
    from foreword.tools.equipped import equip_person
    from foreword.turn import Turn

    user = workspace.config.owner if args.user is None else args.user
    turn = Turn(user=user, room=args.room, situation=find_situation(args, workspace.config))
    assembly = equip_person(workspace.assemble(turn))
    warn_of_names(assembly.clearance.warnings, workspace.config, user, assembly.turn.situation)
    if "memory_search" not in assembly.terms.tools:
        raise InputError(f"{user or 'nobody'} is {assembly.clearance.level} here, and has no memory to ask")
    level = assembly.clearance.level
    if args.store and not workspace.memory.open_to(level, args.store):
        raise UnknownName("store", args.store, workspace.memory.open_to(level))
    return assembly


def use(workspace: "Workspace", assembly: "Assembly", name: str, arguments: Mapping[str, object]) -> str:
    """Use a tool as an agent would, and tell the log of it as a turn would."""
    answer = workspace.call(assembly, name, arguments)
    note(workspace, assembly, name, answer)
    return answer.text


def note(workspace: "Workspace", assembly: "Assembly", name: str, answer: object) -> None:
    """Tell the log what was found or changed."""
    from foreword.events.listening import listen
    from foreword.events.log import Bounds
    from foreword.events.reader import find_context
    from foreword.events.trace import Trace
    from foreword.tools.telling import tell_answer

    brief = Bounds(gather=0.0, closing=0.3, patience=0.2)  # nobody at a shell waits for a log that cannot be written
    with listen(workspace.memory.folder, workspace.config, workspace.memory.now, brief) as listeners:
        tell_answer(Trace(listeners.recorder, find_context(assembly)), name, answer)


def take(args: Namespace, what: str) -> str:
    """Take the words that an action is about."""
    text = " ".join(args.words)
    if not text.strip():
        raise InputError(f"memory {args.action} needs {what}\nsee: foreword memory --help")
    return text


def search(args: Namespace, workspace: "Workspace") -> object:
    """Find passages."""
    from foreword.tools import Answer

    query, assembly = take(args, "a query"), stand_in(args, workspace)
    if not 1 <= args.limit <= RESULTS:
        raise InputError(f"--limit is a whole number from 1 to {RESULTS}")
    if args.json:
        level = assembly.clearance.level
        hits = workspace.memory.search(query, level, limit=args.limit, store=args.store)
        note(workspace, assembly, "memory_search", Answer(text="", tokens=0, store=args.store, count=len(hits)))
        return [make_plain(hit) for hit in hits]
    return use(workspace, assembly, "memory_search", {"query": query, "limit": args.limit, "store": args.store})


def get(args: Namespace, workspace: "Workspace") -> object:
    """Read a memory."""
    asked = {"path": take(args, "a path"), "from": args.first}
    asked |= {"lines": args.lines} if args.lines is not None else {}
    reading = workspace.call(stand_in(args, workspace), "memory_get", asked)
    if args.json:
        return make_plain(reading)
    more = getattr(reading, "more", "")
    return reading.text + (f"\n[more: {more}]" if more else "")


def show_menu(args: Namespace, workspace: "Workspace") -> object:
    """List what can be loaded."""
    return workspace.call(stand_in(args, workspace), "memory_list", {"store": args.store}).text


def save(args: Namespace, workspace: "Workspace") -> object:
    """Keep something; who types at the shell has confirmed the store that they name."""
    from foreword.memory import Note
    from foreword.tools import Answer

    assembly = stand_in(args, workspace)
    memory, level = workspace.memory, assembly.clearance.level
    store = args.store or memory.find_store(level)
    if store not in memory.writable(level):
        raise InputError(f"there is no store {store!r} for {level}")
    user = assembly.turn.user
    said = Note(
        text=take(args, "a text"),
        author=user,
        clearance=level,
        channel="terminal",
        time=memory.now(),
        confirmed=user if memory.is_below(store, level) else "",
    )
    saved = memory.save(said, store)
    note(workspace, assembly, "save_memory", Answer(text="", tokens=0, store=store, count=int(not saved.known)))
    return f"known already: {saved.path}" if saved.known else f"saved: {saved.path}"


def forget(args: Namespace, workspace: "Workspace") -> object:
    """Remove a memory: for the owner any, for somebody else what was saved for them."""
    from foreword.tools import Answer
    from foreword.tools.remembering import forget_sent
    from foreword.words import Trust

    assembly, path, memory = stand_in(args, workspace), take(args, "a path"), workspace.memory
    level = assembly.clearance.level
    if assembly.turn.user != workspace.config.owner or level is not Trust.FULL:
        return use(workspace, assembly, "forget_memory", {"path": path})
    said = forget_sent(memory, path, memory.forget(path, level))
    note(workspace, assembly, "forget_memory", Answer(text="", tokens=0, store=path.partition("/")[0], count=1))
    return f"Forgotten: {path}. {said}".rstrip()


def review(args: Namespace, workspace: "Workspace") -> object:
    """Show what waits for review, or promote one entry."""
    from foreword.tools import Answer

    assembly = stand_in(args, workspace)
    if args.promote:
        level, person = assembly.clearance.level, assembly.turn.user
        place = workspace.memory.promote(take(args, "a path"), args.promote, level, person)
        note(workspace, assembly, "save_memory", Answer(text="", tokens=0, store=place.partition("/")[0], count=1))
        return f"promoted: {place}"
    wanted = " ".join(args.words)
    entries = [entry for entry in workspace.memory.entries(assembly.clearance.level) if wanted in ("", entry.path)]
    if wanted and not entries:
        raise InputError(f"there is no entry {show_name(wanted)} that waits for review; see: foreword memory review")
    if args.json:
        return [make_plain(entry) for entry in entries]
    blocks = [f"{entry.path}\n({show_origin(entry.provenance)})\n{entry.text}" for entry in entries]
    return "\n\n".join(blocks) or "nothing waits for review"


def show_origin(origin: "Provenance") -> str:
    """Show where an entry comes from, and where it is to be."""
    return f"{origin}; meant for {origin.wanted}" if origin.wanted else str(origin)


def reindex(_: Namespace, workspace: "Workspace") -> object:
    """Build the index anew, with progress."""
    done: dict[str, int] = {}
    for store, number, total in workspace.memory.reindex():
        done[store] = number
        if sys.stderr.isatty():
            print(f"\r{store}: {number:,} of {count(total, 'document')}\x1b[K", end="", file=sys.stderr, flush=True)
    if done and sys.stderr.isatty():
        print(file=sys.stderr)
    return f"indexed: {count(sum(done.values()), 'document')}"


COMMAND = Command(
    name="memory",
    arguments="ACTION [TEXT …]",
    summary="search, read, save, forget and review what is remembered",
    description="Work with the memory of a workspace, under the clearance of a person in a situation. Actions: "
    + list_actions(ACTIONS)
    + ".",
    examples=(
        'foreword memory search "When is Carol\'s birthday?"',
        "foreword memory get social/PEOPLE.md --from 2 --lines 3",
        "foreword memory save Bob likes rye bread --store social",
        "foreword memory review private/inbox/alice/ENTRY.md --promote shared/HOUSE.md",
        "foreword memory search --user bob --situation group boiler",
    ),
    add_options=add_options,
    run=run,
)
