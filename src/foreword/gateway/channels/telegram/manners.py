"""How the channel treats Telegram: its pace, and how long it waits when something is wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field

from foreword.frozen import frozen
from foreword.gateway.channels.telegram.pacing import Tempo


@frozen
class Manners:
    """Times in seconds; those of a delivery together stay below what the outbox allows one."""

    tempo: Tempo = field(default_factory=Tempo)
    poll: int = 25
    """How long Telegram holds a question for news."""
    request: float = 10.0
    """How long an answer may take."""
    probe: float = 4.0
    """How long an answer may take that only shows whether Telegram is there, and how long a connection."""
    waits: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
    """Between two tries while it cannot be reached, the last one for ever."""
    refused: float = 600.0
    """Between two tries while it refuses the token."""
    tries: int = 5
    """How often a message is handed in that breaks whoever takes it, before it is given up."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


USUAL = Manners()
