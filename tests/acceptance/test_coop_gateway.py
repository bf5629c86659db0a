"""Coop in a running gateway: requests, stderr lines, the event log, and the diagnostic tools."""

import asyncio
import io
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from coop_house import CONFIG, call, configure, open_clockwork, read_events, read_results, run_house, say, until

from event_rows import make_event, record_events
from foreword.cli.main import main
from foreword.events.event import EventType, Level
from foreword.testing import NOON, ManualClock, ScriptedReply, run_fake_provider

FILES = {
    "AGENTS.md": "Answer in one line.\n",
    "TOOLS.md": "The printer is called Gutenberg.\n",
    "IDENTITY.md": "A patient heron.\n",
    "USER.md": "Alice likes rye.\n",
    "HEARTBEAT.md": "Look after the greenhouse.\n",
    "MEMORY.md": "Carol was born in March.\n",
    "prompts/heartbeat-rules.md": "Say nothing unless it matters.\n",
    "skills/knit/SKILL.md": "---\nname: knit\ndescription: Knit a scarf\n---\nCast on forty stitches.\n",
}
OVERLAYS = "situations: {system: {ceiling: full, prompt_overlay: ./prompts/heartbeat-rules.md}}\n"
ANTHROPIC, OPENAI = "/v1/messages", "/v1/chat/completions"
# Each line of the document's tree in Foreword's format; docs/dialects/coop.md lists the names that differ.
LINES = {
    "message_received": r"\[channel\] message_received user=alice channel=signal agent=reid session=\w+ ",
    "trust_resolved": r"  \[router\] trust_resolved user=alice trust=full situation=dm ceiling=full effective=full",
    "prompt_built": r"  \[prompt\] prompt_built layers=\d+ tokens=\d+ cached_tokens=\d+",
    "turn_started": r"  \[agent\] turn_started model=anthropic:claude-sonnet-5 ",
    "api_call": r"    \[provider\] api_call duration=\d+ms tokens_in=\d+ .*cost=\$\d\.\d+ model=anthropic:\S+ ",
    "tool_call": r'    \[tool\] tool_call duration=\d+ms name=box_bash command="ls -l" status=ok',
    "memory_search": r"      \[memory\] memory_search store=\S.* count=[1-9]\d*$",  # no query: a private turn
    "turn_completed": r"  \[agent\] turn_completed duration=\S+ calls=6 total_tokens=\d+ total_cost_usd=\d\.\d+",
    "message_sent": r"  \[channel\] message_sent length=5 ",
}
SCRIPT = (
    call("box_bash", command="ls -l"),
    call("memory_search", query="birthday"),
    call("box_burn"),
    call("read_skill", name="knit"),
    call("coop_cost"),
    ScriptedReply(text="Done."),
)


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """Run a coop turn with every kind of call, request its trace, and return the lines, rows and requests."""
    folder, stream = tmp_path_factory.mktemp("coop"), io.StringIO()

    async def talk(house):
        reply = await say(house, "Do it all.", channel="signal")
        house.listeners.log.flush()
        house.provider.follow(call("coop_trace", turn=reply.turn), ScriptedReply(text="It burnt."))
        await say(house, "What went wrong?", channel="signal")
        return house.provider.requests

    config = configure("events: {arguments: true}\n")
    files = {**FILES, "memory/social/PEOPLE.md": "Carol's birthday is on 14 March.\n"}
    requests = run_house(folder, talk, *SCRIPT, config=config, files=files, tree=stream)
    lines = [line.partition("Z ")[2] for line in stream.getvalue().splitlines()]
    return SimpleNamespace(folder=folder, lines=lines, rows=read_events(folder), requests=requests)


@pytest.mark.parametrize("kind", LINES)
def test_line(past, kind):
    """Each stderr line of the tree has the document's category, indentation and fields."""
    assert [line for line in past.lines if re.match(LINES[kind], line)], past.lines


def test_both_outputs(past):
    """Every event is a stderr line and a log row; a search is nested below the call that made it."""
    names = [re.search(r"\] (\w+)", line)[1] for line in past.lines]
    assert sorted(names) == sorted(row["event_type"] for row in past.rows)


def test_tools_of_the_turn(past):
    """An MCP tool, a memory search, a skill and a cost query all run in one turn."""
    bash, search, burn, skill, cost, trace = read_results(past.requests[-1].body)
    assert bash == "a.txt"
    assert "Carol's birthday is on 14 March." in search
    assert "the printer is on fire" in burn
    assert "Cast on forty stitches." in skill
    assert re.search(r"\$0\.\d+, 1 turn, \d calls, [\d,]+ tokens in", cost)
    assert "[router] trust_resolved" in trace


def test_trace(past):
    """A trace has every step of the document in order, with times, tokens and errors."""
    head, *lines = read_results(past.requests[-1].body)[-1].split("\n")
    assert re.search(r"· 6 calls · [\d,]+ tokens in, \d+ out · cost \$0\.\d+ · 1 error", head)
    assert all(re.match(r" *\+\d+\.\d+s ", line) for line in lines)
    steps = [re.search(r"\] (\w+)", line)[1] for line in lines]
    assert steps[:5] == ["message_received", "trust_resolved", "session_created", "prompt_built", "turn_started"]
    assert steps[-2:] == ["turn_completed", "message_sent"]
    called = [step for step in steps[5:-2] if step != "memory_search"]
    assert called == [
        "api_call",
        *["tool_call", "api_call"] * 2,
        "tool_error",
        *["api_call", "tool_call"] * 2,
        "api_call",
    ]
    (failed,) = [line for line in lines if "tool_error" in line]
    assert re.search(r'error="[^"]*the printer is on fire" .*name=box_burn', failed)
    assert all("tokens_in=" in line for line in lines if "api_call" in line)


def test_the_sql_of_the_document(past, capsys):
    """The document's SQL query for today's cost returns the same sum as `foreword cost`."""
    query = "SELECT SUM(cost_usd) FROM events WHERE event_type='api_call' AND date(timestamp)=date('now')"
    with closing(sqlite3.connect(past.folder / ".foreword" / "events.sqlite")) as log:
        (total,) = log.execute(query).fetchone()
    assert total == pytest.approx(sum(row["cost_usd"] for row in past.rows if row["event_type"] == "api_call"))
    assert main(["-w", str(past.folder), "cost", "--since", "today"]) == 0
    assert f" ${total:.4f}, 2 turns, 8 calls, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"session_id": "SESSION"}, ["api_error"] * 7 + ["message_received"]),
        ({"level": "error", "since": "1h"}, ["api_error"] * 6),
        ({"event_type": "api_error", "limit": 5}, ["api_error"] * 5),
        ({"user": "alice", "since": "today"}, ["api_error"] * 6 + ["message_received"]),
    ],
)
def test_calls_of_coop_logs(tmp_path, arguments, found):
    """The four `coop_logs` calls of the document return the described events."""
    error = {"level": Level.ERROR, "error": "429", "channel": "signal", "session": "SESSION"}
    events = [
        make_event(EventType.API_ERROR, -60 * 24, **error),
        make_event(EventType.MESSAGE_RECEIVED, -20, session="SESSION"),
        *(make_event(EventType.API_ERROR, -at, **error) for at in range(10, 4, -1)),
        make_event(EventType.MESSAGE_RECEIVED, -4, session="other", user="bob"),
        make_event(EventType.TOOL_CALL, -60 * 2, session="other", user="bob"),
    ]
    record_events(str(tmp_path / ".foreword"), *events)

    config = CONFIG.replace("bob: {", "carol: {trust: full}, bob: {")

    async def ask(house):
        await say(house, "What happened?", user="carol")
        return read_results(house.provider.body)

    (text,) = run_house(
        tmp_path,
        ask,
        call("coop_logs", **arguments),
        ScriptedReply(text="That."),
        config=config,
        clock=ManualClock(NOON),
    )
    assert sorted(re.findall(r"\] (\w+)", text)) == sorted(found)


def test_what_is_sent(tmp_path, capsys):
    """The provider receives exactly the prompt that `foreword build` prints and `foreword trace` shows."""

    async def talk(house):
        reply = await say(house, "Hello", channel="web")
        return reply.turn, house.provider.body

    turn, body = run_house(
        tmp_path, talk, ScriptedReply(text="Hi."), config=CONFIG, files=FILES, clock=ManualClock(NOON)
    )
    system = "".join(block["text"] for block in body["system"])
    command = ["build", "--channel", "web", "--model", "anthropic:claude-sonnet-5", "--now", NOON.isoformat()]
    assert main(["-w", str(tmp_path), *command]) == 0
    assert capsys.readouterr().out.strip() == system.strip()
    assert main(["-w", str(tmp_path), "trace", turn, "--prompt"]) == 0
    assert system.strip() in capsys.readouterr().out


def test_blocks(tmp_path):
    """Identity and behaviour are one cached block, user and workspace a second; runtime is not cached."""

    async def talk(house):
        await say(house, "Hello", channel="web")
        return house.provider.body["system"]

    blocks = run_house(tmp_path, talk, ScriptedReply(text="Hi."), config=CONFIG, files=FILES)
    assert [block.get("cache_control", {}).get("type") for block in blocks] == ["ephemeral", "ephemeral", None]
    heads = [re.findall(r"^## (.+)$", block["text"], re.MULTILINE) for block in blocks]
    assert heads[0] == ["SOUL.md", "AGENTS.md"]
    assert heads[1][:4] == ["USER.md", "IDENTITY.md", "TOOLS.md", "HEARTBEAT.md"]
    assert heads[2] == ["Runtime"]


def test_the_prefix_is_read_from_the_cache(tmp_path):
    """A minute later only the runtime block differs; tools, identity, user and workspace are read from the cache."""
    clock = ManualClock(NOON)

    async def talk(house):
        for _ in range(2):
            await say(house, "Hello", channel="web")
            clock.move(60)
        return house.provider.requests

    first, second = run_house(tmp_path, talk, *[ScriptedReply(text="Hi.")] * 2, config=CONFIG, files=FILES, clock=clock)
    assert first.body["system"][-1] != second.body["system"][-1]
    assert first.counted.read == 0
    assert second.counted.read > 0.9 * second.counted.total


def test_an_edit_reaches_the_next_message(tmp_path):
    """An edit of a workspace file between two messages is in the second request."""

    async def talk(house):
        await say(house, "Hello")
        (tmp_path / "TOOLS.md").write_text("The printer is called Caslon.\n")
        house.workspace.refresh(now=True)
        await say(house, "And now?")
        return ["Caslon" in str(request.body) for request in house.provider.requests]

    assert run_house(tmp_path, talk, *[ScriptedReply(text="Hi.")] * 2, config=CONFIG, files=FILES) == [False, True]


def test_a_subagent(tmp_path):
    """A subagent has AGENTS.md, TOOLS.md and no other file, plus the channel and runtime layers."""

    async def talk(house):
        await say(house, "How many bees?", channel="web")
        return "".join(block["text"] for block in house.provider.requests[1].body["system"])

    script = (call("delegate", task="Count the bees."), ScriptedReply(text="Forty."), ScriptedReply(text="Forty."))
    helper = run_house(tmp_path, talk, *script, config=CONFIG, files=FILES)
    assert re.findall(r"^## (.+)$", helper, re.MULTILINE) == ["AGENTS.md", "TOOLS.md", "Channel", "Runtime"]


def test_the_overlay_of_a_scheduled_run(tmp_path):
    """A cron run has the overlay of `system`; a private message does not."""
    schedule = OVERLAYS + 'schedule: [{name: m, cron: "0 8 * * *", user: alice, say: Check., to: "telegram:1001"}]\n'

    async def run(provider):
        async with open_clockwork(tmp_path, provider, schedule, config=CONFIG, **FILES) as house:
            assert len(await house.at(8)) == 1
            await say(house.gateway, "Hello")

    with run_fake_provider(*[ScriptedReply(text="Fine.")] * 2) as provider:
        asyncio.run(run(provider))
        seen = ["Say nothing unless it matters." in str(request.body["system"]) for request in provider.requests]
    assert seen == [True, False]


def test_two_providers_in_one_process(tmp_path):
    """Two agents with models of different providers answer in one gateway, each over its provider's API."""
    config = CONFIG.replace("blueprint: coop}}", 'blueprint: coop}, ada: {model: "acme:tiny", blueprint: coop}}')

    async def talk(house):
        texts = [(await say(house, "Hello", agent=agent)).text for agent in ("reid", "ada")]
        return texts, [request.path for request in house.provider.requests], other.requests[0].path

    with run_fake_provider(ScriptedReply(text="I am Ada.")) as other:
        config += f'providers: {{acme: {{base_url: "{other.url}/v1"}}}}\n'
        answered = run_house(tmp_path, talk, ScriptedReply(text="I am Reid."), config=config)
    assert answered == (["I am Reid.", "I am Ada."], [ANTHROPIC], OPENAI)


@pytest.mark.parametrize(("more", "days"), [("", 30), ("events: {retention_days: 7}\n", 7)])
def test_retention(tmp_path, capsys, more, days):
    """The gateway deletes events older than 30 days, or the configured number, and retains younger ones."""

    def talk(age, conversation, *script):
        clock = ManualClock(NOON - timedelta(days=age))
        return run_house(tmp_path, conversation, *script, config=CONFIG + more, clock=clock)

    old, young = (
        talk(age, lambda house: say(house, "Hi"), ScriptedReply(text="Hi.")).turn for age in (days + 2, days - 1)
    )

    async def wait(house):
        await say(house, "Hi")
        await until(lambda: not read_events(tmp_path, trace_id=old))

    talk(0, wait, ScriptedReply(text="Hi."))
    assert len(read_events(tmp_path, trace_id=young)) > 5
    assert main(["-w", str(tmp_path), "trace", young]) == 0
    assert "message_received" in capsys.readouterr().out


WATCHED = """\
import asyncio, sys
sys.path[:0] = sys.argv[2:]
seen = set()
def watch(name, args):
    if name in ("socket.connect", "socket.sendto", "socket.getaddrinfo"):
        seen.add(args[1][:2] if name == "socket.connect" else args[:2])
sys.addaudithook(watch)
from coop_house import CONFIG, run_house, say
from foreword.testing import ScriptedReply
async def talk(house):
    await say(house, "Hello")
    await asyncio.sleep(0.5)
    return house.provider.url
url = run_house(sys.argv[1], talk, ScriptedReply(text="Hi."), config=CONFIG)
print(url, *(f"http://{host}:{port}" for host, port in seen))
"""


def test_only_the_provider_is_reached(tmp_path):
    """A gateway with the default configuration connects only to its provider."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", WATCHED, str(tmp_path), here, str(Path(here).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    url, *reached = done.stdout.split()
    assert reached == [url]
