"""Claims about the databases: after a scripted night they have the pinned tables and rows."""

import pytest
from pinning import HERE, REGENERATE, compare


@pytest.mark.parametrize("name", ["schemas.txt", "state.txt", "state-erased.txt"])
def test_state(night, name):
    """The state after the night, the state after an erasure, and the other schemas are as pinned."""
    pinned, found = (HERE / "night" / name).read_text(encoding="utf-8"), night[name]
    if found != pinned:
        pytest.fail(f"{compare(pinned, found, name)}\n{REGENERATE.format('state')}", pytrace=False)


def test_nothing_of_bob():
    """The night creates rows of bob in the state, and his erasure removes his words."""
    before, after = ((HERE / "night" / name).read_text(encoding="utf-8") for name in ("state.txt", "state-erased.txt"))
    assert "rye bread" in before
    assert "rye bread" not in after
