"""The tool by which an agent keeps the list of what a session has set out to do."""

from collections.abc import Mapping, Sequence
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import InputError, UnknownName, show_name
from foreword.store.instructions import is_whole
from foreword.store.state import use_state
from foreword.store.tasks import ACTIVE, replace_tasks
from foreword.tools.answer import Answer
from foreword.turn import STATUSES, Step, Task, Tool, Toolset
from foreword.words import Trust

MANY = 50  # tasks of a session, and steps of a task
TITLE, DESCRIPTION = 200, 2_000  # characters
STATUS = {"type": "string", "enum": list(STATUSES)}

TASKS = Toolset(
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
                        "maxItems": MANY,
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string", "description": "Its number; in their order if left out."},
                                "title": {"type": "string"},
                                "description": {"type": "string"},
                                "status": {**STATUS, "description": "open if left out."},
                                "steps": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "properties": {"text": {"type": "string"}, "status": STATUS},
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


class TaskKeeping:
    """Runs the tool for one turn: it reaches the tasks of the turn's own session, and no others."""

    def __init__(self, assembly: Assembly, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Write the task list."""
        if name not in self._assembly.terms.tools or name not in TASKS:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & TASKS.names)
        session = self._assembly.turn.session
        if not session:
            raise InputError("this turn belongs to no session, so there is nowhere to keep its tasks")
        tasks = make_tasks(arguments.get("tasks"))
        with use_state(self._folder) as state:
            replace_tasks(state, session, tasks)
        said = describe(tasks)
        return Answer(text=said, tokens=self._assembly.terms.meter.count(said), count=len(tasks))


def make_tasks(listed: object) -> tuple[Task, ...]:
    """Make the tasks that a call lists; the first thing that is wrong with them is said, and nothing is kept."""
    given = take_list(listed, "'tasks'")
    tasks = tuple(make_task(one, f"task {number}", str(number)) for number, one in enumerate(given, 1))
    ids = [task.id for task in tasks]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise InputError(f"two tasks have the id {show_name(twice[0])}")
    if len([task for task in tasks if task.status == ACTIVE]) > 1:
        raise InputError("more than one task is active; keep one under way at a time")
    return tasks


def make_task(one: object, where: str, number: str) -> Task:
    """Make one task of what a call says of it."""
    if not isinstance(one, Mapping):
        raise InputError(f"{where} is not an object with a title and a status")
    steps = take_list(one.get("steps", []), f"the steps of {where}")
    return Task(
        id=take(one, "id", where, TITLE) or number,
        title=take(one, "title", where, TITLE, needed=True),
        description=take(one, "description", where, DESCRIPTION),
        status=take_status(one, where),
        steps=tuple(make_step(step, f"step {at} of {where}") for at, step in enumerate(steps, 1)),
    )


def make_step(one: object, where: str) -> Step:
    """Make one step of what a call says of it."""
    if not isinstance(one, Mapping):
        raise InputError(f"{where} is not an object with a text and a status")
    return Step(text=take(one, "text", where, TITLE, needed=True), status=take_status(one, where))


def take_list(value: object, what: str) -> Sequence[object]:
    """Take a list that is not too long."""
    if not isinstance(value, list):
        raise InputError(f"{what} is not a list")
    if len(value) > MANY:
        raise InputError(f"{what} has {len(value):,} entries, and {MANY} are kept at most")
    return value


def take(one: Mapping[str, Any], name: str, where: str, longest: int, *, needed: bool = False) -> str:
    """Take a text that is not too long."""
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


def take_status(one: Mapping[str, Any], where: str) -> Any:
    """Take a status."""
    status = one.get("status", "open")
    if status not in STATUSES:
        raise InputError(f"the status of {where} is one of {', '.join(STATUSES)}")
    return status


def describe(tasks: Sequence[Task]) -> str:
    """Say what the list is now."""
    if not tasks:
        return "The task list is empty."
    counts = [(status, len([task for task in tasks if task.status == status])) for status in STATUSES]
    return "The task list is written: " + ", ".join(f"{number} {status}" for status, number in counts if number) + "."
