"""`foreword memory`: search, read, list, save, forget and review memories under a chosen clearance."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from foreword.cli.command import Command, list_actions
from foreword.cli.output import count, make_plain, print_json, print_text, warn, warn_of_names
from foreword.cli.place import open_here
from foreword.cli.turns import find_situation, find_zone
from foreword.errors import InputError, UnknownName, show_name

if TYPE_CHECKING:
    from foreword.assembly import Assembly
    from foreword.memory import Entry, Progress, Promotion
    from foreword.workspace import Workspace

RESULTS = 20  # passages of one search

ACTIONS = {
    "search": "QUERY: find passages, each with its price and how to read on",
    "get": "PATH: read a memory, or lines of it (--from, --lines)",
    "list": "what can be loaded, each with its price",
    "save": "TEXT: keep something as your own; with --store, for more people; the owner's own needs no review",
    "forget": "PATH: remove a memory from files, index and recorded prompts",
    "review": "[PATH]: what waits for review, with author, place, date and the change that promoting it makes; "
    "--promote makes it",
    "reindex": "rebuild the search index",
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
    what.add_argument(
        "--promote",
        metavar="PLACE",
        nargs="?",
        const="",
        help="with review PATH: STORE/NAME.md, or memories.json for a fact; else the place that review suggests",
    )
    what.add_argument("--heading", metavar="TEXT", help="with --promote: add it to the note under this heading")
    what.add_argument("--yes", action="store_true", help="with forget: remove a file that was written by hand")
    what.add_argument("--dry-run", action="store_true", help="with --promote: show the change, and make none")


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
    if args.store and not workspace.memory.open_to(assembly.audience, args.store):
        raise UnknownName("store", args.store, workspace.memory.open_to(assembly.audience))
    return assembly


def use(workspace: "Workspace", assembly: "Assembly", name: str, arguments: Mapping[str, object]) -> str:
    """Call a tool as an agent would, and log the call."""
    answer = workspace.call(assembly, name, arguments)
    note(workspace, assembly, name, answer)
    return answer.text


def note(workspace: "Workspace", assembly: "Assembly", name: str, answer: object) -> None:
    """Log the result of a tool call."""
    from foreword.events.listening import listen
    from foreword.events.log import Bounds
    from foreword.events.reader import find_context
    from foreword.events.trace import Trace
    from foreword.tools.telling import tell_answer

    brief = Bounds(gather=0.0, closing=0.3, patience=0.2)  # do not block the shell on a log that cannot be written
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
        hits = workspace.memory.search(query, assembly.audience, limit=args.limit, store=args.store)
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
    """Keep something; who types at the shell has confirmed the store that they name, and the owner has reviewed it."""
    from foreword.memory import Note
    from foreword.tools import Answer

    assembly = stand_in(args, workspace)
    memory, level = workspace.memory, assembly.clearance.level
    own = memory.find_store(assembly.audience)
    store = args.store or own
    if store not in (own, *memory.list_shared(assembly.audience)):
        raise InputError(f"there is no store {store!r} for {level}")
    user = assembly.turn.user
    said = Note(
        text=take(args, "a text"),
        author=user,
        clearance=level,
        channel="terminal",
        time=memory.now(),
        confirmed=user if store != own and memory.is_below(store, level) else "",
    )
    reviewed = store != own and memory.may_promote(user, level)
    saved = memory.save_reviewed(said, store) if reviewed else memory.save(said, store)
    note(workspace, assembly, "save_memory", Answer(text="", tokens=0, store=store, count=int(not saved.known)))
    return f"known already: {saved.path}" if saved.known else f"saved: {saved.path}"


def forget(args: Namespace, workspace: "Workspace") -> object:
    """Remove a memory: any for the owner, entries saved for them for other people."""
    from foreword.tools import Answer
    from foreword.tools.remembering import forget_sent
    from foreword.words import Trust

    assembly, path, memory = stand_in(args, workspace), take(args, "a path"), workspace.memory
    audience = assembly.audience
    if assembly.turn.user != workspace.config.owner or audience.clearance is not Trust.FULL:
        return use(workspace, assembly, "forget_memory", {"path": path})
    if not args.yes and (lines := memory.count_lines_by_hand(path, audience)):
        raise InputError(f"{path} was written by hand and has {count(lines, 'line')}; to remove the file, add --yes")
    said = forget_sent(memory, audience, path, memory.forget(path, audience))
    note(workspace, assembly, "forget_memory", Answer(text="", tokens=0, store=path.partition("/")[0], count=1))
    return f"Forgotten: {path}. {said}".rstrip()


def review(args: Namespace, workspace: "Workspace") -> object:
    """Show what waits for review and the change that promoting it would make, or promote one entry."""
    assembly = stand_in(args, workspace)
    if args.promote is None and (args.heading is not None or args.dry_run):
        raise InputError("--heading and --dry-run go with: foreword memory review PATH --promote PLACE")
    if args.heading is not None and not args.heading.strip():
        raise InputError('--heading needs a text, as in: --heading "The house"')
    wanted = take(args, "a path") if args.promote is not None else " ".join(args.words)
    entries = [entry for entry in workspace.memory.entries(assembly.audience) if wanted in ("", entry.path)]
    if wanted and not entries:
        raise InputError(f"there is no entry {show_name(wanted)} that waits for review; see: foreword memory review")
    if args.promote is not None:
        return promote(args, workspace, assembly, entries[0])
    changes = [(entry, *plan(entry, workspace, assembly)) for entry in entries]
    if args.json:
        return [{**make_plain(entry), **describe_change(change, problem)} for entry, change, problem in changes]
    zone = find_zone(assembly.turn.user, workspace.config)
    blocks = [show_entry(entry, zone, change, problem) for entry, change, problem in changes]
    return "\n\n".join(blocks) or "nothing waits for review"


def promote(args: Namespace, workspace: "Workspace", assembly: "Assembly", entry: "Entry") -> object:
    """Promote an entry, or show the change that this would make."""
    from foreword.tools import Answer

    memory, audience, person = workspace.memory, assembly.audience, assembly.turn.user
    target = args.promote or memory.suggest_place(entry)
    work = memory.preview if args.dry_run else memory.promote
    change = work(entry.path, target, audience, person, args.heading or "")
    if not args.dry_run:
        store = change.target.partition("/")[0]
        note(workspace, assembly, "save_memory", Answer(text="", tokens=0, store=store, count=1))
    said = f"{'would be promoted' if args.dry_run else 'promoted'}: {change.target}"
    if args.json:
        return {"text": said, **make_plain(entry), **describe_change(change, ""), "dry_run": args.dry_run}
    return f"{said}\n\n{change.diff}"


def plan(entry: "Entry", workspace: "Workspace", assembly: "Assembly") -> "tuple[Promotion | None, str]":
    """Plan the promotion of an entry to the place that is suggested, or say why there is none."""
    memory, audience, person = workspace.memory, assembly.audience, assembly.turn.user
    if not memory.may_promote(person, audience.clearance):
        return None, "only the owner promotes it, in a private conversation"
    try:
        return memory.preview(entry.path, memory.suggest_place(entry), audience, person), ""
    except InputError as error:
        return None, str(error)


def describe_change(change: "Promotion | None", problem: str) -> dict[str, object]:
    """Describe for programs what promoting an entry changes."""
    return {
        "target": change.target if change else None,
        "diff": change.diff if change else None,
        "problem": problem or None,
    }


def show_entry(entry: "Entry", zone: tzinfo, change: "Promotion | None", problem: str) -> str:
    """Show an entry with its author, place and date, and what promoting it changes."""
    origin = entry.provenance
    clearance = f", at {origin.clearance}" if origin.clearance else ""
    place = ", ".join(filter(None, (origin.channel, origin.session and f"session {origin.session}")))
    lines = [entry.path, f"author: {origin.author}{clearance}", f"place: {place or 'unknown'}"]
    lines.append(f"date: {show_date(origin.time, zone) or 'unknown'}")
    if origin.wanted:
        lines.append(f"meant for: {origin.wanted}")
    if change is None:
        return "\n".join([*lines, "", entry.text, "", f"no change to show: {problem}"])
    hint = f"make this change: foreword memory review {entry.path} --promote"
    return "\n".join([*lines, "", change.diff, "", hint])


def show_date(text: str, zone: tzinfo) -> str:
    """Show when an entry was saved, in the reader's zone, or the text itself if it is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(zone) if moment.tzinfo else moment:%Y-%m-%d %H:%M}"


def reindex(_: Namespace, workspace: "Workspace") -> object:
    """Rebuild the index, with progress."""
    from time import monotonic

    begun = monotonic()
    done: dict[str, Progress] = {}
    for step in workspace.memory.reindex():
        done[step.store] = step
        if sys.stderr.isatty():
            progress = f"{step.documents:,} of {count(step.total, 'document')}"
            print(f"\r{step.store}: {progress}, {step.chunks:,} passages\x1b[K", end="", file=sys.stderr, flush=True)
    if done and sys.stderr.isatty():
        print(file=sys.stderr)
    documents, chunks = sum(one.documents for one in done.values()), sum(one.chunks for one in done.values())
    return f"indexed: {count(documents, 'document')}, {count(chunks, 'passage')} in {monotonic() - begun:.1f} s"


COMMAND = Command(
    name="memory",
    arguments="ACTION [TEXT …]",
    summary="search, read, save, forget and review memories",
    description="Work with the memory of a workspace, under the clearance of a person in a situation. Actions: "
    + list_actions(ACTIONS)
    + ".",
    examples=(
        'foreword memory search "When is Carol\'s birthday?"',
        "foreword memory get social/PEOPLE.md --from 2 --lines 3",
        "foreword memory save Bob likes rye bread --store social",
        'foreword memory review social/inbox/bob/ENTRY.md --promote shared/HOUSE.md --heading "The boiler"',
        "foreword memory search --user bob --situation group boiler",
    ),
    add_options=add_options,
    run=run,
)
