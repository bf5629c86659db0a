"""`foreword agent`: what the store keeps of an agent: a soul, an identity, and what it has taken on."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from foreword.cli.command import Command, list_actions
from foreword.cli.files import STDIN, check, read_text, read_value
from foreword.cli.output import count, make_plain, print_json, print_text, warn
from foreword.cli.place import open_here
from foreword.errors import InputError, UnknownName, suggest

if TYPE_CHECKING:
    from foreword.config.schema import Identity
    from foreword.sources.character import Character
    from foreword.workspace import Workspace

MOST_NAMES = 20  # names of one warning
ACTIONS = {
    "show": "[NAME]: print what is kept of one agent, or of all",
    "set": "NAME: keep a soul, an identity or both; an empty file takes it away",
    "relieve": "NAME: take away a responsibility that it has taken on while it ran, by its exact title",
    "import": "FILE: take agents, instructions and long-term memory from a SQLite database of SPEC-010, of its old "
    "schema or its new one",
}


def add_options(parser: ArgumentParser) -> None:
    """Add the action, the agent, and the files."""
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help="one of the actions above")
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the agent, or the database to import")
    parser.add_argument("--soul", metavar="FILE", help="with set: its character as a text; - for stdin")
    parser.add_argument(
        "--identity",
        metavar="FILE",
        help="with set: who it is, as JSON or YAML with name, emoji, creature, vibe, description, or as a text; "
        "- for stdin",
    )
    parser.add_argument("--title", metavar="TITLE", help="with relieve: the responsibility, as show prints it")


def run(args: Namespace) -> int:
    """Do what the action says."""
    actions: Mapping[str, Callable[[Namespace, Workspace], tuple[object, str]]] = {
        "show": show,
        "set": set_,
        "relieve": relieve,
        "import": import_,
    }
    if args.action != "set" and (args.soul is not None or args.identity is not None):
        raise InputError(f"--soul and --identity are for: foreword agent set, not for {args.action}")
    if (args.action == "relieve") != (args.title is not None):
        raise InputError("--title names what to take away, with: foreword agent relieve NAME --title TITLE")
    with open_here(args) as workspace:
        answer, text = actions[args.action](args, workspace)
    if args.json:
        print_json(answer)
    else:
        print_text(text)
    return 0


def show(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Show what is kept of an agent, or of all agents of the configuration."""
    from foreword.store.reader import StateReader

    names = [check_name(args.name, workspace)] if args.name else list(workspace.config.agents)
    with closing(StateReader(workspace.state)) as reader:
        kept = {name: reader.find_character(name) for name in names}
    listed = [describe(name, character) for name, character in kept.items()]
    texts = [spell(name, character) for name, character in kept.items()]
    return (listed[0] if args.name else listed), "\n\n".join(texts)


def set_(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Keep a soul, an identity or both."""
    from foreword.store.agents import find_character, set_character
    from foreword.store.state import use_state

    if not args.name:
        raise InputError("agent set needs the name of an agent\nsee: foreword agent --help")
    name = check_name(args.name, workspace)
    if args.soul is None and args.identity is None:
        raise InputError("there is nothing to set; name a file with --soul or --identity")
    if args.soul == args.identity == STDIN:
        raise InputError("stdin can be read once; give the soul or the identity in a file")
    soul = None if args.soul is None else read_text(args.soul)
    identity = None if args.identity is None else read_identity(args.identity)
    with use_state(workspace.state) as state:
        set_character(state, name, soul=soul, identity=identity)
        kept = find_character(state, name)
    return describe(name, kept), f"{name} has this from its next message on:\n{spell(name, kept)}"


def relieve(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Take away a responsibility that an agent has taken on."""
    from foreword.store.agents import find_character
    from foreword.store.responsibilities import remove_responsibility
    from foreword.store.state import use_state

    name = check_name(args.name, workspace)
    with use_state(workspace.state) as state:
        gone = remove_responsibility(state, name, args.title)
        kept = find_character(state, name)
    if not gone:
        held = [one.title for one in kept.responsibilities]
        raise InputError(f"{name} has taken on nothing with exactly this title{suggest(args.title, held)}")
    return describe(name, kept), f"{name} is relieved of it from its next message on: {args.title}"


def import_(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Take agents, instructions and long-term memory from another database."""
    from foreword.store.legacy import NOTES, import_rows, read_rows
    from foreword.store.long_term_memory import import_notes, set_aside
    from foreword.store.state import STATE_FILE, use_state

    if not args.name:
        raise InputError("agent import needs a SQLite database\nsee: foreword agent --help")
    config, rows = workspace.config, read_rows(args.name)
    with use_state(workspace.state) as state:
        done = import_rows(state, rows)
    notes = import_notes(rows[NOTES], workspace.files.root, config, workspace.memory.now())
    if os.path.samefile(args.name, os.path.join(workspace.state, STATE_FILE)):
        with use_state(workspace.state) as state:
            set_aside(state, rows[NOTES], config)
    left = f"; {done.kept:,} that were here already stayed as they are" if done.kept else ""
    off = f"; {count(done.inactive, 'customization')} that was off stayed off" if done.inactive else ""
    entries = f", {notes.saved:,} {'entry' if notes.saved == 1 else 'entries'} of memory" if done.notes else ""
    said = f"imported: {count(done.agents, 'agent')}, {count(done.instructions, 'set')} of instructions{entries}"
    warn_unknown("agents", [name for name in done.agent_names if name not in config.agents])
    warn_unknown("users", [name for name in done.user_names if name not in config.users])
    for line in notes.list_lines():
        warn(line)
    return {**make_plain(done), "memory": make_plain(notes)}, f"{said}{left}{off}"


def warn_unknown(kind: str, names: "list[str]") -> None:
    """Warn of imported names that foreword.yaml does not have: no prompt shows what is kept of them."""
    if names:
        shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES:,} more" if names[MOST_NAMES:] else "")
        warn(f"not among the {kind} of foreword.yaml, so no prompt shows what is kept of them: {shown}")


def check_name(name: str, workspace: "Workspace") -> str:
    """Check that the configuration has an agent of this name."""
    if name not in workspace.config.agents:
        raise UnknownName("agent", name, workspace.config.agents)
    return name


def read_identity(path: str) -> "Identity | str":
    """Read an identity: fields from JSON or YAML, or a text; what begins like a JSON object is taken for one."""
    import json

    from foreword.config.schema import Identity

    if path.endswith((".yaml", ".yml", ".json")):
        text = read_text(path)
        found: Identity = read_value(path, Identity) if text.strip() else Identity()
        return found
    text = read_text(path).strip()
    if not text.startswith("{"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} begins like JSON and is none: {error}") from None
    made: Identity = check(value, Identity, path)
    return made


def describe(name: str, character: "Character") -> dict[str, object]:
    """Describe what is kept of an agent, for programs."""
    identity = character.identity
    plain = identity if identity is None or isinstance(identity, str) else make_plain(identity)
    taken = [make_plain(one) for one in character.responsibilities]
    return {"agent": name, "soul": character.soul, "identity": plain, "responsibilities": taken}


def spell(name: str, character: "Character") -> str:
    """Spell out what is kept of an agent, for people."""
    from foreword.store.agents import spell as spell_fields

    identity = character.identity
    fields = "\n".join(f"  {key}: {value}" for key, value in spell_fields(identity).items())
    text = f"  {identity}" if isinstance(identity, str) else fields
    shown_identity = (
        f"identity:\n{text}" if text else "identity: nothing is kept, so its file or the configuration counts"
    )
    shown_soul = (
        f"soul:\n{character.soul}"
        if character.soul
        else "soul: nothing is kept, so the configuration or its file counts"
    )
    taken = "".join(f"\n  {one.title}: {one.content}" for one in character.responsibilities)
    shown_taken = f"\ntaken on while it ran:{taken}" if taken else ""
    return f"agent: {name}\n{shown_identity}\n{shown_soul}{shown_taken}"


COMMAND = Command(
    name="agent",
    arguments="ACTION [NAME]",
    summary="show or set what the store keeps of an agent: its soul, its identity, what it has taken on",
    description="Work with what the store keeps of an agent: a soul and an identity that win over its files, from its "
    "next message on, which it cannot change itself, and the responsibilities that it has taken on. Actions: "
    + list_actions(ACTIONS)
    + ".",
    examples=(
        "foreword agent show reid",
        "foreword agent set reid --soul soul.md --identity identity.yaml",
        "echo -n | foreword agent set reid --soul -",
        'foreword agent relieve reid --title "Water the hedge"',
        "foreword agent import old.sqlite",
    ),
    add_options=add_options,
    run=run,
)
