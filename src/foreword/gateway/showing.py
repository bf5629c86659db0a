"""Showing that a reply is being made, on channels that can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from foreword.gateway.channel import Channel
from foreword.gateway.message import Incoming
from foreword.gateway.outbox import Outbox

EVERY = 4.0  # seconds


@asynccontextmanager
async def showing_work(outbox: Outbox | None, incoming: Incoming) -> AsyncIterator[None]:
    """Show whoever wrote that a reply is being made, until the block is left; nothing depends on it."""
    # Where the reply goes elsewhere, such as that of a schedule, nobody waits for it.
    waits = incoming.address and not incoming.through
    channel = outbox.find_channel(incoming.channel) if outbox and waits else None
    if channel is None:
        yield
        return
    task = asyncio.create_task(show(channel, incoming.address))
    try:
        yield
    finally:
        task.cancel()


async def show(channel: Channel, address: str) -> None:
    """Show it again and again."""
    while True:
        with suppress(Exception):
            await channel.show_work(address)
        await asyncio.sleep(EVERY)
