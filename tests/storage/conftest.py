"""Fixtures of the storage tests."""

import pytest

from foreword.storage.database import open_state


@pytest.fixture
def state(tmp_path):
    """An open state."""
    connection = open_state(str(tmp_path / "state")).connection
    yield connection
    connection.close()
