"""Facts: what is known about the agent, the place and the moment, each under the name that forms use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from foreword.blueprint import Planned
from foreword.config.schema import Identity
from foreword.sources.clock import spell_minute
from foreword.sources.document import normalise, one_line
from foreword.sources.form import fill_form, read_form
from foreword.sources.registry import source
from foreword.sources.section import Item, absent, tell
from foreword.sources.texts import find_document
from foreword.sources.view import SessionView, StaticView, TurnView, View
from foreword.turn import Git, Host, Sandbox, Task, Toolset
from foreword.words import Pace

Fact = Callable[[Any], str]
CLOCK = ("weekday", "date", "day", "day_2", "month", "year", "time", "time_12", "timestamp", "zone")
CLOCK_NAMES = frozenset(CLOCK)
GIVES_WAY = "task_description"  # the field whose line is cut first
TOOL = "tool_"  # what the name of a field begins with that is a tool's name where the turn has the tool
SIGNS = {"active": "→", "open": "○", "done": "✓"}
REASONS = {
    "tools": "the turn has no tools",
    "identity": "the configuration has no text about who the agent is",
    "duties": "the configuration has no instructions for the agent",
    "role": "the agent has no role of the old kind",
    "channel": "no channel is known",
    "project": "no project is open",
    "directories": "the agent was given no directories",
    "cwd": "the agent was given no directories",
    "host": "no facts about the host were given",
    "working": "no working directory is known",
    "here": "no working directory is known",
    "git": "no repository is known",
    "workflow": "no workflow is active",
    "tasks": "there are no tasks",
    "task": "no task is bound",
    "formality": "nothing is known of how the person writes",
    "bulletin": "there is no bulletin for this clearance, or it still stands in the conversation",
}


def tell_host(view: SessionView) -> str:
    """Tell the facts of the machine, the model and the person's device as key=value."""
    host, facts = view.host, view.static.meter.facts
    if host is None:
        return ""
    sudo = {"sudo_non_interactive": host.sudo_non_interactive}
    known = {field.name: getattr(host, field.name) for field in fields(Host) if field.name not in sudo}
    model = {"provider": facts.provider, "model": facts.name.rpartition(":")[2], "session": view.session}
    client = {"timezone": view.zone, "accept_language": view.client.language, "location": view.client.location}
    return join_facts({**known, **model, **sudo, **client})


def tell_sandbox(sandbox: Sandbox | None) -> str:
    """Tell how commands are confined as key=value."""
    return join_facts({field.name: getattr(sandbox, field.name) for field in fields(Sandbox)}) if sandbox else ""


def join_facts(facts: Mapping[str, object]) -> str:
    """Join the facts that are known as key=value, in their order."""
    shown = {
        name: str(value).lower() if isinstance(value, bool) else one_line(str(value))
        for name, value in facts.items()
        if value not in ("", None)
    }
    return " | ".join(f"{name}={value.replace('|', '/')}" for name, value in shown.items())


def tell_name(view: StaticView) -> str:
    """Tell the name that an agent answers to."""
    identity = view.settings.identity
    name = "" if identity is None or isinstance(identity, str) else identity.name
    return one_line(name) or view.agent.capitalize()


def tell_identity(identity: Identity | str | None) -> str:
    """Tell who an agent is, where the configuration says it in a text."""
    return normalise(identity).strip() if isinstance(identity, str) else ""


def list_directories(view: SessionView) -> Sequence[str]:
    """List the directories that the agent was given and this clearance may know of."""
    given = [one.path for one in view.static.settings.folders if one.trust <= view.static.clearance]
    return [one_line(path) for path in dict.fromkeys((*given, *view.directories))]


def find_directory(view: SessionView) -> str:
    """Find the directory that the agent works in: the project, or the first one that it was given."""
    return one_line(view.project) or next(iter(list_directories(view)), "")


def find_working(view: TurnView) -> str:
    """Find the directory that a turn works in: the project, where the person is, or the first one that was given."""
    return one_line(view.session.project or view.cwd) or find_directory(view.session)


def make_list(lines: Sequence[str]) -> str:
    """Write lines as a list."""
    return "\n".join(f"- {line}" for line in lines)


def tell_clock(name: str, view: TurnView) -> str:
    """Tell one fact of the moment, in the zone of whoever is asking."""
    return spell_minute(int(view.now.timestamp()) // 60, view.session.zone or view.session.server_zone)[name]


def tell_git(git: Git | None) -> str:
    """Tell the state of a repository in one line."""
    if git is None:
        return ""
    changed = f", {git.changed} changed file{'' if git.changed == 1 else 's'}" if git.changed else ", clean"
    commit = f", last commit {one_line(git.commit)}" if git.commit else ""
    return f"branch {one_line(git.branch)}{'' if git.changed is None else changed}{commit}"


def tell_steps(task: Task | None) -> str:
    """Tell the steps of a task, one numbered line each."""
    lines = [
        f"{number}. {SIGNS[step.status]} {one_line(step.text)}{' (done)' if step.status == 'done' else ''}"
        for number, step in enumerate(task.steps if task else (), 1)
    ]
    return "\n".join(lines)


def tell_task(name: str, view: TurnView) -> str:
    """Tell one fact of the task that the session is bound to."""
    return one_line(getattr(view.task, name)) if view.task else ""


def tell_tasks(view: TurnView) -> str:
    """Tell the active tasks and their statuses, one line each."""
    return make_list([f"#{one_line(t.id)} {one_line(t.title)} ({one_line(t.status)})" for t in view.state.tasks])


def tell_manner(name: str, view: TurnView) -> str:
    """Tell one fact of how the speaking person writes."""
    found = getattr(view.state.communication, name) if view.state.communication else ""
    return one_line(found if isinstance(found, str) else ", ".join(found))


def tell_bulletin(view: TurnView) -> str:
    """Tell the bulletin that was made at the highest clearance which is not above this one; a blank one is none.

    One that still stands in the conversation is not told again.
    """
    fitting = [one for one in view.state.bulletins if one.trust <= view.static.clearance]
    told = [(one.trust, text) for one in fitting if (text := normalise(one.text).strip())]
    newest = max(told, key=lambda one: one[0])[1] if told else ""
    return "" if newest and any(newest in said for said in view.said) else newest


def round_tokens(tokens: int) -> str:
    """Round a number of tokens to what a reader needs of it."""
    return f"~{tokens // 1000}k" if tokens >= 1000 else f"~{max(tokens, 0)}"


ABOUT: Mapping[str, Fact] = {
    "agent": lambda view: view.agent,
    "name": tell_name,
    "model": lambda view: view.meter.facts.name.rpartition(":")[2],
    "full_model": lambda view: view.meter.facts.name or "not named",
    "provider": lambda view: view.meter.facts.provider,
    "tools": lambda view: ", ".join([tool.name for tool in view.tools.tools]),
    "shell": lambda view: find_shell(view.tools),
    "beyond": lambda view: round_tokens(view.beyond),
    "identity": lambda view: tell_identity(view.settings.identity),
    "duties": lambda view: normalise(view.settings.instructions).strip(),
    "role": lambda view: normalise(view.settings.role).strip(),
}
PLACE: Mapping[str, Fact] = {
    "channel": lambda view: one_line(view.channel),
    "session": lambda view: one_line(view.session),
    "project": lambda view: one_line(view.project),
    "directories": lambda view: make_list(list_directories(view)),
    "cwd": find_directory,
    "additional": lambda view: make_list([one for one in list_directories(view) if one != find_directory(view)]),
    "os": lambda view: one_line(view.host.os) if view.host else "",
    "host": tell_host,
    "sandbox": lambda view: tell_sandbox(view.sandbox),
}
MOMENT: Mapping[str, Fact] = {
    **{name: partial(tell_clock, name) for name in CLOCK},
    "working": find_working,
    "here": lambda view: "" if view.session.project else one_line(view.cwd),
    "git": lambda view: tell_git(view.git),
    "remaining": lambda view: round_tokens(view.remaining),
    "task": partial(tell_task, "id"),
    "task_title": partial(tell_task, "title"),
    "task_description": partial(tell_task, "description"),
    "task_status": partial(tell_task, "status"),
    "steps": lambda view: tell_steps(view.task),
    "tasks": tell_tasks,
    "workflow": lambda view: normalise(view.state.workflow).strip(),
    "formality": partial(tell_manner, "formality"),
    "length": partial(tell_manner, "length"),
    "topics": partial(tell_manner, "topics"),
    "bulletin": tell_bulletin,
}


def known_at(pace: Pace) -> Mapping[str, tuple[Pace, Fact]]:
    """Return the facts that a source of this pace may tell, each with the pace of the view it is told from."""
    paces = ((Pace.STATIC, ABOUT), (Pace.SESSION, PLACE), (Pace.TURN, MOMENT))
    return {name: (its, fact) for its, facts in paces if its <= pace for name, fact in facts.items()}


KNOWN: Mapping[Pace, Mapping[str, tuple[Pace, Fact]]] = {pace: known_at(pace) for pace in Pace}


def find_values(names: Sequence[str], view: View) -> tuple[str, ...]:
    """Find the values of fields in a view; a field that this pace does not know is empty."""
    views: dict[Pace, Any]
    if isinstance(view, TurnView):
        views = {Pace.STATIC: view.static, Pace.SESSION: view.session, Pace.TURN: view}
    elif isinstance(view, SessionView):
        views = {Pace.STATIC: view.static, Pace.SESSION: view}
    else:
        views = {Pace.STATIC: view}
    known, tools = KNOWN[max(views)], views[Pace.STATIC].tools
    return tuple([fact[1](views[fact[0]]) if (fact := known.get(name)) else tell_tool(name, tools) for name in names])


def tell_tool(name: str, tools: Toolset) -> str:
    """Tell the name of the tool that a field asks for, or nothing where the turn does not have it."""
    tool = name.removeprefix(TOOL)
    return tool if tool != name and tool in tools else ""


def find_shell(tools: Toolset) -> str:
    """Find the name of the tool that runs commands: one of the kind `shell`, or one that is called `exec`."""
    return next((tool.name for tool in tools.tools if tool.kind == "shell" or tool.name == "exec"), "")


def tell_form(view: View, entry: Planned) -> Item:
    """Fill the slot's form with what is known."""
    form = read_form(entry.slot.form)
    values = find_values(form.names, view)
    text = fill_form(entry.slot.form, values)
    if not text:
        empty = [name for name, value in zip(form.names, values, strict=True) if not value]
        return absent(entry, next((REASONS[name] for name in empty if name in REASONS), "nothing is known of it"))
    note = tell_clock("note", view) if isinstance(view, TurnView) and not CLOCK_NAMES.isdisjoint(form.names) else ""
    return tell(entry, text, "facts", note, find_giving(text, dict(zip(form.names, values, strict=True))))


def find_giving(text: str, values: Mapping[str, str]) -> int | None:
    """Find the line of a filled form that is cut first; a bound task keeps its status and steps."""
    giving = values.get(GIVES_WAY)
    return text.count("\n", 0, text.index(giving)) if giving and giving in text else None


source("about", Pace.STATIC, KNOWN[Pace.STATIC])(tell_form)


@source("place", Pace.SESSION, KNOWN[Pace.SESSION])
def tell_place(view: SessionView, entry: Planned) -> Item:
    """Fill the slot's form; the zone and the location may stand in the speaking person's own file."""
    document = find_document(view.static, entry, fields=True).document if entry.paths else None
    if document:
        client = replace(view.client, location=view.client.location or document.field("location"))
        view = replace(view, zone=view.zone or document.field("timezone"), client=client)
    return tell_form(view, entry)


source("moment", Pace.TURN, KNOWN[Pace.TURN])(tell_form)
