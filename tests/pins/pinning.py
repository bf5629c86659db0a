"""Recording, normalising and comparing what is pinned. See README.md in this folder."""

import asyncio
import hashlib
import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path

from pin_house import MovedClock, listen, open_house
from wire_scripts import BRIEF, FILES, MODELS, SESSIONS

HERE = Path(__file__).parent
BEGIN = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
HEADERS = ("anthropic-version", "anthropic-beta")
CACHE_KEY = re.compile(r'"prompt_cache_key":\s?"([0-9a-f]{32})"')
ID_TABLES = ("sessions", "turns", "schedules", "held_calls")
REGENERATE = "To accept the change: python tests/pins/regenerate.py {}"
MAX_DIFF_LINES = 60


def list_sessions():
    """List the pinned sessions as pairs of provider shape and name."""
    return [(shape, name) for shape in MODELS for name in (BRIEF if shape == "compatible" else SESSIONS)]


def read_ids(folder):
    """Return the random ids in the state of a workspace."""
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite")) as state:
        return [row[0] for table in ID_TABLES for row in state.execute(f"SELECT id FROM {table}")]


def number_ids(text, ids):
    """Replace random ids, and the first eight digits of them, by their order of appearance."""
    known = {one: one for one in ids} | {one[:8]: one for one in ids}
    numbers = {}

    def replace(found):
        return f"<id-{numbers.setdefault(known[found[0]], len(numbers) + 1)}>"

    pattern = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    return re.sub(rf"(?<![0-9a-f])(?:{pattern})(?![0-9a-f])", replace, text) if known else text


def normalise(text, folder, url, ids):
    """Replace what is random by nature: ids, the workspace's folder and the provider's address."""
    text = text.replace(str(folder), "<folder>").replace(url, "<provider>")
    return number_ids(text, [*ids, *CACHE_KEY.findall(text)])


def record_session(folder, shape, name):
    """Run a session against the fake provider; return its requests as texts, first line and body."""
    model, other = MODELS[shape]
    files = FILES | {"foreword.yaml": FILES["foreword.yaml"].replace("MODEL", model)}
    clock = MovedClock(BEGIN)

    async def run(provider):
        async with asyncio.timeout(120), open_house(folder, provider, clock, files) as house:
            house.files, house.model, house.other = files, model, other
            await SESSIONS[name](house)

    with listen(clock=clock) as provider:
        asyncio.run(run(provider))
        url, requests = provider.url, list(provider.requests)
    refused = [one.refused for one in requests if one.refused]
    assert not refused, refused
    bodies = [show_head(one) + "\n" + one.raw.decode() for one in requests]
    return normalise("\0".join(bodies), folder, url, read_ids(folder)).split("\0")


def show_head(request):
    """Show path and pinned headers of a request on one line."""
    given = {name.lower(): value for name, value in request.headers.items()}
    return " ".join(["POST", request.path, *(f"{name}={given[name]}" for name in HEADERS if name in given)])


def hash_requests(requests):
    """Return one hash of a session, and the beginning of the hash of each request."""
    each = [hashlib.sha256(one.encode()).hexdigest() for one in requests]
    return {"sha256": hashlib.sha256("".join(each).encode()).hexdigest(), "requests": [one[:12] for one in each]}


def show_requests(requests):
    """Show the requests of a session as readable text."""
    shown = []
    for number, one in enumerate(requests, 1):
        head, _, body = one.partition("\n")
        shown.append(f"--- request {number}: {head}\n{json.dumps(json.loads(body), indent=1, ensure_ascii=False)}\n")
    return "".join(shown)


def compare(pinned, found, what):
    """Return the beginning of a unified diff between the pinned and the found text."""
    lines = list(unified_diff(pinned.splitlines(), found.splitlines(), f"pinned {what}", f"found {what}", lineterm="", n=2))
    more = [f"… {len(lines) - MAX_DIFF_LINES} more lines"] if len(lines) > MAX_DIFF_LINES else []
    return "\n".join(line[:400] for line in lines[:MAX_DIFF_LINES] + more)
