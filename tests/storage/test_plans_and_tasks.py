"""Plans and tasks of sessions."""

import pytest

from foreword.errors import InputError
from foreword.storage.database import writing
from foreword.storage.sessions import (
    PlanState,
    add_plan,
    find_active_task,
    find_newest_plan,
    list_plans,
    read_tasks,
    replace_tasks,
    set_plan_state,
)
from foreword.turn import Step, Task


def test_plans(state):
    """The plans of a session are stored with their state and listed newest first."""
    assert find_newest_plan(state, "s1") is None
    add_plan(state, "s1", "1. Look.\n")
    add_plan(state, "s1", "1. Look.\n2. Write.")
    add_plan(state, "s2", "Another's.")
    second, first = list_plans(state, "s1")
    assert first.text == "1. Look."
    assert find_newest_plan(state, "s1") == second
    assert set_plan_state(state, second.id, PlanState.ACCEPTED)
    assert [(plan.id, plan.state) for plan in list_plans(state, "s1")] == [
        (second.id, PlanState.ACCEPTED),
        (first.id, PlanState.PROPOSED),
    ]
    assert not set_plan_state(state, 999, PlanState.DROPPED)
    with pytest.raises(InputError, match="without words"):
        add_plan(state, "s1", " \n")


def test_tasks(state):
    """The tasks of a session are replaced as a whole and read in order; one of them can be active."""
    tasks = (
        Task(id="b", title="Write", steps=(Step(text="Größe", status="done"), Step(text="next", status="active"))),
        Task(id="a", title="Read", status="open", description="all of it"),
    )
    replace_tasks(state, "s1", tasks)
    replace_tasks(state, "s2", tasks[1:])
    assert read_tasks(state, "s1") == tasks
    assert find_active_task(read_tasks(state, "s1")) == tasks[0]
    assert find_active_task(read_tasks(state, "s2")) is None
    replace_tasks(state, "s1", ())
    assert read_tasks(state, "s1") == ()
    assert read_tasks(state, "s2") == tasks[1:]


def test_tasks_whole_or_not_at_all(state):
    """A list that cannot be stored leaves the old one."""
    task = Task(id="a", title="Read")
    replace_tasks(state, "s1", [task])
    with pytest.raises(Exception, match="UNIQUE"), writing(state):
        replace_tasks(state, "s1", [Task(id="b", title="one"), Task(id="b", title="two")])
    assert read_tasks(state, "s1") == (task,)
