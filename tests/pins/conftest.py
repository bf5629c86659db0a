"""The fixture of the pinned events and the pinned state."""

import pytest
from pinning import describe_night


@pytest.fixture(scope="session")
def night(tmp_path_factory):
    """Run the scripted night once; return the texts to pin, by file name."""
    return describe_night(tmp_path_factory.mktemp("night"))
