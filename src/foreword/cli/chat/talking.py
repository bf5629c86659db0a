"""The ways to talk: line after line at a terminal, or one message and its answer."""

import asyncio
import os
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from datetime import datetime

from prompt_toolkit import PromptSession
from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from foreword.cli.chat.answer import Answer, Unheard, open_answer
from foreword.cli.chat.beforehand import warn_anew
from foreword.cli.chat.clean import clean, clean_line
from foreword.cli.chat.commands import COMMANDS
from foreword.cli.chat.greeting import describe_model, greet
from foreword.cli.chat.held import show_held
from foreword.cli.chat.keyboard import forget_typed, quiet_keys
from foreword.cli.chat.line import make_line
from foreword.cli.chat.slash import Typed, choose, read_typed
from foreword.cli.chat.steering import note_slots
from foreword.cli.chat.talk import Seat, Talk
from foreword.cli.chat.weights import fetch_weights
from foreword.cli.main import describe, is_utf8
from foreword.cli.output import complain, count, make_plain, print_json, warn, warn_of_names
from foreword.cli.place import find_environ, open_here
from foreword.cli.turns import find_cwd, find_project, warn_unlisted
from foreword.errors import ForewordError, InputError, UnknownName
from foreword.gateway.beside import beside
from foreword.gateway.channels.terminal import Terminal
from foreword.gateway.message import Exchange, Reply, State
from foreword.gateway.opening import Options, open_gateway
from foreword.runtime.choosing import choose_model
from foreword.sources.passage import Passage
from foreword.store.state import in_words
from foreword.words import Mode
from foreword.workspace import STATE, Workspace

FAILED = 1
INTERRUPTED = 130
LOOK = "/why shows what happened"
LOOK_ONCE = "foreword logs --level error shows what happened"
AGAIN = "Ctrl-C once more, or Ctrl-D, ends the chat"


def talk(args: Namespace) -> int:
    """Talk in the way that the arguments and the terminal ask for."""
    message = find_message(args)
    if args.json and message is None:
        raise InputError("--json prints one reply; give a message, as an argument or on stdin")
    if args.json and isinstance(message, Typed):
        raise InputError(f"--json prints one reply, and /{message.name} prints no reply")
    with open_here(args) as workspace:
        environ = find_environ(workspace)
        if not isinstance(message, Typed):
            have_model(args, workspace, environ)
        try:
            with in_words(workspace.state):
                return asyncio.run(converse(args, workspace, environ, message))
        except asyncio.CancelledError:
            return INTERRUPTED


def have_model(args: Namespace, workspace: Workspace, environ: Mapping[str, str]) -> None:
    """Have everything here that the model needs before anybody waits for its answer."""
    config = workspace.config
    agent = args.agent or next(iter(config.agents))
    if agent not in config.agents:
        raise UnknownName("agent", agent, config.agents)
    named = args.model or config.agents[agent].model
    fetch_weights(choose_model(named, config, environ).model, config, environ)


def find_message(args: Namespace) -> Typed | str | None:
    """Find the command or the message of the arguments and stdin; None for a conversation at a terminal.

    Only the arguments can be a command. Piped text is a message: its author may be anybody.
    """
    words = " ".join(args.words)
    typed = read_typed(words) if words else ""
    if isinstance(typed, Typed):
        return typed
    if sys.stdin is None or sys.stdin.isatty():
        return typed or None
    try:
        piped = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("what stdin has is not UTF-8") from None
    message = "\n\n".join(part for part in (typed, piped.strip("\n")) if part.strip())
    if not message:
        raise InputError('there is nothing to say: stdin is empty; write it as foreword chat "…"')
    return message


async def converse(
    args: Namespace, workspace: Workspace, environ: Mapping[str, str], message: Typed | str | None
) -> int:
    """Open the gateway and talk."""
    user = workspace.config.owner if args.user is None else args.user
    terminal = Terminal(
        user,
        agent=args.agent,
        room=args.room,
        situation=args.situation or "",
        project=find_project(args.project),
        cwd=find_cwd(),
        mode=Mode(args.mode) if args.mode else None,
        asks=bool(sys.stdin and sys.stdin.isatty()),  # what is piped in may have been written by anybody
    )
    warn_unlisted(args.room, workspace.config)
    console = Console(highlight=False, markup=False, emoji=False)
    unheard = Unheard() if args.json else None

    def screen() -> Answer:
        return unheard or open_answer(console)

    # An open chat fires what is due where no bot is configured: with one, foreword serve runs anyway and delivers.
    options = Options(scheduling=message is None and workspace.config.telegram is None)
    async with open_gateway(workspace, environ, options) as gateway:
        talk = Talk(gateway, terminal, environ, Seat(console=console, screen=screen, ask=ask_person))
        warn_of_names(map(clean_line, talk.found.clearance.warnings), workspace.config, user, args.situation or "")
        await choose_session(talk, args)
        if message is not None:
            return await answer_once(talk, message, unheard)
        await greet(talk)
        await talk.catch_up()
        await show_held(talk)
        note_slots(talk)
        warn_at_terminal(talk)
        with quiet_keys():
            return await answer_lines(talk)


async def choose_session(talk: Talk, args: Namespace) -> None:
    """Go on with the session that is meant, in which the model that is meant answers."""
    if args.session:
        await talk.resume(args.session)
    elif args.new:
        await talk.begin()
    else:
        await talk.go_on()
    if args.model:
        await talk.set_model(args.model)


async def answer_once(talk: Talk, message: Typed | str, unheard: Unheard | None) -> int:
    """Answer one message, or run one command; an answer that was not shown is printed as JSON."""
    if isinstance(message, str):
        await warn_first(talk)
    try:
        reply = await respond(talk, message)
    except EOFError:  # /quit, where nothing goes on anyway
        return 0
    if reply is None:
        return 0
    if unheard:
        print_json(write_reply(reply, unheard.passages))
    elif reply.state is State.FAILED:
        print(LOOK_ONCE, file=sys.stderr)
    if reply.state is State.STOPPED:
        return INTERRUPTED
    return 0 if reply.state is State.ANSWERED else FAILED


async def warn_first(talk: Talk) -> None:
    """Warn where another model answers than the one that is named, something is of no use, or messages come first."""
    if line := await describe_model(talk, "--model"):
        warn(line)
    warn_anew(talk)
    session = talk.session
    if session and (waiting := len(await talk.gateway.sessions.list_unfinished(session.id))):
        warn(f"{count(waiting, 'earlier message')} of this session {'is' if waiting == 1 else 'are'} answered first")


def warn_at_terminal(talk: Talk) -> None:
    """Warn about what became of no use since the last time; of files the owner hears by the bell, when they break."""
    warn_anew(talk, files=not talk.is_owner())


async def answer_lines(talk: Talk) -> int:
    """Answer line after line, until Ctrl-D, or Ctrl-C twice at an empty line."""
    folder = os.path.join(talk.gateway.workspace.files.root, STATE)
    # Each clearance has its own: what was typed in private is not offered where others look on.
    line = make_line(
        os.path.join(folder, f"typed-{talk.found.lane.clearance}"),
        {name: command.about for name, command in COMMANDS.items()},
    )
    warned = False
    while True:
        try:
            with patch_stdout(raw=True), talk.bell.free():
                async with beside(talk.watch()):
                    text = await line.prompt_async(handle_sigint=False)
            warned = False
            if text.strip():
                await answer_line(talk, text)
        except EOFError:
            return 0
        except KeyboardInterrupt:
            if warned and not line.default_buffer.text:
                return 0
            warned = not line.default_buffer.text
            if warned:
                talk.note(AGAIN)


async def answer_line(talk: Talk, text: str) -> None:
    """Answer one line; whatever goes wrong with it, the next one can be typed."""
    try:
        typed = read_typed(text)
        if isinstance(typed, str):
            warn_at_terminal(talk)
            await talk.catch_up()
        reply = await respond(talk, typed)
    except (ForewordError, OSError) as error:
        complain(clean(describe(error)))
    except sqlite3.Error as error:
        complain(f"the state of the workspace cannot be used: {error}")
    else:
        if reply and reply.state is State.QUEUED:
            talk.later.wait_for(Exchange(asked=text, reply=reply))
        elif reply and reply.state is State.FAILED:
            talk.note(LOOK)
    talk.console.print()


async def respond(talk: Talk, typed: Typed | str) -> Reply | None:
    """Run a command, or send a message to the agent; a command is never sent to it."""
    if not is_utf8(typed if isinstance(typed, str) else typed.rest):
        raise InputError("the message is not UTF-8")
    if isinstance(typed, str):
        return await talk.say(typed)
    said = await choose(typed, COMMANDS).run(talk, typed.rest)
    return await talk.say(said) if said else None


async def ask_person(question: str) -> bool:
    """Ask the person at the terminal; only a plain yes is one."""
    print(f"{question}", file=sys.stderr)
    forget_typed()
    output = create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr)
    line: PromptSession[str] = PromptSession(output=output)
    try:
        said = await line.prompt_async("May this be done? [y/N] ", handle_sigint=False)
    except EOFError:
        return False
    return said.strip().lower() in ("y", "yes")


def write_reply(reply: Reply, passages: Iterable[Passage]) -> object:
    """Write what came of a turn as JSON-ready values, with the passages that accompany it."""
    from foreword.events.moment import stamp

    plain: dict[str, object] = make_plain(reply)
    values = {name: stamp(value) if isinstance(value, datetime) else value for name, value in plain.items()}
    return values | {"passages": [one.to_dict() for one in passages]}
