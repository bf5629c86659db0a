"""What the pinned events and the pinned state share."""

import pytest
from pinning import describe_night


@pytest.fixture(scope="session")
def night(tmp_path_factory):
    """Run the scripted night once; return what is pinned of it, by the names of the files."""
    return describe_night(tmp_path_factory.mktemp("night"))
