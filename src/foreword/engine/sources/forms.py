"""Forms: texts with fields, in which parts with unknown values are left out, and the facts that fill the fields.

    Your name is {name}[ {emoji}].        a [group] is left out if one of its fields is empty
    You are {name|an assistant}.          a field may have a default
    Your vibe: {vibe}.                    a line is left out if one of its fields is empty

`[[` is a literal bracket.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any

from foreword.config.schema import Identity
from foreword.engine.context import SessionView, StaticView, TurnView, View
from foreword.engine.selection import PlannedSlot
from foreword.engine.sources.documents import join_lines, normalise_lines, read_builtin
from foreword.engine.sources.sections import Item, Missing, Section, source
from foreword.host import format_minute
from foreword.turn import Git, Host, Sandbox, Task, Toolset
from foreword.types import Pace, frozen

FORM_FIELD = re.compile(r"\{([a-z_0-9]+)(?:\|([^{}\n]*))?\}")
FORM_GROUP = re.compile(r"(\[\[|\[(?:[^\[\]]|\[\[)*\])")
FORM_NAME = re.compile(r"[a-z0-9_/-]+")
TEXT_FIELD = "text"  # the field for the slot's own text
HOLE = "\0"


@frozen
class FormField:
    """A field and its default value."""

    name: str
    default: str = ""


FormPart = str | FormField
FormLine = list[tuple[list[FormPart], bool]]
"""The parts of a line, each with whether it is an optional group."""


class Form:
    """A text with fields."""

    def __init__(self, text: str) -> None:
        self._lines = parse_lines(text.strip("\n"))
        parts = [part for line in self._lines for group, _ in line for part in group]
        fields = [part for part in parts if isinstance(part, FormField)]
        self.names = tuple(dict.fromkeys(field.name for field in fields))
        self.default = next((field.default for field in fields if field.name == TEXT_FIELD), "")

    def fill(self, values: Mapping[str, str]) -> str:
        """Fill the fields in; the result is empty if every line needs an unknown value."""
        lines: list[str] = []
        gone = False
        for line in self._lines:
            filled = fill_line(line, values)
            # Collapse the blank lines around a line that is left out.
            if filled is None or (gone and not filled and lines[-1:] in ([], [""])):
                gone = True
                continue
            lines.append(filled)
            gone = False
        return "\n".join(lines).strip("\n")


def fill_line(line: FormLine, values: Mapping[str, str]) -> str | None:
    """Fill one line in; return None if nothing of it remains."""
    filled = ""
    ended = False  # whether the last part is a value with a full stop, which is not repeated
    for parts, optional in line:
        texts = [part if isinstance(part, str) else values.get(part.name, "") or part.default for part in parts]
        if "" in texts:
            if optional:
                continue
            return None
        for part, text in zip(parts, texts, strict=True):
            literal = isinstance(part, str)
            filled += text[1:] if ended and literal and text.startswith(".") else text
            ended = not literal and text.endswith(".")
    return filled if filled or not line else None


def parse_lines(text: str) -> list[FormLine]:
    """Parse a form into lines of required parts and optional groups; a group may span several lines."""
    lines: list[FormLine] = [[]]
    for at, piece in enumerate(FORM_GROUP.split(text)):
        if at % 2 and piece != "[[":
            lines[-1].append((parse_fields(piece[1:-1].replace("[[", "[")), True))
            continue
        for number, words in enumerate(("[" if at % 2 else piece).split("\n")):
            if number:
                lines.append([])
            if words:
                lines[-1].append((parse_fields(words), False))
    return lines


def parse_fields(text: str) -> list[FormPart]:
    """Split a text at its fields."""
    parts: list[FormPart] = []
    at = 0
    for field in FORM_FIELD.finditer(text):
        parts += [text[at : field.start()], FormField(name=field[1], default=field[2] or "")]
        at = field.end()
    return [part for part in (*parts, text[at:]) if part != ""]


@cache
def read_form(form: str) -> Form:
    """Return the built-in form of this name, or parse the text as a form."""
    return Form((read_builtin(form) if FORM_NAME.fullmatch(form) else "") or form)


def fill_form(form: str, values: Sequence[str]) -> str:
    """Fill a form with the values of its fields, in order."""
    known = read_form(form)
    return known.fill(dict(zip(known.names, values, strict=True)))


def split_form(form: str, values: Sequence[str]) -> tuple[str, str]:
    """Fill a form around a text, and return the parts before and after the text."""
    known = read_form(form)
    filled = {name: value.replace(HOLE, "") for name, value in zip(known.names, values, strict=True)}
    before, _, after = known.fill({**filled, TEXT_FIELD: HOLE}).partition(HOLE)
    return before, after.replace(HOLE, "")


Fact = Callable[[Any], str]
CLOCK = ("weekday", "date", "day", "day_2", "month", "year", "time", "time_12", "timestamp", "zone")
CLOCK_NAMES = frozenset(CLOCK)
CUT_FIRST_FIELD = "task_description"  # the field whose line is cut first
TOOL_FIELD_PREFIX = "tool_"  # the prefix of a field that holds a tool's name if the turn has the tool
STEP_SIGNS = {"active": "→", "open": "○", "done": "✓"}
ABSENCE_REASONS = {
    "tools": "the turn has no tools",
    "identity": "the configuration has no text about who the agent is",
    "duties": "the configuration has no instructions for the agent",
    "role": "no `role` set",
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
    "formality": "the user's writing style is not known yet",
    "bulletin": "there is no bulletin for this clearance, or the conversation already holds it",
}


def describe_host_line(view: SessionView) -> str:
    """Write the facts of the host, the model and the user's device as key=value."""
    host, facts = view.host, view.static.meter.facts
    if host is None:
        return ""
    sudo = {"sudo_non_interactive": host.sudo_non_interactive}
    known = {field.name: getattr(host, field.name) for field in fields(Host) if field.name not in sudo}
    model = {"provider": facts.provider, "model": facts.name.rpartition(":")[2], "session": view.session}
    client = {"timezone": view.zone, "accept_language": view.client.language, "location": view.client.location}
    return join_facts({**known, **model, **sudo, **client})


def join_facts(facts: Mapping[str, object]) -> str:
    """Join the known facts as key=value, in order."""
    shown = {
        name: str(value).lower() if isinstance(value, bool) else join_lines(str(value))
        for name, value in facts.items()
        if value not in ("", None)
    }
    return " | ".join(f"{name}={value.replace('|', '/')}" for name, value in shown.items())


def clean_text(text: Identity | str | None) -> str:
    """Normalise the lines of a text; anything else than a text is empty."""
    return normalise_lines(text).strip() if isinstance(text, str) else ""


def get_agent_name(view: StaticView) -> str:
    """Return the name of the agent."""
    identity = view.settings.identity
    name = "" if identity is None or isinstance(identity, str) else identity.name
    return join_lines(name) or view.agent.capitalize()


def list_directories(view: SessionView) -> Sequence[str]:
    """List the agent's directories that this clearance may know."""
    given = [one.path for one in view.static.settings.folders if one.trust <= view.static.clearance]
    return [join_lines(path) for path in dict.fromkeys((*given, *view.directories))]


def find_directory(view: SessionView) -> str:
    """Return the agent's working directory: the project, or its first directory."""
    return join_lines(view.project) or next(iter(list_directories(view)), "")


def write_list(lines: Iterable[str]) -> str:
    """Write lines as a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)


def get_clock_field(name: str, view: TurnView) -> str:
    """Return one field of the date and time, in the user's or else the server's time zone."""
    return format_minute(int(view.now.timestamp()) // 60, view.session.zone or view.session.server_zone)[name]


def describe_git(git: Git | None) -> str:
    """Write the state of a repository in one line."""
    if git is None:
        return ""
    changed = f", {git.changed} changed file{'' if git.changed == 1 else 's'}" if git.changed else ", clean"
    commit = f", last commit {join_lines(git.commit)}" if git.commit else ""
    return f"branch {join_lines(git.branch)}{'' if git.changed is None else changed}{commit}"


def write_steps(task: Task | None) -> str:
    """Write the steps of a task, one numbered line each."""
    lines = [
        f"{number}. {STEP_SIGNS[step.status]} {join_lines(step.text)}{' (done)' if step.status == 'done' else ''}"
        for number, step in enumerate(task.steps if task else (), 1)
    ]
    return "\n".join(lines)


def get_task_field(name: str, view: TurnView) -> str:
    """Return one field of the task that the session is bound to."""
    return join_lines(getattr(view.task, name)) if view.task else ""


def get_style_field(name: str, view: TurnView) -> str:
    """Return one field of the user's writing style."""
    found = getattr(view.state.communication, name) if view.state.communication else ""
    return join_lines(found if isinstance(found, str) else ", ".join(found))


def choose_bulletin(view: TurnView) -> str:
    """Return the bulletin with the highest trust that this clearance may see; blank bulletins are skipped.

    A bulletin that the conversation already holds is not repeated.
    """
    fitting = [one for one in view.state.bulletins if one.trust <= view.static.clearance]
    shown = [(one.trust, text) for one in fitting if (text := clean_text(one.text))]
    newest = max(shown, key=lambda one: one[0])[1] if shown else ""
    return "" if newest and any(newest in said for said in view.said) else newest


def round_tokens(tokens: int) -> str:
    """Round a number of tokens for display."""
    return f"~{tokens // 1000}k" if tokens >= 1000 else f"~{max(tokens, 0)}"


STATIC_FACTS: Mapping[str, Fact] = {
    "agent": lambda view: view.agent,
    "name": get_agent_name,
    "model": lambda view: view.meter.facts.name.rpartition(":")[2],
    "full_model": lambda view: view.meter.facts.name or "not named",
    "provider": lambda view: view.meter.facts.provider,
    "tools": lambda view: ", ".join([tool.name for tool in view.tools.tools]),
    "shell": lambda view: find_shell_tool(view.tools),
    "beyond": lambda view: round_tokens(view.beyond),
    "identity": lambda view: clean_text(view.settings.identity),
    "duties": lambda view: clean_text(view.settings.instructions),
    "role": lambda view: clean_text(view.settings.role),
}
SESSION_FACTS: Mapping[str, Fact] = {
    "channel": lambda view: join_lines(view.channel),
    "session": lambda view: join_lines(view.session),
    "project": lambda view: join_lines(view.project),
    "directories": lambda view: write_list(list_directories(view)),
    "cwd": find_directory,
    "additional": lambda view: write_list([one for one in list_directories(view) if one != find_directory(view)]),
    "os": lambda view: join_lines(view.host.os) if view.host else "",
    "host": describe_host_line,
    "sandbox": lambda view: join_facts(
        {field.name: getattr(view.sandbox, field.name) for field in fields(Sandbox)} if view.sandbox else {}
    ),
}
TURN_FACTS: Mapping[str, Fact] = {
    **{name: partial(get_clock_field, name) for name in CLOCK},
    "working": lambda view: join_lines(view.session.project or view.cwd) or find_directory(view.session),
    "here": lambda view: "" if view.session.project else join_lines(view.cwd),
    "git": lambda view: describe_git(view.git),
    "remaining": lambda view: round_tokens(view.remaining),
    "task": partial(get_task_field, "id"),
    "task_title": partial(get_task_field, "title"),
    "task_description": partial(get_task_field, "description"),
    "task_status": partial(get_task_field, "status"),
    "steps": lambda view: write_steps(view.task),
    "tasks": lambda view: write_list(
        f"#{join_lines(task.id)} {join_lines(task.title)} ({join_lines(task.status)})" for task in view.state.tasks
    ),
    "workflow": lambda view: clean_text(view.state.workflow),
    "formality": partial(get_style_field, "formality"),
    "length": partial(get_style_field, "length"),
    "topics": partial(get_style_field, "topics"),
    "bulletin": choose_bulletin,
}


FACTS = (STATIC_FACTS, SESSION_FACTS, TURN_FACTS)
# The facts that a source of each pace may use, each with the pace of the view it is read from.
FACTS_BY_PACE: Mapping[Pace, Mapping[str, tuple[Pace, Fact]]] = {
    pace: {name: (its, fact) for its in Pace if its <= pace for name, fact in FACTS[its].items()} for pace in Pace
}


def get_field_values(names: Sequence[str], view: View) -> tuple[str, ...]:
    """Return the values of fields in a view; a field that this pace does not know is empty."""
    views: tuple[Any, ...] = (view,)
    if isinstance(view, TurnView):
        views = (view.static, view.session, view)
    elif isinstance(view, SessionView):
        views = (view.static, view)
    known, tools = FACTS_BY_PACE[Pace(len(views) - 1)], views[0].tools
    values = []
    for name in names:
        if fact := known.get(name):
            values.append(fact[1](views[fact[0]]))
        else:
            tool = name.removeprefix(TOOL_FIELD_PREFIX)
            values.append(tool if tool != name and tool in tools else "")
    return tuple(values)


def find_shell_tool(tools: Toolset) -> str:
    """Return the name of the tool that runs commands: one of kind `shell`, or one called `exec`."""
    return next((tool.name for tool in tools.tools if tool.kind == "shell" or tool.name == "exec"), "")


def fill_fact_form(view: View, entry: PlannedSlot) -> Item:
    """Fill the slot's form with the known facts."""
    form = read_form(entry.slot.form)
    values = dict(zip(form.names, get_field_values(form.names, view), strict=True))
    text = form.fill(values)
    if not text:
        reasons = [ABSENCE_REASONS[name] for name, value in values.items() if not value and name in ABSENCE_REASONS]
        return Missing(entry=entry, reason=reasons[0] if reasons else "nothing is known of it")
    note = ""
    if isinstance(view, TurnView) and not CLOCK_NAMES.isdisjoint(form.names):
        note = get_clock_field("note", view)
    # The line that is cut first, so that a bound task retains its status and steps.
    first = values.get(CUT_FIRST_FIELD)
    gives_way = text.count("\n", 0, text.index(first)) if first and first in text else None
    return Section(entry=entry, text=text, origin="facts", note=note, gives_way=gives_way)


source("about", Pace.STATIC, FACTS_BY_PACE[Pace.STATIC])(fill_fact_form)
source("moment", Pace.TURN, FACTS_BY_PACE[Pace.TURN])(fill_fact_form)
