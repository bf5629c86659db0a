"""What the tests of the event log share."""

import pytest

from foreword.store.open import open_events


@pytest.fixture
def log(tmp_path):
    """A fresh log in a folder of its own."""
    opened = open_events(str(tmp_path / ".foreword"))
    yield opened.connection
    opened.connection.close()
