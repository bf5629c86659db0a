"""Whole turns over HTTP: tools run, calls ask for approval, and the session continues after every error."""

import asyncio
import json
import re
import sqlite3
import threading
from dataclasses import replace

import pytest
from served import QUICK, serve_workspace

import foreword
from foreword.http.sse import keep_alive
from foreword.storage.database import STATE_FILE
from foreword.testing import ScriptedCall, ScriptedDisconnect, ScriptedGarbage, ScriptedReply
from waiting import PATIENCE

EVENTS = {"Accept": "text/event-stream"}


class Lamp:
    """A tool that changes something."""

    def __init__(self):
        self.lit = 0


def light(lamp):
    """Make options that add the lamp tool."""

    @foreword.tool(name="lamp", description="Turns the lamp on.", trust="familiar", changes=True)
    async def turn_on() -> str:
        lamp.lit += 1
        return "The lamp is on."

    return replace(QUICK, tools=(turn_on,))


def test_search_and_logs(served):
    """An agent searches memory and the log over HTTP and answers with the results."""
    served.provider.follow(
        ScriptedReply(calls=(ScriptedCall(name="memory_search", arguments={"query": "plum tree"}),)),
        ScriptedReply(calls=(ScriptedCall(name="foreword_logs", arguments={"limit": 5}),)),
        ScriptedReply(text="By the east wall."),
    )
    with served.ask_as() as client:
        answer = client.post("/api/turns", json={"text": "Where is the plum tree?"}).json()
    assert answer["reply"] == "By the east wall."
    sent = json.dumps(served.provider.body)
    assert "planted in 2019" in sent
    assert "message_received" in sent


def test_instructions(served):
    """Standing instructions of a user are in the prompts of their next session, and in no other user's."""
    arguments = {"instructions": "Always answer in bullet points."}
    call = ScriptedReply(calls=(ScriptedCall(name="update_instructions", arguments=arguments),))
    served.provider.follow(call, ScriptedReply(text="If you allow it."), ScriptedReply(text="I will."))
    with served.ask_as("bob") as client, served.ask_as("carol") as other:
        client.post("/api/turns", json={"text": "Always answer in bullet points."})
        (held,) = client.get("/api/held").json()["held"]
        turn = client.post(f"/api/held/{held['held']}", json={"allowed": True}).json()["turn"]
        assert served.do(served.gateway.wait(turn)).text == "I will."
        client.post("/api/sessions", json={})
        for asking, answer in ((client, True), (other, False)):
            asking.post("/api/turns", json={"text": "Hello"})
            assert ("bullet points" in json.dumps(served.provider.body)) is answer


@pytest.mark.parametrize("allowed", [True, False])
def test_approval(tmp_path, allowed):
    """A changing tool waits for the user's approval and respects it."""
    lamp = Lamp()
    script = (ScriptedReply(calls=(ScriptedCall(name="lamp", arguments={}),)), ScriptedReply(text="As you wish."))
    with serve_workspace(tmp_path, *script, options=light(lamp)) as served, served.ask_as() as client:
        asked = {"json": {"text": "Light!"}, "headers": EVENTS}
        with client.stream("POST", "/api/turns", **asked) as answer, served.ask_as() as other:
            name, turn, said = "", "", []
            for line in answer.iter_lines():
                kind, _, rest = line.partition(": ")
                name = rest if kind == "event" else name
                data = json.loads(rest) if kind == "data" else {}
                turn = data.get("turn", turn)
                if kind == "data" and name == "ask":
                    said.append(data["question"])
                    path, body = f"/api/turns/{turn}/answers", {"question": data["id"], "allowed": allowed}
                    with served.ask_as("bob") as stranger:
                        assert stranger.post(path, json=body).status_code == 404
                    assert other.post(path, json=body).json()["allowed"] is allowed
    assert name == "done"
    assert said[0].startswith("lamp")
    assert lamp.lit == int(allowed)


def test_held_call(tmp_path):
    """Chat completions cannot ask for approval, so the call is held."""
    lamp = Lamp()
    script = (ScriptedReply(calls=(ScriptedCall(name="lamp", arguments={}),)), ScriptedReply(text="Done."))
    with serve_workspace(tmp_path, *script, options=light(lamp)) as served:
        said = [{"role": "user", "content": "Light!"}]
        answer = served.open_sdk().chat.completions.create(model="reid", messages=said)
    assert answer.choices[0].message.content.startswith("Done.\n\nWaiting for your approval;")
    assert lamp.lit == 0


@pytest.mark.parametrize(
    "trouble",
    [
        ScriptedGarbage(),
        ScriptedDisconnect(),
        ScriptedReply(calls=(ScriptedCall(name="nothing", arguments={}),)),
        ScriptedReply(calls=(ScriptedCall(name="memory_search", arguments="{no json"),)),
        ScriptedReply(calls=(ScriptedCall(name="memory_search", arguments={"query": 7}),)),
    ],
    ids=["garbled", "broken", "unknown tool", "no arguments", "wrong arguments"],
)
def test_provider_errors(tmp_path, trouble):
    """After any provider output the user gets a response, and the session is usable."""
    with serve_workspace(tmp_path, trouble, ScriptedReply(text="Yes."), ScriptedReply(text="Again.")) as served:
        with served.ask_as() as client:
            first = client.post("/api/turns", json={"text": "Hi"})
            answer = first.json()
            assert first.status_code in (200, 502), first.text
            session = answer.get("session") or answer["error"]["session"]
            again = client.post("/api/turns", json={"text": "Again?", "session": session})
        assert again.status_code == 200


def test_disconnect_while_waiting(tmp_path):
    """A turn completes even if the client disconnects while it waits."""
    import httpx2

    disconnected = threading.Event()
    with serve_workspace(tmp_path) as served:
        served.provider.choose = lambda _: ScriptedReply(text="Late." if disconnected.wait(PATIENCE) else "Never.")
        with served.ask_as() as client:
            with pytest.raises(httpx2.ReadTimeout):
                client.post("/api/turns", json={"text": "Hi"}, timeout=0.3, headers={"Idempotency-Key": "one"})
            disconnected.set()
            again = client.post("/api/turns", json={"text": "Hi"}, headers={"Idempotency-Key": "one"})
        assert again.json()["reply"] == "Late."
        assert len(served.provider.requests) == 1


def test_locked_state(tmp_path):
    """While another process locks the state a message is 503; afterwards it works."""
    with serve_workspace(tmp_path, ScriptedReply(text="Yes.")) as served, served.ask_as() as client:
        other = sqlite3.connect(tmp_path / ".foreword" / STATE_FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = client.post("/api/turns", json={"text": "Hi"})
        assert answer.status_code == 503
        assert answer.headers["Retry-After"]
        assert "not accepted" in answer.json()["error"]["message"]
        other.execute("ROLLBACK")
        other.close()
        assert client.post("/api/turns", json={"text": "Hi"}).json()["reply"] == "Yes."


def test_concurrent_requests(tmp_path):
    """With many concurrent requests each gets its own reply."""
    with serve_workspace(tmp_path) as served:
        served.provider.choose = lambda body: ScriptedReply(
            text=re.findall(r"Number \d+", json.dumps(body["messages"]))[-1]
        )
        wrong = []

        def talk(number):
            with served.ask_as("alice" if number % 2 else "bob") as client:
                session = client.post("/api/sessions", json={}).json()["session"]
                answer = client.post("/api/turns", json={"text": f"Number {number:04}", "session": session}).json()
                if answer.get("reply") != f"Number {number:04}":
                    wrong.append(answer)

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []


def test_keep_alive():
    """A quiet stream gets keep-alive items, and no item is lost."""

    async def speak():
        yield 1
        await asyncio.sleep(0.05)
        yield 2

    async def collect():
        return [piece async for piece in keep_alive(speak(), quiet_s=0.01)]

    items = asyncio.run(collect())
    assert [piece for piece in items if piece] == [1, 2]
    assert None in items


def test_two_situations_two_sessions(served):
    """A situation with a lower ceiling never shares a session with the private chat."""
    served.provider.follow(ScriptedReply(text="A."))
    with served.ask_as() as client:
        private = client.post("/api/turns", json={"text": "Hi"}).json()["session"]
        lowered = {"text": "Hi", "session": private, "situation": "lobby"}
        assert client.post("/api/turns", json=lowered).status_code == 404
