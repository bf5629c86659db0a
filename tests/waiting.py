"""Waiting for a condition with a timeout, and growth of CPU time."""

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


def assert_linear(run, size):
    """Assert that CPU time grows about linearly: four times the size takes at most ten times as long."""

    def measure(count):
        begin = time.process_time()
        run(count)
        return time.process_time() - begin

    quarter = max(measure(size // 4), 0.02)  # seconds; the clock is coarse, and the first call compiles patterns
    assert measure(size) < 10 * quarter
