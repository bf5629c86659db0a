"""Claims about whole turns over HTTP: tools run, a person is asked, and whatever goes wrong the session goes on."""

import asyncio
import json
import re
import sqlite3
import threading
from dataclasses import replace

import pytest
from served import QUICK, serve_workspace

from foreword import Tool, Toolset, Trust
from foreword.gateway.api.stream import keep_alive
from foreword.runtime.toolbox import Further
from foreword.store.state import STATE_FILE
from foreword.testing import Breaks, Called, Garbles, Says
from foreword.tools import Answer
from waiting import PATIENCE

EVENTS = {"Accept": "text/event-stream"}


class Lamp:
    """A tool that changes something."""

    def __init__(self):
        self.lit = 0

    async def call(self, _assembly, _name, _arguments):
        """Turn it on."""
        self.lit += 1
        return Answer(text="The lamp is on.", tokens=5)


def light(lamp):
    """Give an agent a lamp."""
    tool = Tool(name="lamp", description="Turns the lamp on.", trust=Trust.FAMILIAR, changes=True)
    return replace(QUICK, further=(Further(tools=Toolset([tool]), runs=lamp),))


def test_search_and_logs(served):
    """An agent searches memory and asks the log over HTTP, and answers with what it found."""
    served.provider.follow(
        Says(calls=(Called(name="memory_search", arguments={"query": "plum tree"}),)),
        Says(calls=(Called(name="foreword_logs", arguments={"limit": 5}),)),
        Says(text="By the east wall."),
    )
    with served.ask_as() as client:
        told = client.post("/api/turns", json={"text": "Where is the plum tree?"}).json()
    assert told["reply"] == "By the east wall."
    sent = json.dumps(served.provider.body)
    assert "planted in 2019" in sent
    assert "message_received" in sent


def test_instructions(served):
    """What a person asks for once is kept, and told to the agent in their next session, and in nobody else's."""
    arguments = {"instructions": "Always answer in bullet points."}
    call = Says(calls=(Called(name="update_instructions", arguments=arguments),))
    served.provider.follow(call, Says(text="If you allow it."), Says(text="I will."))
    with served.ask_as("bob") as client, served.ask_as("carol") as other:
        client.post("/api/turns", json={"text": "Always answer in bullet points."})
        (held,) = client.get("/api/held").json()["held"]
        turn = client.post(f"/api/held/{held['held']}", json={"allowed": True}).json()["turn"]
        assert served.do(served.gateway.wait(turn)).text == "I will."
        client.post("/api/sessions", json={})
        for asking, told in ((client, True), (other, False)):
            asking.post("/api/turns", json={"text": "Hello"})
            assert ("bullet points" in json.dumps(served.provider.body)) is told


@pytest.mark.parametrize("allowed", [True, False])
def test_asked(tmp_path, allowed):
    """A tool that changes something waits for the person's answer, and does what that says."""
    lamp = Lamp()
    script = (Says(calls=(Called(name="lamp", arguments={}),)), Says(text="As you wish."))
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


def test_not_asked(tmp_path):
    """Over chat completions nobody can be asked, so the call is held."""
    lamp = Lamp()
    script = (Says(calls=(Called(name="lamp", arguments={}),)), Says(text="Done."))
    with serve_workspace(tmp_path, *script, options=light(lamp)) as served:
        said = [{"role": "user", "content": "Light!"}]
        answer = served.open_sdk().chat.completions.create(model="reid", messages=said)
    assert answer.choices[0].message.content.startswith("Done.\n\nWaiting for your approval;")
    assert lamp.lit == 0


@pytest.mark.parametrize(
    "trouble",
    [
        Garbles(),
        Breaks(),
        Says(calls=(Called(name="nothing", arguments={}),)),
        Says(calls=(Called(name="memory_search", arguments="{no json"),)),
        Says(calls=(Called(name="memory_search", arguments={"query": 7}),)),
    ],
    ids=["garbled", "broken", "unknown tool", "no arguments", "wrong arguments"],
)
def test_trouble(tmp_path, trouble):
    """Whatever a provider sends, the person gets a clear answer, and the session can be used afterwards."""
    with serve_workspace(tmp_path, trouble, Says(text="Yes."), Says(text="Again.")) as served:
        with served.ask_as() as client:
            first = client.post("/api/turns", json={"text": "Hi"})
            told = first.json()
            assert first.status_code in (200, 502), first.text
            session = told.get("session") or told["error"]["session"]
            again = client.post("/api/turns", json={"text": "Again?", "session": session})
        assert again.status_code == 200


def test_hanging_up_while_waiting(tmp_path):
    """Who hangs up while waiting for a whole answer does not lose the turn."""
    import httpx2

    gone = threading.Event()
    with serve_workspace(tmp_path) as served:
        served.provider.choose = lambda _: Says(text="Late." if gone.wait(PATIENCE) else "Never.")
        with served.ask_as() as client:
            with pytest.raises(httpx2.ReadTimeout):
                client.post("/api/turns", json={"text": "Hi"}, timeout=0.3, headers={"Idempotency-Key": "one"})
            gone.set()
            again = client.post("/api/turns", json={"text": "Hi"}, headers={"Idempotency-Key": "one"})
        assert again.json()["reply"] == "Late."
        assert len(served.provider.requests) == 1


def test_locked(tmp_path):
    """While another process holds the state, a message is not accepted in silence: it is 503, and then it works."""
    with serve_workspace(tmp_path, Says(text="Yes.")) as served, served.ask_as() as client:
        other = sqlite3.connect(tmp_path / ".foreword" / STATE_FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = client.post("/api/turns", json={"text": "Hi"})
        assert answer.status_code == 503
        assert answer.headers["Retry-After"]
        assert "not accepted" in answer.json()["error"]["message"]
        other.execute("ROLLBACK")
        other.close()
        assert client.post("/api/turns", json={"text": "Hi"}).json()["reply"] == "Yes."


def test_many_at_once(tmp_path):
    """Many people can ask at once, and each gets their own answer."""
    with serve_workspace(tmp_path) as served:
        served.provider.choose = lambda body: Says(text=re.findall(r"Number \d+", json.dumps(body["messages"]))[-1])
        wrong = []

        def talk(number):
            with served.ask_as("alice" if number % 2 else "bob") as client:
                session = client.post("/api/sessions", json={}).json()["session"]
                told = client.post("/api/turns", json={"text": f"Number {number:04}", "session": session}).json()
                if told.get("reply") != f"Number {number:04}":
                    wrong.append(told)

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []


def test_sign_of_life():
    """Where nothing is said for a while, a sign of life is given, and nothing that is said is lost."""

    async def speak():
        yield 1
        await asyncio.sleep(0.05)
        yield 2

    async def hear():
        return [piece async for piece in keep_alive(speak(), quiet=0.01)]

    heard = asyncio.run(hear())
    assert [piece for piece in heard if piece] == [1, 2]
    assert None in heard


def test_two_situations_two_sessions(served):
    """A lower situation never shares a session with the private chat."""
    served.provider.follow(Says(text="A."))
    with served.ask_as() as client:
        private = client.post("/api/turns", json={"text": "Hi"}).json()["session"]
        lowered = {"text": "Hi", "session": private, "situation": "lobby"}
        assert client.post("/api/turns", json=lowered).status_code == 404
