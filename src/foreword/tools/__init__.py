"""The tools that redeem what a prompt offers, those that remember, those that keep, and those that say what went on."""

from foreword.tools.answer import Answer
from foreword.tools.delegation import DELEGATE, DELEGATING
from foreword.tools.duties import DUTIES, DutyKeeping
from foreword.tools.files import FILES
from foreword.tools.instructing import INSTRUCTING, Instructing
from foreword.tools.introspection import INTROSPECTION
from foreword.tools.reading import READING, Reading, call
from foreword.tools.remembering import REMEMBERING, Remembering
from foreword.tools.scheduling import NOTIFYING, SCHEDULING
from foreword.tools.skills import SKILLS
from foreword.tools.tasking import TASKS, TaskKeeping
from foreword.tools.workflow import WORKFLOWS, WorkflowKeeping
from foreword.turn import Toolset

BUILT_IN = Toolset([*READING.tools, *REMEMBERING.tools])
WITH_LOG = Toolset([*BUILT_IN.tools, *INTROSPECTION.tools])  # for an agent whose turns are recorded
KEEPING = (INSTRUCTING, TASKS, WORKFLOWS, DUTIES)
WITH_STATE = Toolset([*WITH_LOG.tools, *(tool for one in KEEPING for tool in one.tools)])  # and for one with sessions

__all__ = [
    "BUILT_IN",
    "DELEGATE",
    "DELEGATING",
    "DUTIES",
    "FILES",
    "INSTRUCTING",
    "INTROSPECTION",
    "NOTIFYING",
    "READING",
    "REMEMBERING",
    "SCHEDULING",
    "SKILLS",
    "TASKS",
    "WITH_LOG",
    "WITH_STATE",
    "WORKFLOWS",
    "Answer",
    "DutyKeeping",
    "Instructing",
    "Reading",
    "Remembering",
    "TaskKeeping",
    "WorkflowKeeping",
    "call",
]
