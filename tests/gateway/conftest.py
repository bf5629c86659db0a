"""What the tests of the gateway share."""

import pytest

from foreword.testing import listen

pytest.register_assert_rewrite("channel_contract")  # its claims are those of many test files


@pytest.fixture
def stand_in():
    """A provider on the loopback."""
    with listen() as one:
        yield one
