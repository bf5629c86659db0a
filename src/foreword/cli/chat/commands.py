"""The commands inside the chat, as a table: help and completion come from it."""

from collections.abc import Mapping

from foreword.cli.chat.held import allow, deny
from foreword.cli.chat.looking import show_context, show_cost, show_memory, show_tasks, show_why
from foreword.cli.chat.slash import Slash
from foreword.cli.chat.steering import begin_anew, choose_model, drop, leave, plan, reload, resume, show_sessions
from foreword.cli.chat.talk import Talk


async def show_help(_: Talk, __: str) -> str:
    """List the commands."""
    width = max(len(f"/{one.name} {one.arguments}".rstrip()) for one in COMMANDS.values())
    for one in COMMANDS.values():
        print(f"{f'/{one.name} {one.arguments}'.rstrip():{width}}  {one.about}")
    print("\nEnter sends, Alt-Enter begins a new line, Ctrl-C stops an answer, Ctrl-D ends the chat.")
    return ""


COMMANDS: Mapping[str, Slash] = {
    one.name: one
    for one in (
        Slash(
            name="context",
            arguments="[last]",
            about="what the agent would be told next, or was told last",
            run=show_context,
        ),
        Slash(
            name="why", arguments="[SLOT]", about="why a slot is as it is, or what the newest turn did", run=show_why
        ),
        Slash(name="cost", about="what this session and today cost", run=show_cost),
        Slash(
            name="memory",
            arguments="[WORDS]",
            about="what is remembered, or what is remembered about something",
            run=show_memory,
        ),
        Slash(name="tasks", about="the tasks of this session", run=show_tasks),
        Slash(
            name="plan",
            arguments="[on|off|accept]",
            about="whether plan mode is on, and the stored plan; on and off switch, accept runs the plan",
            run=plan,
        ),
        Slash(name="allow", arguments="[ID]", about="list the calls that await approval; run the one named", run=allow),
        Slash(name="deny", arguments="[ID]", about="list the calls that await approval; drop the one named", run=deny),
        Slash(
            name="model",
            arguments="[NAME]",
            about="show or change this session's model; changing it retries queued messages",
            run=choose_model,
        ),
        Slash(name="drop", arguments="[NUMBER|all]", about="give up a message that waits for its answer", run=drop),
        Slash(name="new", about="begin a new session", run=begin_anew),
        Slash(name="sessions", about="the sessions that could go on here", run=show_sessions),
        Slash(name="resume", arguments="ID", about="go on with an earlier session", run=resume),
        Slash(name="reload", about="read the files of the workspace now", run=reload),
        Slash(name="help", about="this list", run=show_help),
        Slash(name="quit", about="end the chat", run=leave),
    )
}
