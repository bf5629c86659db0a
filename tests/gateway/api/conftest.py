"""What the tests of the HTTP API share."""

import pytest
from served import serve_workspace


@pytest.fixture
def served(tmp_path):
    """A workspace that is served."""
    with serve_workspace(tmp_path) as one:
        yield one
