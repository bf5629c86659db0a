"""The chat loop: an interactive conversation with an input line, or one message and its answer."""

import asyncio
import os
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import StringIO

from prompt_toolkit import PromptSession, key_binding
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from foreword.agent.providers.model_discovery import choose_model
from foreword.assembly import list_file_hints, list_unusable_files
from foreword.cli import inputs, main, output
from foreword.cli.chat import renderer, slash_commands
from foreword.cli.chat.chat_session import ChatSession, describe_embedded_model, fetch_weights, print_greeting
from foreword.cli.chat.slash_commands import SLASH_COMMANDS, TypedCommand
from foreword.cli.output import print_error, warn
from foreword.config.env import Secrets
from foreword.errors import ForewordError, InputError, UnknownName
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.gateway.channels.pull_channel import TERMINAL_CHANNEL
from foreword.gateway.gateway_context import background_task
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.lint.doctor import check_provider
from foreword.storage.database import explain_sqlite_errors
from foreword.storage.turns import Exchange, TurnReply, TurnState
from foreword.types import Mode
from foreword.workspace import STATE_FOLDER, Workspace

try:
    import termios
except ImportError:  # not on Windows
    termios = None  # type: ignore[assignment]

EXIT_FAILED = 1
LOCAL_MODES_INDEX = 3  # index of the local modes in the terminal attributes
WHY_HINT = "/why shows what happened"
LOGS_HINT = "foreword logs --level error shows what happened"
QUIT_HINT = "press Ctrl-C again or Ctrl-D to end the chat"


def warn_about_new_problems(chat: ChatSession, *, files: bool = True) -> None:
    """Warn about new problems only, so that each is reported once."""
    found = dict.fromkeys(list_problems(chat, files=files))
    for problem in found:
        if problem not in chat.reported:
            warn(output.clean_line(problem))
    chat.reported = frozenset(found)


def list_problems(chat: ChatSession, *, files: bool) -> Iterator[str]:
    """Yield the problems of the model and, if requested, of the files that the turn may see."""
    config, model = chat.gateway.workspace.config, chat.choose_model().model
    checks = [*check_provider("model", model, config, Secrets(environ=chat.environ, dotenv={}))]
    for check in checks:
        if check.level != "ok":
            yield f"{model} cannot answer: {check.message} ({check.remedy})"
    reached = all(check.level != "error" for check in checks)
    with suppress(ForewordError):  # the turn itself reports problems of the whole prompt
        assembly = chat.assemble_bare()
        if reached and (assumed := assembly.meter.facts.assumed):
            yield assumed
        yield from list_unusable_files(assembly) if files else ()
        yield from list_file_hints(assembly) if files else ()


@contextmanager
def suppress_echo() -> Iterator[None]:
    """Suppress the echo of typed characters outside prompts; Ctrl-C still interrupts."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = termios.tcgetattr(sys.stdin)
    quiet[LOCAL_MODES_INDEX] &= ~(termios.ECHO | termios.ICANON)  # with ICANON, a Ctrl-D typed ahead would be lost
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


class InputHistory(FileHistory):
    """The input history, in a file readable only by its owner; write errors are ignored."""

    def store_string(self, string: str) -> None:
        """Append a line."""
        with suppress(OSError):
            super().store_string(string)


def open_history(path: str) -> History:
    """Open the history file, or an in-memory history if it cannot be written."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        # Do not follow a link: it could expose or fill a file elsewhere.
        opened = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(opened, 0o600)
        os.close(opened)
    except OSError:
        return InMemoryHistory()
    return InputHistory(path)


def make_key_bindings() -> key_binding.KeyBindings:
    """Make the key bindings: Enter sends, Alt-Enter adds a line."""
    bindings = key_binding.KeyBindings()

    @bindings.add("enter", filter=~completion_is_selected)
    def send(event: key_binding.KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("enter", filter=completion_is_selected)
    def take(event: key_binding.KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @bindings.add("escape", "enter")
    def break_line(event: key_binding.KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return bindings


def make_terminal_output() -> Output:
    """Draw on stderr if stdout is not a terminal."""
    return create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr)


def make_prompt_session(path: str) -> PromptSession[str]:
    """Make the prompt, with a history file; it completes the names of commands, while they are the only text."""
    abouts: dict[str, AnyFormattedText] = {f"/{name}": command.about for name, command in SLASH_COMMANDS.items()}
    return PromptSession(
        message="> ",
        multiline=True,
        prompt_continuation="  ",
        history=open_history(path),
        completer=WordCompleter([*abouts], ignore_case=True, sentence=True, meta_dict=abouts),
        complete_while_typing=True,
        reserve_space_for_menu=5,
        key_bindings=make_key_bindings(),
        output=make_terminal_output(),
    )


def start_chat(args: Namespace) -> int:
    """Run an interactive chat, or answer one message, as the arguments and stdin say."""
    message = read_message(args)
    if args.json and message is None:
        raise InputError("--json needs a message, as an argument or on stdin")
    if args.json and isinstance(message, TypedCommand):
        raise InputError(f"--json does not work with /{message.name}, which has no reply")
    with inputs.open_named_workspace(args) as workspace:
        environ = inputs.load_environ(workspace)
        if not isinstance(message, TypedCommand):  # fetch the files of the model before anyone waits for its answer
            config = workspace.config
            agent = args.agent or next(iter(config.agents))
            if agent not in config.agents:
                raise UnknownName("agent", agent, config.agents)
            named = args.model or config.agents[agent].model
            fetch_weights(choose_model(named, config, environ).model, config, environ)
        try:
            with explain_sqlite_errors(workspace.state):
                return asyncio.run(open_chat(args, workspace, environ, message))
        except asyncio.CancelledError:
            return main.EXIT_INTERRUPTED


def read_message(args: Namespace) -> TypedCommand | str | None:
    """Return the command or message from the arguments and stdin; None for an interactive chat.

    Only the arguments can be a command. Piped text is always a message, because anyone may have written it.
    """
    words = " ".join(args.words)
    typed = slash_commands.parse_input(words) if words else ""
    if isinstance(typed, TypedCommand):
        return typed
    if sys.stdin is None or sys.stdin.isatty():
        return typed or None
    try:
        piped = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("stdin is not UTF-8") from None
    message = "\n\n".join(part for part in (typed, piped.strip("\n")) if part.strip())
    if not message:
        raise InputError('no message: stdin is empty; write foreword chat "…"')
    return message


async def open_chat(
    args: Namespace, workspace: Workspace, environ: Mapping[str, str], message: TypedCommand | str | None
) -> int:
    """Open the gateway and run the chat."""
    user = workspace.config.owner if args.user is None else args.user
    terminal = InboundMessage(
        channel=TERMINAL_CHANNEL,
        sender=user,
        text="",
        chat=ChatKind.GROUP if args.room else ChatKind.PRIVATE,
        place=args.room,
        agent=args.agent,
        situation=args.situation or "",
        project=inputs.find_project(args.project),
        cwd=inputs.get_working_directory(),
        mode=Mode(args.mode) if args.mode else None,
        asks=bool(sys.stdin and sys.stdin.isatty()),  # anyone may have written piped text
    )
    inputs.warn_unlisted(args.room, workspace.config)
    console = Console(highlight=False, markup=False, emoji=False)
    silent = renderer.TextRenderer(StringIO(), StringIO()) if args.json else None

    def choose_renderer() -> renderer.TextRenderer:
        if silent or (console.is_terminal and not console.is_dumb_terminal):
            return silent or renderer.TerminalMarkdown(console)
        return renderer.TextRenderer(sys.stdout, sys.stderr)

    # Without a Telegram bot, an open chat runs due schedules. With one, foreword serve runs and delivers them.
    options = GatewayOptions(scheduling=message is None and workspace.config.telegram is None)
    async with open_gateway(workspace, environ, options) as gateway:
        chat = ChatSession(gateway, terminal, environ, console=console, make_renderer=choose_renderer, ask=ask_approval)
        output.warn_about_names(
            map(output.clean_line, chat.found.clearance.warnings), workspace.config, user, args.situation or ""
        )
        if args.session:
            await chat.resume(args.session)
        else:
            await (chat.begin() if args.new else chat.resume_last())
        if args.model:
            await chat.set_model(args.model)
        if message is not None:
            return await answer_once(chat, message, silent)
        await print_greeting(chat)
        await chat.catch_up()
        await slash_commands.print_held_calls(chat, if_none="")
        slash_commands.update_slot_hashes(chat)
        warn_about_new_problems(chat, files=not chat.is_owner())  # the owner gets those of files as notifications
        with suppress_echo():
            return await answer_lines(chat)


async def answer_once(chat: ChatSession, message: TypedCommand | str, silent: renderer.TextRenderer | None) -> int:
    """Answer one message, or run one command; print the reply as JSON if it was not shown."""
    if isinstance(message, str):
        await warn_before_message(chat)
    try:
        reply = await handle_input(chat, message)
    except EOFError:  # /quit
        return 0
    if reply is None:
        return 0
    if silent:
        passages = [one.to_dict() for one in silent.passages]
        output.print_json(output.to_plain(reply) | {"passages": passages})
    elif reply.state is TurnState.FAILED:
        print(LOGS_HINT, file=sys.stderr)
    if reply.state is TurnState.STOPPED:
        return main.EXIT_INTERRUPTED
    return 0 if reply.state is TurnState.ANSWERED else EXIT_FAILED


async def warn_before_message(chat: ChatSession) -> None:
    """Warn about a replacement model, problems, and messages that are answered first."""
    if line := await describe_embedded_model(chat, "--model"):
        warn(line)
    warn_about_new_problems(chat)
    session = chat.session
    if session and (waiting := len(await chat.gateway.sessions.list_unfinished(session.id))):
        earlier = output.count(waiting, "earlier message")
        warn(f"{earlier} in this session {'is' if waiting == 1 else 'are'} answered first")


async def answer_lines(chat: ChatSession) -> int:
    """Read and answer lines until Ctrl-D, or Ctrl-C twice on an empty line."""
    folder = os.path.join(chat.gateway.workspace.files.root, STATE_FOLDER)
    # One history per clearance: lines typed in private are not offered where others look on.
    line = make_prompt_session(os.path.join(folder, f"typed-{chat.found.key.clearance}"))
    warned = False
    while True:
        try:
            with patch_stdout(raw=True), chat.notifications.free():
                async with background_task(chat.watch()):
                    text = await line.prompt_async(handle_sigint=False)
            warned = False
            if text.strip():
                await answer_line(chat, text)
        except EOFError:
            return 0
        except KeyboardInterrupt:
            if warned and not line.default_buffer.text:
                return 0
            warned = not line.default_buffer.text
            if warned:
                chat.note(QUIT_HINT)


async def answer_line(chat: ChatSession, text: str) -> None:
    """Answer one line; errors are printed and do not end the chat."""
    try:
        typed = slash_commands.parse_input(text)
        if isinstance(typed, str):
            warn_about_new_problems(chat, files=not chat.is_owner())  # the owner gets those of files as notifications
            await chat.catch_up()
        reply = await handle_input(chat, typed)
    except (ForewordError, OSError) as error:
        print_error(output.clean_text(main.describe_error(error)))
    except sqlite3.Error as error:
        print_error(f"the state database of the workspace cannot be used: {error}")
    else:
        if reply and reply.state is TurnState.QUEUED:
            chat.late_answers.wait_for(Exchange(asked=text, reply=reply))
        elif reply and reply.state is TurnState.FAILED:
            chat.note(WHY_HINT)
    chat.console.print()


async def handle_input(chat: ChatSession, typed: TypedCommand | str) -> TurnReply | None:
    """Run a command, or send a message to the agent; commands are never sent to the agent."""
    if not main.is_utf8(typed if isinstance(typed, str) else typed.rest):
        raise InputError("the message is not UTF-8")
    if isinstance(typed, str):
        return await chat.say(typed)
    message = await slash_commands.find_slash_command(typed).run(chat, typed.rest)
    return await chat.say(message) if message else None


async def ask_approval(question: str) -> bool:
    """Ask the person at the terminal for approval; only y or yes allows."""
    print(f"{question}", file=sys.stderr)
    if termios is not None and sys.stdin.isatty():  # typed-ahead input cannot answer a question not shown yet
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    line: PromptSession[str] = PromptSession(output=make_terminal_output())
    try:
        answer = await line.prompt_async("Allow this? [y/N] ", handle_sigint=False)
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
