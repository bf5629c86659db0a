"""Hearing: every channel of a gateway runs beside the others, and one that breaks is started again."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.trace import Trace, describe_error
from foreword.gateway.channel import Channel, Hear
from foreword.gateway.rhythm import Rhythm

LONG = 60.0  # seconds after which a channel that broke had run well


@asynccontextmanager
async def hearing(
    channels: Mapping[str, Channel], hear: Hear, recorder: Recorder, rhythm: Rhythm
) -> AsyncIterator[None]:
    """Have every channel hear until the block is left; then none does any more."""
    tasks = [
        asyncio.create_task(keep_running(channel, hear, Trace(recorder, replace(NOBODY, channel=name)), rhythm.again))
        for name, channel in channels.items()
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def keep_running(channel: Channel, hear: Hear, trace: Trace, waits: tuple[float, ...]) -> None:
    """Run a channel until it ends by itself; what breaks it is told, and it is started again after a while."""
    failed = 0
    while True:
        began = time.monotonic()
        try:
            await channel.run(hear)
        except Exception as error:  # noqa: BLE001 - whatever broke it, people go on writing
            trace.tell(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))
        else:
            return
        failed = 0 if time.monotonic() - began >= LONG else failed
        await asyncio.sleep(waits[min(failed, len(waits) - 1)])
        failed += 1
