"""Migrations: how a file that an older Foreword made becomes one of today. Only this needs Alembic."""

import os
import sqlite3

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from foreword.store.open import EVENTS
from foreword.store.schema import Schema
from foreword.store.state import STATE

HOME = os.path.dirname(os.path.abspath(__file__))


def upgrade(connection: sqlite3.Connection, schema: Schema, revision: str = "head") -> None:
    """Bring a database to a revision, all of it or nothing; the connection must commit by hand alone."""
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    config = Config()
    config.set_main_option("script_location", os.path.join(HOME, "migrations"))
    config.set_main_option("version_locations", os.path.join(HOME, "migrations", schema.migrations))
    config.set_main_option("path_separator", "newline")  # a folder's name may hold any other
    try:
        # Begun for both: SQLAlchemy rolls back what was begun before it came, Alembic commits what it finds unbegun.
        with engine.connect() as wrapped, wrapped.begin():
            connection.execute("BEGIN IMMEDIATE")
            config.attributes["connection"] = wrapped
            command.upgrade(config, revision)
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, DBAPIError) and isinstance(error.orig, sqlite3.Error):
            raise error.orig from None  # who opens a file knows the errors of SQLite
        raise


def render(schema: Schema) -> str:
    """Render the schema that all migrations together make, as the text that a fresh file is made from."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection, schema)
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    ordered = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, iif(type = 'table', rowid, name)"
    texts = [sql for (sql,) in connection.execute(ordered)]
    connection.close()
    tables = [f"{clean(sql)};" for sql in texts]
    return "\n".join([f"-- revision {revision}, written by python -m foreword.store.migrate", *tables]) + (
        f"\nINSERT INTO alembic_version (version_num) VALUES ('{revision}');\n"
    )


def clean(sql: str) -> str:
    """Take the spaces from the ends of lines, and tabs."""
    return "\n".join(line.rstrip().replace("\t", "  ") for line in sql.strip().splitlines())


if __name__ == "__main__":
    for kind in (EVENTS, STATE):
        with open(os.path.join(HOME, kind.text), "w", encoding="utf-8") as file:
            file.write(render(kind))
