"""Shared fixtures of the event log tests."""

import pytest

from foreword.storage.database import open_events


@pytest.fixture
def log(tmp_path):
    """An empty log in a temporary folder."""
    opened = open_events(str(tmp_path / ".foreword"))
    yield opened.connection
    opened.connection.close()
