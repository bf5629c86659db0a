"""Fixtures of the gateway tests."""

import asyncio
from datetime import UTC, datetime

import pytest
from house import open_house

from foreword.testing import run_fake_provider

pytest.register_assert_rewrite("channel_contract")  # its tests are inherited by other files


@pytest.fixture
def clock():
    """The system clock; tests that move time override it."""
    return lambda: datetime.now(UTC)


@pytest.fixture
def stand_in(clock):
    """A fake provider with the time of the clock."""
    with run_fake_provider(clock=clock) as one:
        yield one


@pytest.fixture
def run(tmp_path, stand_in, clock):
    """Run a coroutine with a gateway, at the time of the clock."""

    def run(talk, files, **options):
        async def main():
            async with open_house(tmp_path, stand_in, files, clock=clock, **options) as gateway:
                return await talk(gateway)

        return asyncio.run(main())

    return run
