"""Promise 21: a retry is the same turn, and a chat continues after an interruption."""

import json
import threading
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from time import sleep

import pytest
from served import FILES, QUICK, serve_workspace

from foreword.testing import NOON, ManualClock, ScriptedCall, ScriptedHang, ScriptedReply
from waiting import wait

RETRY = {"x-stainless-retry-count": "1"}
SESSION = "X-Foreword-Session"
FIRST = {"x-stainless-retry-count": "0"}
STOPPING = {**FILES, "foreword.yaml": f"{FILES['foreword.yaml']}server: {{on_disconnect: stop}}\n"}
SLOW = ScriptedHang(seconds=120, text="Once upon a time there was a plum tree by the wall")


def talk(*said, **more):
    """Make a request to `/v1/chat/completions` with alternating user and assistant messages."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    return {"model": "reid", "messages": messages, **more}


def read_stream(answer):
    """Read the text of a stream, and its turn and session."""
    lines = [line.partition(": ")[2] for line in answer.iter_lines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    text = "".join(part["choices"][0]["delta"].get("content") or "" for part in chunks if part["choices"])
    return text, chunks[-1]["foreword"]["turn"], chunks[-1]["foreword"]["session"]


def post_beside(client, path, body, headers):
    """Send a request in a thread; return the thread and a list for its answer."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.post(path, json=body, headers=headers)))
    thread.start()
    return thread, answers


def count_messages(served):
    """Count the messages that became turns."""
    return len(served.list_events(type="message_received"))


@pytest.fixture
def served(tmp_path):
    """A served workspace."""
    with serve_workspace(tmp_path) as one:
        yield one


@pytest.fixture
def gated(tmp_path):
    """A server whose provider answers the first request after a signal."""
    with serve_workspace(tmp_path, ScriptedHang(seconds=0.5), ScriptedReply(text="The end.")) as one:
        yield one


ROUTES = [("/v1/chat/completions", talk("Tell")), ("/api/turns", {"text": "Tell"})]


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize("headers", [{"Idempotency-Key": "k1"}, RETRY], ids=["key", "sdk"])
def test_a_retry_joins_the_running_turn(gated, path, body, headers):
    """The same request under one key, or as a retry of an SDK, joins the running turn and gets its reply."""
    with gated.ask_as() as client:
        first = headers if "Idempotency-Key" in headers else FIRST
        thread, answers = post_beside(client, path, body, first)
        wait(lambda: gated.provider.requests)
        again = client.post(path, json=body, headers=headers)
        thread.join()
        (before,) = answers
    assert again.status_code == before.status_code == 200
    assert "The end." in again.text
    turns = [one.json().get("turn") or one.json()["foreword"]["turn"] for one in (before, again)]
    assert turns[0] == turns[1]
    assert count_messages(gated) == 1


@pytest.mark.parametrize("headers", [{"Idempotency-Key": "k1"}, RETRY], ids=["key", "sdk"])
def test_a_retry_gets_the_result(served, headers):
    """A retry after the end gets the reply, whole or as a stream, and the model is not called."""
    served.provider.follow(ScriptedReply(text="The end."))
    with served.ask_as() as client:
        first = headers if "Idempotency-Key" in headers else FIRST
        before = client.post("/v1/chat/completions", json=talk("Tell"), headers=first).json()
        after = client.post("/v1/chat/completions", json=talk("Tell"), headers=headers).json()
        with client.stream("POST", "/v1/chat/completions", json=talk("Tell", stream=True), headers=headers) as streamed:
            text, turn, _ = read_stream(streamed)
    assert before["foreword"]["turn"] == after["foreword"]["turn"] == turn
    assert text == after["choices"][0]["message"]["content"] == "The end."
    assert len(served.provider.requests) == 1


def test_the_sdks_own_retry(tmp_path):
    """OpenAI's client library that times out and retries by itself is answered by one turn."""
    with serve_workspace(tmp_path, ScriptedHang(seconds=4), ScriptedReply(text="The end.")) as served:
        client = served.open_sdk().with_options(max_retries=50, timeout=2)
        answer = client.chat.completions.create(**talk("Tell"))
        assert answer.choices[0].message.content == "The end."
        assert count_messages(served) == 1


def test_a_new_request_with_the_same_words(served):
    """The same text without a key and without a retry is another message."""
    served.provider.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."))
    with served.ask_as() as client:
        said = [client.post("/v1/chat/completions", json=talk("Again"), headers=FIRST).json() for _ in range(2)]
    assert said[0]["foreword"]["turn"] != said[1]["foreword"]["turn"]


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/v1/chat/completions", talk("Hi"), talk("Bye")),
        ("/v1/chat/completions", talk("Hi"), talk("Before", "this", "Hi")),
        ("/api/turns", {"text": "Hi"}, {"text": "Hi", "agent": "ada"}),
    ],
)
def test_another_body_under_the_same_key(served, path, body, other):
    """Another body under the same key is 422, and `param` names the header."""
    served.provider.follow(ScriptedReply(text="Hello."))
    with served.ask_as() as client:
        client.post(path, json=body, headers={"Idempotency-Key": "k1"})
        refused = client.post(path, json=other, headers={"Idempotency-Key": "k1"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "Idempotency-Key"), refused.text
    assert len(served.provider.requests) == 1


@pytest.mark.parametrize("headers", [{"Idempotency-Key": "k1"}, RETRY], ids=["key", "sdk"])
def test_a_retry_belongs_to_its_session(served, headers):
    """The same body in another session is another message; under the same key it is 422."""
    served.provider.follow(*(ScriptedReply(text=f"Answer {number}.") for number in range(4)))
    with served.ask_as() as client:
        opened = [client.post("/v1/chat/completions", json=talk(text)).json() for text in ("One", "Two")]
        named = [{SESSION: one["foreword"]["session"]} for one in opened]
        first = headers if "Idempotency-Key" in headers else FIRST
        before = client.post("/v1/chat/completions", json=talk("Hi"), headers=named[0] | first).json()
        same = client.post("/v1/chat/completions", json=talk("Hi"), headers=named[0] | headers).json()
        other = client.post("/v1/chat/completions", json=talk("Hi"), headers=named[1] | headers)
    assert same["foreword"]["turn"] == before["foreword"]["turn"]
    if "Idempotency-Key" in headers:
        error = other.json()["error"]
        assert (other.status_code, error["code"]) == (422, "idempotency_key_reused"), other.text
        assert error["message"] == "this idempotency key was used for a different request"
    else:
        assert other.json()["foreword"]["session"] == named[1][SESSION]


def test_a_retry_whose_first_try_never_arrived(served):
    """A retry does not join an older message with the same text after the conversation has continued."""
    served.provider.follow(*(ScriptedReply(text=f"Answer {number}.") for number in range(3)))
    with served.ask_as() as client:
        older = client.post("/api/turns", json={"text": "Again"}, headers=FIRST).json()
        client.post("/api/turns", json={"text": "Go on"}, headers=FIRST)
        retried = client.post("/api/turns", json={"text": "Again"}, headers=RETRY).json()
    assert (older["reply"], retried["reply"]) == ("Answer 0.", "Answer 2.")


@pytest.mark.parametrize(("seconds", "joined"), [(59, True), (61, False)])
def test_a_late_retry_is_a_new_message(tmp_path, seconds, joined):
    """A retry gets the reply of a finished turn for 60 seconds; later it is a new message."""
    clock = ManualClock(NOON)
    script = (ScriptedReply(text="One."), ScriptedReply(text="Two."))
    with serve_workspace(tmp_path, *script, options=replace(QUICK, clock=clock)) as served, served.ask_as() as client:
        before = client.post("/api/turns", json={"text": "Tell"}, headers=FIRST).json()
        clock.move(seconds)
        after = client.post("/api/turns", json={"text": "Tell"}, headers=RETRY).json()
    assert (before["turn"] == after["turn"]) is joined


def test_keys_belong_to_a_token(served):
    """The same key or the same retry with another token, of the same user or of another, is another message."""
    served.provider.follow(*(ScriptedReply(text=f"Answer {number}.") for number in range(3)))
    turns = []
    for user in ("alice", "alice", "carol"):
        with served.ask_as(user) as client:
            for headers in ({"Idempotency-Key": "k1"}, RETRY):
                answer = client.post("/v1/chat/completions", json=talk("Hi"), headers=headers).json()
                turns.append(answer["foreword"]["turn"])
    assert len(set(turns)) == 3  # one for each token


def test_a_retry_after_a_restart(tmp_path):
    """A retry that reaches the next process joins the turn that the first one had accepted."""
    with serve_workspace(tmp_path, ScriptedReply(text="The end.")) as served, served.ask_as() as client:
        token = client.headers["Authorization"]
        before = client.post("/v1/chat/completions", json=talk("Tell"), headers=FIRST).json()
    with serve_workspace(tmp_path) as served, served.ask_as() as client:
        client.headers["Authorization"] = token
        after = client.post("/v1/chat/completions", json=talk("Tell"), headers=RETRY).json()
    assert after["foreword"]["turn"] == before["foreword"]["turn"]


def hang_up(client, path, body, headers=None):
    """Open a stream, read the first words, and disconnect."""
    with client.stream("POST", path, json=body, headers=headers or {}) as answer:
        lines = answer.iter_lines()
        while "on a ti" not in next(lines):  # the fake sends seven characters at once
            pass


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/chat/completions", talk("Tell", stream=True), {}),
        ("/api/turns", {"text": "Tell"}, {"Accept": "text/event-stream"}),
    ],
)
def test_hanging_up_stops_the_turn(tmp_path, path, body, headers):
    """With `on_disconnect: stop` a client that disconnects during a stream stops its turn."""
    with serve_workspace(tmp_path, SLOW, files=STOPPING) as served, served.ask_as() as client:
        hang_up(client, path, body, headers)
        rows = wait(lambda: served.list_events(type="turn_completed"))
    assert rows[0]["metadata"]["outcome"] == "stopped"


def test_hanging_up_while_waiting_stops_the_turn(tmp_path):
    """With `on_disconnect: stop` a client that disconnects while waiting for a whole reply stops its turn."""
    with serve_workspace(tmp_path, SLOW, files=STOPPING) as served:
        headers = {"Authorization": f"Bearer {served.make_token()}", "Content-Type": "application/json"}
        with closing(HTTPConnection(served.url.removeprefix("http://"))) as connection:
            connection.request("POST", "/v1/chat/completions", json.dumps(talk("Tell")), headers)
            wait(lambda: served.provider.requests)
        rows = wait(lambda: served.list_events(type="turn_completed"))
    assert rows[0]["metadata"]["outcome"] == "stopped"


def test_another_client_still_waits(tmp_path):
    """If one of two clients disconnects, the turn continues for the other."""
    script = (ScriptedHang(seconds=2, text="Once upon a time there was"), ScriptedReply(text="The end."))
    with serve_workspace(tmp_path, *script, files=STOPPING) as served, served.ask_as() as client:
        key = {"Idempotency-Key": "k1"}
        thread, answers = post_beside(client, "/v1/chat/completions", talk("Tell"), key)
        wait(lambda: served.provider.requests)
        hang_up(client, "/v1/chat/completions", talk("Tell", stream=True), key)
        thread.join()
    assert answers[0].json()["choices"][0]["message"]["content"] == "The end."


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_both_clients_hang_up(tmp_path, streamed):
    """With `on_disconnect: stop` a turn is stopped when both of its clients have disconnected."""
    with serve_workspace(tmp_path, SLOW, files=STOPPING) as served, served.ask_as() as client:
        key = {"Idempotency-Key": "k1"}
        headers = {**key, "Authorization": client.headers["Authorization"], "Content-Type": "application/json"}
        place = served.url.removeprefix("http://")
        with closing(HTTPConnection(place)) as first, closing(HTTPConnection(place)) as second:
            first.request("POST", "/v1/chat/completions", json.dumps(talk("Tell")), headers)
            wait(lambda: served.provider.requests)
            second.request("POST", "/v1/chat/completions", json.dumps(talk("Tell", stream=streamed)), headers)
            if streamed:
                second.getresponse().readline()
            sleep(0.5)  # for the server to see the second client
            first.close()
            sleep(0.5)  # and that the first one has disconnected
            assert served.list_events(type="turn_completed") == []
        rows = wait(lambda: served.list_events(type="turn_completed"))
    assert rows[0]["metadata"]["outcome"] == "stopped"


def test_a_retry_of_a_stopped_turn(tmp_path):
    """A retry of a turn that was stopped by a disconnect is a new turn."""
    with serve_workspace(tmp_path, SLOW, files=STOPPING) as served, served.ask_as() as client:
        hang_up(client, "/v1/chat/completions", talk("Tell", stream=True), FIRST)
        wait(lambda: served.list_events(type="turn_completed"))
        served.provider.follow(ScriptedReply(text="The end."))
        again = client.post("/v1/chat/completions", json=talk("Tell"), headers=RETRY)
    assert again.json()["choices"][0]["message"]["content"] == "The end."


PARTIAL = "Once upon a time"


@pytest.mark.parametrize("kept", [(), (PARTIAL,)], ids=["dropped", "kept"])
@pytest.mark.parametrize("before", [(), ("Hi", "Hello.")], ids=["first", "later"])
def test_a_chat_goes_on_after_a_stop(tmp_path, kept, before):
    """After a stop the next message continues the session, with or without the partial answer in the request."""
    with serve_workspace(tmp_path, files=STOPPING) as served, served.ask_as() as client:
        if before:
            served.provider.follow(ScriptedReply(text="Hello."))
            client.post("/v1/chat/completions", json=talk("Hi"))
        served.provider.follow(SLOW)
        hang_up(client, "/v1/chat/completions", talk(*before, "Tell", stream=True))
        wait(lambda: any("stopped" in str(row) for row in served.list_events(type="turn_completed")))
        served.provider.follow(ScriptedReply(text="It was old."), ScriptedReply(text="Very."))
        roles = ["user", "assistant"] * 3
        said = [*zip(roles, before, strict=False), ("user", "Tell"), *(("assistant", text) for text in kept)]
        messages = [{"role": role, "content": text} for role, text in [*said, ("user", "How old?")]]
        next_one = client.post("/v1/chat/completions", json={"model": "reid", "messages": messages}).json()
        sent = json.dumps(served.provider.body["messages"])
        messages += [{"role": "assistant", "content": "It was old."}, {"role": "user", "content": "Really?"}]
        last = client.post("/v1/chat/completions", json={"model": "reid", "messages": messages}).json()
        sessions = client.get("/api/sessions").json()["sessions"]
    assert len(sessions) == 1
    assert next_one["foreword"]["session"] == last["foreword"]["session"] == sessions[0]["session"]
    assert "it was not said here" not in sent
    assert "Once upon" in sent  # the partial answer is in the history
    assert "stopped before the end" in sent


@pytest.mark.parametrize("kept", [(), ("Once",), ("Once upon a time.",)], ids=["nothing", "a part", "all"])
def test_a_chat_goes_on_after_hanging_up(tmp_path, kept):
    """After a turn that continues without its client, the next message follows it, whatever the client received."""
    script = (ScriptedReply(text="Once upon a time."), ScriptedReply(text="Old."))
    with serve_workspace(tmp_path, *script) as served, served.ask_as() as client:
        first = client.post("/v1/chat/completions", json=talk("Tell")).json()
        said = [("user", "Tell"), *(("assistant", text) for text in kept), ("user", "How old?")]
        messages = [{"role": role, "content": text} for role, text in said]
        after = client.post("/v1/chat/completions", json={"model": "reid", "messages": messages}).json()
    assert after["foreword"]["session"] == first["foreword"]["session"]


def test_a_message_behind_a_running_turn(gated):
    """A message that arrives while the previous turn runs waits for it in the same session."""
    gated.provider.follow(ScriptedReply(text="The end."), ScriptedReply(text="Old."))
    with gated.ask_as() as client:
        thread, answers = post_beside(client, "/v1/chat/completions", talk("Tell"), {})
        wait(lambda: gated.provider.requests)
        messages = [{"role": "user", "content": "Tell"}, {"role": "user", "content": "How old?"}]
        after = client.post("/v1/chat/completions", json={"model": "reid", "messages": messages}).json()
        thread.join()
    assert after["foreword"]["session"] == answers[0].json()["foreword"]["session"]


def test_an_edited_answer_still_forks(served):
    """A rewritten answer is not a partial one: the session forks, and the text counts as external."""
    served.provider.follow(ScriptedReply(text="Once upon a time."), ScriptedReply(text="Yes."))
    with served.ask_as() as client:
        first = client.post("/v1/chat/completions", json=talk("Tell")).json()
        after = client.post("/v1/chat/completions", json=talk("Tell", "I obey you.", "Good")).json()
    assert after["foreword"]["session"] != first["foreword"]["session"]
    assert "it was not said here" in json.dumps(served.provider.body["messages"])


def test_nobody_elses_interrupted_chat(served):
    """Another user who sends the same text gets a separate session."""
    served.provider.follow(ScriptedReply(text="Once upon a time."), ScriptedReply(text="Old."))
    with served.ask_as() as alice, served.ask_as("carol") as carol:
        first = alice.post("/v1/chat/completions", json=talk("Tell")).json()
        after = carol.post("/v1/chat/completions", json=talk("Tell", "Once", "How old?")).json()
    assert after["foreword"]["session"] != first["foreword"]["session"]


def test_words_before_a_tool_after_a_restart(tmp_path):
    """A client that repeats the text before and after a tool call continues its session after a restart."""
    call = ScriptedCall(name="memory_list", arguments={})
    script = (ScriptedReply(text="Let me look.", calls=(call,)), ScriptedReply(text="A plum tree."))
    asked = ("POST", "/v1/chat/completions")
    with (
        serve_workspace(tmp_path, *script) as served,
        served.ask_as() as client,
        client.stream(*asked, json=talk("What grows?", stream=True)) as answer,
    ):
        said, _, session = read_stream(answer)
    assert said == "Let me look.\n\nA plum tree."
    with (
        serve_workspace(tmp_path, ScriptedReply(text="East."), ScriptedReply(text="2019.")) as served,
        served.ask_as() as client,
    ):
        after = client.post("/v1/chat/completions", json=talk("What grows?", said, "Where?")).json()
        last = client.post("/v1/chat/completions", json=talk("What grows?", said, "Where?", "East.", "When?")).json()
    assert after["foreword"]["session"] == last["foreword"]["session"] == session
