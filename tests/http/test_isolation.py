"""A user cannot reach data of another user, by any route."""

import json
from itertools import product

import httpx2
import pytest
from served import serve_workspace, show_answer

from foreword.http.app import make_app
from foreword.http.middleware import OPEN_PATHS
from foreword.testing import ScriptedCall, ScriptedReply

DOCUMENT = make_app().openapi()
ROUTES = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
SECRET = "heliotrope"  # in texts of alice and in files that only she may read
BODIES = {
    "/api/turns": {"text": "Hi", "session": "{session}"},
    "/api/turns/{turn}/answers": {"question": "q", "allowed": True},
    "/api/sessions": {},
    "/api/sessions/{session}": {"plan": True},
    "/api/held/{held}": {"allowed": True},
    "/api/schedules": {"say": "Hi", "cron": "0 8 * * *"},
    "/api/sessions/{session}/fork": {"turns": 1},
    "/api/explain": {"text": "Hi", "session": "{session}"},
    "/api/price": {"path": "memory/private/diary.md", "session": "{session}"},
    "/api/edits": {"path": "SOUL.md", "policy": "now"},
    "/api/agents/{agent}/soul": {"soul": "Hi"},
    "/api/agents/{agent}/identity": {"identity": "Hi"},
    "/api/instructions": {"instructions": "Hi"},
    "/v1/chat/completions": {"model": "reid", "messages": [{"role": "user", "content": "Hi"}]},
}
# Routes that name no object of another user; all others must respond as if the object did not exist.
OWN = {
    "/healthz", "/readyz", "/v1/models", "/v1/models/{model}", "/api/sessions", "/api/schedules", "/api/memory",
    "/api/memory/search", "/api/memory/entry", "/api/events", "/api/cost", "/api/cache", "/api/held",
    "/api/notifications",
}  # fmt: skip


def fill(value, names):
    """Substitute names in every string of a value."""
    return json.loads(name_all(json.dumps(value), names))


def name_all(text, names):
    """Substitute names in a text."""
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def ask(client, path, method, names):
    """Call a route with the given names in every place where a request can name something."""
    where = name_all(path, names).replace("{model}", "reid")
    operation = DOCUMENT["paths"][path][method]
    values = {
        "session": names["session"],
        "user": "alice",
        "query": SECRET,
        "path": "private/diary.md",
        "by": "session",
    }
    known = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    params = {name: value for name, value in values.items() if name in known}
    body = {"json": fill(BODIES[path], names)} if "requestBody" in operation else {}
    headers = {"X-Foreword-Session": names["session"], "Idempotency-Key": "first"}
    return client.request(method, where, params=params, headers=headers, **body)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on which alice has data and others have tokens."""
    files = {
        "foreword.yaml": "owner: alice\nagents: {reid: {model: 'anthropic:claude-sonnet-5'}}\n"
        "users: {alice: {trust: full}, bob: {trust: familiar}, carol: {trust: full}, dave: {}}\n",
        "memory/private/diary.md": f"The word is {SECRET}.\n",
    }
    with serve_workspace(tmp_path_factory.mktemp("house"), files=files) as served:
        wish = ScriptedCall(name="update_instructions", arguments={"instructions": SECRET})
        served.provider.follow(
            ScriptedReply(text=f"It is {SECRET}."), ScriptedReply(calls=(wish,)), ScriptedReply(text="It waits.")
        )
        with served.ask_as("alice") as client:
            headers = {"Idempotency-Key": "first"}
            created = client.post("/api/turns", json={"text": f"Say {SECRET}"}, headers=headers).json()
            planned = client.post("/api/schedules", json={"say": SECRET, "cron": "0 8 * * *"}).json()
            client.post("/api/turns", json={"text": "Remember it."})
            (held,) = client.get("/api/held").json()["held"]
        assert created["reply"] == f"It is {SECRET}."
        served.gateway.listeners.recorder.flush(60)
        served.names = {
            "turn": created["turn"],
            "session": created["session"],
            "schedule": planned["schedule"],
            "held": held["held"],
        }
        yield served


def test_every_route_is_tried():
    """The OpenAPI document has every route, and every route with a request body has one here."""
    app = make_app()
    paths = {route.path for route in app.state.routes if getattr(route, "include_in_schema", False)}
    assert paths == set(DOCUMENT["paths"])
    assert {path for path, method in ROUTES if "requestBody" in DOCUMENT["paths"][path][method]} == set(BODIES)


@pytest.mark.parametrize(("user", "route"), list(product(("bob", "dave"), ROUTES)), ids=str)
def test_other_users_objects(server, user, route):
    """A request that names another user's object gets exactly the response for a missing object."""
    path, method = route
    made_up = {
        "turn": "0123456789abcdef0123456789abcdef",
        "session": "fedcba9876543210fedcba9876543210",
        "schedule": "01234567",
        "held": "0" * len(server.names["held"]),
    }
    with server.ask_as(user) as client:
        answer = ask(client, path, method, server.names)
        missing = ask(client, path, method, made_up)
    assert answer.status_code == missing.status_code
    for name in (SECRET, *server.names.values(), "diary"):
        assert name not in answer.text
    if path not in OWN or path == "/api/memory/entry":
        assert answer.status_code == 404, answer.text
        assert show_answer(answer) == show_answer(missing)


@pytest.mark.parametrize("route", [one for one in ROUTES if one[0] not in OWN], ids=str)
def test_full_trust_only_reads(server, route):
    """Full trust can read another user's turn, but cannot act on it or in another user's session."""
    path, method = route
    with server.ask_as("carol") as client:
        answer = ask(client, path, method, server.names)
    readable = method == "get" and path in ("/api/turns/{turn}", "/api/events/{turn}", "/api/instructions")
    assert answer.status_code == (200 if readable else 404), answer.text
    assert readable or SECRET not in answer.text


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_no_token(server, route):
    """Without a token only the health routes respond."""
    path, method = route
    with httpx2.Client(base_url=server.url) as client:
        answer = ask(client, path, method, server.names)
    assert answer.status_code == (200 if path in OPEN_PATHS else 401)
    assert SECRET not in answer.text


def test_own_objects(server):
    """Alice can read the data that the others cannot find."""
    with server.ask_as("alice") as client:
        for path in (f"/api/turns/{server.names['turn']}", f"/api/sessions/{server.names['session']}"):
            assert SECRET in client.get(path).text
        assert SECRET in client.get("/api/schedules").text
        assert SECRET in client.get("/api/held").text
        assert SECRET in client.get("/api/memory/search", params={"query": SECRET}).text


def test_lowered_trust(tmp_path):
    """A user whose trust was lowered finds neither the turns nor the sessions of the higher clearance."""
    before = (
        "owner: alice\nagents: {reid: {model: 'anthropic:claude-sonnet-5'}}\n"
        "users: {alice: {trust: full}, bob: {trust: inner}}\n"
    )
    with serve_workspace(tmp_path, files={"foreword.yaml": before}) as served, served.ask_as("bob") as client:
        key = {"Idempotency-Key": "once"}
        created = client.post("/api/turns", json={"text": "Hi"}, headers=key).json()
        (tmp_path / "foreword.yaml").write_text(before.replace("inner", "familiar"))
        served.workspace.refresh(now=True)
        assert client.post("/api/turns", json={"text": "Hi"}, headers=key).status_code == 404
        assert client.delete(f"/api/turns/{created['turn']}").status_code == 404
        assert client.get(f"/api/turns/{created['turn']}").status_code == 404
        assert client.get(f"/api/sessions/{created['session']}").status_code == 404
        assert client.post("/api/turns", json={"text": "Hi", "session": created["session"]}).status_code == 404
        assert client.get("/api/sessions").json() == {"sessions": []}
