"""Shared fixtures of the agent's tests."""

import pytest

from foreword.testing import NOON, ManualClock, run_fake_provider


@pytest.fixture
def clock():
    """A clock that the test moves."""
    return ManualClock(NOON)


@pytest.fixture
def stand_in(clock):
    """A fake provider on the loopback interface."""
    with run_fake_provider(clock=clock) as one:
        yield one
