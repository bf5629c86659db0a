"""Claims about the door: who may come in, under which name, how often, and with what; every refusal has one shape."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import httpx2
import pytest
from served import FILES, serve_workspace, show_answer

from foreword.config.schema import HttpServer
from foreword.gateway.api.door import HEADERS
from foreword.gateway.api.terms import FAILURES
from foreword.testing import Says

JSON = {"Content-Type": "application/json"}


def check(answer, status, code=None):
    """Check that an answer is an error of the one shape."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert {"type", "message", "param", "code"} <= set(error)
    assert error["message"]
    assert code in (None, error["code"])
    for name, value in HEADERS.items():
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
    """Without a good token every path is 401, on the loopback too, and so is a path that does not exist."""
    good = served.make_token()
    headers = {} if header is None else {"Authorization": header.format(good=good, GOOD=good.upper()).encode("latin-1")}
    for path in ("/api/sessions", "/v1/models", "/openapi.json", "/nothing"):
        answer = httpx2.get(served.url + path, headers=headers)
        check(answer, 401, "unauthorized")
        assert "the token is missing or not valid" in answer.text
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_same_answer(served):
    """Unknown, revoked, expired and left behind: the answers cannot be told apart."""
    good = served.make_token("bob")
    wrong = good[:-1] + ("A" if good[-1] != "A" else "B")
    answers = [
        httpx2.get(f"{served.url}/api/sessions", headers={"Authorization": f"Bearer {one}"}) for one in (wrong, "fwd_")
    ]
    assert (
        len({(answer.status_code, show_answer(answer), str(sorted(answer.headers.keys()))) for answer in answers}) == 1
    )


def test_the_token_decides(served):
    """Neither a field, nor a header, nor a name in the body says who asks; a field that is none is refused."""
    served.provider.follow(Says(text="Yes."))
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
    """A name that is not served is refused before anything else is looked at, so no page can point its name at us."""
    with served.ask_as() as client:
        check(client.get("/api/sessions", headers={"Host": host}), 421, "unknown_host")
        check(client.get("/healthz", headers={"Host": host}), 421, "unknown_host")


def test_listed_host(tmp_path):
    """A name that the owner lists is served."""
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
    """A body that is not declared as plain JSON is 415, so no form of a page can send one."""
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
    """A body that is no JSON, no UTF-8, too deep, or of another shape is 400 with what is wrong."""
    with served.ask_as() as client:
        check(client.post("/api/turns", content=body, headers=JSON), 400)
    assert not served.provider.requests


def test_half_a_pair(served):
    """Half of a surrogate pair is named as what it is: the body around it is UTF-8."""
    with served.ask_as() as client:
        error = check(client.post("/api/turns", content=rb'{"text": "\ud800"}', headers=JSON), 400)
    assert "half of a surrogate pair" in error["message"]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "user", "content": 7}, "messages.0.content"),
        ({"role": "user", "content": {}}, "messages.0.content"),
        ({"role": "user", "content": [{"type": "image"}]}, "messages.0.content"),
        ({"content": "Hi"}, "messages.0.role"),
    ],
)
def test_places(served, message, place):
    """What does not fit is named by its place in the body, and by nothing else."""
    with served.ask_as() as client:
        error = check(client.post("/v1/chat/completions", json={"model": "reid", "messages": [message]}), 400)
    assert error["param"] == place
    assert error["message"].startswith(f"{place}: ")


@pytest.mark.parametrize("text", ["   ", "a\x00b"])
def test_no_message(served, text):
    """A message that says nothing, or holds what no text holds, is refused."""
    with served.ask_as() as client:
        check(client.post("/api/turns", json={"text": text}), 422)


def test_too_large(served):
    """A body beyond the limit is 413 with the limit, however much more comes, and declared or not."""
    with served.ask_as() as client:
        error = check(client.post("/api/turns", content=b"x" * 6_000_000, headers=JSON), 413, "too_large")
        assert "bytes at most" in error["message"]

        def pour():
            for _ in range(80):
                yield b"x" * 65_536

        check(client.post("/api/turns", content=pour(), headers=JSON), 413)
        assert client.get("/healthz").status_code == 200


def test_message_of_a_megabyte(tmp_path):
    """A message of 1 MB is taken, and answered with why it does not fit the model; a longer one is 413."""
    small = FILES["foreword.yaml"] + 'models: {"anthropic:claude-sonnet-5": {window: 100000}}\n'
    with serve_workspace(tmp_path, files={**FILES, "foreword.yaml": small}) as served, served.ask_as() as client:
        error = check(client.post("/api/turns", json={"text": "wort " * 200_000}), 502, "failed")
        assert "too long" in error["message"]
        check(client.post("/api/turns", json={"text": "x" * 1_000_001}), 413)
        messages = [{"role": "user", "content": "x" * 1_000_001}]
        check(client.post("/v1/chat/completions", json={"model": "reid", "messages": messages}), 413)
        assert not served.provider.requests


def test_rate(tmp_path):
    """Who asks too often is told when to ask again; others are not held up, and neither are they by wrong tokens."""
    rate = 2 * FAILURES
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


def test_closed_to_pages(served):
    """No page elsewhere is allowed in: a preflight gets nothing, and no answer names an origin."""
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
    """There is no page that loads scripts, and no answer says what the server is made of."""
    with served.ask_as() as client:
        for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
            check(client.get(path), 404)
        assert "server" not in client.get("/healthz").headers


def test_methods(served):
    """A method that a path does not know is 405 with those it knows."""
    with served.ask_as() as client:
        answer = client.put("/api/turns", json={})
        check(answer, 405)
        assert answer.headers["Allow"] == "POST"


def test_told(served):
    """Refusals are in the log, under whom they happened to, and a token is in no event."""
    good = served.make_token("bob")
    httpx2.get(f"{served.url}/api/sessions", headers={"Authorization": "Bearer fwd_guess"})
    with served.ask_as("bob") as client:
        client.get("/api/turns/nothing")
        client.post("/api/turns", content=b"{", headers=JSON)
    events = served.list_events(type="channel_error")
    told = [(event["user_id"], event["metadata"]["status"], event["level"]) for event in events]
    assert told == [("bob", 400, "warn"), ("bob", 404, "warn"), (None, 401, "warn")]
    assert good not in json.dumps(events)
    assert "fwd_guess" not in json.dumps(events)


def test_broken(served):
    """What fails unexpectedly is 500 without its words, which are in the log."""

    async def fail(_user):
        raise ValueError("a secret of the inside")

    served.gateway.sessions.list = fail
    with served.ask_as() as client:
        error = check(client.get("/api/sessions"), 500, "internal")
    assert "inside" not in error["message"]
    (event,) = served.list_events(type="channel_error")
    assert "a secret of the inside" in event["error"]
    assert event["level"] == "error"


def test_half_a_request(served):
    """Who hangs up in the middle of a body leaves nothing behind, and the next one is served."""
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port)) as wire:
        token = served.make_token()
        head = f"POST /api/turns HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        wire.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    with served.ask_as() as client:
        assert client.get("/api/sessions").json() == {"sessions": []}


def test_two_hosts(served):
    """Two names in one request are none."""
    address = urlsplit(served.url)
    wire = http.client.HTTPConnection(address.hostname, address.port)
    wire.putrequest("GET", "/api/sessions", skip_host=True)
    wire.putheader("Host", "localhost")
    wire.putheader("Host", "evil.example")
    wire.endheaders()
    assert wire.getresponse().status in (400, 421)
    wire.close()
