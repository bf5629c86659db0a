"""What every part of a gateway works with, its settings, and its background tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from datetime import datetime
from typing import Any

from foreword.events.event import NO_CONTEXT, NO_POSITION, Context, EventType, Level, Recorder, TracePosition
from foreword.events.tracer import Tracer, describe_error
from foreword.gateway.channel import Channel
from foreword.storage.writer import Writer
from foreword.types import frozen
from foreword.workspace import Workspace


@frozen
class GatewaySettings:
    """Timing and concurrency settings."""

    look: float = 1.0
    """Seconds between two checks for due turns and for turns of dead processes."""
    renew: float = 5.0
    """Seconds between two lease renewals."""
    grace: float = 20.0
    """Seconds that running turns get to finish when the gateway closes."""
    most: int = 1_000
    """Maximum number of concurrent turns."""
    thinking: float = 600.0
    """Seconds that a person has to answer a question."""
    again: tuple[float, ...] = (1.0, 2.0, 4.0, 30.0, 60.0)
    """Seconds before a failed channel is restarted; the last value repeats."""


DEFAULT_GATEWAY_SETTINGS = GatewaySettings()


@frozen
class GatewayContext:
    """The workspace, its state, its event log and the channels that deliver."""

    workspace: Workspace
    writer: Writer
    recorder: Recorder
    clock: Callable[[], datetime]
    channels: Mapping[str, Channel] = field(default_factory=dict)

    def trace(
        self, context: Context = NO_CONTEXT, parent: TracePosition = NO_POSITION, caller: TracePosition = NO_POSITION
    ) -> Tracer:
        """Begin a trace, or continue one."""
        return Tracer(self.recorder, context, self.clock, parent, caller)

    def log_error(self, error: Exception, context: Context = NO_CONTEXT, **details: Any) -> None:
        """Log an error that belongs to no turn."""
        fields = {"level": Level.ERROR, **describe_error(error), **details}
        self.trace(context).emit(EventType.CHANNEL_ERROR, **fields)


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine in the background, and cancel it when the block exits."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
