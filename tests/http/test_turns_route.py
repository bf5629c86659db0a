"""The gateway's routes: turns, sessions, explain, memory, events and health."""

import json
import os

import pytest
from served import FILES, serve_workspace, show_answer

from foreword.testing import ScriptedCall, ScriptedError, ScriptedHang, ScriptedReply

EVENTS = {"Accept": "text/event-stream"}


def read_events(response):
    """Parse server-sent events into names and data."""
    found = []
    for block in response.read().decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def say(client, text="Hello", **more):
    """Send a message and return the response body."""
    return client.post("/api/turns", json={"text": text, **more}).json()


def test_turn(served):
    """The response to a message has turn, session, tokens, cost and cache usage."""
    served.provider.follow(ScriptedReply(text="Good morning."))
    with served.ask_as() as client:
        answer = client.post("/api/turns", json={"text": "Hello"})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["reply"], body["state"], body["agent"]) == ("Good morning.", "answered", "reid")
    assert body["tokens"]["input"] > 0
    assert body["cost_usd"] > 0
    assert set(body["cache"]) == {"read", "write"}
    assert body["turn"]
    assert body["session"]


def test_streamed(served):
    """A client that accepts an event stream gets the events of the turn from acceptance to the end."""
    call = ScriptedCall(name="memory_list", arguments={})
    served.provider.follow(ScriptedReply(text="One moment.", calls=(call,)), ScriptedReply(text="A plum tree."))
    with served.ask_as() as client, client.stream("POST", "/api/turns", json={"text": "Hi"}, headers=EVENTS) as answer:
        events = read_events(answer)
    names = list(dict.fromkeys(name for name, _ in events))
    assert names == ["accepted", "words", "tool", "done"]
    assert [data["state"] for name, data in events if name == "tool"] == ["begun", "done"]
    assert events[-1][1]["reply"] == "A plum tree."
    assert events[0][1]["turn"] == events[-1][1]["turn"]


def test_suppressed_reply(served):
    """A suppressed reply is an empty reply with `silent`, and the marker is never shown."""
    served.provider.choose = lambda _: ScriptedReply(text="`NO_ACTION_NEEDED`")
    with served.ask_as() as client:
        body = say(client)
        assert (body["state"], body["reply"], body["silent"]) == ("answered", "", True)
        with client.stream("POST", "/api/turns", json={"text": "Hi"}, headers=EVENTS) as answer:
            events = read_events(answer)
        assert [name for name, _ in events] == ["accepted", "done"]
        assert events[-1][1]["silent"]
    with served.open_sdk() as sdk:
        asked = {"model": "reid", "messages": [{"role": "user", "content": "Hi"}]}
        assert sdk.chat.completions.create(**asked).choices[0].message.content == ""
        assert (
            "".join(one.choices[0].delta.content or "" for one in sdk.chat.completions.create(**asked, stream=True))
            == ""
        )
    assert served.list_events(type="message_sent") == []


def test_queued(served):
    """A turn that the provider cannot take is 202 with its state, and remains queued."""
    served.provider.follow(*(ScriptedError(status=429) for _ in range(4)))
    with served.ask_as() as client:
        answer = client.post("/api/turns", json={"text": "Hi"})
        body = answer.json()
        assert (answer.status_code, body["state"], body["finished"]) == (202, "queued", None)
        assert client.get(f"/api/turns/{body['turn']}").json()["state"] == "queued"


def test_queued_stream(served):
    """A stream whose turn is queued ends with `queued`."""
    served.provider.follow(*(ScriptedError(status=429) for _ in range(4)))
    with served.ask_as() as client, client.stream("POST", "/api/turns", json={"text": "Hi"}, headers=EVENTS) as answer:
        assert read_events(answer)[-1][0] == "queued"


def test_failed(served):
    """A failed turn is an error with a text for the user, its turn and its session."""
    served.provider.follow(ScriptedError(status=400, message="bad"))
    with served.ask_as() as client:
        answer = client.post("/api/turns", json={"text": "Hi"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (502, "failed")
    assert error["turn"]
    assert error["session"]


def test_idempotency_key(served):
    """A message sent twice with one idempotency key is one turn; another user's key is independent."""
    served.provider.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."))
    headers = {"Idempotency-Key": "k1"}
    with served.ask_as() as client, served.ask_as("bob") as other:
        first, second = (client.post("/api/turns", json={"text": "Hi"}, headers=headers).json() for _ in range(2))
        third = other.post("/api/turns", json={"text": "Hi"}, headers=headers).json()
    assert first["turn"] == second["turn"] != third["turn"]
    assert (first["reply"], third["reply"]) == ("One.", "Two.")
    assert len(served.provider.requests) == 2


def test_reused_key(served):
    """A used idempotency key with another text is refused."""
    headers = {"Idempotency-Key": "k1"}
    with served.ask_as() as client:
        client.post("/api/turns", json={"text": "One?"}, headers=headers)
        other = client.post("/api/turns", json={"text": "Two?"}, headers=headers)
    assert other.status_code == 422
    assert "was used for a different request" in other.json()["error"]["message"]
    assert len(served.provider.requests) == 1


def test_key_in_lower_situation(served):
    """The idempotency key of a private turn is 404 in a lower situation, and the message is not sent again."""
    served.provider.follow(ScriptedReply(text="Under the plum tree."))
    headers = {"Idempotency-Key": "k1"}
    with served.ask_as() as client:
        client.post("/api/turns", json={"text": "Where?"}, headers=headers)
        lower = client.post("/api/turns", json={"text": "Where?", "situation": "lobby"}, headers=headers)
    assert lower.status_code == 404
    assert "plum" not in lower.text
    assert len(served.provider.requests) == 1


def test_recorded(served):
    """A turn can be read again, with its state and the exact prompt."""
    served.provider.follow(ScriptedReply(text="Yes."))
    with served.ask_as() as client:
        turn = say(client)["turn"]
        shown = client.get(f"/api/turns/{turn}").json()
    (prompt,) = shown["prompts"]
    sent = served.provider.requests[0].body
    assert prompt["schema"] == "foreword/1"
    assert all(block["text"] in prompt["text"] for block in sent["system"])


def test_stopped(tmp_path):
    """A running turn can be stopped; its stream ends with an error, and the session is usable afterwards."""
    with (
        serve_workspace(tmp_path, ScriptedHang(seconds=30, text="Well"), ScriptedReply(text="Again.")) as served,
        served.ask_as() as client,
        served.ask_as() as other,
    ):
        with client.stream("POST", "/api/turns", json={"text": "Hi"}, headers=EVENTS) as answer:
            lines = answer.iter_lines()
            while not (line := next(lines)).startswith("data: "):
                pass
            body = json.loads(line.removeprefix("data: "))
            while "words" not in next(lines):
                pass
            assert other.delete(f"/api/turns/{body['turn']}").json() == {"turn": body["turn"], "stopped": True}
            rest = "\n".join(lines)
        assert "event: error" in rest
        assert '"code":"stopped"' in rest
        assert other.delete(f"/api/turns/{body['turn']}").json()["stopped"] is False
        assert other.get(f"/api/turns/{body['turn']}").json()["state"] == "stopped"
        assert say(other, session=body["session"])["reply"] == "Again."


def test_no_question(served):
    """An answer to a question that the turn did not ask is 409."""
    served.provider.follow(ScriptedReply(text="Yes."))
    with served.ask_as() as client:
        turn = say(client)["turn"]
        answer = client.post(f"/api/turns/{turn}/answers", json={"question": "q", "allowed": True})
    assert (answer.status_code, answer.json()["error"]["param"]) == (409, "question")


def test_sessions(served):
    """Sessions can be listed, read with their messages, started and forked after a number of turns."""
    served.provider.follow(*(ScriptedReply(text=f"Answer {number}.") for number in range(4)))
    with served.ask_as() as client:
        first = say(client, "A")
        assert say(client, "B")["session"] == first["session"]
        begun = client.post("/api/sessions", json={})
        assert begun.status_code == 201
        assert say(client, "C")["session"] == begun.json()["session"] != first["session"]
        fork = client.post(f"/api/sessions/{first['session']}/fork", json={"turns": 1}).json()
        assert fork["parent"] == first["session"]
        body = client.get(f"/api/sessions/{fork['session']}").json()["messages"]
        assert [message["text"] for message in body if message["role"] == "assistant"] == ["Answer 0."]
        listed = [one["session"] for one in client.get("/api/sessions").json()["sessions"]]
        assert {fork["session"], first["session"], begun.json()["session"]} == set(listed)
        assert client.post(f"/api/sessions/{first['session']}/fork", json={"turns": 9}).status_code == 422


def test_situation_lowers(served):
    """A request can lower its situation but not raise it; an unknown situation is public."""
    with served.ask_as() as client:
        levels = {}
        for situation in ("dm", "group", "lobby", "who knows"):
            body = client.post("/api/explain", json={"text": "Hi", "situation": situation}).json()
            levels[situation] = body["clearance"]["level"]
        assert levels == {"dm": "full", "group": "familiar", "lobby": "public", "who knows": "public"}
        raised = client.post("/api/explain", json={"text": "Hi", "situation": "system"})
    assert (raised.status_code, raised.json()["error"]["param"]) == (422, "situation")


def test_lowered_turn(served):
    """A turn in a lower situation has another session, and its prompt contains nothing above its clearance."""
    served.provider.follow(ScriptedReply(text="Hm."), ScriptedReply(text="Hm."))
    with served.ask_as() as client:
        private, public = say(client), say(client, situation="lobby")
    assert private["session"] != public["session"]
    first, second = (str(request.body) for request in served.provider.requests)
    assert "garden.md" in first
    assert "Calm and exact" in first
    assert "garden.md" not in second
    assert "Calm and exact" not in second


def test_explain(served):
    """/api/explain assembles the prompt for the caller; nothing is sent or stored."""
    with served.ask_as("bob") as client:
        body = client.post("/api/explain", json={"text": "What grows?", "agent": "ada"}).json()
        assert client.get("/api/sessions").json() == {"sessions": []}
    assert body["clearance"]["level"] == "familiar"
    assert "garden" not in json.dumps(body)
    assert body["table"].startswith("clearance: familiar")
    assert not served.provider.requests


def test_memory(served):
    """Memory is searched, listed and read at the caller's clearance; entries above it are 404."""
    with served.ask_as() as alice, served.ask_as("bob") as bob:
        for client, sees in ((alice, True), (bob, False)):
            passages = client.get("/api/memory/search", params={"query": "plum tree"}).json()["passages"]
            assert bool(passages) is sees
            assert ("garden.md" in str(client.get("/api/memory").json())) is sees
            read = client.get("/api/memory/entry", params={"path": "private/garden.md"})
            assert read.status_code == (200 if sees else 404)
        (passage,) = bob.get("/api/memory/search", params={"query": "chess"}).json()["passages"]
        assert passage["path"] == "social/games.md"
        nowhere = bob.get("/api/memory/entry", params={"path": "private/nothing.md"})
        withheld = bob.get("/api/memory/entry", params={"path": "private/garden.md"})
    assert show_answer(nowhere) == show_answer(withheld)
    assert nowhere.status_code == withheld.status_code


def test_log(served):
    """A user sees the events and costs of their turns; the events of a turn are its trace."""
    served.provider.follow(ScriptedReply(text="Yes."))
    with served.ask_as("bob") as client:
        turn = say(client)["turn"]
        served.gateway.listeners.recorder.flush(60)
        events = client.get("/api/events", params={"type": "message_received"}).json()["events"]
        assert [event["trace_id"] for event in events] == [turn]
        assert {event["user_id"] for event in client.get(f"/api/events/{turn}").json()["events"]} == {"bob"}
        cost = client.get("/api/cost", params={"by": "session", "since": "3650d"}).json()
    assert cost["whole"]["turns"] == 1
    assert cost["whole"]["cost_usd"] > 0


@pytest.mark.parametrize("asked", [{"since": "never"}, {"type": "nothing"}, {"since": "1h", "until": "2h"}])
def test_bad_filters(served, asked):
    """An invalid filter is 422."""
    with served.ask_as() as client:
        assert client.get("/api/events", params=asked).status_code == 422


def test_health(served):
    """The health routes need no token and reveal nothing."""
    import httpx2

    for path in ("/healthz", "/readyz"):
        answer = httpx2.get(served.url + path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_not_ready_on_a_full_disk(served):
    """/readyz is 503 while the state cannot be written, and 200 afterwards."""
    import resource

    import httpx2

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # RLIMIT_FSIZE simulates a full disk: SQLite gets the same write error.
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(os.path.join(served.folder, "state.sqlite-wal")), hard))
    try:
        full = httpx2.get(f"{served.url}/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (full.status_code, full.json()["error"]["message"]) == (503, "not ready")
    assert httpx2.get(f"{served.url}/readyz").status_code == 200


def test_readiness_writes_nothing(served):
    """Readiness checks do not grow the state."""

    def measure():
        return sum(os.path.getsize(os.path.join(served.folder, f"state.sqlite{end}")) for end in ("", "-wal"))

    async def ask():
        for _ in range(1_100):  # SQLite checkpoints its WAL after 1,000 pages
            await served.gateway.prove()

    served.do(ask())
    before = measure()
    served.do(ask())
    assert measure() - before < 64 * 1024  # one 4 kB page per check would be 4.4 MB


def test_removed_user(tmp_path):
    """A user who is removed from the configuration during a turn is refused from then on."""
    with (
        serve_workspace(tmp_path, ScriptedHang(seconds=0.5), ScriptedReply(text="Yes.")) as served,
        served.ask_as("bob") as client,
    ):
        with client.stream("POST", "/api/turns", json={"text": "Hi"}, headers=EVENTS) as answer:
            next(answer.iter_lines())
            config = FILES["foreword.yaml"].replace("  bob: {trust: familiar}\n", "")
            (tmp_path / "foreword.yaml").write_text(config)
            served.workspace.refresh(now=True)
        assert client.get("/api/sessions").status_code == 401
