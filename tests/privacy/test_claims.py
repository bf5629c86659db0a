"""Completeness of erasure: every table and column that can hold personal data has an owner in the code."""

import sqlite3
from contextlib import closing

import pytest

from foreword.privacy.erasure import DATA_LOCATIONS
from foreword.storage.database import EVENTS_SCHEMA, STATE_SCHEMA

TEXT_COLUMNS = (
    "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns"
    " WHERE tables.type = 'table' AND tables.name != 'alembic_version'"
    " AND columns.type NOT IN ('INTEGER', 'FLOAT', 'DOUBLE')"
)
# Columns that no location claims, and why they hold no personal data.
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
CLAIMED = {claim for holding in DATA_LOCATIONS for claim in holding.claims}


def list_columns():
    """List every column that is not numeric, as base, table and name."""
    for base, schema in (("state", STATE_SCHEMA), ("log", EVENTS_SCHEMA)):
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(schema.read())
            for table, column in connection.execute(TEXT_COLUMNS):
                yield f"{base}.{table}.{column}"


COLUMNS = list(list_columns())


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_is_answered_for(column):
    """Every text column is claimed by a data location or listed in ALLOWED with a reason.

    A new column needs a decision about its erasure: foreword/privacy/erasure.py.
    """
    whole = f"{column.rpartition('.')[0]}.*"
    assert (column in CLAIMED or whole in CLAIMED) != (column in ALLOWED), column


def test_nothing_is_claimed_that_is_not_there():
    """Every claimed and every allowed column exists."""
    tables = {f"{column.rpartition('.')[0]}.*" for column in COLUMNS}
    assert not (CLAIMED | ALLOWED.keys()) - {*COLUMNS, *tables}
