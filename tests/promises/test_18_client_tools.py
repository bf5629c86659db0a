"""Promise 18: Open WebUI and other clients work unmodified."""

import json
import sqlite3
from contextlib import closing

import httpx2
import openai
import pytest
from client_bodies import BODIES, HOUSEKEEPING, make_tool
from served import FILES, serve_workspace

from foreword.testing import ScriptedReply, run_fake_provider

HEADER = "Foreword-Client-Tools"
SCHEMA = {
    "type": "object",
    "properties": {"mood": {"type": "string"}},
    "required": ["mood"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "mood", "schema": SCHEMA, "strict": True}}

SEVERAL = {
    **FILES,
    "foreword.yaml": """\
owner: alice
agents:
  reid: {model: "openai:gpt-5"}
  rita: {model: "openai-responses:gpt-5"}
  gwen: {model: "google:gemini-3-pro"}
  otto: {model: "google:gemini-2.5-flash"}
users: {alice: {trust: full, timezone: UTC}}
""",
}


def configure(**server):
    """Make the files of a workspace with these server settings."""
    return {**FILES, "foreword.yaml": f"{FILES['foreword.yaml']}server: {json.dumps(server)}\n"}


def hello(client, **more):
    """Say hello with OpenAI's client library."""
    more = {"model": "reid", **more}
    return client.chat.completions.create(messages=[{"role": "user", "content": "Hello, in JSON"}], **more)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A shared server for the tests without side effects."""
    with serve_workspace(tmp_path_factory.mktemp("clients")) as one:
        yield one


@pytest.mark.parametrize("client", BODIES)
def test_a_client_with_tools_is_answered(shared, client):
    """A request of each popular client is answered, and a header gives the number of ignored tools."""
    body = BODIES[client]
    shared.provider.follow(ScriptedReply(text="Good morning."))
    with shared.ask_as() as api:
        answer = api.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert "Good" in answer.text
    count = len(body.get("tools") or body["functions"])
    assert answer.headers[HEADER] == f"ignored; count={count}"
    sent = json.dumps(shared.provider.body["tools"])
    assert not any(name in sent for name in ("builtin_", "webfetch", "look_up", "transfer_to"))


def test_the_sdk_with_tools(shared):
    """OpenAI's client library gets an answer when it sends tools, streaming or not."""
    client = shared.open_sdk()
    for stream in (False, True):
        shared.provider.follow(ScriptedReply(text="Good morning."))
        answer = hello(client, tools=[make_tool("look_up")], tool_choice="auto", stream=stream)
        said = "".join(part.choices[0].delta.content or "" for part in answer) if stream else ""
        assert (said or answer.choices[0].message.content) == "Good morning."


def test_one_log_line(shared):
    """The log has one line with the number of ignored tools."""
    shared.provider.follow(ScriptedReply(text="Yes."))
    hello(shared.open_sdk(), tools=[make_tool(f"tool_{number}") for number in range(33)])
    rows = shared.list_events(type="message_received")
    assert [row["metadata"].get("client_tools_ignored") for row in rows].count(33) == 1


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "look_up"}}}, "tool_choice"),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}},
            "tool_choice",
        ),
        ({"function_call": {"name": "look_up"}}, "function_call"),
    ],
)
def test_a_forced_call_is_refused(shared, more, param):
    """A forced call of a tool that the model does not have is 400, and `param` names the field."""
    asked = len(shared.provider.requests)
    with pytest.raises(openai.BadRequestError) as refused:
        hello(shared.open_sdk(), tools=[make_tool("look_up")], extra_body=more)
    assert refused.value.param == param
    assert len(shared.provider.requests) == asked


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_free_choice_is_taken(shared, choice):
    """`auto` and `none` are accepted."""
    shared.provider.follow(ScriptedReply(text="Yes."))
    assert hello(shared.open_sdk(), tools=[make_tool("look_up")], tool_choice=choice).choices[0].message.content


def test_refuse(tmp_path):
    """`client_tools: refuse` refuses tools with 400, and accepts an empty list."""
    with serve_workspace(tmp_path, ScriptedReply(text="Yes."), files=configure(client_tools="refuse")) as served:
        client = served.open_sdk()
        for name, sent in (("tools", [make_tool("f")]), ("functions", [{"name": "f"}])):
            with pytest.raises(openai.BadRequestError) as refused:
                hello(client, **{name: sent})
            assert refused.value.param == name
        assert hello(client, tools=[]).choices[0].message.content == "Yes."


@pytest.mark.parametrize("client", BODIES)
def test_pass(tmp_path, client):
    """`client_tools: pass` shows the tools of each popular client to the model, and a header says so."""
    body = BODIES[client]
    reply = ScriptedReply(text="Good morning.")
    with serve_workspace(tmp_path, reply, files=configure(client_tools="pass")) as served, served.ask_as() as api:
        answer = api.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        count = len(body.get("tools") or body["functions"])
        handled = "passed" if body.get("tools") else "ignored"  # the older functions are never passed
        assert answer.headers[HEADER] == f"{handled}; count={count}"
        assert served.provider.requests[-1].refused == ""
        shown = json.dumps(served.provider.body["tools"])
        assert all(tool["function"]["name"] in shown for tool in body.get("tools") or ())


def test_a_result_of_a_client_tool_is_text_from_outside(shared):
    """A tool result of a client reaches the model as labelled text, and calls of the client's tools are left out."""
    shared.provider.follow(ScriptedReply(text="Rain."))
    with shared.ask_as() as api:
        api.post("/v1/chat/completions", json=BODIES["llm -T"])
    newest = str(shared.provider.body["messages"][-1])
    assert "text from outside" in newest
    assert "> It is raining." in newest


def test_continue(shared):
    """A client that ends with an assistant message gets that answer continued."""
    shared.provider.follow(ScriptedReply(text="Once upon"), ScriptedReply(text="a time."))
    client, said = shared.open_sdk(), [{"role": "user", "content": "Tell a story"}]
    first = client.chat.completions.create(model="reid", messages=said)
    said.append({"role": "assistant", "content": "Once upon"})
    second = client.chat.completions.create(model="reid", messages=said)
    assert second.choices[0].message.content == "a time."
    assert second.foreword["session"] == first.foreword["session"]


def test_response_format_is_honoured(shared):
    """Both formats reach OpenAI unchanged, and a schema reaches Anthropic in its native field."""
    client = shared.open_sdk()
    for wanted in ({"type": "json_object"}, FORMAT):
        shared.provider.follow(ScriptedReply(text='{"mood": "json"}'))
        hello(client, model="ada", response_format=wanted)
        assert shared.provider.body["response_format"] == wanted
    shared.provider.follow(ScriptedReply(text='{"mood": "calm"}'))
    hello(client, response_format=FORMAT)
    assert shared.provider.body["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA}


def test_plain_text_is_no_format(shared):
    """`text` is the default and adds nothing to the request."""
    shared.provider.follow(ScriptedReply(text="Yes."))
    hello(shared.open_sdk(), response_format={"type": "text"})
    assert "output_config" not in shared.provider.body


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"type": "json_object"}, "response_format"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "grammar"}, "response_format.type"),
    ],
)
def test_a_format_that_is_not_taken_is_refused(shared, wanted, param):
    """A format that is incomplete or that the model does not support is 400 and never dropped."""
    asked = len(shared.provider.requests)
    with pytest.raises(openai.BadRequestError) as refused:
        hello(shared.open_sdk(), response_format=wanted)
    assert refused.value.param == param
    assert len(shared.provider.requests) == asked


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A server whose agents use models of each provider API."""
    with serve_workspace(tmp_path_factory.mktemp("formats"), files=SEVERAL) as one:
        yield one


def test_response_format_in_responses(several):
    """OpenAI's Responses API gets the format in `text`, with the schema next to its type."""
    client = several.open_sdk()
    for wanted, expected in (
        ({"type": "json_object"}, {"type": "json_object"}),
        (FORMAT, {"type": "json_schema", "name": "mood", "schema": SCHEMA, "strict": True}),
    ):
        several.provider.follow(ScriptedReply(text='{"mood": "calm"}'))
        answer = hello(client, model="rita", response_format=wanted)
        assert answer.choices[0].message.content == '{"mood": "calm"}'
        newest = several.provider.requests[-1]
        assert (newest.shape, newest.refused) == ("responses", "")
        assert newest.body["text"]["format"] == expected


@pytest.mark.parametrize("stream", [False, True])
def test_response_format_at_gemini(several, stream):
    """Gemini gets the type and the schema in `generationConfig`, with and without a stream."""
    client = several.open_sdk()
    for wanted, schema in (({"type": "json_object"}, None), (FORMAT, SCHEMA)):
        several.provider.follow(ScriptedReply(text='{"mood": "calm"}'))
        answer = hello(client, model="gwen", response_format=wanted, stream=stream)
        said = "".join(part.choices[0].delta.content or "" for part in answer if part.choices) if stream else ""
        assert (said or answer.choices[0].message.content) == '{"mood": "calm"}'
        newest = several.provider.requests[-1]
        assert (newest.shape, newest.refused) == ("gemini", "")
        settings = newest.body["generationConfig"]
        assert settings["responseMimeType"] == "application/json"
        assert settings.get("responseJsonSchema") == schema
        assert newest.body["tools"], "the agent keeps its tools"


def test_an_older_gemini_with_tools_refuses_a_format(several):
    """A Gemini before 3 accepts no format together with tools, so the request is 400 before the model is called."""
    asked = len(several.provider.requests)
    with pytest.raises(openai.BadRequestError, match="together with tools") as refused:
        hello(several.open_sdk(), model="otto", response_format=FORMAT)
    assert refused.value.param == "response_format"
    assert len(several.provider.requests) == asked


def test_housekeeping_has_no_tools_and_takes_a_format(several):
    """Housekeeping runs without tools, so an older Gemini accepts a format for it."""
    several.provider.follow(ScriptedReply(text='{"title": "Plums"}'))
    with several.ask_as() as api:
        body = {**HOUSEKEEPING["title"], "model": "otto", "response_format": {"type": "json_object"}}
        answer = api.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert several.provider.body["generationConfig"]["responseMimeType"] == "application/json"
    assert "tools" not in several.provider.body


@pytest.mark.parametrize(
    ("settings", "model", "refused"),
    [
        ({"responseJsonSchema": SCHEMA}, "gemini-3-pro", True),
        ({"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}, "gemini-3-pro", False),
        ({"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}, "gemini-2.5-flash", True),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA, "responseSchema": SCHEMA},
            "gemini-3-pro",
            True,
        ),
    ],
)
def test_the_fake_judges_as_gemini_does(settings, model, refused):
    """The fake refuses a schema without its mime type, two schemas, and functions of an older model with JSON."""
    tools = [{"functionDeclarations": [{"name": "look_up"}]}]
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "tools": tools, "generationConfig": settings}
    with run_fake_provider(ScriptedReply(text="{}")) as provider:
        answer = httpx2.post(f"{provider.url}/v1beta/models/{model}:generateContent", json=body)
    assert answer.status_code == (400 if refused else 200), answer.text


def choose_model(served, session, model):
    """Switch a session to another model, as `/model` does."""
    with closing(sqlite3.connect(f"{served.folder}/state.sqlite")) as state, state:
        assert state.execute("UPDATE sessions SET model = ? WHERE id = ?", (model, session)).rowcount == 1


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("agent", "chosen", "taken"), [("reid", "openai:gpt-5", True), ("ada", "anthropic:claude-sonnet-5", False)]
)
def test_a_format_is_judged_by_the_model_of_the_session(shared, agent, chosen, taken, named):
    """After `/model` the chosen model decides whether a format is accepted, before the message is stored."""
    client, said = shared.open_sdk(), [{"role": "user", "content": f"Hello, {named} {agent}"}]
    shared.provider.follow(ScriptedReply(text="Hello."))
    session = client.chat.completions.create(model=agent, messages=said).foreword["session"]
    choose_model(shared, session, chosen)
    said += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And in JSON?"}]
    more = {"extra_headers": {"X-Foreword-Session": session}} if named else {}
    wanted = {"model": agent, "messages": said, "response_format": {"type": "json_object"}, **more}
    if taken:
        shared.provider.follow(ScriptedReply(text="{}"))
        assert client.chat.completions.create(**wanted).foreword["session"] == session
        return
    asked = len(shared.provider.requests)
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**wanted)
    assert refused.value.param == "response_format"
    assert len(shared.provider.requests) == asked
    with shared.ask_as() as api:
        assert "And in JSON?" not in api.get(f"/api/sessions/{session}").text
