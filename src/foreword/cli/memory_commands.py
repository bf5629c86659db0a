"""The commands about what an agent remembers: `memory` for memories, `instructions` for standing instructions."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from datetime import datetime, tzinfo
from time import monotonic

from foreword.agent.tools import memory_tools, registry, state_tools
from foreword.assembly import Assembly
from foreword.cli import inputs
from foreword.cli.inputs import add_options, open_named_workspace
from foreword.cli.output import count, print_json, print_text, show_progress, to_plain, warn, warn_about_names
from foreword.errors import InputError, UnknownName, quote_name
from foreword.events import log, sinks, tracer
from foreword.events.event import find_context
from foreword.memory import index_sync, notes, stores
from foreword.memory.entry import Note
from foreword.storage import agents, database, state_reader
from foreword.turn import ToolAnswer, Turn
from foreword.types import Trust
from foreword.workspace import Workspace

MAX_SEARCH_RESULTS = 20  # maximum passages of a search
# The action of each option that only one action takes.
OPTION_ACTIONS = {"limit": "search", "first": "get", "lines": "get", "yes": "forget"}
OPTION_ACTIONS |= dict.fromkeys(("promote", "heading", "dry_run"), "review")
OPTION_DEFAULTS = {"limit": 5, "first": 1}
# Do not block the shell on a log that cannot be written.
SHORT_LOG_LIMITS = log.LogLimits(batch_s=0.0, close_timeout_s=0.3, lock_timeout_s=0.2)


def add_memory_options(parser: ArgumentParser) -> None:
    """Add the action, its argument, and the person to act as."""
    parser.add_argument("action", metavar="ACTION", choices=MEMORY_ACTIONS, help="one of the actions above")
    parser.add_argument("words", metavar="TEXT", nargs="*", default=[], help="the query, the path or the text")
    who = parser.add_argument_group("act as")
    add_options(who, {"--user NAME": "the person to act as (default: the owner)"})
    add_options(who, {"--situation NAME": "the situation (default: that of the room, else dm)"})
    add_options(who, {"--room NAME": "the room, where several people read the reply"}, default="")
    what = parser.add_argument_group("action options")
    store = {"--store NAME": "search or list only this store; with save: the store to save in"}
    add_options(what, store, default="")
    limit = {"--limit N": "with search: the maximum number of passages (default: 5)"}
    add_options(what, limit, type=int, default=5)
    first = {"--from LINE": "with get: the first line to read (default: 1)"}
    add_options(what, first, dest="first", type=int, default=1)
    add_options(what, {"--lines N": "with get: the number of lines to read (default: all)"}, type=int)
    place = "with review PATH: promote to STORE/NAME.md, or to memories.json for a fact (default: as review suggests)"
    add_options(what, {"--promote PLACE": place}, nargs="?", const="")
    add_options(what, {"--heading TEXT": "with --promote: add the entry to the note under this heading"})
    add_options(what, {"--yes": "with forget: remove the file even if it was written by hand"})
    add_options(what, {"--dry-run": "with --promote: show the change without making it"})


def run_memory(args: Namespace) -> int:
    """Use the memory of a workspace with the clearance of a person in a situation.

    Actions: search QUERY: find passages, each with its size in tokens and the call that reads more; get PATH: read a
    memory, or some lines of it (--from, --lines); list: list the memories that can be loaded, each with its size in
    tokens; save TEXT: save a private memory; with --store, a shared one, which needs review unless the owner saves it;
    forget PATH: remove a memory from files, index and recorded prompts; review [PATH]: list entries that wait for
    review, with author, origin, date and the resulting change; --promote makes the change; reindex: rebuild the search
    index.

    Examples:
        foreword memory search "When is Carol's birthday?"
        foreword memory get social/PEOPLE.md --from 2 --lines 3
        foreword memory search --user bob --situation group boiler
    """
    if args.words and args.action in ("list", "reindex"):
        raise InputError(f"memory {args.action} takes no argument, got {args.words[0]!r}\nsee: foreword memory --help")
    for name, action in OPTION_ACTIONS.items():
        option = "from" if name == "first" else name.replace("_", "-")
        if action != args.action and getattr(args, name) not in (OPTION_DEFAULTS.get(name), False):
            raise InputError(f"--{option} goes with memory {action}, not with memory {args.action}")
    with open_named_workspace(args) as workspace:
        answer = MEMORY_ACTIONS[args.action](args, workspace)
        if workspace.memory.notice:
            warn(workspace.memory.notice)
    if args.json:
        print_json(answer if not isinstance(answer, str) else {"text": answer})
    elif isinstance(answer, str):
        print_text(answer)
    return 0


def assemble_memory_turn(args: Namespace, workspace: Workspace) -> Assembly:
    """Assemble the turn that determines the clearance of the action."""
    user = inputs.find_user(args, workspace.config)
    turn = Turn(user=user, room=args.room, situation=inputs.find_situation(args, workspace.config))
    assembly = workspace.assemble(turn)
    warn_about_names(assembly.clearance.warnings, workspace.config, user, assembly.turn.situation)
    inputs.warn_unlisted(args.room, workspace.config)
    assembly = give_memory_tools(assembly)
    if args.store and not workspace.memory.open_to(assembly.audience, args.store):
        raise UnknownName("store", args.store, workspace.memory.open_to(assembly.audience))
    return assembly


def give_memory_tools(assembly: Assembly) -> Assembly:
    """Give a turn the built-in tools; refuse one whose clearance opens no memory."""
    assembly = registry.give_built_in_tools(assembly)
    if "memory_search" not in assembly.tools:
        user = assembly.turn.user or "an unnamed user"
        raise InputError(f"no memory for {user} at clearance {assembly.clearance.level}")
    return assembly


def call_tool(workspace: Workspace, assembly: Assembly, name: str, arguments: Mapping[str, object]) -> str:
    """Call a tool as an agent would, and log the call."""
    answer = workspace.call(assembly, name, arguments)
    log_call(workspace, assembly, name, answer=answer)
    return answer.text


def log_call(
    workspace: Workspace, assembly: Assembly, tool: str, store: str = "", answer: ToolAnswer | None = None
) -> None:
    """Log a call of a tool, or an action as a call of the tool that does the same for an agent."""
    memory, answer = workspace.memory, answer or ToolAnswer(text="", tokens=0, store=store, count=1)
    with sinks.open_event_stream(memory.folder, workspace.config, memory.now, SHORT_LOG_LIMITS) as events:
        registry.record_memory_event(tracer.Tracer(events.recorder, find_context(assembly)), tool, answer)


def get_words(args: Namespace, what: str) -> str:
    """Return the text argument of an action."""
    text = " ".join(args.words)
    if not text.strip():
        raise InputError(f"memory {args.action} needs {what}\nsee: foreword memory --help")
    return text


def search_memory(args: Namespace, workspace: Workspace) -> object:
    """Find passages."""
    query, assembly = get_words(args, "a query"), assemble_memory_turn(args, workspace)
    if not 1 <= args.limit <= MAX_SEARCH_RESULTS:
        raise InputError(f"--limit must be from 1 to {MAX_SEARCH_RESULTS}")
    show_indexing(workspace.memory.update_index(assembly.audience, args.store))
    if not args.json:
        arguments = {"query": query, "limit": args.limit, "store": args.store}
        return call_tool(workspace, assembly, "memory_search", arguments)
    hits = workspace.memory.search(query, assembly.audience, limit=args.limit, store=args.store)
    found = ToolAnswer(text="", tokens=0, store=args.store, count=len(hits))
    log_call(workspace, assembly, "memory_search", answer=found)
    return hits


def get_memory(args: Namespace, workspace: Workspace) -> object:
    """Read a memory."""
    arguments = {"path": get_words(args, "a path"), "from": args.first}
    arguments |= {"lines": args.lines} if args.lines is not None else {}
    answer = workspace.call(assemble_memory_turn(args, workspace), "memory_get", arguments)
    if args.json:
        return answer
    more = getattr(answer, "more", "")
    return answer.text + (f"\n[more: {more}]" if more else "")


def list_memory(args: Namespace, workspace: Workspace) -> object:
    """List the memories that can be loaded."""
    return workspace.call(assemble_memory_turn(args, workspace), "memory_list", {"store": args.store}).text


def save_memory(args: Namespace, workspace: Workspace) -> object:
    """Save a memory. Typing the store confirms it; a shared entry of the owner counts as reviewed."""
    assembly = assemble_memory_turn(args, workspace)
    memory, level, user = workspace.memory, assembly.clearance.level, assembly.turn.user
    own = memory.find_store(assembly.audience)
    store = args.store or own
    if store not in (own, *memory.list_shared(assembly.audience)):
        raise InputError(f"no store {store!r} at clearance {level}")
    note = Note(
        text=get_words(args, "a text"),
        author=user,
        clearance=level,
        channel="terminal",
        time=memory.now(),
        confirmed=user if store != own and memory.is_below(store, level) else "",
    )
    reviewed = store != own and memory.may_promote(user, level)
    saved = memory.save_reviewed(note, store) if reviewed else memory.save(note, store)
    stored = ToolAnswer(text="", tokens=0, store=store, count=int(not saved.known))
    log_call(workspace, assembly, "save_memory", answer=stored)
    return f"known already: {saved.path}" if saved.known else f"saved: {saved.path}"


def forget_memory(args: Namespace, workspace: Workspace) -> object:
    """Remove a memory: the owner any, other people only entries saved for them."""
    assembly, path, memory = assemble_memory_turn(args, workspace), get_words(args, "a path"), workspace.memory
    audience = assembly.audience
    if assembly.turn.user != workspace.config.owner or audience.clearance is not Trust.FULL:
        return call_tool(workspace, assembly, "forget_memory", {"path": path})
    if not args.yes and (lines := memory.count_lines_by_hand(path, audience)):
        raise InputError(f"{path} was written by hand ({count(lines, 'line')}); to remove the file, add --yes")
    result = memory_tools.erase_from_records(memory, audience, path, memory.forget(path, audience))
    log_call(workspace, assembly, "forget_memory", path.partition("/")[0])
    return f"Forgotten: {path}. {result}".rstrip()


def review_entries(args: Namespace, workspace: Workspace) -> object:
    """List the entries that wait for review with the resulting change, or promote one."""
    assembly = assemble_memory_turn(args, workspace)
    if args.promote is None and (args.heading is not None or args.dry_run):
        raise InputError("--heading and --dry-run need --promote, as in: foreword memory review PATH --promote PLACE")
    if args.heading is not None and not args.heading.strip():
        raise InputError('--heading is empty; write for example: --heading "The house"')
    path = get_words(args, "a path") if args.promote is not None else " ".join(args.words)
    entries = [entry for entry in workspace.memory.entries(assembly.audience) if path in ("", entry.path)]
    if path and not entries:
        raise InputError(f"no entry {quote_name(path)} waits for review; foreword memory review lists them")
    if args.promote is not None:
        return promote_entry(args, workspace, assembly, entries[0])
    changes = [(entry, *preview_promotion(entry, workspace, assembly)) for entry in entries]
    if args.json:
        return [{**to_plain(entry), **describe_change(change, problem)} for entry, change, problem in changes]
    zone = inputs.find_user_zone(assembly.turn.user, workspace.config)
    return (
        "\n\n".join(show_entry(entry, zone, change, problem) for entry, change, problem in changes)
        or "nothing waits for review"
    )


def promote_entry(args: Namespace, workspace: Workspace, assembly: Assembly, entry: stores.Entry) -> object:
    """Promote an entry, or show the change without making it."""
    memory = workspace.memory
    target, person = args.promote or memory.suggest_place(entry), assembly.turn.user
    change = memory.promote(entry.path, target, assembly.audience, person, args.heading or "", preview=args.dry_run)
    if not args.dry_run:
        log_call(workspace, assembly, "save_memory", change.target.partition("/")[0])
    text = f"{'would be promoted' if args.dry_run else 'promoted'}: {change.target}"
    readers = memory.find_lower_trust(change.target, entry.provenance)
    if readers is not None:
        warn(f"{change.target} is read at {readers} and above; the entry was learned at {entry.provenance.clearance}")
    if args.json:
        return {"text": text, **to_plain(entry), **describe_change(change, ""), "dry_run": args.dry_run}
    return f"{text}\n\n{change.diff}"


def preview_promotion(
    entry: stores.Entry, workspace: Workspace, assembly: Assembly
) -> tuple[notes.Promotion | None, str]:
    """Preview the promotion of an entry to the suggested place, or return the reason why there is none."""
    memory, audience, person = workspace.memory, assembly.audience, assembly.turn.user
    if not memory.may_promote(person, audience.clearance):
        return None, "only the owner can promote it, in a private conversation"
    try:
        return memory.promote(entry.path, memory.suggest_place(entry), audience, person, preview=True), ""
    except InputError as error:
        return None, str(error)


def describe_change(change: notes.Promotion | None, problem: str) -> dict[str, object]:
    """Return the change of a promotion as JSON-ready values."""
    target, diff = (change.target, change.diff) if change else (None, None)
    return {"target": target, "diff": diff, "problem": problem or None}


def show_entry(entry: stores.Entry, zone: tzinfo, change: notes.Promotion | None, problem: str) -> str:
    """Show an entry with its author, origin and date, and the change that promoting it makes."""
    origin = entry.provenance
    clearance = f", at {origin.clearance}" if origin.clearance else ""
    place = ", ".join(filter(None, (origin.channel, origin.session and f"session {origin.session}")))
    date = origin.time or "unknown"
    with suppress(ValueError):  # a text that is not a time is shown as it is
        moment = datetime.fromisoformat(date)
        date = f"{moment.astimezone(zone) if moment.tzinfo else moment:%Y-%m-%d %H:%M}"
    lines = [entry.path, f"author: {origin.author}{clearance}", f"place: {place or 'unknown'}", f"date: {date}"]
    if origin.wanted:
        lines.append(f"meant for: {origin.wanted}")
    if change is None:
        return "\n".join([*lines, "", entry.text, "", f"cannot be promoted: {problem}"])
    hint = f"to make this change: foreword memory review {entry.path} --promote"
    return "\n".join([*lines, "", change.diff, "", hint])


def reindex_memory(_: Namespace, workspace: Workspace) -> object:
    """Rebuild the index, with progress."""
    begun = monotonic()
    done = show_indexing(workspace.memory.reindex())
    documents, chunks = sum(one.documents for one in done), sum(one.chunks for one in done)
    return f"indexed: {count(documents, 'document')}, {count(chunks, 'passage')} in {monotonic() - begun:.1f} s"


def show_indexing(steps: Iterable[index_sync.Progress]) -> list[index_sync.Progress]:
    """Show the progress of indexing while it takes more than one step; return the last step of each store."""
    done: dict[str, index_sync.Progress] = {}
    with show_progress() as show:
        for step in steps:
            if step.store in done or step.documents < step.total:
                progress = f"{step.documents:,} of {count(step.total, 'document')}"
                show(f"indexing {step.store}: {progress}, {step.chunks:,} passages")
            done[step.store] = step
    return [*done.values()]


MEMORY_ACTIONS = {
    "search": search_memory,
    "get": get_memory,
    "list": list_memory,
    "save": save_memory,
    "forget": forget_memory,
    "review": review_entries,
    "reindex": reindex_memory,
}


def add_instructions_options(parser: ArgumentParser) -> None:
    """Add the action, the text, the person and the agent."""
    actions = ("show", "set", "clear")
    parser.add_argument("action", metavar="ACTION", choices=actions, help="one of the actions above")
    parser.add_argument("words", metavar="TEXT", nargs="*", default=[], help="with set: the new instructions")
    options = {
        "--file FILE": "with set: a file with the new instructions; - reads stdin",
        "--user NAME": "the person who gives the instructions (default: the owner)",
        "--agent NAME": "the agent that gets them (default: the first one)",
    }
    add_options(parser, options)


def run_instructions(args: Namespace) -> int:
    """Show or change the standing instructions of a person for an agent.

    They are one text of up to 20,000 characters, included in every prompt for this person except in shared rooms.
    Actions: show: print the instructions; set TEXT: replace the instructions with TEXT, with a file (--file), or with
    stdin; clear: remove the instructions.

    Examples:
        foreword instructions show
        foreword instructions set "Answer in bullet points."
        foreword instructions clear --user bob
    """
    with open_named_workspace(args) as workspace:
        config = workspace.config
        user, agent = inputs.find_user(args, config), args.agent or next(iter(config.agents))
        if not user:
            raise InputError("no person given; use --user NAME, or set an owner in foreword.yaml")
        if agent not in config.agents:
            raise UnknownName("agent", agent, config.agents)
        with closing(state_reader.StateReader(workspace.state)) as reader:  # creates no database
            text = reader.find_instructions(user, agent, Trust.FULL) or ""
        if user not in config.users:  # stored instructions of a former user can still be shown and cleared
            if args.action == "set" or not text:
                raise UnknownName("user", user, config.users)
            warn(f"no prompt shows these instructions, because {user!r} is not a user in foreword.yaml")
        if args.action != "set" and (args.words or args.file):
            hint = "to replace the instructions, use: foreword instructions set TEXT"
            raise InputError(f"{args.action} takes no text; {hint}")
        if args.action != "show":
            new = read_new_text(args) if args.action == "set" else ""
            with database.use_state(workspace.state) as state:
                text = agents.replace_instructions(state, user, agent, new)
            assembly = workspace.assemble(Turn(user=user, agent=agent, situation="dm"))
            log_call(workspace, assembly, "update_instructions", state_tools.INSTRUCTIONS_STORE)
    if args.json:
        print_json({"user": user, "agent": agent, "instructions": text, "characters": len(text)})
    elif args.action == "show":
        print_text(text or "(none)")
    else:
        what = f"{count(len(text), 'character')} of instructions" if text else "no instructions"
        print_text(f"{agent} now has {what} from {user}, from the next message on")
    return 0


def read_new_text(args: Namespace) -> str:
    """Read the text from the arguments, a file or stdin. An empty pipe must not clear the instructions."""
    if args.words and args.file:
        raise InputError("give the instructions as TEXT or with --file, not both")
    if not args.words and args.file is None and sys.stdin.isatty():
        raise InputError("set needs the instructions: as TEXT, with --file FILE, or on stdin")
    text = " ".join(args.words) or inputs.read_text(args.file or inputs.STDIN)
    if not text.strip():
        raise InputError("the text is empty; to remove the instructions, use: foreword instructions clear")
    return text
