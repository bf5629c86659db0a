"""Record, normalise and compare pinned data; README.md in this folder explains it."""

import asyncio
import hashlib
import json
import re
import sqlite3
from contextlib import closing, redirect_stdout
from datetime import UTC, datetime
from difflib import unified_diff
from io import StringIO
from pathlib import Path

from night_script import run_night
from pin_house import ManualClock, open_house, run_command, run_fake_provider
from wire_scripts import BRIEF, FILES, MODELS, SESSIONS

HERE = Path(__file__).parent
BEGIN = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
HEADERS = ("anthropic-version", "anthropic-beta")
CACHE_KEY = re.compile(r'"prompt_cache_key":\s?"([0-9a-f]{32})"')
ID_TABLES = ("sessions", "turns", "schedules", "held_calls")
ID_COLUMNS = ("trace_id", "span_id", "parent_id", "session_id", "prompt_hash")
HIDDEN = {("tokens", "id"), ("tokens", "hash"), ("turns", "lease_owner"), ("outbox", "lease_owner")}
"""Columns that are random, by table and name."""
RANDOM = (
    # The scripted clock has whole seconds; a fraction comes from the machine's clock.
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(?!0+Z)\d+Z"), "<now>"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'\\"[0-9a-f]{16}\\"'), r'\\"<hash>\\"'),  # spans, and prompt blocks that contain a session id
    (re.compile(r"http://127\.0\.0\.1:\d+"), "<provider>"),
    (re.compile(r"(?:The plum tree by the east wall was planted in the autumn\. ?){20,}"), "<long text>"),
)
REGENERATE = "To accept the change: python tests/pins/regenerate.py {}"
MAX_DIFF_LINES = 60


def list_sessions():
    """List the pinned sessions as pairs of provider shape and name."""
    return [(shape, name) for shape in MODELS for name in (BRIEF if shape == "compatible" else SESSIONS)]


def read_ids(folder):
    """Return the ids in the state of a workspace, in order of creation."""
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite")) as state:
        return [row[0] for table in ID_TABLES for row in state.execute(f"SELECT id FROM {table} ORDER BY rowid")]


def number_ids(text, ids, *, fixed=False):
    """Replace ids and their first eight digits by numbers, in order of appearance or of the list."""
    known = {one[:8]: one for one in ids} | {one: one for one in ids}
    numbers = {one: number for number, one in enumerate(dict.fromkeys(ids), 1)} if fixed else {}

    def replace(found):
        return f"<id-{numbers.setdefault(known[found[0]], len(numbers) + 1)}>"

    pattern = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    return re.sub(rf"(?<![0-9a-f])(?:{pattern})(?![0-9a-f])", replace, text) if known else text


def normalise(text, folder, url, ids):
    """Replace random values: ids, the workspace's folder and the provider's address."""
    text = text.replace(str(folder), "<folder>").replace(url, "<provider>")
    return number_ids(text, [*ids, *CACHE_KEY.findall(text)])


def record_session(folder, shape, name):
    """Run a session against the fake provider; return its requests as texts, first line and body."""
    model, other = MODELS[shape]
    files = FILES | {"foreword.yaml": FILES["foreword.yaml"].replace("MODEL", model).replace("OTHER", other)}
    clock = ManualClock(BEGIN)

    async def run(provider):
        async with asyncio.timeout(400), open_house(folder, provider, clock, files) as house:
            house.files, house.model, house.other = files, model, other
            await SESSIONS[name](house)

    with run_fake_provider(clock=clock) as provider:
        asyncio.run(run(provider))
        url, requests = provider.url, list(provider.requests)
    refused = [one.refused for one in requests if one.refused]
    assert not refused, refused
    bodies = [show_head(one) + "\n" + one.raw.decode() for one in requests]
    return normalise("\0".join(bodies), folder, url, read_ids(folder)).split("\0")


def show_head(request):
    """Format path and pinned headers of a request on one line."""
    given = {name.lower(): value for name, value in request.headers.items()}
    return " ".join(["POST", request.path, *(f"{name}={given[name]}" for name in HEADERS if name in given)])


def hash_requests(requests):
    """Return a hash of a session, and the start of the hash of each request."""
    each = [hashlib.sha256(one.encode()).hexdigest() for one in requests]
    return {"sha256": hashlib.sha256("".join(each).encode()).hexdigest(), "requests": [one[:12] for one in each]}


def show_requests(requests):
    """Format the requests of a session as readable text."""
    shown = []
    for number, one in enumerate(requests, 1):
        head, _, body = one.partition("\n")
        shown.append(f"--- request {number}: {head}\n{json.dumps(json.loads(body), indent=1, ensure_ascii=False)}\n")
    return "".join(shown)


def list_rows(connection, table):
    """List the rows of a table as mappings."""
    rows = connection.execute(f'SELECT * FROM "{table}"')
    names = [one[0] for one in rows.description]
    return [dict(zip(names, row, strict=True)) for row in rows]


def read_events(folder):
    """Read the event log as JSON Lines; ids become numbers in order of appearance, and durations a placeholder."""
    with closing(sqlite3.connect(folder / ".foreword" / "events.sqlite")) as log:
        rows = list_rows(log, "events")
    ids = [row[name] for row in rows for name in ID_COLUMNS if row[name]]
    lines = []
    for row in sorted(rows, key=lambda row: row["id"]):
        kept = {name: value for name, value in row.items() if name != "id" and value is not None}
        if "duration_ms" in kept:
            kept["duration_ms"] = "<ms>"
        if "metadata" in kept:
            kept["metadata"] = json.loads(kept["metadata"])
        lines.append(mask(json.dumps(kept, ensure_ascii=False)))
    return number_ids("\n".join(lines) + "\n", [*ids, *read_ids(folder)])


def show_schema(path):
    """Format the schema of a database, without the internal tables of SQLite's full-text index."""
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    virtual = [name for name, sql in found if sql.startswith("CREATE VIRTUAL")]
    own = [(name, sql) for name, sql in found if not any(name.startswith(f"{one}_") for one in virtual)]
    return "".join(f"{sql};\n" for _, sql in sorted(own))


def show_value(value):
    """Format a column value: a blob as its text, and the NUL that separates parts of keys as ␀."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return text.replace("\0", "␀") if isinstance(text, str) else text


def dump_state(folder):
    """Dump schema and rows of the state as text, in an order that is independent of ids and of SQLite."""
    path, ids = folder / ".foreword" / "state.sqlite", read_ids(folder)
    parts = [show_schema(path)]
    with closing(sqlite3.connect(path)) as state:
        tables = [row[0] for row in state.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        bases = "SELECT base FROM ledgers LEFT JOIN sessions ON sessions.id = session_id ORDER BY sessions.rowid"
        ids += [row[0] for row in state.execute(bases)]
        ids += [row[0] for row in state.execute("SELECT prompt_hash FROM turns ORDER BY number") if row[0]]
        for table in tables:
            lines = [show_row(table, row) for row in list_rows(state, table)]
            parts.append(f"\n-- {table}\n" + "".join(sorted(number_ids(line, ids, fixed=True) for line in lines)))
    return "".join(parts)


def show_row(table, row):
    """Format a row as a line of JSON, without random values and times of the machine's clock."""
    shown = {
        name: "<hidden>" if value and (table, name) in HIDDEN else show_value(value) for name, value in row.items()
    }
    return mask(json.dumps(shown, ensure_ascii=False)) + "\n"


def mask(line):
    """Replace random values and times of the machine's clock in a line."""
    for pattern, mark in RANDOM:
        line = pattern.sub(mark, line)
    return line


def describe_night(folder):
    """Run the night in a folder; return the texts to pin, by file name."""
    run_night(folder)
    state = folder / ".foreword"
    schemas = [f"-- {name}\n{show_schema(state / name)}" for name in ("events.sqlite", "memory.sqlite")]
    found = {"events.jsonl": read_events(folder), "state.txt": dump_state(folder), "schemas.txt": "\n".join(schemas)}
    with redirect_stdout(StringIO()) as said:
        assert run_command(["forget", "bob", "--yes", "--workspace", str(folder)]) == 0, said.getvalue()
    return found | {"state-erased.txt": dump_state(folder)}


def compare(pinned, found, what):
    """Return the start of a unified diff; a line of text within a JSON string counts as a line."""
    before, after = (text.replace("\\n", "\\n\n").splitlines() for text in (pinned, found))
    lines = list(unified_diff(before, after, f"pinned {what}", f"found {what}", lineterm="", n=1))
    more = [f"… {len(lines) - MAX_DIFF_LINES} more lines"] if len(lines) > MAX_DIFF_LINES else []
    return "\n".join(line[:400] for line in lines[:MAX_DIFF_LINES] + more)
