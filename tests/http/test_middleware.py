"""HTTP middleware: authentication, Host check, rate limit and body limits; all errors have one format."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import httpx2
import pytest
from served import FILES, serve_workspace, show_answer

from foreword.config.schema import HttpServer
from foreword.http.middleware import FAILURE_RATE_DIVISOR, SECURITY_HEADERS
from foreword.testing import ScriptedReply

JSON = {"Content-Type": "application/json"}


def check(answer, status, code=None):
    """Check that a response is an error in the common format."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert {"type", "message", "param", "code"} <= set(error)
    assert error["message"]
    assert code in (None, error["code"])
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    return error


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer fwd_wrong",
        "Bearer \xe4\xf6",
        "Basic YWxpY2U6YQ==",
        "Token {good}",
        "{good}",
        "Bearer {good}x",
        "Bearer {GOOD}",
    ],
)
def test_no_token(served, header):
    """Without a valid token every path is 401, also on the loopback interface and for unknown paths."""
    good = served.make_token()
    headers = {} if header is None else {"Authorization": header.format(good=good, GOOD=good.upper()).encode("latin-1")}
    for path in ("/api/sessions", "/v1/models", "/openapi.json", "/nothing"):
        answer = httpx2.get(served.url + path, headers=headers)
        check(answer, 401, "unauthorized")
        assert "missing or invalid token" in answer.text
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_same_answer(served):
    """The responses to different invalid tokens are identical."""
    good = served.make_token("bob")
    wrong = good[:-1] + ("A" if good[-1] != "A" else "B")
    answers = [
        httpx2.get(f"{served.url}/api/sessions", headers={"Authorization": f"Bearer {one}"}) for one in (wrong, "fwd_")
    ]
    assert (
        len({(answer.status_code, show_answer(answer), str(sorted(answer.headers.keys()))) for answer in answers}) == 1
    )


def test_the_token_decides(served):
    """The token alone identifies the user; an unknown field in the body is refused."""
    served.provider.follow(ScriptedReply(text="Yes."))
    with served.ask_as("bob") as client:
        check(client.post("/api/turns", json={"text": "Hi", "user": "alice"}), 400)
        client.post(
            "/v1/chat/completions",
            json={"model": "reid", "user": "alice", "messages": [{"role": "user", "content": "Hi", "name": "alice"}]},
        )
        (session,) = client.get("/api/sessions", headers={"X-User": "alice"}).json()["sessions"]
    assert session["clearance"] == "familiar"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", ""])
def test_host(served, host):
    """A Host header that is not allowed is refused before all else, as protection against DNS rebinding."""
    with served.ask_as() as client:
        check(client.get("/api/sessions", headers={"Host": host}), 421, "unknown_host")
        check(client.get("/healthz", headers={"Host": host}), 421, "unknown_host")


def test_listed_host(tmp_path):
    """A host listed in the settings is allowed."""
    with (
        serve_workspace(tmp_path, settings=HttpServer(port=0, hosts=("agents.example",))) as served,
        served.ask_as() as client,
    ):
        assert client.get("/api/sessions", headers={"Host": "Agents.Example:443"}).status_code == 200


@pytest.mark.parametrize(
    ("kind", "coding"),
    [
        ("", ""),
        ("text/plain", ""),
        ("application/x-www-form-urlencoded", ""),
        ("multipart/form-data; boundary=x", ""),
        ("application/json; charset=utf-16", ""),
        ("application/json", "gzip"),
    ],
)
def test_not_json(served, kind, coding):
    """A body that is not declared as plain JSON is 415, so HTML forms cannot send one."""
    headers = {"Content-Type": kind} | ({"Content-Encoding": coding} if coding else {})
    with served.ask_as() as client:
        check(client.post("/api/turns", content=b'{"text": "Hi"}', headers=headers), 415, "not_json")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b'{"text": "\xe4"}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"text": ' * 50_000 + b"1" + b"}" * 50_000,
        b'{"text": NaN}',
        b'{"text": "a", "session": ' + b"9" * 10_000 + b"}",
        rb'{"text": "\ud800"}',
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"text": 1}',
        b'{"text": ""}',
        b'{"text": "a", "more": 1}',
        b'\xef\xbb\xbf{"text": "a"}',
    ],
)
def test_malformed(served, body):
    """A body that is not JSON, not UTF-8, nested too deeply or of the wrong shape is 400."""
    with served.ask_as() as client:
        check(client.post("/api/turns", content=body, headers=JSON), 400)
    assert not served.provider.requests


def test_unpaired_surrogate(served):
    """The error for an unpaired surrogate names it, since the body itself is valid UTF-8."""
    with served.ask_as() as client:
        error = check(client.post("/api/turns", content=rb'{"text": "\ud800"}', headers=JSON), 400)
    assert "an unpaired surrogate" in error["message"]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "user", "content": 7}, "messages.0.content"),
        ({"role": "user", "content": {}}, "messages.0.content"),
        ({"role": "user", "content": [{"type": "image"}]}, "messages.0.content"),
        ({"content": "Hi"}, "messages.0.role"),
    ],
)
def test_invalid_field(served, message, place):
    """A validation error names only the path of the field."""
    with served.ask_as() as client:
        error = check(client.post("/v1/chat/completions", json={"model": "reid", "messages": [message]}), 400)
    assert error["param"] == place
    assert error["message"].startswith(f"{place}: ")


@pytest.mark.parametrize("text", ["   ", "a\x00b"])
def test_blank_message(served, text):
    """A blank message or one with a NUL character is refused."""
    with served.ask_as() as client:
        check(client.post("/api/turns", json={"text": text}), 422)


def test_too_large(served):
    """A body above the limit is 413 with the limit, with or without Content-Length."""
    with served.ask_as() as client:
        error = check(client.post("/api/turns", content=b"x" * 6_000_000, headers=JSON), 413, "too_large")
        assert "the body is larger than" in error["message"]

        def pour():
            for _ in range(80):
                yield b"x" * 65_536

        check(client.post("/api/turns", content=pour(), headers=JSON), 413)
        assert client.get("/healthz").status_code == 200


def test_long_message(tmp_path):
    """A message of 1 MB is accepted and fails because of the model's window; a longer one is 413."""
    small = FILES["foreword.yaml"] + 'models: {"anthropic:claude-sonnet-5": {window: 100000}}\n'
    with serve_workspace(tmp_path, files={**FILES, "foreword.yaml": small}) as served, served.ask_as() as client:
        error = check(client.post("/api/turns", json={"text": "wort " * 200_000}), 502, "failed")
        assert "too long" in error["message"]
        check(client.post("/api/turns", json={"text": "x" * 1_000_001}), 413)
        messages = [{"role": "user", "content": "x" * 1_000_001}]
        check(client.post("/v1/chat/completions", json={"model": "reid", "messages": messages}), 413)
        assert not served.provider.requests


def test_rate(tmp_path):
    """Too many requests are 429 with Retry-After; neither other users nor wrong tokens share that limit."""
    rate = 2 * FAILURE_RATE_DIVISOR
    with (
        serve_workspace(tmp_path, settings=HttpServer(port=0, rate=rate)) as served,
        served.ask_as() as client,
        served.ask_as("bob") as other,
    ):
        answers = [client.get("/api/sessions") for _ in range(4 * rate)]
        assert {answer.status_code for answer in answers[:rate]} == {200}
        answer = next(answer for answer in answers if answer.status_code != 200)
        check(answer, 429, "too_many_requests")
        assert int(answer.headers["Retry-After"]) >= 1
        wrong = {"Authorization": "Bearer fwd_wrong"}
        statuses = [client.get("/api/sessions", headers=wrong).status_code for _ in range(rate)]
        assert statuses[:2] == [401, 401]
        assert 429 in statuses
        assert other.get("/api/sessions").status_code == 200


def test_no_cors(served):
    """CORS is off by default: a preflight request is refused, and no response has CORS headers."""
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    with served.ask_as() as client:
        answers = [
            httpx2.options(f"{served.url}/api/turns", headers=origin),
            client.options("/api/turns", headers=origin),
            client.get("/api/sessions", headers=origin),
        ]
    assert [answer.status_code for answer in answers] == [401, 405, 200]
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control")]


def test_no_scripts(served):
    """There is no page that loads scripts, and no Server header."""
    with served.ask_as() as client:
        for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
            check(client.get(path), 404)
        assert "server" not in client.get("/healthz").headers


def test_methods(served):
    """An unsupported method is 405 with an Allow header."""
    with served.ask_as() as client:
        answer = client.put("/api/turns", json={})
        check(answer, 405)
        assert answer.headers["Allow"] == "POST"


def test_failures_are_recorded(served):
    """Refused requests are recorded under their user, and no event contains a token."""
    good = served.make_token("bob")
    httpx2.get(f"{served.url}/api/sessions", headers={"Authorization": "Bearer fwd_guess"})
    with served.ask_as("bob") as client:
        client.get("/api/turns/nothing")
        client.post("/api/turns", content=b"{", headers=JSON)
    events = served.list_events(type="channel_error")
    rows = [(event["user_id"], event["metadata"]["status"], event["level"]) for event in events]
    assert rows == [("bob", 400, "warn"), ("bob", 404, "warn"), (None, 401, "warn")]
    assert good not in json.dumps(events)
    assert "fwd_guess" not in json.dumps(events)


def test_internal_error(served):
    """An unexpected error is 500 without details, which are in the event log."""

    async def fail(_user):
        raise ValueError("a secret of the inside")

    served.gateway.sessions.list = fail
    with served.ask_as() as client:
        error = check(client.get("/api/sessions"), 500, "internal")
    assert "inside" not in error["message"]
    (event,) = served.list_events(type="channel_error")
    assert "a secret of the inside" in event["error"]
    assert event["level"] == "error"


def test_incomplete_body(served):
    """A client that disconnects in the middle of a body leaves no data, and the next request works."""
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port)) as wire:
        token = served.make_token()
        head = f"POST /api/turns HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        wire.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    with served.ask_as() as client:
        assert client.get("/api/sessions").json() == {"sessions": []}


def test_two_hosts(served):
    """A request with two Host headers is refused."""
    address = urlsplit(served.url)
    wire = http.client.HTTPConnection(address.hostname, address.port)
    wire.putrequest("GET", "/api/sessions", skip_host=True)
    wire.putheader("Host", "localhost")
    wire.putheader("Host", "evil.example")
    wire.endheaders()
    assert wire.getresponse().status in (400, 421)
    wire.close()
