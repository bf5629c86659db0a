"""The tools that redeem what a prompt offers, and those that remember."""

from foreword.tools.answer import Answer
from foreword.tools.reading import READING, Reading, call
from foreword.tools.remembering import REMEMBERING, Remembering
from foreword.turn import Toolset

BUILT_IN = Toolset([*READING.tools, *REMEMBERING.tools])

__all__ = ["BUILT_IN", "READING", "REMEMBERING", "Answer", "Reading", "Remembering", "call"]
