"""The commands about stored data: `agent` for characters, `export` to write data out, `forget` to erase a person's."""

import json
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from foreword.cli.inputs import STDIN, add_options, check_value, open_named_workspace, read_text, read_value
from foreword.cli.log_commands import EventQuery, add_period_options, add_reader_options, open_event_query
from foreword.cli.output import count, pick, print_json, print_table, print_text, show_progress, to_plain, warn
from foreword.config.schema import Identity
from foreword.engine import context, trust
from foreword.errors import InputError, UnknownName, suggest_name
from foreword.events.log import find_cutoff
from foreword.events.period import Period, parse_unpaged_period
from foreword.storage import agents, database, legacy_import, state_reader
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.privacy import erasure, export  # late at run time: they import the gateway

MAX_WARNED_NAMES = 20  # names listed in one warning
STDOUT_NAME = "-"
EVENT_OPTIONS = ("prune", "since", "until", "reader", "room")  # options that apply only to events
EXIT_UNFINISHED = 1


def add_agent_options(parser: ArgumentParser) -> None:
    """Add the action, the agent and the file options."""
    parser.add_argument("action", metavar="ACTION", choices=AGENT_ACTIONS, help="one of the actions above")
    add_options(parser, {"name NAME": "the agent, or the database file to import"}, nargs="?", default="")
    options = {
        "--soul FILE": "with set: a file with the character as text; - reads stdin",
        "--identity FILE": "with set: a file with the identity, as JSON or YAML (name, emoji, creature, vibe, "
        "description) or as text; - reads stdin",
        "--title TITLE": "with relieve: the title of the responsibility, as `show` prints it",
    }
    add_options(parser, options)


def run_agent(args: Namespace) -> int:
    """Show or change the stored character of an agent.

    A stored soul or identity takes precedence over the agent's files, applies from its next message on, and cannot be
    changed by the agent. The agent itself adds responsibilities; `relieve` removes one. Actions: show [NAME]: print
    the stored soul, identity and responsibilities of one agent, or of all; set NAME: store a soul, an identity or
    both; an empty file removes the stored one; relieve NAME: remove a responsibility that the agent took on, by its
    exact title; import FILE: import agents, instructions and long-term memory from a SQLite database of SPEC-010, with
    its old or its new schema.

    Examples:
        foreword agent show reid
        foreword agent set reid --soul soul.md --identity identity.yaml
        foreword agent import old.sqlite
    """
    if args.action != "set" and (args.soul is not None or args.identity is not None):
        raise InputError(f"--soul and --identity need the action `set`, not `{args.action}`")
    if (args.action == "relieve") != (args.title is not None):
        raise InputError("--title and the action `relieve` need each other: foreword agent relieve NAME --title TITLE")
    with open_named_workspace(args) as workspace:
        known = workspace.config.agents
        if args.name not in known and args.action != "import" and (args.name or args.action == "relieve"):
            raise UnknownName("agent", args.name, known)
        value, text = AGENT_ACTIONS[args.action](args, workspace)
    print_json(value) if args.json else print_text(text)
    return 0


def show_agent(args: Namespace, workspace: Workspace) -> tuple[object, str]:
    """Show the stored character of one agent, or of all configured agents."""
    names = [args.name] if args.name else list(workspace.config.agents)
    with closing(state_reader.StateReader(workspace.state)) as reader:
        characters = {name: reader.find_character(name) for name in names}
    listed = [agent_to_dict(name, character) for name, character in characters.items()]
    texts = [format_agent(name, character) for name, character in characters.items()]
    return (listed[0] if args.name else listed), "\n\n".join(texts)


def set_agent(args: Namespace, workspace: Workspace) -> tuple[object, str]:
    """Store a soul, an identity or both."""
    if not args.name:
        raise InputError("agent set needs the name of an agent\nsee: foreword agent --help")
    if args.soul is None and args.identity is None:
        raise InputError("nothing to set; name a file with --soul or --identity")
    if args.soul == args.identity == STDIN:
        raise InputError("--soul and --identity cannot both read stdin; put one of them in a file")
    soul = None if args.soul is None else read_text(args.soul)
    identity = None if args.identity is None else read_identity(args.identity)
    with database.use_state(workspace.state) as state:
        agents.set_character(state, args.name, soul=soul, identity=identity)
        stored = agents.find_character(state, args.name)
    text = f"stored; {args.name} uses it from its next message on:\n{format_agent(args.name, stored)}"
    return agent_to_dict(args.name, stored), text


def relieve_agent(args: Namespace, workspace: Workspace) -> tuple[object, str]:
    """Remove a responsibility that an agent took on."""
    with database.use_state(workspace.state) as state:
        removed = agents.remove_responsibility(state, args.name, args.title)
        stored = agents.find_character(state, args.name)
    if not removed:
        near = suggest_name(args.title, [one.title for one in stored.responsibilities])
        raise InputError(f"{args.name} has no responsibility with exactly this title{near}")
    text = f"{args.name} no longer has this responsibility, from its next message on: {args.title}"
    return agent_to_dict(args.name, stored), text


def import_agents(args: Namespace, workspace: Workspace) -> tuple[object, str]:
    """Import agents, instructions and long-term memory from another database."""
    if not args.name:
        raise InputError("agent import needs a SQLite database\nsee: foreword agent --help")
    config, rows = workspace.config, legacy_import.read_rows(args.name)
    memory_rows = rows[legacy_import.NOTES_TABLE]
    with database.use_state(workspace.state) as state:
        done = legacy_import.import_rows(state, rows)
    notes = legacy_import.import_notes(memory_rows, workspace.files.root, config, workspace.memory.now())
    if os.path.samefile(args.name, os.path.join(workspace.state, database.STATE_FILE)):
        with database.use_state(workspace.state) as state:
            legacy_import.remove_imported_rows(state, memory_rows, config)
    for kind, names, known in (("agents", done.agent_names, config.agents), ("users", done.user_names, config.users)):
        if missing := [name for name in names if name not in known]:
            more = f" and {len(missing) - MAX_WARNED_NAMES:,} more" if missing[MAX_WARNED_NAMES:] else ""
            shown = ", ".join(missing[:MAX_WARNED_NAMES]) + more
            warn(f"no prompt shows the data of these {kind}, because foreword.yaml does not list them: {shown}")
    for line in notes.list_lines():
        warn(line)
    entries = f", {notes.saved:,} {'entry' if notes.saved == 1 else 'entries'} of memory" if done.notes else ""
    left = f"; {done.existing:,} existing left unchanged" if done.existing else ""
    off = f"; {count(done.inactive, 'inactive customization')} imported as inactive" if done.inactive else ""
    text = f"imported: {count(done.agents, 'agent')}, {count(done.instructions, 'set')} of instructions"
    plain = {"kept" if name == "existing" else name: value for name, value in to_plain(done).items()}
    memory = {"saved": notes.saved, "unread_columns": list(notes.unread_columns)}
    groups = {name: list(notes.rows.get(name, ())) for name in legacy_import.ROW_NOTES}
    return {**plain, "memory": memory | groups}, f"{text}{entries}{left}{off}"


def read_identity(path: str) -> Identity | str:
    """Read an identity: fields from JSON or YAML, or plain text. Text that starts with `{` is read as JSON."""
    text = read_text(path)
    if path.endswith((".yaml", ".yml", ".json")):
        return read_value(path, Identity) if text.strip() else Identity()
    if not text.strip().startswith("{"):
        return text.strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} starts with {{ but is not valid JSON: {error}") from None
    return check_value(value, Identity, path)


def agent_to_dict(name: str, character: context.StoredCharacter) -> dict[str, object]:
    """Return the stored character of an agent as JSON-ready values."""
    return {"agent": name, **pick(character, "soul", "identity", "responsibilities")}


def format_agent(name: str, character: context.StoredCharacter) -> str:
    """Return the stored character of an agent as text."""
    identity, soul = character.identity, character.soul
    fields = agents.list_identity_fields(identity)
    text = f"  {identity}" if isinstance(identity, str) else "\n".join(f"  {key}: {fields[key]}" for key in fields)
    parts = [
        f"agent: {name}",
        f"identity:\n{text}" if text else "identity: none stored; its file or the configuration applies",
        f"soul:\n{soul}" if soul else "soul: none stored; the configuration or its file applies",
    ]
    if character.responsibilities:
        parts.append("responsibilities it took on:")
        parts += [f"  {one.title}: {one.content}" for one in character.responsibilities]
    return "\n".join(parts)


AGENT_ACTIONS = {"show": show_agent, "set": set_agent, "relieve": relieve_agent, "import": import_agents}


def add_export_options(parser: ArgumentParser) -> None:
    """Add the file, the person, the period and the reader."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file to create; - is stdout (default: stdout)")
    add_options(parser, {"--prune": "delete the exported events; needs FILE and --until"})
    add_options(parser, {"--user NAME": "export all data of this person instead of events"})
    about = "with --user: include data up to this level (default: the person's current clearance)"
    add_options(parser, {"--trust LEVEL": about}, choices=tuple(map(str, Trust)))
    add_period_options(parser)
    add_reader_options(parser)


def run_export(args: Namespace) -> int:
    """Write recorded events as JSON Lines in recording order, each with every column.

    FILE must not exist and is created completely or not at all. With --prune, everything before the day of --until is
    exported and then deleted; days are UTC days. With --user, all data of a person is exported instead: a header line,
    then one line for each item with its data location and its row.

    Examples:
        foreword export > events.jsonl
        foreword export november.jsonl --since 2026-11-01 --until 2026-11-30
        foreword export bob.jsonl --user bob
    """
    # Not a default of the parser: it would treat a typed - as missing and take the next word as the file.
    args.file = STDOUT_NAME if args.file is None else args.file
    if not args.file:
        raise InputError("the file name is empty; name a file, or leave it out to write to stdout")
    if args.file != STDOUT_NAME and os.path.lexists(args.file):
        raise InputError(f"{args.file} already exists; name a new file")
    if args.user is not None:
        export_person(args)
        return 0
    if args.trust:
        raise InputError("--trust needs --user")
    workspace, events = open_event_query(args)
    workspace.close()
    period = parse_unpaged_period(args.since, args.until, events.now, events.reader.timezone)
    done = export_and_delete(args, events, period) if args.prune else export_visible(args.file, events, period)
    if args.file == STDOUT_NAME:
        return 0
    if args.json:
        print_json({"file": args.file, "events": done.rows, "pruned": done.pruned})
    else:
        print(f"exported: {count(done.rows, 'event')}" + (f", deleted: {done.pruned:,}" if args.prune else ""))
    return 0


def export_visible(path: str, events: EventQuery, period: Period) -> "export.ExportResult":
    """Write the visible events to stdout, or to a file that is created completely or not at all."""
    from foreword.privacy import export

    ends = (period.since, period.until)
    if path == STDOUT_NAME:
        return export.export_log(events.folder, events.reader, sys.stdout, ends)
    with show_row_progress() as progress, export.open_draft(path) as file:
        return export.export_log(events.folder, events.reader, file, ends, progress)


def export_and_delete(args: Namespace, events: EventQuery, period: Period) -> "export.ExportResult":
    """Export everything before a day, then delete it; needs full trust."""
    from foreword.privacy import export

    if args.file == STDOUT_NAME or period.until is None or period.since is not None:
        needs = "--prune needs FILE and --until and takes no --since"
        raise InputError(f"{needs}: everything deleted must be in the export")
    if events.reader.clearance is not Trust.FULL or events.reader.room:
        raise InputError("--prune deletes the events of all users, so it needs full trust and takes no --room")
    # Retention deletes whole UTC days; do the same, so that the totals of each remaining day are complete.
    with show_row_progress() as progress:
        return export.export_and_prune_log(events.folder, args.file, find_cutoff(period.until, 0), progress)


@contextmanager
def show_row_progress() -> Iterator["export.Progress"]:
    """Show the number of exported rows on stderr if it is a terminal."""
    with show_progress() as show:
        yield lambda done, whole: show(f"{done:,}{'' if whole is None else f' of {whole:,}'} rows")


def export_person(args: Namespace) -> None:
    """Write all data of a person, up to the given clearance or what they may see now, and print the number of items."""
    from foreword.privacy import export

    if given := [f"--{name}" for name in EVENT_OPTIONS if getattr(args, name)]:
        raise InputError(f"--user exports all data of a person and takes no {' and no '.join(given)}")
    with open_named_workspace(args) as workspace:
        current = trust.resolve_trust(Turn(user=args.user, situation="dm"), workspace.config).level
    level = Trust[args.trust.upper()] if args.trust else current
    if args.file == STDOUT_NAME:
        done = export.export_person(workspace, args.user, level, sys.stdout)
    else:
        with export.open_draft(args.file) as file:
            done = export.export_person(workspace, args.user, level, file)
        if args.json:
            print_json({"file": args.file, "user": done.user, "given": done.given, "above": done.above})
        else:
            print(f"exported: {count(sum(done.given.values()), 'item')} of {done.user}")
    if done.above:
        verb, them = ("is", "it") if done.above == 1 else ("are", "them")
        what = f"{count(done.above, 'item')} above clearance {level} {verb} not included"
        warn(f"{what}; to include {them}, add --trust full")


def add_forget_options(parser: ArgumentParser) -> None:
    """Add the person and the confirmation options."""
    parser.add_argument("user", metavar="USER", help="the person, whether or not still in foreword.yaml")
    flags = {
        "--dry-run": "report the data of the person and change nothing",
        "--yes": "do not ask for confirmation; required if stdin is not a terminal",
    }
    add_options(parser, flags)
    patience = {"--patience SECONDS": "how long to wait for a running turn (default: 30)"}
    add_options(parser, patience, type=float, default=30.0)


def run_forget(args: Namespace) -> int:
    """Erase the data of a person everywhere.

    Covers conversations, memories, instructions, events, recorded prompts, their files and the index. Messages of
    other people remain, with placeholders for text that repeats the person's. The report counts the items found and
    removed, and lists what remains and why. The command can be interrupted and repeated. Exits with 1 while data is
    left. To export the data first, use: foreword export --user USER.

    Examples:
        foreword forget bob --dry-run
        foreword export bob.jsonl --user bob
        foreword forget bob --yes
    """
    from foreword.privacy import erasure

    if not 0 <= args.patience <= 86_400:
        raise InputError("--patience must be from 0 to 86,400 seconds")
    with open_named_workspace(args) as workspace:
        if args.dry_run:
            print_report(args, erasure.preview_erasure(workspace, args.user))
            return 0
        if not args.yes and not ask_confirmation(erasure.preview_erasure(workspace, args.user)):
            print("nothing was removed")
            return 0
        report = erasure.erase_person(workspace, args.user, args.patience)
    print_report(args, report)
    return 0 if report.done else EXIT_UNFINISHED


def ask_confirmation(report: "erasure.ErasureReport") -> bool:
    """Ask for confirmation; only the full name of the person confirms."""
    items = f"{count(report.found, 'item')} of {report.user}"
    if not sys.stdin.isatty():
        raise InputError(
            f"this would permanently remove {items}; add --dry-run to see them, "
            f"export them with: foreword export --user {shlex.quote(report.user)}, or confirm with --yes"
        )
    print(f"This permanently removes {items}.", file=sys.stderr)
    print("Type the name to confirm: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == report.user


def print_report(args: Namespace, report: "erasure.ErasureReport") -> None:
    """Print the counts, what remains and why, and the result of the verification."""
    if args.json:
        print_json({**to_plain(report), "dry_run": args.dry_run})
        return
    figures = ("found",) if args.dry_run else ("found", "removed", "left")
    rows = [
        (line.name, line.where, *(f"{getattr(line, figure):,}" for figure in figures))
        for line in report.lines
        if line.found or line.removed or line.left
    ]
    if rows:
        print_table(("what", "where", *figures), rows, right=figures)
        print()
    for title, reasons in (("remains:", report.stays), ("not done:", report.trouble)):
        if reasons:
            print("\n".join([title, *(f"- {one}" for one in reasons), ""]))
    if args.dry_run:
        print(f"dry run: {count(report.found, 'item')} of {report.user} would be removed")
    elif report.done:
        print(f"{report.user} is forgotten: verification found nothing left")
    else:
        left = sum(line.left for line in report.lines)
        found = f"verification found {count(left, 'item')}; " if left else ""
        advice = "stop the gateway or remove them from foreword.yaml, then run this again"
        print(f"{report.user} is not completely forgotten: {found}they may still be sending messages; {advice}")
