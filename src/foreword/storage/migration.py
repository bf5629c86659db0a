"""Migrations: numbered SQL files that upgrade the files of older versions."""

import os
import sqlite3

from foreword.resources import PACKAGE_FOLDER, read_resource
from foreword.storage.database import (
    EVENTS_SCHEMA,
    STATE_SCHEMA,
    DatabaseSchema,
    find_revision,
    has_table,
    run_statements,
    writing,
)
from foreword.storage.rows import fetch_column, fetch_rows

STORAGE_FOLDER = os.path.join(PACKAGE_FOLDER, "storage")


def upgrade_database(connection: sqlite3.Connection, schema: DatabaseSchema) -> None:
    """Upgrade a database to the newest revision, in one transaction. The connection must be in autocommit mode."""
    with writing(connection):
        found = find_revision(connection)  # another process may have upgraded it meanwhile
        for name in sorted(os.listdir(os.path.join(STORAGE_FOLDER, "migrations", schema.migrations))):
            number = name.partition("_")[0]
            if found < number:
                run_step = PYTHON_STEPS.get((schema.migrations, number), run_statements)
                run_step(connection, read_resource("storage", "migrations", schema.migrations, name) or "")
                connection.execute("DELETE FROM alembic_version")
                connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (number,))


def replace_legacy_tables(connection: sqlite3.Connection, sql: str) -> None:
    """Create the tables of SPEC-010. Rename older tables with their names to old_… and import their rows."""
    from foreword.storage import legacy_import as legacy

    rows = {name: rename_table(connection, name) for name in (legacy.AGENTS_TABLE, legacy.CUSTOMIZATIONS_TABLE)}
    run_statements(connection, sql)
    agents = legacy.convert_agents(rows[legacy.AGENTS_TABLE])
    legacy.insert_rows(connection, agents, legacy.merge_customizations(rows[legacy.CUSTOMIZATIONS_TABLE]))


def rename_table(connection: sqlite3.Connection, name: str) -> list[dict[str, object]]:
    """Rename a table to old_… and return its rows. A missing table has none."""
    if not has_table(connection, name):
        return []
    connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
    return fetch_rows(connection, f"SELECT * FROM old_{name} ORDER BY rowid")


def convert_stored_messages(connection: sqlite3.Connection, _: str) -> None:
    """Rewrite stored messages into our own form."""
    from foreword.storage.legacy_messages import convert_history

    convert_history(connection)


PYTHON_STEPS = {  # steps that need more than SQL
    ("state", "0002"): replace_legacy_tables,
    ("state", "0007"): convert_stored_messages,
}


def render_schema(schema: DatabaseSchema) -> str:
    """Render the schema after all migrations, as the SQL for new files."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade_database(connection, schema)
    revision = find_revision(connection)
    ordered = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, iif(type = 'table', rowid, name)"
    statements = fetch_column(connection, ordered)
    connection.close()
    statements.append(f"INSERT INTO alembic_version (version_num) VALUES ('{revision}')")
    head = f"-- revision {revision}, written by python -m foreword.storage.migration\n"
    return head + "".join(f"{statement};\n" for statement in statements)


if __name__ == "__main__":
    for kind in (EVENTS_SCHEMA, STATE_SCHEMA):
        with open(os.path.join(STORAGE_FOLDER, kind.text), "w", encoding="utf-8") as file:
            file.write(render_schema(kind))
