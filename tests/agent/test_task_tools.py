"""The tool that writes the task list."""

import os
from contextlib import closing

import pytest

from foreword.agent.tools.registry import WITH_STATE
from foreword.errors import InputError, UnknownName
from foreword.storage.database import open_state
from foreword.storage.sessions import find_active_task, read_tasks
from foreword.testing import make_workspace
from foreword.turn import State, Step, Task, Turn

CONFIG = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"


@pytest.fixture
def ws(tmp_path):
    """A workspace."""
    with make_workspace(tmp_path, {"foreword.yaml": CONFIG}) as workspace:
        yield workspace


def stand(ws, user="alice", **more):
    """Assemble a turn of a session with every tool."""
    return ws.assemble(Turn(**{"user": user, "situation": "dm", "tools": WITH_STATE, "session": "s1", **more}))


def write(ws, tasks, **more):
    """Write the task list of a session."""
    return ws.call(stand(ws, **more), "task_write", {"tasks": tasks}).text


def read(ws, session="s1"):
    """Read the task list of a session."""
    with closing(open_state(os.path.join(ws.files.root, ".foreword")).connection) as state:
        return read_tasks(state, session)


LIST = [
    {"title": "Read the draft", "status": "done"},
    {
        "title": "Mend the index",
        "status": "active",
        "description": "It is stale.",
        "steps": [{"text": "Find out why", "status": "done"}, {"text": "Build it anew"}],
    },
    {"id": "later", "title": "Tell Bob"},
]


def test_written(ws):
    """A list is stored for its session in its order, with numbers as default ids."""
    assert write(ws, LIST) == "The task list is written: 1 active, 1 open, 1 done."
    steps = (Step(text="Find out why", status="done"), Step(text="Build it anew"))
    assert read(ws) == (
        Task(id="1", title="Read the draft", status="done"),
        Task(id="2", title="Mend the index", description="It is stale.", steps=steps),
        Task(id="later", title="Tell Bob", status="open"),
    )
    assert read(ws, "s2") == ()
    assert write(ws, []) == "The task list is empty."
    assert read(ws) == ()


def test_told(ws):
    """The stored list is Nova's task and OSA's task list."""
    write(ws, LIST)
    tasks = read(ws)
    nova = stand(ws, blueprint="nova", task=find_active_task(tasks)).prompt.text
    assert "1. ✓ Find out why (done)\n2. ○ Build it anew" in nova
    osa = stand(ws, blueprint="osa", state=State(tasks=tasks)).prompt.text
    assert "- #2 Mend the index (active)" in osa
    assert "- task_write: When work has several steps" in stand(ws).prompt.text


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (None, "'tasks' is to be array"),
        ("tidy up", "'tasks' is to be array"),
        (["tidy up"], "task 1 is not an object"),
        ([{"title": " "}], "task 1 has no title"),
        ([{"title": "half \ud800"}], "the title of task 1 has signs"),
        ([{"title": 7}], "the title of task 1 is no text"),
        ([{"title": "a"}, {"title": "b", "status": "doing"}], "status of task 2 is one of active, open, done"),
        ([{"title": "a", "status": "active"}, {"title": "b", "status": "active"}], "more than one task is active"),
        ([{"id": "2", "title": "a"}, {"title": "b"}], "two tasks have the id '2'"),
        ([{"title": "a", "steps": "first"}], "the steps of task 1 is not a list"),
        ([{"title": "a", "steps": [{"status": "done"}]}], "step 1 of task 1 has no text"),
        ([{"title": "a", "steps": [7]}], "step 1 of task 1 is not an object"),
        ([{"title": "x" * 201}], "201 characters, and 200"),
        ([{"title": "a"}] * 51, "'tasks' is to have at most 50 entries, not 51"),
    ],
)
def test_refused(ws, tasks, said):
    """An invalid list is refused with a reason, and the old list stays."""
    write(ws, LIST)
    before = read(ws)
    with pytest.raises(InputError, match=said):
        write(ws, tasks)
    assert read(ws) == before


def test_needs_a_session(ws):
    """A turn without a session cannot store tasks, and below inner trust the tool is not offered."""
    with pytest.raises(InputError, match="belongs to no session"):
        write(ws, LIST, session="")
    with pytest.raises(UnknownName):
        write(ws, LIST, user="bob")
