"""The command `foreword chat` and its options."""

from argparse import ArgumentParser, Namespace

from foreword.cli.main import CliCommand
from foreword.cli.turn_options import add_mode_option, add_place_options
from foreword.errors import InputError


def add_chat_options(parser: ArgumentParser) -> None:
    """Add the message, the participants and the model."""
    parser.add_argument(
        "words", metavar="MESSAGE", nargs="*", default=[], help="send this message, print the answer and exit"
    )
    who = parser.add_argument_group("who and where")
    add_place_options(who)
    who.add_argument("--session", metavar="ID", default="", help="resume this session (default: the last one)")
    who.add_argument("--new", action="store_true", help="start a new session")
    how = parser.add_argument_group("how")
    how.add_argument("--model", metavar="NAME", default="", help="the model of the session, as provider:name")
    add_mode_option(how)
    how.add_argument("--project", metavar="DIR", help="the folder of the open project")


def run_chat(args: Namespace) -> int:
    """Start an interactive chat, or answer one message."""
    if args.new and args.session:
        raise InputError("give --new or --session, not both")
    from foreword.cli.chat.repl import start_chat

    return start_chat(args)


CHAT_COMMAND = CliCommand(
    name="chat",
    arguments="[MESSAGE]",
    summary="talk with an agent in the terminal",
    description="Talk with an agent. Answers appear as they arrive, Ctrl-C stops one, and /help lists the commands "
    "inside the chat. The last session is resumed unless --new is given. With a message as argument or on stdin, the "
    "answer is printed and the command exits: with 0 if there is an answer, otherwise with 1. With --json the reply is "
    "printed with its tokens and cost.",
    examples=(
        "foreword chat",
        'foreword chat "What is on this week?"',
        'git diff | foreword chat --new "Anything odd in this?"',
        "foreword chat --user bob --room kitchen",
        "foreword chat /cost",
    ),
    add_options=add_chat_options,
    run=run_chat,
)
