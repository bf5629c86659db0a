"""Tools that write the state of a session, a user or an agent: tasks, workflow, instructions and responsibilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from foreword.agent.tools.declaration import ToolRun, tool
from foreword.config.schema import Responsibility
from foreword.engine.sources.documents import normalise_lines
from foreword.engine.sources.injection import scan_injections
from foreword.engine.trust import has_other_readers
from foreword.errors import Forbidden, InputError, quote_name, suggest_name
from foreword.storage import agents, sessions
from foreword.storage.database import is_whole, use_state, writing
from foreword.turn import STEP_STATUSES, Step, Task, ToolAnswer, Toolset
from foreword.types import Trust

if TYPE_CHECKING:
    from pydantic import Field

INSTRUCTIONS_TRUST = Trust.FAMILIAR  # the lowest clearance with standing instructions
MAX_SHOWN_INSTRUCTIONS_CHARS = 2_000  # characters shown in a prompt
INSTRUCTIONS_STORE = "instructions"  # the store name in the event log
MAX_TASKS = 50  # tasks of a session, and steps of a task
MAX_TASK_TITLE_CHARS, MAX_TASK_DESCRIPTION_CHARS = 200, 2_000  # characters
TEXT = {"type": "string"}
STATUS = {"type": "string", "enum": list(STEP_STATUSES)}
STEP_SCHEMA = {"type": "object", "properties": {"text": TEXT, "status": STATUS}, "required": ["text"]}
TASK_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {**TEXT, "description": "Its number; in their order if left out."},
        "title": TEXT,
        "description": TEXT,
        "status": {**STATUS, "description": "open if left out."},
        "steps": {"type": "array", "items": STEP_SCHEMA},
    },
    "required": ["title"],
}


@tool(kind="responsibilities", trust=Trust.FULL, seconds=20, changes=True, shown_in=("responsibilities",))
def responsibility_add(
    run: ToolRun,
    title: Annotated[str, Field(max_length=agents.MAX_TITLE_CHARS)],
    content: Annotated[str, Field(max_length=agents.MAX_CONTENT_CHARS)],
) -> ToolAnswer:
    """Take on a lasting responsibility, which you are told in every conversation from the next message on.

    Args:
        title: The name it is known by; no other responsibility has it.
        content: What it asks of you, whole.
    """
    title, content = (normalise_lines(text).strip() for text in (title, content))
    if title.casefold() in list_configured_titles(run):
        raise InputError(f"the configuration has a responsibility {title!r} already; choose another title")
    if scan_injections(f"{title}\n{content}"):
        raise Forbidden("its words read like an order to disregard others; say what is to be done instead")
    with use_state(run.workspace.state) as state, state:
        state.execute("BEGIN IMMEDIATE")  # concurrent calls must not add the same title twice
        agents.add_responsibility(state, run.turn.agent, Responsibility(title=title, content=content), run.turn.user)
    return run.answer(f"Taken on: {title}. It is in force from the next message on.", "responsibilities", 1)


@tool(kind="responsibilities", trust=Trust.FULL, seconds=20, changes=True, shown_in=("responsibilities",))
def responsibility_remove(run: ToolRun, title: Annotated[str, Field(max_length=agents.MAX_TITLE_CHARS)]) -> ToolAnswer:
    """Give up a responsibility that was added with responsibility_add.

    Args:
        title: Its exact title, as your responsibilities show it.
    """
    title, agent = normalise_lines(title).strip(), run.turn.agent
    with use_state(run.workspace.state) as state:
        if agents.remove_responsibility(state, agent, title):
            return run.answer(f"Given up: {title}.", "responsibilities", 1)
        titles = [one.title for one in agents.list_responsibilities(state, agent)]
    if title.casefold() in list_configured_titles(run):
        raise Forbidden(f"{title!r} stands in the configuration; only the owner can remove it, in foreword.yaml")
    raise InputError(f"there is no responsibility with exactly this title{suggest_name(title, titles)}")


def list_configured_titles(run: ToolRun) -> set[str]:
    """List the titles of the responsibilities in the configuration, for comparison."""
    configured = run.workspace.context.config.agents[run.turn.agent].responsibilities
    return {" ".join(one.title.split()).casefold() for one in configured}


@tool(kind="instructions", trust=INSTRUCTIONS_TRUST, seconds=20, changes=True, shown_in=("instructions",))
def update_instructions(
    run: ToolRun, instructions: Annotated[str, Field(max_length=agents.MAX_INSTRUCTIONS_CHARS)]
) -> ToolAnswer:
    """Replace this person's standing instructions, which you are told in every conversation with them.

    Read the present ones with read_memory first and keep in the new text all that still holds; an empty text clears
    them.

    Args:
        instructions: The whole new text; it replaces all that was there.
    """
    turn = run.turn
    if has_other_readers(turn):
        raise Forbidden("standing instructions are changed in a private conversation, not where others read")
    if not turn.user:
        raise Forbidden("nobody is known to be speaking, so there is nobody to keep instructions for")
    with use_state(run.workspace.state) as state:
        stored = agents.replace_instructions(state, turn.user, turn.agent, instructions, run.level)
    return run.answer(describe_instructions(stored), INSTRUCTIONS_STORE, 1)


def describe_instructions(stored: str) -> str:
    """Describe the stored instructions, and whether a prompt shows them whole."""
    if not stored:
        return "The standing instructions are cleared."
    note = f" A prompt may show only {MAX_SHOWN_INSTRUCTIONS_CHARS:,} of them; read_memory shows all."
    return (
        f"The standing instructions are replaced: {len(stored):,} characters, in force from the next message on."
        f"{note if len(stored) > MAX_SHOWN_INSTRUCTIONS_CHARS else ''}"
    )


@tool(kind="tasks", trust=Trust.INNER, seconds=20, shown_in=("tasks", "task_title"))
def task_write(
    run: ToolRun,
    tasks: Annotated[list[Any], Field(max_length=MAX_TASKS, json_schema_extra={"items": TASK_SCHEMA})],
    **_: object,
) -> ToolAnswer:
    """Write the task list of this conversation anew, whole: tasks that are left out are gone.

    One task at a time is active; an empty list clears it.
    """
    if not run.turn.session:
        raise InputError("this turn belongs to no session, so there is nowhere to keep its tasks")
    parsed = parse_tasks(tasks)
    with use_state(run.workspace.state) as state, writing(state):
        sessions.replace_tasks(state, run.turn.session, parsed)
    return run.answer(describe_tasks(parsed), count=len(parsed))


@tool(kind="workflow", trust=Trust.INNER, seconds=20, shown_in=("workflow",))
def workflow_write(run: ToolRun, text: Annotated[str, Field(max_length=sessions.MAX_WORKFLOW_CHARS)]) -> ToolAnswer:
    """Write down where this conversation stands in a process of several stages, which you are told with every further
    message of it.

    The text replaces the one before; an empty text ends the workflow.

    Args:
        text: The process, the stage it is in, and what comes next, in a few lines.
    """  # noqa: D205 - the model gets the whole sentence
    if not run.turn.session:
        raise InputError("this turn belongs to no session, so there is nowhere to keep its workflow")
    with use_state(run.workspace.state) as state:
        stored = sessions.replace_workflow(state, run.turn.session, text)
    return run.answer("The workflow is written." if stored else "No workflow is active any more.", count=1)


STATE_TOOLS = Toolset([responsibility_add, responsibility_remove, update_instructions, task_write, workflow_write])


def parse_tasks(listed: object) -> tuple[Task, ...]:
    """Validate the tasks of a call; raise InputError for the first error."""
    given = check_list(listed, "'tasks'")
    parsed = tuple(parse_task(one, f"task {number}", str(number)) for number, one in enumerate(given, 1))
    ids = [task.id for task in parsed]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise InputError(f"two tasks have the id {quote_name(twice[0])}")
    if len([task for task in parsed if task.status == sessions.ACTIVE_STATUS]) > 1:
        raise InputError("more than one task is active; keep one under way at a time")
    return parsed


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


def describe_tasks(parsed: Sequence[Task]) -> str:
    """Summarize the task list."""
    if not parsed:
        return "The task list is empty."
    counts = [(status, len([task for task in parsed if task.status == status])) for status in STEP_STATUSES]
    return "The task list is written: " + ", ".join(f"{number} {status}" for status, number in counts if number) + "."
