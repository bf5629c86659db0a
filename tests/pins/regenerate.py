"""Write the pinned files again: `python tests/pins/regenerate.py [wire|events|state]`; the default is all of them.

`python tests/pins/regenerate.py dump FOLDER` writes the requests of every session as readable text into a folder.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["TZ"] = "UTC"
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from pinning import describe_night, hash_requests, list_sessions, record_session, show_requests  # noqa: E402


def record_all():
    """Run all sessions; return their requests by shape and name."""
    for shape, name in list_sessions():
        with tempfile.TemporaryDirectory() as folder:
            yield shape, name, record_session(Path(folder).resolve() / "workspace", shape, name)


def write_wire():
    """Write the hashes of all sessions, and one complete session of each shape."""
    pinned = {}
    for shape, name, requests in record_all():
        pinned.setdefault(shape, {})[name] = hash_requests(requests)
        if name == "everything":
            (HERE / "wire").mkdir(exist_ok=True)
            (HERE / "wire" / f"{shape}-{name}.txt").write_text(show_requests(requests), encoding="utf-8")
    (HERE / "wire.json").write_text(json.dumps(pinned, indent=1) + "\n", encoding="utf-8")


def write_night(*names):
    """Write pinned files of the night."""
    with tempfile.TemporaryDirectory() as folder:
        found = describe_night(Path(folder).resolve())
    (HERE / "night").mkdir(exist_ok=True)
    for name in names:
        (HERE / "night" / name).write_text(found[name], encoding="utf-8")


def dump(folder):
    """Write every session as readable text."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for shape, name, requests in record_all():
        (Path(folder) / f"{shape}-{name}.txt").write_text(show_requests(requests), encoding="utf-8")


WRITERS = {
    "wire": write_wire,
    "events": lambda: write_night("events.jsonl"),
    "state": lambda: write_night("state.txt", "state-erased.txt", "schemas.txt"),
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or [*WRITERS]
    if chosen[0] == "dump":
        dump(chosen[1])
    else:
        for one in chosen:
            WRITERS[one]()
