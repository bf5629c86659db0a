"""What the tests of the gateway share."""

import pytest

from foreword.testing import listen


@pytest.fixture
def stand_in():
    """A provider on the loopback."""
    with listen() as one:
        yield one
