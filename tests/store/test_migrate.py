"""Claims about migrations."""

import sqlite3
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable

import foreword.store
from foreword.store.metadata import METADATA
from foreword.store.migrate import render, upgrade
from foreword.store.open import FILE, open_events

SHAPE = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"


def test_shipped_schema_is_current():
    """The shipped text is what all migrations together make; else run python -m foreword.store.migrate."""
    assert (Path(foreword.store.__file__).parent / "schema.sql").read_text() == render()


def test_description_is_current():
    """The tables as described are the tables as migrated."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection)
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as wrapped:
        assert compare_metadata(MigrationContext.configure(wrapped), METADATA) == []
    connection.close()


def test_upgrade(tmp_path):
    """A file of the first revision becomes one of today when it is opened, and keeps its rows."""
    old = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    upgrade(old, "0001")
    old.execute("INSERT INTO events (timestamp, level, category, event_type, trust) VALUES ('t', 'info', 'x', 'y', 3)")
    old.close()
    (tmp_path / "fresh").mkdir()
    upgraded, fresh = open_events(str(tmp_path)).connection, open_events(str(tmp_path / "fresh")).connection
    assert upgraded.execute("SELECT count(*) FROM events").fetchone() == (1,)
    shapes = [{" ".join(str(row).split()) for row in base.execute(SHAPE)} for base in (upgraded, fresh)]
    tidied = [{text.replace("\\t", " ").replace("\\n", " ").replace(" ", "") for text in shape} for shape in shapes]
    assert tidied[0] == tidied[1]
    assert (
        upgraded.execute("SELECT * FROM alembic_version").fetchall()
        == fresh.execute("SELECT * FROM alembic_version").fetchall()
    )
    upgraded.close()
    fresh.close()


def test_postgresql():
    """Every table and index can be written for PostgreSQL."""
    dialect = postgresql.dialect()
    texts = [str(CreateTable(table).compile(dialect=dialect)) for table in METADATA.sorted_tables]
    texts += [
        str(CreateIndex(index).compile(dialect=dialect))
        for table in METADATA.tables.values()
        for index in table.indexes
    ]
    assert any("WHERE level IN ('warn', 'error')" in text for text in texts)
    assert "WITHOUT ROWID" not in "".join(texts)
