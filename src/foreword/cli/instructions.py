"""`foreword instructions`: what a person wants of an agent in every conversation."""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from foreword.cli.command import Command, list_actions
from foreword.cli.files import STDIN, read_text
from foreword.cli.output import count, print_json, print_text, warn
from foreword.cli.place import open_here
from foreword.errors import InputError, UnknownName
from foreword.words import Trust

if TYPE_CHECKING:
    from foreword.workspace import Workspace

ACTIONS = {
    "show": "print them, whole",
    "set": "TEXT: replace them, by words, by --file, or by what stands on stdin",
    "clear": "remove them",
}


def add_options(parser: ArgumentParser) -> None:
    """Add the action, the text, and whose instructions they are."""
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help="one of the actions above")
    parser.add_argument("words", metavar="TEXT", nargs="*", default=[], help="with set: the whole new instructions")
    parser.add_argument("--file", metavar="FILE", help="with set: a file that has them; - for stdin")
    parser.add_argument("--user", metavar="NAME", help="whose instructions; else the owner's")
    parser.add_argument("--agent", metavar="NAME", default="", help="for which agent; else the first one")


def run(args: Namespace) -> int:
    """Do what the action says."""
    with open_here(args) as workspace:
        user, agent = find_pair(args, workspace)
        refuse_stranger(args, workspace, user, agent)
        if args.action == "show":
            if args.words or args.file:
                raise InputError("show takes no text; to replace the instructions: foreword instructions set TEXT")
            text = show(workspace, user, agent)
        else:
            text = replace(workspace, user, agent, find_text(args) if args.action == "set" else refuse_text(args))
    if args.json:
        print_json({"user": user, "agent": agent, "instructions": text, "characters": len(text)})
    elif args.action == "show":
        print_text(text or "(none)")
    else:
        what = f"{count(len(text), 'character')} of instructions" if text else "no instructions"
        print_text(f"{agent} now has {what} from {user}, from the next message on")
    return 0


def find_pair(args: Namespace, workspace: "Workspace") -> tuple[str, str]:
    """Find the person and the agent that the instructions are between."""
    config = workspace.config
    user = config.owner if args.user is None else args.user
    if not user:
        raise InputError("whose instructions? Name a person with --user, or an owner in foreword.yaml")
    agent = args.agent or next(iter(config.agents))
    if agent not in config.agents:
        raise UnknownName("agent", agent, config.agents)
    return user, agent


def refuse_stranger(args: Namespace, workspace: "Workspace", user: str, agent: str) -> None:
    """Refuse a name that is not known; what somebody has left who was, can be shown and cleared."""
    known = workspace.config.users
    if user in known:
        return
    if args.action == "set" or not show(workspace, user, agent):
        raise UnknownName("user", user, known)
    warn(f"{user!r} is not among the users of foreword.yaml, so no prompt shows their instructions")


def find_text(args: Namespace) -> str:
    """Find the text that was given; nothing is none, lest a pipe that stayed empty takes the old one away."""
    text = read_given(args)
    if not text.strip():
        raise InputError("set needs a text, and this one is empty; to remove them: foreword instructions clear")
    return text


def read_given(args: Namespace) -> str:
    """Read what was given in words, in a file or on stdin."""
    if args.words and args.file:
        raise InputError("the instructions are given twice, in words and in --file; give one of them")
    if args.words:
        return " ".join(args.words)
    if args.file is None and sys.stdin.isatty():
        raise InputError("set needs the instructions: in words, with --file FILE, or on stdin")
    return read_text(args.file or STDIN)


def refuse_text(args: Namespace) -> str:
    """Refuse a text where everything is to be removed."""
    if args.words or args.file:
        raise InputError("clear takes no text; to replace the instructions: foreword instructions set TEXT")
    return ""


def show(workspace: "Workspace", user: str, agent: str) -> str:
    """Find the instructions as they are kept; where nothing was ever kept, nothing is made."""
    from foreword.store.reader import StateReader

    with closing(StateReader(workspace.state)) as reader:
        return reader.find_instructions(user, agent, Trust.FULL) or ""


def replace(workspace: "Workspace", user: str, agent: str, text: str) -> str:
    """Keep a text in the place of the instructions, and tell the log that there was a change."""
    from foreword.cli.memory import note
    from foreword.store.instructions import replace_instructions
    from foreword.store.state import use_state
    from foreword.tools import Answer
    from foreword.tools.instructing import STORE
    from foreword.turn import Turn

    with use_state(workspace.state) as state:
        kept = replace_instructions(state, user, agent, text)
    assembly = workspace.assemble(Turn(user=user, agent=agent, situation="dm"))
    note(workspace, assembly, "update_instructions", Answer(text="", tokens=0, store=STORE, count=1))
    return kept


COMMAND = Command(
    name="instructions",
    arguments="ACTION [TEXT …]",
    summary="show, replace or clear a person's standing instructions",
    description="Work with the standing instructions of a person for an agent: one text of at most 20,000 characters, "
    "which every prompt of theirs has, except where others read. Actions: " + list_actions(ACTIONS) + ".",
    examples=(
        "foreword instructions show",
        'foreword instructions set "Answer in bullet points."',
        "foreword instructions set --file wishes.md --user bob --agent reid",
        "foreword instructions clear --user bob",
    ),
    add_options=add_options,
    run=run,
)
