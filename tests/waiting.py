"""Waiting for what happens in another thread, task or process: for the thing itself, and never for ever."""

import asyncio
import inspect
import time

PATIENCE = 120.0  # seconds; far more than anything takes on a machine that is busy with other tests


def wait(happens, seconds=PATIENCE):
    """Wait for something that happens in another thread or process; return what was found."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, describe(happens, seconds)
        time.sleep(0.005)
    return found


async def until(happens, seconds=PATIENCE):
    """Wait for something that happens in another thread, task or process; return what was found."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, describe(happens, seconds)
        await asyncio.sleep(0.005)
    return found


def describe(happens, seconds):
    """Say what was waited for, in the words of the test."""
    return f"after {seconds:.0f} seconds it was not so: {inspect.getsource(happens).strip()}"
