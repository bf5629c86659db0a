"""Fixtures of the HTTP API tests."""

import pytest
from served import serve_workspace


@pytest.fixture
def served(tmp_path):
    """A running server."""
    with serve_workspace(tmp_path) as one:
        yield one
