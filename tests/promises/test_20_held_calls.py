"""Calls that need approval: the user is asked, or the call is held until a decision."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx2
import pytest

import foreword
from foreword.config.schema import HttpServer
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.messages import RoutedMessage, ScheduledRun
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.http.app import create_app
from foreword.privacy.erasure import erase_person, preview_erasure
from foreword.privacy.export import export_person
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import (
    NOON,
    ManualClock,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    make_workspace,
    run_fake_provider,
)
from foreword.types import Delivery, Trust
from waiting import until

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: BOB}
"""
FILES = {"foreword.yaml": CONFIG.replace("BOB", "inner"), "SOUL.md": "Calm and exact.\n"}
GOODS = {"item": "milk", "count": 2}
ORDER = ScriptedReply(calls=(ScriptedCall(name="order", arguments=GOODS),))
LIVELY = GatewaySettings(look=0.02, renew=0.05, grace=5.0, thinking=0.02)


class Shop:
    """A tool whose every call needs approval."""

    def __init__(self):
        self.orders = []

    def offer(self):
        """Offer the tool to the agents."""

        @foreword.tool(trust="familiar", changes=True)
        async def order(item: str, count: int = 1) -> str:
            return self.place({"item": item, "count": count})

        return (order,)

    def place(self, goods):
        """Order goods."""
        self.orders.append(goods)
        return f"ordered {goods['item']}, number 77"


class Messenger:
    """A channel like Telegram, whose users are played by a test."""

    takes_key = True

    def __init__(self):
        self.arrived = []
        self._hear = None
        self._count = 0
        self._running = asyncio.Event()

    def split(self, text):
        """Do not split a reply."""
        return [text]

    async def deliver(self, address, part, key):  # noqa: ARG002
        """Record a reply."""
        self.arrived.append((address, part))

    async def show_work(self, address):
        """Show nothing."""

    async def run(self, hear):
        """Receive the messages of the test."""
        self._hear = hear
        self._running.set()
        await asyncio.Event().wait()

    async def write(self, text, sender="1001", place=""):
        """Send a message as a user, in private or in a group."""
        await self._running.wait()
        self._count += 1
        chat = {"chat": ChatKind.GROUP, "place": place, "called": True} if place else {}
        address = place or sender
        await self._hear(
            InboundMessage(channel="telegram", sender=sender, text=text, key=f"m{self._count}", address=address, **chat)
        )

    async def until(self, count):
        """Wait for a number of replies, and return the newest."""
        await until(lambda: len(self.arrived) >= count)
        return self.arrived[count - 1]


class House:
    """A gateway with its HTTP API, and helpers for its users."""

    def __init__(self, folder, gateway, clock):
        self.folder, self.gateway, self.clock = folder, gateway, clock
        self._app = create_app(gateway, HttpServer(port=0, rate=100_000))

    def ask_as(self, user="alice"):
        """Call the API as a user."""
        with ApiTokens(os.path.join(self.folder, ".foreword")) as tokens:
            token = tokens.create(user, self.gateway.workspace.config.users).secret
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self._app),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=120,
        )

    async def hold(self, user="alice"):
        """Cause a held call for a user over the API, and return it as the API lists it."""
        async with self.ask_as(user) as client:
            reply = (await client.post("/api/turns", json={"text": "Order milk."})).json()
            (held,) = (await client.get("/api/held")).json()["held"]
            return reply, held

    async def decide(self, held, *, allowed, user="alice"):
        """Decide on a call over the API."""
        async with self.ask_as(user) as client:
            return await client.post(f"/api/held/{held}", json={"allowed": allowed})

    async def read(self, session):
        """Read the messages of a session."""
        rows = await self.gateway.sessions.read(session)
        return "\n".join(message.text for row in rows for message in row.segment.texts)


def play(folder, script, work, *, shop, channels=None, clock=None, files=FILES, **more):
    """Open a gateway with the shop tool and a scripted model, and run a test in it."""
    moved = clock or ManualClock(NOON)

    @asynccontextmanager
    async def opened(url):
        workspace = make_workspace(folder, files)
        options = GatewayOptions(settings=LIVELY, tools=shop.offer(), channels=channels or {}, clock=moved, **more)
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
        async with open_gateway(workspace, environ, options) as gateway:
            yield House(folder, gateway, moved)

    async def main(url):
        async with opened(url) as house:
            return await work(house)

    with run_fake_provider(*script, clock=moved) as provider:
        result = asyncio.run(main(provider.url))
        assert {request.refused for request in provider.requests} <= {""}
        return result, provider


@pytest.mark.parametrize("way", ["api", "v1", "stream"])
def test_nobody_listens(tmp_path, way):
    """On /v1, and on /api/turns without events, no call runs; the reply names the held call and where to allow it."""
    shop = Shop()

    async def work(house):
        async with house.ask_as() as client:
            if way == "api":
                text = (await client.post("/api/turns", json={"text": "Order milk."})).json()["reply"]
            else:
                said = [{"role": "user", "content": "Order milk."}]
                body = {"model": "reid", "messages": said, "stream": way == "stream"}
                answer = await client.post("/v1/chat/completions", json=body)
                text = (
                    read_stream(answer.text) if way == "stream" else answer.json()["choices"][0]["message"]["content"]
                )
            return text, (await client.get("/api/held")).json()["held"]

    (text, (held,)), provider = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert shop.orders == []
    assert text.startswith("It waits.\n\nWaiting for your approval; nothing has run yet:")
    assert "order\n  item: milk\n  count: 2" in text
    assert all(f"{way}{held['held']}" in text for way in ("/allow ", "/deny ", "POST /api/held/"))
    assert "foreword chat" in text
    assert (held["name"], held["arguments"]) == ("order", GOODS)
    assert f"It is held as {held['held']}." in json.dumps(provider.body)


def read_stream(text):
    """Read the text of a stream of chunks."""
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])


def test_allowed(tmp_path):
    """An allowed call runs once with the stored arguments, and its result reaches the user in that session."""
    shop = Shop()

    async def work(house):
        reply, held = await house.hold()
        first = await house.decide(held["held"], allowed=True)
        again = await house.decide(held["held"], allowed=True)
        done = await house.gateway.wait(first.json()["turn"])
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json()["turn"] == again.json()["turn"] == done.turn
        assert done.session == reply["session"]
        async with house.ask_as() as client:
            assert (await client.get("/api/held")).json() == {"held": []}
            shown = (await client.get(f"/api/turns/{done.turn}")).json()["reply"]
        late = await house.decide(held["held"], allowed=False)
        return shown, late.status_code, await house.read(reply["session"])

    script = (ORDER, ScriptedReply(text="It waits."), ScriptedReply(text="Number 77 is on its way."))
    (shown, late, said), provider = play(tmp_path, script, work, shop=shop)
    assert shop.orders == [GOODS]
    assert (shown, late) == ("Number 77 is on its way.", 409)
    assert "ordered milk, number 77" in json.dumps(provider.body["messages"][-1])
    assert "ordered milk, number 77" in said


def test_denied(tmp_path):
    """A denied call never runs, and its session says so."""
    shop = Shop()

    async def work(house):
        reply, held = await house.hold()
        denied = await house.decide(held["held"], allowed=False)
        late = await house.decide(held["held"], allowed=True)
        return denied.json(), late, await house.read(reply["session"])

    (denied, late, said), _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert shop.orders == []
    assert (denied["allowed"], denied["turn"]) == (False, None)
    assert (late.status_code, "(order) is already denied" in late.text) == (409, True)
    assert "order was not run: alice denied it" in said


def test_expired(tmp_path):
    """A call without a decision is dropped after 24 hours, and its session says so."""
    shop, clock = Shop(), ManualClock(NOON)

    async def work(house):
        reply, held = await house.hold()
        clock.move(24 * 3600)
        late = await house.decide(held["held"], allowed=True)
        async with asyncio.timeout(120):
            while "was not run" not in (said := await house.read(reply["session"])):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return late, said

    (late, said), _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop, clock=clock)
    assert shop.orders == []
    assert (late.status_code, "(order) is already expired" in late.text) == (409, True)
    assert "expired after 24 hours" in said


def test_lost_trust(tmp_path):
    """A user who has lost trust since the call was held cannot run it."""
    shop = Shop()

    async def work(house):
        _, held = await house.hold("bob")
        lower = CONFIG.replace("BOB", "familiar")
        (tmp_path / "foreword.yaml").write_text(lower, encoding="utf-8")
        house.gateway.reloading.look(now=True)
        return await house.decide(held["held"], allowed=True, user="bob")

    answer, _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert shop.orders == []
    assert answer.status_code == 404


def test_gained_trust(tmp_path):
    """A call runs only at the clearance at which it was made, not at a higher one."""
    shop = Shop()

    async def work(house):
        _, held = await house.hold("bob")
        (tmp_path / "foreword.yaml").write_text(CONFIG.replace("BOB", "full"), encoding="utf-8")
        house.gateway.reloading.look(now=True)
        return await house.decide(held["held"], allowed=True, user="bob")

    answer, _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert shop.orders == []
    assert (answer.status_code, "access has changed since order was requested" in answer.text) == (409, True)


def test_one_s_own(tmp_path):
    """Only the user who caused a held call sees it and decides on it; for others it does not exist."""
    shop = Shop()

    async def work(house):
        _, held = await house.hold("bob")
        async with house.ask_as("alice") as owner:
            listed = (await owner.get("/api/held")).json()["held"]
        answers = [await house.decide(held["held"], allowed=allowed, user="alice") for allowed in (True, False)]
        return listed, [one.status_code for one in answers]

    found, _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert (found, shop.orders) == (([], [404, 404]), [])


def test_restart(tmp_path):
    """A held call survives a restart; the same call of a session is held once, and each reply announces it."""
    shop = Shop()

    async def hold(house):
        replies = [await house.hold() for _ in range(2)]
        assert len({held["held"] for _, held in replies}) == 1
        for reply, held in replies:
            assert f"/allow {held['held']}" in reply["reply"]
        return replies[0][1]["held"]

    held, _ = play(
        tmp_path, (ORDER, ScriptedReply(text="It waits."), ORDER, ScriptedReply(text="Still.")), hold, shop=shop
    )

    async def allow(house):
        turn = (await house.decide(held, allowed=True)).json()["turn"]
        return (await house.gateway.wait(turn)).text

    assert play(tmp_path, (ScriptedReply(text="Done."),), allow, shop=shop)[0] == "Done."
    assert shop.orders == [GOODS]


def test_the_model_is_away(tmp_path):
    """If no model can report the result, the reply contains the result, and a retry repeats no call."""
    shop = Shop()

    async def work(house):
        _, held = await house.hold()
        turn = (await house.decide(held["held"], allowed=True)).json()["turn"]
        return (await house.gateway.wait(turn)).text

    script = (ORDER, ScriptedReply(text="It waits."), ScriptedError(status=400))
    text, _ = play(tmp_path, script, work, shop=shop)
    assert shop.orders == [GOODS]
    assert "ordered milk, number 77" in text


def test_a_client_that_repeats(tmp_path):
    """An OpenAI client continues its session after a call was allowed elsewhere, and the agent knows the result."""
    shop = Shop()

    async def work(house):
        async with house.ask_as() as client:
            said = [{"role": "user", "content": "Order milk."}]
            first = (await client.post("/v1/chat/completions", json={"model": "reid", "messages": said})).json()
            (held,) = (await client.get("/api/held")).json()["held"]
            turn = (await house.decide(held["held"], allowed=True)).json()["turn"]
            await house.gateway.wait(turn)
            said += [first["choices"][0]["message"], {"role": "user", "content": "And?"}]
            second = (await client.post("/v1/chat/completions", json={"model": "reid", "messages": said})).json()
            return first["foreword"]["session"], second["foreword"]["session"]

    script = (
        ORDER,
        ScriptedReply(text="It waits."),
        ScriptedReply(text="It is ordered."),
        ScriptedReply(text="Number 77."),
    )
    (first, second), provider = play(tmp_path, script, work, shop=shop)
    assert first == second
    assert "ordered milk, number 77" in json.dumps(provider.body["messages"])


def test_telegram(tmp_path):
    """On Telegram a call is held, and /allow_ID in private runs it; the answer arrives in that chat."""
    shop, people = Shop(), Messenger()

    async def work(house):
        await people.write("Order milk.")
        _, text = await people.until(1)
        (held,) = await house.gateway.held.list("alice", Trust.FULL)
        await people.write(f"/allow_{held.id}", place="-9")
        elsewhere = await people.until(2)
        assert shop.orders == []
        await people.write(f"/allow_{held.id}")
        await until(lambda: ("1001", "Number 77.") in people.arrived)
        await people.write("/allow")
        await until(lambda: ("1001", "No calls are waiting for approval.") in people.arrived)
        return text, elsewhere

    script = (ORDER, ScriptedReply(text="It waits."), ScriptedReply(text="Number 77."))
    (text, elsewhere), _ = play(tmp_path, script, work, shop=shop, channels={"telegram": people})
    assert shop.orders == [GOODS]
    assert "Waiting for your approval" in text
    assert elsewhere == ("-9", "This command works only in a private chat.")


def test_allowed_from_another_place(tmp_path):
    """A web call that is allowed on Telegram is answered there as well; a stranger there cannot decide."""
    shop, people = Shop(), Messenger()

    async def work(house):
        _, held = await house.hold()
        await people.write(f"/allow {held['held']}", sender="666")
        assert await people.until(1) == ("666", "there is no such held call")
        assert shop.orders == []
        await people.write("/deny 00000000")
        await people.write(f"/allow {held['held']}")
        await until(lambda: ("1001", "Number 77.") in people.arrived)

    script = (ORDER, ScriptedReply(text="It waits."), ScriptedReply(text="Number 77."))
    play(tmp_path, script, work, shop=shop, channels={"telegram": people})
    assert shop.orders == [GOODS]


def test_a_bare_command_only_lists(tmp_path):
    """/allow and /deny without an id list the held call, and neither runs nor drops it."""
    shop, people = Shop(), Messenger()

    async def work(house):
        _, held = await house.hold()
        listed = []
        for number, command in enumerate(("/allow", "/deny"), 1):
            await people.write(command)
            listed.append((await people.until(number))[1])
        assert [one.id for one in await house.gateway.held.list("alice", Trust.FULL)] == [held["held"]]
        return listed, held["held"]

    (listed, held), _ = play(
        tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop, channels={"telegram": people}
    )
    assert shop.orders == []
    assert all("item: milk" in text and f"/allow_{held} or /deny_{held}" in text for text in listed)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_an_answer_in_a_format(tmp_path, streamed):
    """With a response_format the model's content is unchanged; `foreword.held` and a header have the call."""
    shop = Shop()
    schema = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "done", "schema": schema}}

    async def work(house):
        async with house.ask_as() as client:
            said = [{"role": "user", "content": "Order milk."}]
            body = {"model": "reid", "messages": said, "response_format": wanted, "stream": streamed}
            answer = await client.post("/v1/chat/completions", json=body)
            return answer, (await client.get("/api/held")).json()["held"]

    (answer, waiting), _ = play(tmp_path, (ORDER, ScriptedReply(text='{"done": false}')), work, shop=shop)
    assert (len(waiting), shop.orders) == (1, [])
    if streamed:
        text, own = read_stream(answer.text), json.loads(answer.text.split("data: ")[-2])["foreword"]
    else:
        text, own = answer.json()["choices"][0]["message"]["content"], answer.json()["foreword"]
        assert answer.headers["Foreword-Held"] == waiting[0]["held"]
    assert json.loads(text) == {"done": False}
    assert own["held"] == waiting


def test_a_retry_after_the_call_was_allowed(tmp_path):
    """An SDK's retry of a request whose held call was allowed since gets the first reply, not an error."""
    shop = Shop()

    async def work(house):
        async with house.ask_as() as client:
            body = {"model": "reid", "messages": [{"role": "user", "content": "Order milk."}]}
            first = await client.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "0"})
            (held,) = (await client.get("/api/held")).json()["held"]
            turn = (await house.decide(held["held"], allowed=True)).json()["turn"]
            await house.gateway.wait(turn)
            again = await client.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "1"})
            return first.json(), again

    (first, again), _ = play(
        tmp_path, (ORDER, ScriptedReply(text="It waits."), ScriptedReply(text="Done.")), work, shop=shop
    )
    assert again.status_code == 200, again.text
    assert again.json()["foreword"]["turn"] == first["foreword"]["turn"]
    assert shop.orders == [GOODS]


def test_a_note_is_no_notification(tmp_path):
    """The note about a denied call is in the conversation, and is not listed as a notification of the agent."""
    shop = Shop()

    async def work(house):
        reply, held = await house.hold()
        await house.decide(held["held"], allowed=False)
        async with house.ask_as() as client:
            listed = (await client.get("/api/notifications")).json()["notifications"]
        shown = await house.gateway.sessions.list_notifications(reply["session"])
        return listed, list(shown), await house.read(reply["session"])

    (listed, shown, said), _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert (listed, shown) == ([], [])
    assert "alice denied it" in said


def test_scheduled(tmp_path):
    """A scheduled run holds the call, and its delivery says so, even without any other text."""
    shop, people = Shop(), Messenger()

    async def work(house):
        scheduled = ScheduledRun(schedule="milk", delivery=Delivery.AS_NEEDED, ceiling=Trust.FULL)
        run = RoutedMessage(
            text="Order milk.",
            user="alice",
            channel="scheduled",
            situation="system",
            through="telegram",
            address="1001",
            scheduled_run=scheduled,
        )
        await house.gateway.accept(run)
        _, text = await people.until(1)
        await people.write(re.search(r"/allow [0-9a-f]+", text)[0])
        await until(lambda: ("1001", "Number 77.") in people.arrived)
        return text

    script = (ORDER, ScriptedReply(text="NO_ACTION_NEEDED"), ScriptedReply(text="Number 77."))
    text, _ = play(tmp_path, script, work, shop=shop, channels={"telegram": people})
    assert text.startswith("Waiting for your approval; nothing has run yet:")
    assert shop.orders == [GOODS]


def test_a_scheduled_write(tmp_path):
    """A scheduled run holds `write_file` although its user planned it; the call is listed, and runs once allowed."""
    notes = tmp_path / "notes"
    notes.mkdir()
    config = FILES["foreword.yaml"].replace('sonnet-5"', f'sonnet-5", directories: [{json.dumps(str(notes))}]')
    shop, people = Shop(), Messenger()
    letter = {"path": f"{notes}/diary.md", "text": "All is well.\n"}

    async def work(house):
        async with house.ask_as() as client:
            plan = {"agent": "reid", "say": "Write the diary.", "at": "in 1 minute", "to": "telegram:1001"}
            assert (await client.post("/api/schedules", json=plan)).status_code == 201
            house.clock.move(61)
            _, text = await people.until(1)
            (held,) = (await client.get("/api/held")).json()["held"]
            async with house.ask_as("bob") as other:
                assert (await other.get("/api/held")).json() == {"held": []}
            assert not (notes / "diary.md").exists()
            allowed = await house.decide(held["held"], allowed=True)
            await house.gateway.wait(allowed.json()["turn"])
            assert (await client.get("/api/held")).json() == {"held": []}
            await until(lambda: ("1001", "The diary is written.") in people.arrived)
            return text, held

    write = ScriptedReply(calls=(ScriptedCall(name="write_file", arguments=letter),))
    script = (write, ScriptedReply(text="It waits."), ScriptedReply(text="The diary is written."))
    files = {**FILES, "foreword.yaml": config}
    more = {"channels": {"telegram": people}, "files": files, "scheduling": True}
    (text, held), _ = play(tmp_path / "house", script, work, shop=shop, **more)
    assert (held["name"], held["arguments"]) == ("write_file", letter)
    assert text.startswith("It waits.\n\nWaiting for your approval; nothing has run yet:")
    assert f"/allow {held['held']}" in text or f"/allow_{held['held']}" in text
    assert (notes / "diary.md").read_text(encoding="utf-8") == "All is well.\n"


def test_an_unanswered_question(tmp_path):
    """A call whose question is not answered in time is held, not denied."""
    shop = Shop()

    async def work(house):
        accepted = await house.gateway.accept(RoutedMessage(text="Order milk.", user="alice", asks=True))
        reply = await house.gateway.wait(accepted.turn)
        return reply.text, await house.gateway.held.list("alice", Trust.FULL)

    (text, held), _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=shop)
    assert (len(held), shop.orders) == (1, [])
    assert held[0].id in text


KILLED = """
import asyncio, os, signal, sys
sys.path.insert(0, {tests!r})
from test_20_held_calls import FILES, LIVELY, Shop
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.testing import make_workspace
from foreword.types import Trust

class Deadly(Shop):
    def place(self, goods):
        with open({diary!r}, "a") as file:
            file.write("ordered\\n")
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    environ = {{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": {url!r}}}
    options = GatewayOptions(settings=LIVELY, tools=Deadly().offer())
    async with open_gateway(make_workspace({folder!r}, FILES), environ, options) as gateway:
        (held,) = await gateway.held.list("alice", Trust.FULL)
        accepted = await gateway.allow_held("alice", Trust.FULL, held.id)
        await gateway.wait(accepted.turn)

asyncio.run(main())
"""


def test_killed_while_it_runs(tmp_path):
    """A call that was running when the process was killed is not repeated, and the agent is informed."""
    folder, diary = tmp_path / "house", tmp_path / "diary"
    shop = Shop()

    async def hold(house):
        _, held = await house.hold()
        return held["held"]

    held, _ = play(folder, (ORDER, ScriptedReply(text="It waits.")), hold, shop=shop, clock=RealClock())
    with run_fake_provider() as provider:
        here = os.path.dirname(os.path.abspath(__file__))
        script = KILLED.format(tests=os.pathsep.join((here,)), diary=str(diary), url=provider.url, folder=str(folder))
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join((here, os.path.dirname(here)))}
        ended = subprocess.run([sys.executable, "-c", script], env=environ, check=False, timeout=300)
    assert ended.returncode == -signal.SIGKILL

    async def go_on(house):
        again = await house.decide(held, allowed=True)
        return (await house.gateway.wait(again.json()["turn"])).text

    text, provider = play(folder, (ScriptedReply(text="I do not know."),), go_on, shop=shop, clock=RealClock())
    assert (text, shop.orders, diary.read_text(encoding="utf-8")) == ("I do not know.", [], "ordered\n")
    assert "it had begun before an interruption" in json.dumps(provider.body["messages"][-1])


class RealClock:
    """The clock of the host, which a killed process shares."""

    def __call__(self):
        """Return the time."""
        return datetime.now(UTC)


def test_the_terminal(tmp_path):
    """`foreword chat "/allow ID"` runs a held call and `/deny ID` drops one; piped or without an id neither does."""
    make_workspace(tmp_path, FILES)
    wish = ScriptedReply(calls=(ScriptedCall(name="update_instructions", arguments={"instructions": "Be brief."}),))

    def chat(words, url, piped=""):
        environ = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
        command = [sys.executable, "-m", "foreword", "-w", str(tmp_path), "chat", *([words] if words else [])]
        return subprocess.run(
            command, env=environ, input=piped, capture_output=True, text=True, check=True, timeout=300
        ).stdout

    def show():
        command = [sys.executable, "-m", "foreword", "-w", str(tmp_path), "instructions", "show"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    script = (
        wish,
        ScriptedReply(text="It waits."),
        ScriptedReply(text="Type it."),
        ScriptedReply(text="From now on."),
        wish,
        ScriptedReply(text="Again."),
    )
    with run_fake_provider(*script) as provider:
        held = chat("Be brief from now on.", provider.url)
        assert "Waiting for your approval" in held
        assert "Be brief." not in show()
        command = re.search(r"/allow [0-9a-f]+", held)[0]
        assert "Type it." in chat("", provider.url, f"{command}\n")
        assert command in json.dumps(provider.body["messages"][-1])  # as a message
        for bare in ("/allow", "/deny"):
            assert command in chat(bare, provider.url)
        assert "Be brief." not in show()
        assert "From now on." in chat(command, provider.url)
        assert "Be brief." in show()
        dropped = re.search(r"/deny [0-9a-f]+", chat("Once more.", provider.url))[0]
        assert "denied" in chat(dropped, provider.url)
        assert "no calls await approval" in chat("/allow", provider.url)


def test_export_and_erasure(tmp_path):
    """A user's held calls are in the export, and are removed by erasure."""

    async def work(house):
        return (await house.hold("bob"))[1]["held"]

    held, _ = play(tmp_path, (ORDER, ScriptedReply(text="It waits.")), work, shop=Shop())
    workspace = make_workspace(tmp_path, FILES)
    given = io.StringIO()
    export_person(workspace, "bob", Trust.INNER, given)
    rows = [json.loads(line) for line in given.getvalue().splitlines()[1:]]
    assert [row["row"]["id"] for row in rows if row["holding"] == "held calls"] == [held]
    assert erase_person(workspace, "bob").done
    assert not any(line.found for line in preview_erasure(workspace, "bob").lines if line.name == "held calls")
