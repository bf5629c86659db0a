"""Claims about the requests of scripted sessions: every byte sent to a provider is as pinned."""

import json

import pytest
from pinning import HERE, REGENERATE, compare, hash_requests, list_sessions, record_session, show_requests
from wire_scripts import MODELS, SESSIONS

PINNED = json.loads((HERE / "wire.json").read_text(encoding="utf-8"))
WHOLE = "everything"


@pytest.mark.parametrize(("shape", "name"), list_sessions())
def test_requests(tmp_path, shape, name):
    """The requests of a session have the pinned bytes."""
    requests = record_session(tmp_path / "workspace", shape, name)
    found, pinned = hash_requests(requests), PINNED[shape].get(name)
    if found != pinned:
        pytest.fail(explain(tmp_path, f"{shape}-{name}", requests, pinned or {"requests": []}), pytrace=False)


def explain(folder, name, requests, pinned):
    """Describe which requests of a session differ, with a diff if the session is pinned completely."""
    shown, now = show_requests(requests), hash_requests(requests)["requests"]
    (folder / f"{name}.txt").write_text(shown, encoding="utf-8")
    before = pinned["requests"]
    differ = [number for number, (one, other) in enumerate(zip(before, now, strict=False), 1) if one != other]
    lines = [
        f"{name}: {len(now)} requests, {len(before)} pinned; requests that differ: {differ or 'none of the pinned'}",
        f"All of them are in {folder / name}.txt; tests/pins/README.md tells how to get those of another commit.",
        REGENERATE.format("wire"),
    ]
    whole = HERE / "wire" / f"{name}.txt"
    if whole.exists():
        diff = compare(whole.read_text(encoding="utf-8"), shown, whole.name)
        lines.append(diff or "The JSON is the same: only its spelling differs (spaces, escapes).")
    return "\n".join(lines)


def test_coverage():
    """Every shape has at least 20 sessions, except the variant of chat completions, and one complete session."""
    assert {shape for shape, sessions in PINNED.items() if len(sessions) >= 20} == MODELS.keys() - {"compatible"}
    assert [(shape, name) for shape in PINNED for name in PINNED[shape]] == list_sessions()
    assert {path.stem for path in (HERE / "wire").iterdir()} == {f"{shape}-{WHOLE}" for shape in MODELS}
    assert WHOLE in SESSIONS
