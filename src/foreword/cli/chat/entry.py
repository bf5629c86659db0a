"""The command itself: its options, and which of its ways of talking is meant."""

from argparse import ArgumentParser, Namespace

from foreword.cli.command import Command
from foreword.cli.turns import MODES
from foreword.errors import InputError

NEEDED = "foreword[gateway]"


def add_options(parser: ArgumentParser) -> None:
    """Add who speaks with whom, where, and what is said."""
    parser.add_argument("words", metavar="MESSAGE", nargs="*", default=[], help="say this, print the answer, and end")
    who = parser.add_argument_group("who and where")
    who.add_argument("--agent", metavar="NAME", default="", help="the agent; else the first one of the configuration")
    who.add_argument("--user", metavar="NAME", help="the person who speaks; else the owner of the workspace")
    who.add_argument("--room", metavar="NAME", default="", help="speak in this room, where others read the reply")
    who.add_argument("--situation", metavar="NAME", help="the situation; else that of the room, else dm")
    who.add_argument("--session", metavar="ID", default="", help="go on with this session; else with the last one")
    who.add_argument("--new", action="store_true", help="begin a new session")
    how = parser.add_argument_group("how")
    how.add_argument("--model", metavar="NAME", default="", help="the model of the session, as provider:name")
    how.add_argument("--mode", choices=MODES, help="how much the model is told; else by the model")
    how.add_argument("--project", metavar="DIR", help="the folder of the project that is open")


def run(args: Namespace) -> int:
    """Talk until the person has enough, or answer one message."""
    if args.new and args.session:
        raise InputError("--new begins a session and --session names one; give one of them")
    try:
        from foreword.cli.chat.talking import talk
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "foreword":
            raise
        raise InputError(f"chat needs {error.name}, which is not installed: pip install '{NEEDED}'") from None
    return talk(args)


COMMAND = Command(
    name="chat",
    arguments="[MESSAGE]",
    summary="talk with an agent in the terminal",
    description="Talk with an agent: answers are drawn as they come, Ctrl-C stops one, and /help lists what can be "
    "asked about the conversation itself. The last session goes on unless a new one is begun. With a message, or with "
    "one on stdin, the answer is printed and the command ends: with 0 if it was answered, with 1 if not. With --json "
    "it is printed with its tokens and cost.",
    examples=(
        "foreword chat",
        'foreword chat "What is on this week?"',
        'git diff | foreword chat --new "Anything odd in this?"',
        "foreword chat --user bob --room kitchen",
        "foreword chat /cost",
    ),
    add_options=add_options,
    run=run,
)
