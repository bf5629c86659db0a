"""Promise 22: details of the HTTP API that clients and tools depend on."""

import json
import os
import re
import shutil
import subprocess

import httpx2
import openai
import pytest
from served import FILES, serve_workspace

from foreword.config.schema import HttpServer
from foreword.http.app import make_app
from foreword.testing import ScriptedCall, ScriptedReply

PAGE = "https://chat.example"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
ASKED = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A shared server for the tests without side effects; pages of one origin may call it."""
    settings = HttpServer(port=0, rate=100_000, cors=(PAGE,))
    with serve_workspace(tmp_path_factory.mktemp("details"), settings=settings) as one:
        yield one


def complete(client, *messages):
    """Send a conversation."""
    return client.chat.completions.create(model="reid", messages=list(messages))


def test_an_image_in_an_earlier_message(shared):
    """An image in an earlier message is replaced by a note, and the chat continues."""
    shared.provider.follow(ScriptedReply(text="I see."))
    answer = complete(
        shared.open_sdk(),
        {"role": "user", "content": [{"type": "text", "text": "Look"}, IMAGE]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Which colour?"},
    )
    assert answer.choices[0].message.content == "I see."
    sent = str(shared.provider.body["messages"])
    assert "Look" in sent
    assert "[image left out: only images of a new message are read]" in sent
    assert "base64" not in sent


def test_an_attachment_in_the_newest_message(shared):
    """An attachment other than an image in the newest message is 400 with its place and the reason."""
    sound = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
    with pytest.raises(openai.BadRequestError, match=r"audio.*only text and images") as refused:
        complete(shared.open_sdk(), {"role": "user", "content": [{"type": "text", "text": "Look"}, sound]})
    assert refused.value.param == "messages.0.content"


def test_a_failed_tool_is_an_error_for_anthropic(shared):
    """The result of a failed tool has `is_error: true` at Anthropic; a successful one does not."""
    calls = (
        ScriptedCall(name="memory_get", arguments={"path": "nothing.md"}),
        ScriptedCall(name="memory_list", arguments={}),
    )
    shared.provider.follow(ScriptedReply(text="Let me look.", calls=calls), ScriptedReply(text="Nothing."))
    complete(shared.open_sdk(), {"role": "user", "content": "What is in nothing.md?"})
    results = [part for part in shared.provider.body["messages"][-1]["content"] if part["type"] == "tool_result"]
    assert [part.get("is_error", False) for part in results] == [True, False]


def test_a_failed_tool_is_an_error_for_openai(shared):
    """OpenAI has no error field, so the result of a failed tool is an object with an error."""
    call = ScriptedCall(name="memory_get", arguments={"path": "nothing.md"})
    shared.provider.follow(ScriptedReply(calls=(call,)), ScriptedReply(text="Nothing."))
    messages = [{"role": "user", "content": "What is in nothing.md?"}]
    shared.open_sdk().chat.completions.create(model="ada", messages=messages)
    (result,) = [message for message in shared.provider.body["messages"] if message["role"] == "tool"]
    assert "error" in json.loads(result["content"])


def test_a_failed_tool_is_an_error_for_gemini(tmp_path):
    """At Gemini the result of a failed tool has the key `error`; a successful one does not."""
    config = FILES["foreword.yaml"].replace("openai:gpt-5", "google:gemini-3-pro")
    with serve_workspace(tmp_path, files={**FILES, "foreword.yaml": config}) as served:
        calls = (
            ScriptedCall(name="memory_get", arguments={"path": "nothing.md"}),
            ScriptedCall(name="memory_list", arguments={}),
        )
        served.provider.follow(ScriptedReply(text="Let me look.", calls=calls), ScriptedReply(text="Nothing."))
        messages = [{"role": "user", "content": "What is in nothing.md?"}]
        answer = served.open_sdk().chat.completions.create(model="ada", messages=messages)
        assert answer.choices[0].message.content.endswith("Nothing.")
        newest = served.provider.requests[-1]
    assert (newest.shape, newest.refused) == ("gemini", "")
    failed, worked = [part["functionResponse"] for part in newest.body["contents"][-1]["parts"]]
    assert "nothing.md" in failed["response"]["error"]
    assert "error" not in worked["response"]


def test_every_answer_has_a_request_id(shared):
    """Every answer has a unique request id, and an error has the same one in its body and in the log."""
    with shared.ask_as() as client:
        ids = {client.get("/healthz").headers["X-Request-Id"] for _ in range(3)}
        failed = client.post("/api/turns", json={})
    assert len(ids) == 3
    shown = failed.json()["error"]["request_id"]
    assert failed.headers["X-Request-Id"] == shown
    assert re.fullmatch(r"req_[0-9a-f]{24}", shown)
    rows = shared.list_events(type="channel_error")
    assert [row["metadata"]["request_id"] for row in rows].count(shown) == 1


def test_the_sdk_knows_the_request_id(shared):
    """Errors of OpenAI's client library have the request id, and the log has the id of a message with its turn."""
    shared.provider.follow(ScriptedReply(text="Yes."))
    client = shared.open_sdk()
    answer = complete(client, {"role": "user", "content": "Hi"})
    rows = shared.list_events(type="message_received")
    assert answer._request_id in [row["metadata"].get("request_id") for row in rows]
    with pytest.raises(openai.NotFoundError) as failed:
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "Hi"}])
    assert failed.value.request_id == failed.value.body["request_id"]


def test_before_a_token_is_known(shared):
    """A request without a token has an id."""
    answer = httpx2.get(f"{shared.url}/api/sessions")
    assert answer.status_code == 401
    assert answer.json()["error"]["request_id"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/chat/completions", {"model": "nobody", "messages": [{"role": "user", "content": "x"}]}, 404, "model"),
        ("/api/turns", {"text": "x", "agent": "nobody"}, 404, "agent"),
        ("/api/turns", {"text": "x", "session": "none"}, 404, "session"),
        ("/v1/chat/completions", {"model": "reid", "messages": []}, 400, "messages"),
        (
            "/v1/chat/completions",
            {"model": "reid", "messages": [{"role": "user", "content": "a\x00b"}]},
            422,
            "messages",
        ),
        ("/api/turns", {"text": "a\x00b"}, 422, "text"),
        ("/api/turns", {"text": "x", "situation": "dm2", "client": {"zone": "z" * 101}}, 400, "client.zone"),
        ("/v1/chat/completions", {"model": "reid", "messages": [{"role": "user"}], "n": 2}, 400, "n"),
    ],
)
def test_param(shared, path, body, status, param):
    """`param` of an error is the route's name of the invalid field."""
    with shared.ask_as() as client:
        answer = client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text


def test_param_of_a_header(shared):
    """If a header is invalid, `param` is its name."""
    body = {"model": "reid", "messages": [{"role": "user", "content": "x"}]}
    with shared.ask_as() as client:
        answer = client.post("/v1/chat/completions", json=body, headers={"X-Foreword-Session": "none"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "X-Foreword-Session")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/models/", "/v1/models"),
        ("/api/session", "/api/sessions"),
    ],
)
def test_a_missing_path(shared, path, meant):
    """A 404 names the requested path, and the nearest known one."""
    with shared.ask_as() as client:
        error = client.get(path).json()["error"]
    assert f"there is no path '{path}'" in error["message"]
    assert meant in error["message"]


def test_preflight(shared):
    """A page of a listed origin may send a request, without credentials, and read the answer."""
    answer = httpx2.options(f"{shared.url}/v1/chat/completions", headers=ASKED)
    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert "authorization" in answer.headers["Access-Control-Allow-Headers"].lower()
    assert "Access-Control-Allow-Credentials" not in answer.headers
    with shared.ask_as() as client:
        read = client.get("/v1/models", headers={"Origin": PAGE})
    assert read.headers["Access-Control-Allow-Origin"] == PAGE
    assert "X-Request-Id" in read.headers["Access-Control-Expose-Headers"]


def test_preflight_of_every_method(shared):
    """Every method and every answer header of the OpenAPI document is open to a page of a listed origin."""
    document, headers = make_app().openapi(), {"X-Request-Id", "Retry-After"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            asked = {**ASKED, "Access-Control-Request-Method": method.upper()}
            answer = httpx2.options(shared.url + path.replace("{", "").replace("}", ""), headers=asked)
            assert method.upper() in answer.headers["Access-Control-Allow-Methods"].split(", "), path
            headers |= {name for response in operation["responses"].values() for name in response.get("headers", ())}
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert headers <= set(exposed)
    assert "Foreword-Housekeeping" in headers


def test_a_preflight_is_no_token(shared):
    """A page of a listed origin needs a token like any client."""
    answer = httpx2.get(f"{shared.url}/v1/models", headers={"Origin": PAGE})
    assert answer.status_code == 401


def test_other_pages(shared):
    """A page of another origin gets no CORS headers."""
    answer = httpx2.options(f"{shared.url}/v1/models", headers={**ASKED, "Origin": "https://other.example"})
    assert answer.status_code == 401
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_no_page_unless_listed(tmp_path):
    """Without configuration no origin is allowed; an edit of the configuration allows one at once."""
    with serve_workspace(tmp_path) as served:
        assert httpx2.options(f"{served.url}/v1/models", headers=ASKED).status_code == 401
        server = f'server: {{cors: ["{PAGE}"]}}\n'
        (tmp_path / "foreword.yaml").write_text(FILES["foreword.yaml"] + server)
        with served.ask_as() as client:
            assert client.post("/api/reload").status_code == 200
        assert httpx2.options(f"{served.url}/v1/models", headers=ASKED).status_code == 204


def test_any_page(tmp_path):
    """A star allows every origin, and never with credentials."""
    with serve_workspace(tmp_path, settings=HttpServer(port=0, cors=("*",))) as served:
        answer = httpx2.options(f"{served.url}/v1/models", headers=ASKED)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_the_document_follows_the_rules_of_redocly():
    """The OpenAPI document has what redocly's recommended rules ask for: servers, a license, security, one id each."""
    document = make_app().openapi()
    assert all(server["url"] for server in document["servers"])
    assert document["info"]["license"]["identifier"]
    operations = [
        operation for path in document["paths"].values() for name, operation in path.items() if name != "parameters"
    ]
    assert all("security" in operation for operation in operations)
    assert all(operation["summary"] and operation["operationId"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(any(status[0] in "45" for status in operation["responses"]) for operation in operations)


def test_redocly(tmp_path):
    """The command `redocly`, if installed, finds no error and no warning in the document."""
    command = os.environ.get("REDOCLY") or shutil.which("redocly")
    if command is None:
        pytest.skip("redocly is not installed: npm install @redocly/cli, and name the command in REDOCLY")
    (tmp_path / "openapi.json").write_text(json.dumps(make_app().openapi()))
    run = subprocess.run([command, "lint", "openapi.json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "warning" not in (run.stdout + run.stderr).lower().replace("deprecation warning", "")
