"""What the tests of the runtime share."""

import pytest

from foreword.standin import listen
from foreword.testing import NOON, MovedClock


@pytest.fixture
def clock():
    """A clock that is moved by hand."""
    return MovedClock(NOON)


@pytest.fixture
def stand_in(clock):
    """A provider on the loopback."""
    with listen(clock=clock) as one:
        yield one
