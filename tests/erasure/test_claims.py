"""Claims about completeness: no table and no column can come to hold a person's words or name unseen."""

import pytest
from sqlalchemy import Double, Float, Integer

from foreword.erasure.holdings import HOLDINGS
from foreword.store.metadata import METADATA as LOG
from foreword.store.state_tables import METADATA as STATE

NUMBERS = (Integer, Double, Float)
# What no holding claims, and why it holds neither the words nor the name of anybody.
ALLOWED = {
    "state.sessions.agent": "the name of an agent",
    "state.sessions.channel": "the name of a channel",
    "state.sessions.room": "the name of a room, which others stay in; private sessions go whole",
    "state.sessions.situation": "a word of the configuration",
    "state.sessions.created": "a time of a session that others share",
    "state.sessions.used": "a time of a session that others share",
    "state.sessions.model": "the name of a model",
    "state.sessions.project": "a folder among the agent's directories, listed by the owner; private sessions go whole",
    "state.history.session_id": "the id of a session that others share; the rows of theirs go whole",
    "state.history.kind": "a word of ours",
    "state.plans.session_id": "the id of a session",
    "state.plans.created": "a time",
    "state.plans.state": "a word of ours",
    "state.tasks.session_id": "the id of a session",
    "state.tasks.status": "a word of ours",
    "state.workflows.session_id": "the id of a session",
    "state.workflows.updated": "a time",
    "state.ledgers.session_id": "the id of a session that others share; the rows of theirs go whole",
    "state.edits.policy": "a word of ours",
    "state.edits.decided": "a time",
    "state.calibrations.model": "the name of a model",
    "state.bulletins.agent": "the name of an agent",
    "state.bulletins.made": "a time",
    "state.agent_configurations.agent_name": "the name of an agent",
    "state.agent_configurations.soul": "set by the owner alone, by `foreword agent set` or at full trust",
    "state.agent_configurations.identity": "set by the owner alone",
    "state.agent_configurations.updated": "a time",
    "log.totals_quarter.kind": "a word of ours",
    "log.totals_quarter.room": "the name of a room, whose sums others share",
    "log.totals_quarter.start": "a time",
    "log.totals_day.kind": "a word of ours",
    "log.totals_day.room": "the name of a room, whose sums others share",
    "log.totals_day.start": "a time",
    "log.budget_spent.period": "a time",
    "log.budget_spent.updated": "a time",
    "log.budget_reserved.period": "a time",
    "log.budget_reserved.made": "a time",
}
CLAIMED = {claim for holding in HOLDINGS for claim in holding.claims}


def list_columns():
    """List every column that holds more than numbers, as base, table and name."""
    for base, metadata in (("state", STATE), ("log", LOG)):
        for table in metadata.sorted_tables:
            for column in table.columns:
                if not isinstance(column.type, NUMBERS):
                    yield f"{base}.{table.name}.{column.name}"


COLUMNS = list(list_columns())


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_is_answered_for(column):
    """A column that can hold words is a holding's, or it is said here why it holds nobody's.

    Who adds one decides what becomes of it when a person is forgotten: foreword/erasure/holdings.py.
    """
    whole = f"{column.rpartition('.')[0]}.*"
    assert (column in CLAIMED or whole in CLAIMED) != (column in ALLOWED), column


def test_nothing_is_claimed_that_is_not_there():
    """What a holding claims, and what is allowed, exists."""
    tables = {f"{column.rpartition('.')[0]}.*" for column in COLUMNS}
    assert not (CLAIMED | ALLOWED.keys()) - {*COLUMNS, *tables}
