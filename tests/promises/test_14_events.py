"""Item 14: the event log records each failure once, with its reason and its outcome."""

import asyncio
import json
import re
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from recorded_house import CONFIG, open_house, read_events, run_house, say

from foreword.cli.main import main
from foreword.config.schema import HttpServer, TelegramBotSettings
from foreword.gateway.channels.telegram.bot_client import TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.gateway.messages import RoutedMessage
from foreword.http.app import create_app
from foreword.storage.api_tokens import ApiTokens
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply, run_fake_telegram
from foreword.turn import Turn
from waiting import until

SERVER = """\
import json, sys
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("broken", "missing", "fine")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    reply, method, params = {"jsonrpc": "2.0", "id": asked["id"]}, asked["method"], asked.get("params", {})
    if method == "initialize":
        reply["result"] = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                           "serverInfo": {"name": "box", "version": "1"}}
    elif method == "tools/list":
        reply["result"] = {"tools": TOOLS}
    elif method == "tools/call" and params["name"] == "broken":
        reply["result"] = {"content": [{"type": "text", "text": "the printer is on fire"}], "isError": True}
    elif method == "tools/call" and params["name"] == "fine":
        reply["result"] = {"content": [{"type": "text", "text": "done"}]}
    else:
        reply["error"] = {"code": -32602, "message": "no such drawer"}
    print(json.dumps(reply), flush=True)
"""


def call(name, **arguments):
    """Make a model reply that calls one tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


def configure(folder, more=""):
    """Write a configuration with an MCP server that needs no confirmation."""
    server = folder / "server.py"
    server.write_text(SERVER)
    command = f'["{sys.executable}", "{server}"]'
    return CONFIG.replace('5"}', f'5", mcp: [{{name: box, command: {command}, confirm: never}}]}}') + more


@pytest.mark.parametrize(
    ("tool", "reason"),
    [("box_broken", "the printer is on fire"), ("box_missing", "no such drawer")],
)
def test_an_error_of_an_mcp_tool_is_a_tool_error(tmp_path, tool, reason):
    """`isError` and a JSON-RPC error are each one `tool_error` with its reason at level error."""
    run_house(
        tmp_path / "w",
        lambda house: say(house, "Go"),
        call(tool),
        ScriptedReply(text="Sorry."),
        config=configure(tmp_path),
    )
    (row,) = read_events(tmp_path / "w", level="error")
    assert (row["event_type"], row["error"], row["metadata"]["name"]) == ("tool_error", reason, tool)
    assert read_events(tmp_path / "w", event_type="tool_call") == []


def test_an_error_of_a_built_in_tool_is_a_tool_error(tmp_path):
    """A failure of a built-in tool is one `tool_error` with its reason."""
    run_house(
        tmp_path, lambda house: say(house, "Go"), call("memory_get", path="lost.md"), ScriptedReply(text="Sorry.")
    )
    (row,) = read_events(tmp_path, level="error")
    assert (row["event_type"], row["error"]) == ("tool_error", "there is no '…' here")


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("no_such_tool", {}, "There is no tool 'no_such_tool' here"),
        ("memory_search", {}, "'query' is missing"),
        ("update_instructions", {"instructions": "Be brief."}, "There is no tool 'update_instructions' here"),
    ],
)
def test_a_refusal_is_a_warning(tmp_path, tool, arguments, reason):
    """A forbidden or malformed call is a warning with its reason, not an error."""

    async def talk(house):
        return await say(house, "Go", room="kitchen", situation="group")

    run_house(tmp_path, talk, call(tool, **arguments), ScriptedReply(text="Sorry."))
    assert read_events(tmp_path, level="error") == []
    (row,) = read_events(tmp_path, level="warn")
    assert (row["event_type"], row["metadata"]["status"]) == ("tool_call", "refused")
    assert reason in row["metadata"]["reason"]


def test_one_failure_is_one_error_row(tmp_path):
    """A call that the provider refuses permanently is one error row; its turn is a warning with the outcome."""
    run_house(tmp_path, lambda house: say(house, "Go"), ScriptedError(status=401, message="bad key"))
    assert [row["event_type"] for row in read_events(tmp_path, level="error")] == ["api_error"]
    (turn,) = read_events(tmp_path, event_type="turn_completed")
    assert (turn["level"], turn["metadata"]["outcome"]) == ("warn", "failed")


TELEGRAM = CONFIG.replace("timezone: UTC}, bob", 'timezone: UTC, identities: ["telegram:1001"]}, bob') + (
    'schedule: [{name: go, cron: "0 8 * * *", agent: reid, user: alice, say: Go, to: "telegram:1001"}]\n'
)
TOOL_FAILS = ((call("memory_get", path="lost.md"), ScriptedReply(text="Sorry.")), "tool_error", "there is no '…' here")
PROVIDER_FAILS = ((ScriptedError(status=401, message="bad key"),), "api_error", "bad key")


def open_telegram_house(folder, bot, *script):
    """Open a gateway with a schedule and with a bot on loopback that is polled without pauses."""
    around = TelegramOptions(settings=TelegramSettings(poll=1, waits=(0.01,)), migrations=str(folder / "moves.json"))

    def opens(describe):
        return open_telegram(bot.token, TelegramBotSettings(api=bot.url), replace(around, report=describe))

    return open_house(folder / "w", *script, config=TELEGRAM, opens={"telegram": opens}, scheduling=True)


@pytest.mark.parametrize("failing", [TOOL_FAILS, PROVIDER_FAILS])
@pytest.mark.parametrize("way", ["telegram", "schedule"])
def test_one_failure_is_one_error_row_on_every_way(tmp_path, capsys, way, failing):
    """A failure over Telegram or on a schedule is one error row with its reason, found by `logs --level error`."""
    script, kind, reason = failing

    async def run(bot):
        async with open_telegram_house(tmp_path, bot, ScriptedReply(text="Hi."), *script) as house:
            bot.say("Hi", user=1001)  # a bot may not write to a person first
            await until(lambda: bot.sent)
            if way == "telegram":
                bot.say("Go", user=1001)
            else:
                await house.scheduler.run("go")
            await until(lambda: len(bot.sent) == 2)

    with run_fake_telegram() as bot:
        asyncio.run(run(bot))
    (row,) = read_events(tmp_path / "w", level="error")
    assert (row["event_type"], row["channel"]) == (kind, {"telegram": "telegram", "schedule": "scheduled"}[way])
    assert reason in row["error"]
    assert main(["-w", str(tmp_path / "w"), "logs", "--level", "error", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["event_type"], listed["error"]) == (kind, row["error"])


@pytest.mark.parametrize("way", ["telegram", "http"])
def test_a_message_that_is_not_kept_is_one_error_row(tmp_path, way):
    """A message that the disk rejects is one error row; its channel records a warning."""

    async def run(bot):
        async with open_telegram_house(tmp_path, bot, ScriptedReply(text="Yes.")) as house:
            add, failed = house._inbox.add, []

            async def fail(*given):
                if failed:
                    return await add(*given)
                failed.append(1)
                raise sqlite3.OperationalError("database or disk is full")

            house._inbox.add = fail
            if way == "telegram":
                bot.say("Go", user=1001)
                await until(lambda: bot.sent)
                return
            with ApiTokens(str(tmp_path / "w" / ".foreword")) as tokens:
                headers = {"Authorization": f"Bearer {tokens.create('alice', house.workspace.config.users).secret}"}
            transport = httpx2.ASGITransport(app=create_app(house, HttpServer(port=0)))
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", headers=headers, timeout=60
            ) as client:
                assert (await client.post("/api/turns", json={"text": "Go"})).status_code == 503

    with run_fake_telegram() as bot:
        asyncio.run(run(bot))
    (row,) = read_events(tmp_path / "w", level="error")
    assert row["event_type"] == "channel_error"
    assert "database or disk is full" in row["error"]
    (warned,) = read_events(tmp_path / "w", level="warn")
    assert warned["event_type"] == "channel_error"


def test_trust_resolved_has_the_own_level(tmp_path):
    """`trust_resolved` has the user's level, the ceiling of the situation, and the result."""
    run_house(tmp_path, lambda house: say(house, "Hi", room="kitchen", situation="group"), ScriptedReply(text="Hi."))
    (row,) = read_events(tmp_path, event_type="trust_resolved")
    assert row["metadata"] == {
        "user": "alice", "trust": "full", "situation": "group", "ceiling": "familiar", "effective": "familiar",
    }  # fmt: skip


def test_layers_counts_sections(tmp_path):
    """`layers` of `prompt_built` is the number of sections that were sent, as listed in the recorded prompt."""

    async def talk(house):
        reply = await say(house, "Hi")
        assembly = house.workspace.assemble(Turn(user="alice", channel="terminal", situation="dm", message="Hi"))
        return reply, len(assembly.prompt.blocks)

    _, blocks = run_house(tmp_path, talk, ScriptedReply(text="Hi."))
    (built,) = read_events(tmp_path, event_type="prompt_built")
    (called,) = read_events(tmp_path, event_type="api_call")
    sent = [name for name, *_ in called["metadata"]["sections"] if not name.startswith("(")]
    assert built["metadata"]["layers"] == len(set(sent)) > blocks


def test_what_was_delivered_later(tmp_path):
    """One `logs(level=error)` shows that the message was queued, then answered and delivered, and when."""
    asked = []

    def answer(body):
        newest = body["messages"][-1]["content"]
        results = [part["content"] for part in newest if isinstance(part, dict) and part.get("type") == "tool_result"]
        asked.extend(results)
        return ScriptedReply(text="It came later.") if results else call("foreword_logs", level="error", since="12h")

    async def talk(house):
        await say(house, "Did the backup run?", channel="signal")
        await until(lambda: read_events(tmp_path, event_type="message_sent"))
        house.provider.choose = answer
        return await say(house, "Why did my message fail?", channel="signal")

    run_house(tmp_path, talk, *[ScriptedError(status=429, message="busy")] * 4, ScriptedReply(text="It did."))
    (result,) = asked
    text = str(result)
    assert text.count("api_error") == 4
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.search(
        rf"turn \w+: {moment} outcome=queued calls_refused=4 turns_before=\d+ minutes_before=5;"
        rf" {moment} answered on attempt 2; {moment} delivered",
        text,
    )


def test_a_message_that_still_waits(tmp_path):
    """A queued message is shown as not yet answered."""
    seen = []

    async def talk(house):
        accepted = await house.accept(RoutedMessage(text="Hi", user="alice"))
        reply = await house.wait(accepted.turn)
        assert reply.state is TurnState.QUEUED
        house.listeners.log.flush()
        workspace = house.workspace
        from foreword.agent.tools.registry import WITH_LOG

        turn = Turn(user="alice", situation="dm", tools=WITH_LOG)
        assembly = await asyncio.to_thread(workspace.assemble, turn)
        found = await asyncio.to_thread(workspace.call, assembly, "foreword_logs", {"level": "error"})
        seen.append(found.text)
        await house.stop(accepted.turn)

    from foreword.gateway.worker import WorkerRetryPolicy

    late = WorkerRetryPolicy(later=(3600.0,), disk=(0.01,))
    run_house(tmp_path, talk, *[ScriptedError(status=503, message="down")] * 4, turn_retry=late)
    assert seen[0].endswith("not answered yet")


SECRET = "sk-ant-api03-" + "a1B2" * 12


def test_arguments_are_off_by_default(tmp_path):
    """By default no argument and no query is recorded."""
    run_house(
        tmp_path, lambda house: say(house, "Go"), call("memory_search", query="plum tree"), ScriptedReply(text="No.")
    )
    assert "plum" not in str(read_events(tmp_path))


def test_arguments_are_recorded_without_secrets(tmp_path):
    """With `events.arguments` a group's calls and memory searches are recorded with arguments; secrets are redacted."""
    config = configure(tmp_path, "events: {arguments: true}\n")

    async def talk(house):
        await say(house, "Look", situation="group")
        await say(house, "Go")

    script = (
        call("memory_search", query="plum tree"),
        ScriptedReply(text="No."),
        call("box_fine", command="ls", password="hunter2", header=f"Bearer {SECRET}"),
        ScriptedReply(text="No."),
    )
    run_house(tmp_path / "w", talk, *script, config=config)
    (searched,) = read_events(tmp_path / "w", event_type="memory_search")
    assert searched["metadata"]["arguments"] == {"query": "plum tree"}
    first, second = read_events(tmp_path / "w", event_type="tool_call")
    assert first["metadata"]["arguments"] == {"query": "plum tree"}
    assert second["metadata"]["arguments"]["command"] == "ls"
    assert second["metadata"]["arguments"]["password"] == "[redacted]"
    assert "hunter2" not in str(read_events(tmp_path / "w"))
    assert SECRET not in str(read_events(tmp_path / "w"))


def test_forgetting_a_person_covers_arguments(tmp_path, capsys):
    """Erasing a user removes their arguments and their words in the arguments of others."""
    words = "the blue bicycle behind the old mill needs a new chain"
    config = CONFIG + "events: {arguments: true}\n"

    async def talk(house):
        await say(house, words, user="bob", situation="group")
        await say(house, "What did bob say?", situation="group")

    script = (
        call("memory_search", query="own words of bob here"),
        ScriptedReply(text="I see."),
        call("memory_search", query=words),
        ScriptedReply(text="Nothing."),
    )
    run_house(tmp_path, talk, *script, config=config)
    assert "blue bicycle" in str(read_events(tmp_path))
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["-w", str(tmp_path), "forget", "bob", "--yes"]))
    assert ended.value.code == 0, capsys.readouterr().err
    left = b"".join(path.read_bytes() for path in Path(tmp_path, ".foreword").iterdir() if path.is_file())
    assert b"blue bicycle behind" not in left
    assert b"own words of bob" not in left
    assert "[forgotten]" in str(read_events(tmp_path))


def test_coop_names_the_tools_as_its_document_does(tmp_path):
    """With the blueprint coop the agent has `coop_status`, `coop_logs` and `coop_trace`, and they work."""
    config = CONFIG.replace('5"}', '5", blueprint: coop}')
    results = []

    def answer(body):
        newest = body["messages"][-1]["content"]
        found = [part["content"] for part in newest if isinstance(part, dict) and part.get("type") == "tool_result"]
        results.extend(found)
        if len(results) == 1:
            return call("coop_logs", limit=20)
        if len(results) == 2:
            turn = re.search(r"turn=(\w+)", str(found))[1]
            return call("coop_trace", turn=turn)
        return ScriptedReply(text="Fine.") if len(results) > 2 else call("coop_status")

    async def talk(house):
        await say(house, "Hi")
        assert house.listeners.recorder.flush(60)  # rows are written in batches, so a turn may not see its rows yet
        house.provider.choose = answer
        await say(house, "How are you?")
        return house.provider.body

    body = run_house(tmp_path, talk, ScriptedReply(text="Hi."), config=config)
    names = {tool["name"] for tool in body["tools"]}
    assert {"coop_status", "coop_logs", "coop_trace"} <= names
    assert not any(name.startswith("foreword_") for name in names)
    assert "foreword_" not in str(body["system"])
    status, logs, trace = map(str, results)
    assert "session" in status
    assert "message_received" in logs
    assert "trust_resolved" in trace
    assert read_events(tmp_path, level="error") == []


def test_other_blueprints_keep_the_names(tmp_path):
    """Every other blueprint has only the `foreword_…` tools."""

    async def talk(house):
        await say(house, "Hi")
        return {tool["name"] for tool in house.provider.body["tools"]}

    names = run_house(tmp_path, talk, ScriptedReply(text="Hi."))
    assert {"foreword_status", "foreword_logs", "foreword_trace"} <= names
    assert not any(name.startswith("coop_") for name in names)


def test_status_says_how_many_sessions_it_leaves_out(tmp_path):
    """`foreword_status` lists the newest sessions and the number of active ones that it leaves out."""

    async def talk(house):
        for number in range(7):
            await say(house, "Hi", channel=f"channel{number}")
        house.listeners.log.flush()
        from foreword.agent.tools.registry import WITH_LOG

        turn = Turn(user="alice", situation="dm", tools=WITH_LOG)
        assembly = await asyncio.to_thread(house.workspace.assemble, turn)
        return (await asyncio.to_thread(house.workspace.call, assembly, "foreword_status", {})).text

    text = run_house(tmp_path, talk, *[ScriptedReply(text="Hi.")] * 7)
    assert "7 sessions active, the newest 5 are listed and 2 left out" in text
    assert len(re.findall(r"^session ", text, re.MULTILINE)) == 5
