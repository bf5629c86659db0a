"""Tools of one's own in a gateway: they run in turns, and their failures are told to the model."""

import asyncio
import threading
import time

import pytest
from house import open_house, read_log, say

import foreword
from foreword.testing import ScriptedCall, ScriptedReply


def run_tool(folder, stand_in, tool, *calls):
    """Run a turn whose model calls a tool; return the results that the model gets, and the log."""
    made = tuple(ScriptedCall(name=tool.name, arguments=arguments) for arguments in calls or ({},))
    stand_in.follow(ScriptedReply(calls=made), ScriptedReply(text="Done."))

    async def work():
        async with open_house(folder, stand_in, tools=(tool,)) as gateway:
            return await say(gateway, "Go.")

    assert asyncio.run(work()).text.startswith("Done.")
    results = [part for part in stand_in.body["messages"][-1]["content"] if part["type"] == "tool_result"]
    texts = [one["content"] if isinstance(one["content"], str) else one["content"][0]["text"] for one in results]
    return texts, [row for row in read_log(folder) if row[3].get("name") == tool.name]


def test_sync_and_async(tmp_path, stand_in):
    """A coroutine function runs in the event loop, any other function in a thread."""
    threads = {}

    @foreword.tool
    async def here() -> int:
        threads["here"] = threading.current_thread()
        await asyncio.sleep(0)
        return 1

    @foreword.tool
    def there(run: foreword.ToolRun) -> str:
        threads["there"] = threading.current_thread()
        return run.turn.user

    assert run_tool(tmp_path / "a", stand_in, here)[0] == ["1"]
    assert run_tool(tmp_path / "b", stand_in, there)[0] == ["alice"]
    main = threading.main_thread()
    assert (threads["here"] is main, threads["there"] is main) == (True, False)


@pytest.mark.parametrize(
    ("error", "told", "logged"),
    [
        (foreword.InputError("no such city"), "fetch failed: no such city", "no such city"),
        (foreword.ToolError("the shop is closed"), "fetch failed: the shop is closed", "the shop is closed"),
        (ZeroDivisionError("secret"), "fetch failed (ZeroDivisionError); the log has the details.", "secret"),
        (TimeoutError("slow shop"), "fetch failed (TimeoutError); the log has the details.", "slow shop"),
        (StopIteration(), "fetch failed (RuntimeError); the log has the details.", "StopIteration"),
        (SystemExit(1), "fetch failed: it tried to end the process", "it tried to end the process"),
    ],
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_tool_that_raises(tmp_path, stand_in, *, error, told, logged, kind):
    """The model gets the message of an error that it can act on, and the log gets every message."""
    if kind == "sync":

        @foreword.tool
        def fetch() -> str:
            raise error

    else:

        @foreword.tool
        async def fetch() -> str:
            raise error

    texts, ((event, _, reason, _),) = run_tool(tmp_path, stand_in, fetch)
    assert texts == [told]
    assert event == "tool_error"
    assert logged in reason


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_tool_that_is_too_slow(tmp_path, stand_in, kind):
    """A tool ends after its seconds, and the turn goes on."""
    if kind == "sync":

        @foreword.tool(seconds=0.1)
        def fetch() -> str:
            time.sleep(0.5)
            return "late"

    else:

        @foreword.tool(seconds=0.1)
        async def fetch() -> str:
            await asyncio.sleep(60)
            return "late"

    texts, ((event, _, reason, _),) = run_tool(tmp_path, stand_in, fetch)
    assert texts == ["fetch did not answer within 0.1 seconds."]
    assert (event, reason) == ("tool_error", "no answer within 0.1 s")


def test_values_without_json(tmp_path, stand_in):
    """A result that cannot be written as JSON is an error of the tool."""

    @foreword.tool
    def fetch() -> object:
        return object()

    texts, ((event, _, _, _),) = run_tool(tmp_path, stand_in, fetch)
    assert texts == ["fetch failed: it returned a value of type object that cannot be written as JSON"]
    assert event == "tool_error"


def test_a_long_result(tmp_path, stand_in):
    """The model gets the first 40,000 characters of a result, and its length."""

    @foreword.tool
    def fetch() -> str:
        return "x" * 1_000_000

    ((text,), _) = run_tool(tmp_path, stand_in, fetch)
    assert text == "x" * 40_000 + "\n(cut: 1,000,000 characters)"


def test_wrong_arguments(tmp_path, stand_in):
    """A call with wrong arguments does not run, and nobody is asked for approval."""
    calls = []

    @foreword.tool(changes=True)
    def order(item: str, count: int = 1) -> str:
        calls.append((item, count))
        return "ordered"

    wrong = ({"item": 3}, {"item": "milk", "size": 2}, {"count": 2}, {"item": "m" * 1_000_000})
    texts, _ = run_tool(tmp_path, stand_in, order, *wrong)
    assert texts == [
        "order was not called: 'item' is to be string, not 3.",
        "order was not called: unknown argument 'size'; known: item, count.",
        "order was not called: 'item' is missing.",
        "order was not called: the arguments have 1,000,002 characters, 'item' alone 1,000,002; the limit is 200,000.",
    ]
    assert calls == []


@pytest.mark.parametrize("depth", [50, 300, 900])
def test_deep_arguments(tmp_path, stand_in, depth):
    """Arguments that are nested too deeply are refused, and the turn goes on."""

    @foreword.tool
    def fetch(value: object) -> str:
        return f"fetched {type(value).__name__}"

    value = 1
    for _ in range(depth):
        value = [value]
    ((text,), _) = run_tool(tmp_path, stand_in, fetch, {"value": value})
    assert text in ("fetched list", "fetch was not called: its arguments are nested too deeply.")
    assert depth > 50 or text == "fetched list"


@pytest.mark.parametrize("name", ["memory_search", "write_file", "notify_user"])
def test_a_name_that_is_taken(tmp_path, stand_in, name):
    """A gateway does not open with a tool that has the name of a built-in one."""

    @foreword.tool(name=name)
    def fetch() -> str:
        return ""

    async def work():
        async with open_house(tmp_path, stand_in, tools=(fetch,)):
            return

    with pytest.raises(foreword.InputError, match=f"two tools have the same name: {name}"):
        asyncio.run(work())
