"""The tools that redeem what a prompt offers, those that remember, and those that say what went on."""

from foreword.tools.answer import Answer
from foreword.tools.files import FILES
from foreword.tools.introspection import INTROSPECTION
from foreword.tools.reading import READING, Reading, call
from foreword.tools.remembering import REMEMBERING, Remembering
from foreword.tools.skills import SKILLS
from foreword.turn import Toolset

BUILT_IN = Toolset([*READING.tools, *REMEMBERING.tools])
WITH_LOG = Toolset([*BUILT_IN.tools, *INTROSPECTION.tools])  # for an agent whose turns are recorded

__all__ = [
    "BUILT_IN",
    "FILES",
    "INTROSPECTION",
    "READING",
    "REMEMBERING",
    "SKILLS",
    "WITH_LOG",
    "Answer",
    "Reading",
    "Remembering",
    "call",
]
