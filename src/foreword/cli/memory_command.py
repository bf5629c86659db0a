"""`foreword memory`: search, read, save, forget and review memories under a chosen clearance."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from foreword.cli.inputs import open_named_workspace
from foreword.cli.main import CliCommand, list_actions
from foreword.cli.output import count, print_json, print_text, show_progress, to_plain, warn, warn_about_names
from foreword.cli.turn_options import find_situation, find_user_zone
from foreword.errors import InputError, UnknownName, quote_name

if TYPE_CHECKING:
    from foreword.assembly import Assembly
    from foreword.memory.notes import Promotion
    from foreword.memory.stores import Entry
    from foreword.memory.upkeep import Progress
    from foreword.workspace import Workspace


MAX_SEARCH_RESULTS = 20  # maximum passages of a search

MEMORY_ACTIONS = {
    "search": "QUERY: find passages, each with its size in tokens and the call that reads more",
    "get": "PATH: read a memory, or some lines of it (--from, --lines)",
    "list": "list the memories that can be loaded, each with its size in tokens",
    "save": "TEXT: save a private memory; with --store, a shared one, which needs review unless the owner saves it",
    "forget": "PATH: remove a memory from files, index and recorded prompts",
    "review": "[PATH]: list entries that wait for review, with author, origin, date and the resulting change; "
    "--promote makes the change",
    "reindex": "rebuild the search index",
}


def add_memory_options(parser: ArgumentParser) -> None:
    """Add the action, its argument, and the person to act as."""
    parser.add_argument("action", metavar="ACTION", choices=MEMORY_ACTIONS, help="one of the actions above")
    parser.add_argument("words", metavar="TEXT", nargs="*", default=[], help="the query, the path or the text")
    who = parser.add_argument_group("act as")
    who.add_argument("--user", metavar="NAME", help="the person to act as (default: the owner)")
    who.add_argument("--situation", metavar="NAME", help="the situation (default: that of the room, else dm)")
    who.add_argument("--room", metavar="NAME", default="", help="the room, where several people read the reply")
    what = parser.add_argument_group("action options")
    what.add_argument(
        "--store", metavar="NAME", default="", help="search or list only this store; with save: the store to save in"
    )
    what.add_argument(
        "--limit", metavar="N", type=int, default=5, help="with search: the maximum number of passages (default: 5)"
    )
    what.add_argument(
        "--from",
        metavar="LINE",
        dest="first",
        type=int,
        default=1,
        help="with get: the first line to read (default: 1)",
    )
    what.add_argument("--lines", metavar="N", type=int, help="with get: the number of lines to read (default: all)")
    what.add_argument(
        "--promote",
        metavar="PLACE",
        nargs="?",
        const="",
        help="with review PATH: promote to STORE/NAME.md, or to memories.json for a fact (default: as review suggests)",
    )
    what.add_argument("--heading", metavar="TEXT", help="with --promote: add the entry to the note under this heading")
    what.add_argument("--yes", action="store_true", help="with forget: remove the file even if it was written by hand")
    what.add_argument("--dry-run", action="store_true", help="with --promote: show the change without making it")


def run_memory(args: Namespace) -> int:
    """Run the action."""
    actions: Mapping[str, Callable[[Namespace, Workspace], object]] = {
        "search": search_memory,
        "get": get_memory,
        "list": list_memory,
        "save": save_memory,
        "forget": forget_memory,
        "review": review_entries,
        "reindex": reindex_memory,
    }
    if args.words and args.action in ("list", "reindex"):
        raise InputError(f"memory {args.action} takes no argument, got {args.words[0]!r}\nsee: foreword memory --help")
    with open_named_workspace(args) as workspace:
        answer = actions[args.action](args, workspace)
        if workspace.memory.notice:
            warn(workspace.memory.notice)
    if args.json:
        print_json(answer if not isinstance(answer, str) else {"text": answer})
    elif isinstance(answer, str):
        print_text(answer)
    return 0


def assemble_memory_turn(args: Namespace, workspace: "Workspace") -> "Assembly":
    """Assemble the turn that determines the clearance of the action."""
    from foreword.turn import Turn

    user = workspace.config.owner if args.user is None else args.user
    turn = Turn(user=user, room=args.room, situation=find_situation(args, workspace.config))
    assembly = workspace.assemble(turn)
    warn_about_names(assembly.clearance.warnings, workspace.config, user, assembly.turn.situation)
    assembly = give_memory_tools(assembly)
    if args.store and not workspace.memory.open_to(assembly.audience, args.store):
        raise UnknownName("store", args.store, workspace.memory.open_to(assembly.audience))
    return assembly


def give_memory_tools(assembly: "Assembly") -> "Assembly":
    """Give a turn the built-in tools; refuse one whose clearance opens no memory."""
    from foreword.agent.tools.registry import give_built_in_tools

    assembly = give_built_in_tools(assembly)
    if "memory_search" not in assembly.terms.tools:
        user = assembly.turn.user or "an unnamed user"
        raise InputError(f"no memory for {user} at clearance {assembly.clearance.level}")
    return assembly


def call_tool(workspace: "Workspace", assembly: "Assembly", name: str, arguments: Mapping[str, object]) -> str:
    """Call a tool as an agent would, and log the call."""
    answer = workspace.call(assembly, name, arguments)
    log_tool_call(workspace, assembly, name, answer)
    return answer.text


def log_tool_call(workspace: "Workspace", assembly: "Assembly", name: str, answer: object) -> None:
    """Log the result of a tool call."""
    from foreword.agent.tools.registry import record_memory_event
    from foreword.events.log import LogLimits
    from foreword.events.query import find_context
    from foreword.events.sinks import open_event_stream
    from foreword.events.tracer import Tracer

    brief = LogLimits(gather=0.0, closing=0.3, patience=0.2)  # do not block the shell on a log that cannot be written
    with open_event_stream(workspace.memory.folder, workspace.config, workspace.memory.now, brief) as listeners:
        record_memory_event(Tracer(listeners.recorder, find_context(assembly)), name, answer)


def get_words(args: Namespace, what: str) -> str:
    """Return the text argument of an action."""
    text = " ".join(args.words)
    if not text.strip():
        raise InputError(f"memory {args.action} needs {what}\nsee: foreword memory --help")
    return text


def search_memory(args: Namespace, workspace: "Workspace") -> object:
    """Find passages."""
    from foreword.turn import ToolAnswer

    query, assembly = get_words(args, "a query"), assemble_memory_turn(args, workspace)
    if not 1 <= args.limit <= MAX_SEARCH_RESULTS:
        raise InputError(f"--limit must be from 1 to {MAX_SEARCH_RESULTS}")
    if args.json:
        hits = workspace.memory.search(query, assembly.audience, limit=args.limit, store=args.store)
        log_tool_call(
            workspace, assembly, "memory_search", ToolAnswer(text="", tokens=0, store=args.store, count=len(hits))
        )
        return [to_plain(hit) for hit in hits]
    return call_tool(workspace, assembly, "memory_search", {"query": query, "limit": args.limit, "store": args.store})


def get_memory(args: Namespace, workspace: "Workspace") -> object:
    """Read a memory."""
    asked = {"path": get_words(args, "a path"), "from": args.first}
    asked |= {"lines": args.lines} if args.lines is not None else {}
    reading = workspace.call(assemble_memory_turn(args, workspace), "memory_get", asked)
    if args.json:
        return to_plain(reading)
    more = getattr(reading, "more", "")
    return reading.text + (f"\n[more: {more}]" if more else "")


def list_memory(args: Namespace, workspace: "Workspace") -> object:
    """List the memories that can be loaded."""
    return workspace.call(assemble_memory_turn(args, workspace), "memory_list", {"store": args.store}).text


def save_memory(args: Namespace, workspace: "Workspace") -> object:
    """Save a memory. Typing the store confirms it; a shared entry of the owner counts as reviewed."""
    from foreword.memory.entry import Note
    from foreword.turn import ToolAnswer

    assembly = assemble_memory_turn(args, workspace)
    memory, level = workspace.memory, assembly.clearance.level
    own = memory.find_store(assembly.audience)
    store = args.store or own
    if store not in (own, *memory.list_shared(assembly.audience)):
        raise InputError(f"no store {store!r} at clearance {level}")
    user = assembly.turn.user
    said = Note(
        text=get_words(args, "a text"),
        author=user,
        clearance=level,
        channel="terminal",
        time=memory.now(),
        confirmed=user if store != own and memory.is_below(store, level) else "",
    )
    reviewed = store != own and memory.may_promote(user, level)
    saved = memory.save_reviewed(said, store) if reviewed else memory.save(said, store)
    log_tool_call(
        workspace, assembly, "save_memory", ToolAnswer(text="", tokens=0, store=store, count=int(not saved.known))
    )
    return f"known already: {saved.path}" if saved.known else f"saved: {saved.path}"


def forget_memory(args: Namespace, workspace: "Workspace") -> object:
    """Remove a memory: the owner any, other people only entries saved for them."""
    from foreword.agent.tools.memory_tools import erase_from_records
    from foreword.turn import ToolAnswer
    from foreword.types import Trust

    assembly, path, memory = assemble_memory_turn(args, workspace), get_words(args, "a path"), workspace.memory
    audience = assembly.audience
    if assembly.turn.user != workspace.config.owner or audience.clearance is not Trust.FULL:
        return call_tool(workspace, assembly, "forget_memory", {"path": path})
    if not args.yes and (lines := memory.count_lines_by_hand(path, audience)):
        raise InputError(f"{path} was written by hand ({count(lines, 'line')}); to remove the file, add --yes")
    said = erase_from_records(memory, audience, path, memory.forget(path, audience))
    log_tool_call(
        workspace, assembly, "forget_memory", ToolAnswer(text="", tokens=0, store=path.partition("/")[0], count=1)
    )
    return f"Forgotten: {path}. {said}".rstrip()


def review_entries(args: Namespace, workspace: "Workspace") -> object:
    """List the entries that wait for review with the resulting change, or promote one."""
    assembly = assemble_memory_turn(args, workspace)
    if args.promote is None and (args.heading is not None or args.dry_run):
        raise InputError("--heading and --dry-run need --promote, as in: foreword memory review PATH --promote PLACE")
    if args.heading is not None and not args.heading.strip():
        raise InputError('--heading is empty; write for example: --heading "The house"')
    wanted = get_words(args, "a path") if args.promote is not None else " ".join(args.words)
    entries = [entry for entry in workspace.memory.entries(assembly.audience) if wanted in ("", entry.path)]
    if wanted and not entries:
        raise InputError(f"no entry {quote_name(wanted)} waits for review; foreword memory review lists them")
    if args.promote is not None:
        return promote_entry(args, workspace, assembly, entries[0])
    changes = [(entry, *preview_promotion(entry, workspace, assembly)) for entry in entries]
    if args.json:
        return [{**to_plain(entry), **describe_change(change, problem)} for entry, change, problem in changes]
    zone = find_user_zone(assembly.turn.user, workspace.config)
    blocks = [show_entry(entry, zone, change, problem) for entry, change, problem in changes]
    return "\n\n".join(blocks) or "nothing waits for review"


def promote_entry(args: Namespace, workspace: "Workspace", assembly: "Assembly", entry: "Entry") -> object:
    """Promote an entry, or show the change without making it."""
    from foreword.turn import ToolAnswer

    memory, audience, person = workspace.memory, assembly.audience, assembly.turn.user
    target = args.promote or memory.suggest_place(entry)
    work = memory.preview if args.dry_run else memory.promote
    change = work(entry.path, target, audience, person, args.heading or "")
    if not args.dry_run:
        store = change.target.partition("/")[0]
        log_tool_call(workspace, assembly, "save_memory", ToolAnswer(text="", tokens=0, store=store, count=1))
    said = f"{'would be promoted' if args.dry_run else 'promoted'}: {change.target}"
    if args.json:
        return {"text": said, **to_plain(entry), **describe_change(change, ""), "dry_run": args.dry_run}
    return f"{said}\n\n{change.diff}"


def preview_promotion(entry: "Entry", workspace: "Workspace", assembly: "Assembly") -> "tuple[Promotion | None, str]":
    """Preview the promotion of an entry to the suggested place, or return the reason why there is none."""
    memory, audience, person = workspace.memory, assembly.audience, assembly.turn.user
    if not memory.may_promote(person, audience.clearance):
        return None, "only the owner can promote it, in a private conversation"
    try:
        return memory.preview(entry.path, memory.suggest_place(entry), audience, person), ""
    except InputError as error:
        return None, str(error)


def describe_change(change: "Promotion | None", problem: str) -> dict[str, object]:
    """Return the change of a promotion as JSON-ready values."""
    return {
        "target": change.target if change else None,
        "diff": change.diff if change else None,
        "problem": problem or None,
    }


def show_entry(entry: "Entry", zone: tzinfo, change: "Promotion | None", problem: str) -> str:
    """Show an entry with its author, origin and date, and the change that promoting it makes."""
    origin = entry.provenance
    clearance = f", at {origin.clearance}" if origin.clearance else ""
    place = ", ".join(filter(None, (origin.channel, origin.session and f"session {origin.session}")))
    lines = [entry.path, f"author: {origin.author}{clearance}", f"place: {place or 'unknown'}"]
    lines.append(f"date: {show_date(origin.time, zone) or 'unknown'}")
    if origin.wanted:
        lines.append(f"meant for: {origin.wanted}")
    if change is None:
        return "\n".join([*lines, "", entry.text, "", f"cannot be promoted: {problem}"])
    hint = f"to make this change: foreword memory review {entry.path} --promote"
    return "\n".join([*lines, "", change.diff, "", hint])


def show_date(text: str, zone: tzinfo) -> str:
    """Show when an entry was saved, in the reader's time zone; text that is not a time is returned unchanged."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(zone) if moment.tzinfo else moment:%Y-%m-%d %H:%M}"


def reindex_memory(_: Namespace, workspace: "Workspace") -> object:
    """Rebuild the index, with progress."""
    from time import monotonic

    begun = monotonic()
    done: dict[str, Progress] = {}
    with show_progress() as show:
        for step in workspace.memory.reindex():
            done[step.store] = step
            progress = f"{step.documents:,} of {count(step.total, 'document')}"
            show(f"{step.store}: {progress}, {step.chunks:,} passages")
    documents, chunks = sum(one.documents for one in done.values()), sum(one.chunks for one in done.values())
    return f"indexed: {count(documents, 'document')}, {count(chunks, 'passage')} in {monotonic() - begun:.1f} s"


MEMORY_COMMAND = CliCommand(
    name="memory",
    arguments="ACTION [TEXT …]",
    summary="search, read, save, forget and review memories",
    description="Use the memory of a workspace with the clearance of a person in a situation. Actions: "
    + list_actions(MEMORY_ACTIONS)
    + ".",
    examples=(
        'foreword memory search "When is Carol\'s birthday?"',
        "foreword memory get social/PEOPLE.md --from 2 --lines 3",
        "foreword memory save Bob likes rye bread --store social",
        'foreword memory review social/inbox/bob/ENTRY.md --promote shared/HOUSE.md --heading "The boiler"',
        "foreword memory search --user bob --situation group boiler",
    ),
    add_options=add_memory_options,
    run=run_memory,
)
