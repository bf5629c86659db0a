"""What the tests of the gateway share."""

import asyncio
from datetime import UTC, datetime

import pytest
from house import open_house

from foreword.testing import listen

pytest.register_assert_rewrite("channel_contract")  # its claims are those of many test files


@pytest.fixture
def clock():
    """The clock of the host; who moves time has another."""
    return lambda: datetime.now(UTC)


@pytest.fixture
def stand_in(clock):
    """A provider on the loopback, at the time of the clock."""
    with listen(clock=clock) as one:
        yield one


@pytest.fixture
def run(tmp_path, stand_in, clock):
    """Have a talk with the gateway of a house, at the time of the clock."""

    def run(talk, files, **options):
        async def main():
            async with open_house(tmp_path, stand_in, files, clock=clock, **options) as gateway:
                return await talk(gateway)

        return asyncio.run(main())

    return run
