"""The tool that writes the task list of a session.

The responsibility tools: add and remove a responsibility by its exact title. The tool that replaces a person's
standing instructions. The tool that writes the workflow state of a session.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foreword.assembly import Assembly
from foreword.config.schema import Responsibility
from foreword.engine.context import AssemblyContext
from foreword.engine.sources.documents import normalise_lines
from foreword.engine.sources.injection import scan_injections
from foreword.engine.trust import has_other_readers
from foreword.errors import Forbidden, InputError, UnknownName, quote_name, suggest_name
from foreword.storage.agents import (
    MAX_CONTENT_CHARS,
    MAX_INSTRUCTIONS_CHARS,
    MAX_TITLE_CHARS,
    add_responsibility,
    list_responsibilities,
    remove_responsibility,
    replace_instructions,
)
from foreword.storage.database import is_whole, use_state
from foreword.storage.tasks import ACTIVE_STATUS, MAX_WORKFLOW_CHARS, replace_tasks, replace_workflow
from foreword.turn import STEP_STATUSES, Step, Task, Tool, ToolAnswer, Toolset
from foreword.types import Trust

TITLE_PARAMETER: Mapping[str, Any] = {"type": "string", "maxLength": MAX_TITLE_CHARS}


def make_responsibility_tool(name: str, description: str, **properties: Mapping[str, Any]) -> Tool:
    """Make a tool that changes the responsibilities of an agent."""
    return Tool(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
        trust=Trust.FULL,
        kind="responsibilities",
        shown_in=("responsibilities",),
        seconds=20,
        changes=True,
    )


RESPONSIBILITY_TOOLS = Toolset(
    [
        make_responsibility_tool(
            "responsibility_add",
            "Take on a lasting responsibility, which you are told in every conversation from the next message on.",
            title={**TITLE_PARAMETER, "description": "The name it is known by; no other responsibility has it."},
            content={"type": "string", "maxLength": MAX_CONTENT_CHARS, "description": "What it asks of you, whole."},
        ),
        make_responsibility_tool(
            "responsibility_remove",
            "Give up a responsibility that was added with responsibility_add.",
            title={**TITLE_PARAMETER, "description": "Its exact title, as your responsibilities show it."},
        ),
    ]
)


class ResponsibilityTools:
    """Runs the tools for one turn; they change the responsibilities of the turn's agent only."""

    def __init__(self, assembly: Assembly, ground: AssemblyContext, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder
        given = ground.config.agents[assembly.turn.agent].responsibilities
        self._given = {" ".join(one.title.split()).casefold() for one in given}

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Add or remove a responsibility."""
        if name not in self._assembly.terms.tools or name not in RESPONSIBILITY_TOOLS:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & RESPONSIBILITY_TOOLS.names)
        title = read_normalized_text(arguments, "title")
        said = self._remove(title) if name == "responsibility_remove" else self._add(title, arguments)
        return ToolAnswer(text=said, tokens=self._assembly.terms.meter.count(said), store="responsibilities", count=1)

    def _add(self, title: str, arguments: Mapping[str, Any]) -> str:
        content = read_normalized_text(arguments, "content")
        if title.casefold() in self._given:
            raise InputError(f"the configuration has a responsibility {title!r} already; choose another title")
        if scan_injections(f"{title}\n{content}"):
            raise Forbidden("its words read like an order to disregard others; say what is to be done instead")
        turn = self._assembly.turn
        with use_state(self._folder) as state, state:
            state.execute("BEGIN IMMEDIATE")  # concurrent calls must not add the same title twice
            add_responsibility(state, turn.agent, Responsibility(title=title, content=content), turn.user)
        return f"Taken on: {title}. It is in force from the next message on."

    def _remove(self, title: str) -> str:
        with use_state(self._folder) as state:
            if remove_responsibility(state, self._assembly.turn.agent, title):
                return f"Given up: {title}."
            held = [one.title for one in list_responsibilities(state, self._assembly.turn.agent)]
        if title.casefold() in self._given:
            raise Forbidden(f"{title!r} stands in the configuration; only the owner can remove it, in foreword.yaml")
        raise InputError(f"there is no responsibility with exactly this title{suggest_name(title, held)}")


def read_normalized_text(arguments: Mapping[str, Any], name: str) -> str:
    """Return a normalized text argument of a call."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text")
    return normalise_lines(value).strip()


INSTRUCTIONS_TRUST = Trust.FAMILIAR  # the lowest clearance with standing instructions
MAX_SHOWN_INSTRUCTIONS_CHARS = 2_000  # characters shown in a prompt
INSTRUCTIONS_STORE = "instructions"  # the store name in the event log

INSTRUCTIONS_TOOLS = Toolset(
    [
        Tool(
            name="update_instructions",
            description=(
                "Replace this person's standing instructions, which you are told in every conversation with them. "
                "Read the present ones with read_memory first and keep in the new text all that still holds; "
                "an empty text clears them."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "instructions": {
                        "type": "string",
                        "maxLength": MAX_INSTRUCTIONS_CHARS,
                        "description": "The whole new text; it replaces all that was there.",
                    }
                },
                "required": ["instructions"],
                "additionalProperties": False,
            },
            trust=INSTRUCTIONS_TRUST,
            kind="instructions",
            shown_in=("instructions",),
            seconds=20,
            changes=True,
        )
    ]
)


class InstructionsTools:
    """Runs the tool for one turn; it changes the current person's instructions for this agent only."""

    def __init__(self, assembly: Assembly, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Replace the instructions."""
        turn = self._assembly.turn
        if name not in self._assembly.terms.tools or name not in INSTRUCTIONS_TOOLS:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & INSTRUCTIONS_TOOLS.names)
        if has_other_readers(turn):
            raise Forbidden("standing instructions are changed in a private conversation, not where others read")
        if not turn.user:
            raise Forbidden("nobody is known to be speaking, so there is nobody to keep instructions for")
        text = arguments.get("instructions")
        if not isinstance(text, str):
            raise InputError("'instructions' is a text: the whole new instructions")
        if unknown := arguments.keys() - {"instructions"}:
            raise UnknownName("argument", min(map(str, unknown))[:40], ["instructions"])
        with use_state(self._folder) as state:
            kept = replace_instructions(state, turn.user, turn.agent, text, self._assembly.clearance.level)
        said = describe_instructions(kept)
        return ToolAnswer(text=said, tokens=self._assembly.terms.meter.count(said), store=INSTRUCTIONS_STORE, count=1)


def describe_instructions(kept: str) -> str:
    """Describe the stored instructions, and whether a prompt shows them whole."""
    if not kept:
        return "The standing instructions are cleared."
    long = (
        f" A prompt may show only {MAX_SHOWN_INSTRUCTIONS_CHARS:,} of them; read_memory shows all."
        if len(kept) > MAX_SHOWN_INSTRUCTIONS_CHARS
        else ""
    )
    return f"The standing instructions are replaced: {len(kept):,} characters, in force from the next message on.{long}"


MAX_TASKS = 50  # tasks of a session, and steps of a task
MAX_TASK_TITLE_CHARS, MAX_TASK_DESCRIPTION_CHARS = 200, 2_000  # characters
STATUS_PARAMETER = {"type": "string", "enum": list(STEP_STATUSES)}

TASK_TOOLS = Toolset(
    [
        Tool(
            name="task_write",
            description=(
                "Write the task list of this conversation anew, whole: tasks that are left out are gone. "
                "One task at a time is active; an empty list clears it."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "tasks": {
                        "type": "array",
                        "maxItems": MAX_TASKS,
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string", "description": "Its number; in their order if left out."},
                                "title": {"type": "string"},
                                "description": {"type": "string"},
                                "status": {**STATUS_PARAMETER, "description": "open if left out."},
                                "steps": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "properties": {"text": {"type": "string"}, "status": STATUS_PARAMETER},
                                        "required": ["text"],
                                    },
                                },
                            },
                            "required": ["title"],
                        },
                    }
                },
                "required": ["tasks"],
            },
            trust=Trust.INNER,
            kind="tasks",
            shown_in=("tasks", "task_title"),
            seconds=20,
        )
    ]
)


class TaskTools:
    """Runs the tool for one turn; it changes the tasks of the turn's session only."""

    def __init__(self, assembly: Assembly, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Write the task list."""
        if name not in self._assembly.terms.tools or name not in TASK_TOOLS:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & TASK_TOOLS.names)
        session = self._assembly.turn.session
        if not session:
            raise InputError("this turn belongs to no session, so there is nowhere to keep its tasks")
        tasks = parse_tasks(arguments.get("tasks"))
        with use_state(self._folder) as state:
            replace_tasks(state, session, tasks)
        said = describe_tasks(tasks)
        return ToolAnswer(text=said, tokens=self._assembly.terms.meter.count(said), count=len(tasks))


def parse_tasks(listed: object) -> tuple[Task, ...]:
    """Validate the tasks of a call; raise InputError for the first error."""
    given = check_list(listed, "'tasks'")
    tasks = tuple(parse_task(one, f"task {number}", str(number)) for number, one in enumerate(given, 1))
    ids = [task.id for task in tasks]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise InputError(f"two tasks have the id {quote_name(twice[0])}")
    if len([task for task in tasks if task.status == ACTIVE_STATUS]) > 1:
        raise InputError("more than one task is active; keep one under way at a time")
    return tasks


def parse_task(one: object, where: str, number: str) -> Task:
    """Validate one task of a call."""
    if not isinstance(one, Mapping):
        raise InputError(f"{where} is not an object with a title and a status")
    steps = check_list(one.get("steps", []), f"the steps of {where}")
    return Task(
        id=read_text_field(one, "id", where, MAX_TASK_TITLE_CHARS) or number,
        title=read_text_field(one, "title", where, MAX_TASK_TITLE_CHARS, needed=True),
        description=read_text_field(one, "description", where, MAX_TASK_DESCRIPTION_CHARS),
        status=read_status(one, where),
        steps=tuple(parse_step(step, f"step {at} of {where}") for at, step in enumerate(steps, 1)),
    )


def parse_step(one: object, where: str) -> Step:
    """Validate one step of a task."""
    if not isinstance(one, Mapping):
        raise InputError(f"{where} is not an object with a text and a status")
    return Step(
        text=read_text_field(one, "text", where, MAX_TASK_TITLE_CHARS, needed=True), status=read_status(one, where)
    )


def check_list(value: object, what: str) -> Sequence[object]:
    """Return a list; raise InputError if it is too long."""
    if not isinstance(value, list):
        raise InputError(f"{what} is not a list")
    if len(value) > MAX_TASKS:
        raise InputError(f"{what} has {len(value):,} entries, and {MAX_TASKS} are kept at most")
    return value


def read_text_field(one: Mapping[str, Any], name: str, where: str, longest: int, *, needed: bool = False) -> str:
    """Return a text field; raise InputError if it is missing, invalid or too long."""
    value = one.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"the {name} of {where} is no text")
    text = value.strip()
    if not is_whole(text):
        raise InputError(f"the {name} of {where} has signs that are no characters")
    if needed and not text:
        raise InputError(f"{where} has no {name}")
    if len(text) > longest:
        raise InputError(f"the {name} of {where} has {len(text):,} characters, and {longest:,} are kept at most")
    return text


def read_status(one: Mapping[str, Any], where: str) -> Any:
    """Return the status field; raise InputError if it is unknown."""
    status = one.get("status", "open")
    if status not in STEP_STATUSES:
        raise InputError(f"the status of {where} is one of {', '.join(STEP_STATUSES)}")
    return status


def describe_tasks(tasks: Sequence[Task]) -> str:
    """Summarize the task list."""
    if not tasks:
        return "The task list is empty."
    counts = [(status, len([task for task in tasks if task.status == status])) for status in STEP_STATUSES]
    return "The task list is written: " + ", ".join(f"{number} {status}" for status, number in counts if number) + "."


WORKFLOW_TOOLS = Toolset(
    [
        Tool(
            name="workflow_write",
            description=(
                "Write down where this conversation stands in a process of several stages, which you are told with "
                "every further message of it. The text replaces the one before; an empty text ends the workflow."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "text": {
                        "type": "string",
                        "maxLength": MAX_WORKFLOW_CHARS,
                        "description": "The process, the stage it is in, and what comes next, in a few lines.",
                    }
                },
                "required": ["text"],
                "additionalProperties": False,
            },
            trust=Trust.INNER,
            kind="workflow",
            shown_in=("workflow",),
            seconds=20,
        )
    ]
)


class WorkflowTools:
    """Runs the tool for one turn; it changes the workflow of the turn's session only."""

    def __init__(self, assembly: Assembly, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Write the workflow."""
        if name not in self._assembly.terms.tools or name not in WORKFLOW_TOOLS:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & WORKFLOW_TOOLS.names)
        session, text = self._assembly.turn.session, arguments.get("text")
        if not session:
            raise InputError("this turn belongs to no session, so there is nowhere to keep its workflow")
        if not isinstance(text, str):
            raise InputError("'text' is a text: where the workflow stands")
        with use_state(self._folder) as state:
            kept = replace_workflow(state, session, text)
        said = "The workflow is written." if kept else "No workflow is active any more."
        return ToolAnswer(text=said, tokens=self._assembly.terms.meter.count(said), count=1)
