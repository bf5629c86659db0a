"""`foreword agent`: show and set the stored soul, identity and responsibilities of an agent.

`foreword instructions`: a person's standing instructions for an agent.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from foreword.cli.inputs import STDIN, check_value, open_named_workspace, read_text, read_value
from foreword.cli.main import CliCommand, list_actions
from foreword.cli.output import count, print_json, print_text, to_plain, warn
from foreword.errors import InputError, UnknownName, suggest_name
from foreword.types import Trust

if TYPE_CHECKING:
    from foreword.config.schema import Identity
    from foreword.engine.context import StoredCharacter
    from foreword.workspace import Workspace


MAX_WARNED_NAMES = 20  # names listed in one warning
AGENT_ACTIONS = {
    "show": "[NAME]: print the stored soul, identity and responsibilities of one agent, or of all",
    "set": "NAME: store a soul, an identity or both; an empty file removes the stored one",
    "relieve": "NAME: remove a responsibility that the agent took on, by its exact title",
    "import": "FILE: import agents, instructions and long-term memory from a SQLite database of SPEC-010, with its old "
    "or its new schema",
}


def add_agent_options(parser: ArgumentParser) -> None:
    """Add the action, the agent and the file options."""
    parser.add_argument("action", metavar="ACTION", choices=AGENT_ACTIONS, help="one of the actions above")
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the agent, or the database file to import")
    parser.add_argument("--soul", metavar="FILE", help="with set: a file with the character as text; - reads stdin")
    parser.add_argument(
        "--identity",
        metavar="FILE",
        help="with set: a file with the identity, as JSON or YAML (name, emoji, creature, vibe, description) or as "
        "text; - reads stdin",
    )
    parser.add_argument(
        "--title",
        metavar="TITLE",
        help="with relieve: the title of the responsibility, as `show` prints it",
    )


def run_agent(args: Namespace) -> int:
    """Run the action."""
    actions: Mapping[str, Callable[[Namespace, Workspace], tuple[object, str]]] = {
        "show": show_agent,
        "set": set_agent,
        "relieve": relieve_agent,
        "import": import_agents,
    }
    if args.action != "set" and (args.soul is not None or args.identity is not None):
        raise InputError(f"--soul and --identity need the action `set`, not `{args.action}`")
    if (args.action == "relieve") != (args.title is not None):
        raise InputError("--title and the action `relieve` need each other: foreword agent relieve NAME --title TITLE")
    with open_named_workspace(args) as workspace:
        answer, text = actions[args.action](args, workspace)
    if args.json:
        print_json(answer)
    else:
        print_text(text)
    return 0


def show_agent(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Show the stored character of one agent, or of all configured agents."""
    from foreword.storage.state_reader import StateReader

    names = [check_agent_name(args.name, workspace)] if args.name else list(workspace.config.agents)
    with closing(StateReader(workspace.state)) as reader:
        kept = {name: reader.find_character(name) for name in names}
    listed = [agent_to_dict(name, character) for name, character in kept.items()]
    texts = [format_agent(name, character) for name, character in kept.items()]
    return (listed[0] if args.name else listed), "\n\n".join(texts)


def set_agent(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Store a soul, an identity or both."""
    from foreword.storage.agents import find_character, set_character
    from foreword.storage.database import use_state

    if not args.name:
        raise InputError("agent set needs the name of an agent\nsee: foreword agent --help")
    name = check_agent_name(args.name, workspace)
    if args.soul is None and args.identity is None:
        raise InputError("nothing to set; name a file with --soul or --identity")
    if args.soul == args.identity == STDIN:
        raise InputError("--soul and --identity cannot both read stdin; put one of them in a file")
    soul = None if args.soul is None else read_text(args.soul)
    identity = None if args.identity is None else read_identity(args.identity)
    with use_state(workspace.state) as state:
        set_character(state, name, soul=soul, identity=identity)
        kept = find_character(state, name)
    return agent_to_dict(name, kept), f"stored; {name} uses it from its next message on:\n{format_agent(name, kept)}"


def relieve_agent(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Remove a responsibility that an agent took on."""
    from foreword.storage.agents import find_character, remove_responsibility
    from foreword.storage.database import use_state

    name = check_agent_name(args.name, workspace)
    with use_state(workspace.state) as state:
        gone = remove_responsibility(state, name, args.title)
        kept = find_character(state, name)
    if not gone:
        held = [one.title for one in kept.responsibilities]
        raise InputError(f"{name} has no responsibility with exactly this title{suggest_name(args.title, held)}")
    return agent_to_dict(
        name, kept
    ), f"{name} no longer has this responsibility, from its next message on: {args.title}"


def import_agents(args: Namespace, workspace: "Workspace") -> tuple[object, str]:
    """Import agents, instructions and long-term memory from another database."""
    from foreword.storage.database import STATE_FILE, use_state
    from foreword.storage.legacy_import import NOTES_TABLE, import_notes, import_rows, read_rows, remove_imported_rows

    if not args.name:
        raise InputError("agent import needs a SQLite database\nsee: foreword agent --help")
    config, rows = workspace.config, read_rows(args.name)
    with use_state(workspace.state) as state:
        done = import_rows(state, rows)
    notes = import_notes(rows[NOTES_TABLE], workspace.files.root, config, workspace.memory.now())
    if os.path.samefile(args.name, os.path.join(workspace.state, STATE_FILE)):
        with use_state(workspace.state) as state:
            remove_imported_rows(state, rows[NOTES_TABLE], config)
    left = f"; {done.existing:,} existing left unchanged" if done.existing else ""
    off = f"; {count(done.inactive, 'inactive customization')} imported as inactive" if done.inactive else ""
    entries = f", {notes.saved:,} {'entry' if notes.saved == 1 else 'entries'} of memory" if done.notes else ""
    said = f"imported: {count(done.agents, 'agent')}, {count(done.instructions, 'set')} of instructions{entries}"
    warn_unknown_names("agents", [name for name in done.agent_names if name not in config.agents])
    warn_unknown_names("users", [name for name in done.user_names if name not in config.users])
    for line in notes.list_lines():
        warn(line)
    return {**to_plain(done), "memory": to_plain(notes)}, f"{said}{left}{off}"


def warn_unknown_names(kind: str, names: "list[str]") -> None:
    """Warn about imported names that foreword.yaml lacks: no prompt shows their data."""
    if names:
        shown = ", ".join(names[:MAX_WARNED_NAMES]) + (
            f" and {len(names) - MAX_WARNED_NAMES:,} more" if names[MAX_WARNED_NAMES:] else ""
        )
        warn(f"no prompt shows the data of these {kind}, because foreword.yaml does not list them: {shown}")


def check_agent_name(name: str, workspace: "Workspace") -> str:
    """Return the name of an agent, or raise UnknownName if the configuration has none of this name."""
    if name not in workspace.config.agents:
        raise UnknownName("agent", name, workspace.config.agents)
    return name


def read_identity(path: str) -> "Identity | str":
    """Read an identity: fields from JSON or YAML, or plain text. Text that starts with `{` is read as JSON."""
    import json

    from foreword.config.schema import Identity

    if path.endswith((".yaml", ".yml", ".json")):
        text = read_text(path)
        return read_value(path, Identity) if text.strip() else Identity()
    text = read_text(path).strip()
    if not text.startswith("{"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} starts with {{ but is not valid JSON: {error}") from None
    return check_value(value, Identity, path)


def agent_to_dict(name: str, character: "StoredCharacter") -> dict[str, object]:
    """Return the stored character of an agent as JSON-ready values."""
    identity = character.identity
    plain = identity if identity is None or isinstance(identity, str) else to_plain(identity)
    taken = [to_plain(one) for one in character.responsibilities]
    return {"agent": name, "soul": character.soul, "identity": plain, "responsibilities": taken}


def format_agent(name: str, character: "StoredCharacter") -> str:
    """Return the stored character of an agent as text."""
    from foreword.storage.agents import list_identity_fields as spell_fields

    identity = character.identity
    fields = "\n".join(f"  {key}: {value}" for key, value in spell_fields(identity).items())
    text = f"  {identity}" if isinstance(identity, str) else fields
    shown_identity = f"identity:\n{text}" if text else "identity: none stored; its file or the configuration applies"
    shown_soul = (
        f"soul:\n{character.soul}" if character.soul else "soul: none stored; the configuration or its file applies"
    )
    taken = "".join(f"\n  {one.title}: {one.content}" for one in character.responsibilities)
    shown_taken = f"\nresponsibilities it took on:{taken}" if taken else ""
    return f"agent: {name}\n{shown_identity}\n{shown_soul}{shown_taken}"


AGENT_COMMAND = CliCommand(
    name="agent",
    arguments="ACTION [NAME]",
    summary="show or set the stored soul, identity and responsibilities of an agent",
    description="Show or change the stored character of an agent. A stored soul or identity takes precedence over the "
    "agent's files, applies from its next message on, and cannot be changed by the agent. The agent itself adds "
    "responsibilities; `relieve` removes one. Actions: " + list_actions(AGENT_ACTIONS) + ".",
    examples=(
        "foreword agent show reid",
        "foreword agent set reid --soul soul.md --identity identity.yaml",
        "echo -n | foreword agent set reid --soul -",
        'foreword agent relieve reid --title "Water the hedge"',
        "foreword agent import old.sqlite",
    ),
    add_options=add_agent_options,
    run=run_agent,
)


INSTRUCTIONS_ACTIONS = {
    "show": "print the instructions",
    "set": "TEXT: replace the instructions with TEXT, with a file (--file), or with stdin",
    "clear": "remove the instructions",
}


def add_instructions_options(parser: ArgumentParser) -> None:
    """Add the action, the text, the person and the agent."""
    parser.add_argument("action", metavar="ACTION", choices=INSTRUCTIONS_ACTIONS, help="one of the actions above")
    parser.add_argument("words", metavar="TEXT", nargs="*", default=[], help="with set: the new instructions")
    parser.add_argument("--file", metavar="FILE", help="with set: a file with the new instructions; - reads stdin")
    parser.add_argument("--user", metavar="NAME", help="the person who gives the instructions (default: the owner)")
    parser.add_argument("--agent", metavar="NAME", default="", help="the agent that gets them (default: the first one)")


def run_instructions(args: Namespace) -> int:
    """Run the action."""
    with open_named_workspace(args) as workspace:
        user, agent = find_user_and_agent(args, workspace)
        refuse_unknown_user(args, workspace, user, agent)
        if args.action == "show":
            if args.words or args.file:
                raise InputError("show takes no text; to replace the instructions, use: foreword instructions set TEXT")
            text = read_instructions(workspace, user, agent)
        else:
            text = replace_stored(
                workspace, user, agent, get_new_text(args) if args.action == "set" else refuse_text(args)
            )
    if args.json:
        print_json({"user": user, "agent": agent, "instructions": text, "characters": len(text)})
    elif args.action == "show":
        print_text(text or "(none)")
    else:
        what = f"{count(len(text), 'character')} of instructions" if text else "no instructions"
        print_text(f"{agent} now has {what} from {user}, from the next message on")
    return 0


def find_user_and_agent(args: Namespace, workspace: "Workspace") -> tuple[str, str]:
    """Return the person and the agent of the instructions."""
    config = workspace.config
    user = config.owner if args.user is None else args.user
    if not user:
        raise InputError("no person given; use --user NAME, or set an owner in foreword.yaml")
    agent = args.agent or next(iter(config.agents))
    if agent not in config.agents:
        raise UnknownName("agent", agent, config.agents)
    return user, agent


def refuse_unknown_user(args: Namespace, workspace: "Workspace", user: str, agent: str) -> None:
    """Refuse an unknown user; stored instructions of a former user can still be shown and cleared."""
    known = workspace.config.users
    if user in known:
        return
    if args.action == "set" or not read_instructions(workspace, user, agent):
        raise UnknownName("user", user, known)
    warn(f"no prompt shows these instructions, because {user!r} is not a user in foreword.yaml")


def get_new_text(args: Namespace) -> str:
    """Return the given text. Empty text is an error, so that an empty pipe does not clear the instructions."""
    text = read_new_text(args)
    if not text.strip():
        raise InputError("the text is empty; to remove the instructions, use: foreword instructions clear")
    return text


def read_new_text(args: Namespace) -> str:
    """Read the text from the arguments, a file or stdin."""
    if args.words and args.file:
        raise InputError("give the instructions as TEXT or with --file, not both")
    if args.words:
        return " ".join(args.words)
    if args.file is None and sys.stdin.isatty():
        raise InputError("set needs the instructions: as TEXT, with --file FILE, or on stdin")
    return read_text(args.file or STDIN)


def refuse_text(args: Namespace) -> str:
    """Refuse a text for `clear`; return an empty one."""
    if args.words or args.file:
        raise InputError("clear takes no text; to replace the instructions, use: foreword instructions set TEXT")
    return ""


def read_instructions(workspace: "Workspace", user: str, agent: str) -> str:
    """Return the stored instructions; creates no database."""
    from foreword.storage.state_reader import StateReader

    with closing(StateReader(workspace.state)) as reader:
        return reader.find_instructions(user, agent, Trust.FULL) or ""


def replace_stored(workspace: "Workspace", user: str, agent: str, text: str) -> str:
    """Replace the stored instructions, and log the change."""
    from foreword.agent.tools.state_tools import INSTRUCTIONS_STORE
    from foreword.cli.memory_command import log_tool_call
    from foreword.storage.agents import replace_instructions
    from foreword.storage.database import use_state
    from foreword.turn import ToolAnswer, Turn

    with use_state(workspace.state) as state:
        kept = replace_instructions(state, user, agent, text)
    assembly = workspace.assemble(Turn(user=user, agent=agent, situation="dm"))
    log_tool_call(
        workspace, assembly, "update_instructions", ToolAnswer(text="", tokens=0, store=INSTRUCTIONS_STORE, count=1)
    )
    return kept


INSTRUCTIONS_COMMAND = CliCommand(
    name="instructions",
    arguments="ACTION [TEXT …]",
    summary="show, replace or clear a person's standing instructions",
    description="Show or change the standing instructions of a person for an agent: one text of up to 20,000 "
    "characters, included in every prompt for this person except in shared rooms. Actions: "
    + list_actions(INSTRUCTIONS_ACTIONS)
    + ".",
    examples=(
        "foreword instructions show",
        'foreword instructions set "Answer in bullet points."',
        "foreword instructions set --file wishes.md --user bob --agent reid",
        "foreword instructions clear --user bob",
    ),
    add_options=add_instructions_options,
    run=run_instructions,
)
