"""Claims about migrations."""

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable

import foreword.store
from foreword.store import metadata, state_tables
from foreword.store.migrate import render, upgrade
from foreword.store.open import EVENTS, FILE, open_events
from foreword.store.state import STATE, STATE_FILE, open_state

SHAPE = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"


SCHEMAS = [pytest.param(EVENTS, metadata.METADATA, id="events"), pytest.param(STATE, state_tables.METADATA, id="state")]


@pytest.mark.parametrize(("schema", "described"), SCHEMAS)
def test_shipped_schema_is_current(schema, described):
    """The shipped text is what all migrations together make; else run python -m foreword.store.migrate."""
    shipped = (Path(foreword.store.__file__).parent / schema.text).read_text()
    assert shipped == render(schema)
    assert all(f"CREATE TABLE {name} (" in shipped for name in described.tables)


@pytest.mark.parametrize(("schema", "described"), SCHEMAS)
def test_description_is_current(schema, described):
    """The tables as described are the tables as migrated."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection, schema)
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as wrapped:
        assert compare_metadata(MigrationContext.configure(wrapped), described) == []
    connection.close()


ROWS = [
    pytest.param(
        EVENTS,
        FILE,
        open_events,
        "INSERT INTO events (timestamp, level, category, event_type, trust) VALUES ('t', 'info', 'x', 'y', 3)",
        id="events",
    ),
    pytest.param(
        STATE,
        STATE_FILE,
        open_state,
        "INSERT INTO sessions (id, agent, channel, clearance, situation, created, used)"
        " VALUES ('s', 'reid', 'web', 3, 'dm', 't', 't')",
        id="state",
    ),
]


@pytest.mark.parametrize(("schema", "name", "opening", "row"), ROWS)
def test_upgrade(tmp_path, schema, name, opening, row):
    """A file of the first revision becomes one of today when it is opened, and keeps its rows."""
    old = sqlite3.connect(tmp_path / name, isolation_level=None)
    upgrade(old, schema, "0001")
    old.execute(row)
    old.close()
    (tmp_path / "fresh").mkdir()
    upgraded, fresh = opening(str(tmp_path)).connection, opening(str(tmp_path / "fresh")).connection
    assert upgraded.execute(f"SELECT count(*) FROM {row.split()[2]}").fetchone() == (1,)
    shapes = [{" ".join(str(row).split()) for row in base.execute(SHAPE)} for base in (upgraded, fresh)]
    tidied = [{text.replace("\\t", " ").replace("\\n", " ").replace(" ", "") for text in shape} for shape in shapes]
    assert tidied[0] == tidied[1]
    assert (
        upgraded.execute("SELECT * FROM alembic_version").fetchall()
        == fresh.execute("SELECT * FROM alembic_version").fetchall()
    )
    upgraded.close()
    fresh.close()


@pytest.mark.parametrize(
    ("described", "partial"),
    [(metadata.METADATA, "WHERE level IN ('warn', 'error')"), (state_tables.METADATA, "WHERE finished IS NULL")],
)
def test_postgresql(described, partial):
    """Every table and index can be written for PostgreSQL."""
    dialect = postgresql.dialect()
    texts = [str(CreateTable(table).compile(dialect=dialect)) for table in described.sorted_tables]
    texts += [
        str(CreateIndex(index).compile(dialect=dialect))
        for table in described.tables.values()
        for index in table.indexes
    ]
    assert any(partial in text for text in texts)
    assert "WITHOUT ROWID" not in "".join(texts)
