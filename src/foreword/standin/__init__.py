"""A stand-in for the providers: it follows a script, refuses what they refuse, and counts what their caches would."""

from foreword.standin.script import Breaks, Called, Garbles, Hangs, Line, Refuses, Says
from foreword.standin.server import listen
from foreword.standin.stage import Received, StandIn

__all__ = ["Breaks", "Called", "Garbles", "Hangs", "Line", "Received", "Refuses", "Says", "StandIn", "listen"]
