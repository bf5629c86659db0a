"""Waiting for a condition that another thread, task or process makes true, with a timeout."""

import asyncio
import inspect
import time

PATIENCE = 120.0  # seconds; generous for a busy machine


def wait(happens, seconds=PATIENCE):
    """Wait until a condition of another thread or process is true; return its value."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, describe(happens, seconds)
        time.sleep(0.005)
    return found


async def until(happens, seconds=PATIENCE):
    """Wait until a condition of another thread, task or process is true; return its value."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, describe(happens, seconds)
        await asyncio.sleep(0.005)
    return found


def describe(happens, seconds):
    """Return an error message with the source of the condition."""
    return f"after {seconds:.0f} seconds it was not so: {inspect.getsource(happens).strip()}"
