"""Standing instructions and tasks in a whole turn."""

import os

import pytest
from conversation import Conversation

from foreword.agent.tools.registry import WITH_STATE
from foreword.events.event import EventType
from foreword.storage.database import use_state
from foreword.storage.sessions import read_tasks
from foreword.testing import ScriptedCall, ScriptedReply

WISH = "Always answer in bullet points."
UPDATE = ScriptedReply(calls=(ScriptedCall(name="update_instructions", arguments={"instructions": WISH}),))


def find_system(request):
    """Find the system part of a request."""
    return "".join(block["text"] for block in request.body["system"])


def test_a_wish_lasts(tmp_path, stand_in):
    """A wish of one session is in the prompt of the next after the person's approval."""
    talk = Conversation(tmp_path, stand_in.url)
    talk.allows = True
    stand_in.follow(UPDATE, ScriptedReply(text="- Noted."), ScriptedReply(text="- Hello."))
    talk.run(WISH, tools=WITH_STATE)
    assert [one.name for one in talk.asked] == ["update_instructions"]
    talk.history = ()
    talk.run("Hello.", session="another", tools=WITH_STATE)
    systems = [find_system(one) for one in stand_in.requests]
    assert [WISH in one for one in systems] == [False, False, True]
    (shown,) = talk.pick(EventType.MEMORY_WRITE)
    assert shown.facts == {"store": "instructions", "count": 1}


@pytest.mark.parametrize("allows", [None, False])
def test_a_wish_is_refused(tmp_path, stand_in, allows):
    """Instructions without approval are not stored."""
    talk = Conversation(tmp_path, stand_in.url)
    talk.allows = allows
    stand_in.follow(UPDATE, ScriptedReply(text="As you like."))
    talk.run(WISH, tools=WITH_STATE)
    assert talk.workspace.find_instructions(talk.assembly.turn) is None


def test_tasks(tmp_path, stand_in):
    """A task list of a model is stored for its session without approval, in plan mode as well."""
    talk = Conversation(tmp_path, stand_in.url)
    tasks = [{"title": "Read", "status": "active"}, {"title": "Write"}]
    stand_in.follow(
        ScriptedReply(calls=(ScriptedCall(name="task_write", arguments={"tasks": tasks}),)),
        ScriptedReply(text="Begun."),
    )
    talk.run("Plan it.", tools=WITH_STATE, plan=True)
    assert talk.asked == []
    with use_state(os.path.join(talk.workspace.files.root, ".foreword")) as state:
        assert [(task.id, task.title, task.status) for task in read_tasks(state, "abc")] == [
            ("1", "Read", "active"),
            ("2", "Write", "open"),
        ]
