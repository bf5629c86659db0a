"""Item 24: the output of `serve` stays bounded under a flood, and repeated lines are counted."""

import asyncio
import gc
import io
import json
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import httpx2
import pytest
from recorded_house import CONFIG, open_house, read_events

from foreword.config.schema import TelegramBotSettings
from foreword.events.sinks import Console, ConsoleLimits, log_to
from foreword.gateway.channels.telegram.bot_client import TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import InjectedError, ScriptedError, run_fake_provider, run_fake_telegram, write_files
from waiting import until, wait

REPEATED = re.compile(r" repeated ([\d,]+) times? in \d+ s: ")
HIDDEN = re.compile(r" left out ([\d,]+) lines? in \d+ s: ")
LEFT_OUT = re.compile(r" left out ([\d,]+) other lines? in \d+ s")


def count_all(text, entry):
    """Count the entries that a console received: written, counted by kind, and left out."""
    lines = [line for line in text.splitlines() if entry in line]
    written = sum(not REPEATED.search(line) and not HIDDEN.search(line) for line in lines)
    numbers = [number for form in (REPEATED, HIDDEN) for number in form.findall("\n".join(lines))]
    numbers += LEFT_OUT.findall(text)
    return written + sum(int(number.replace(",", "")) for number in numbers)


def test_repeated_lines_are_counted():
    """Of 10,000 lines that differ only in numbers a few are written, and the count of the others is exact."""
    stream = io.StringIO()
    console = Console(stream)
    for number in range(10_000):
        console.write(f"2026-11-16T02:47:03Z error [channel] channel_error duration={number}ms turn={number:08x}\n")
    console.close()
    assert len(stream.getvalue()) < 4_000
    assert count_all(stream.getvalue(), "channel_error") == 10_000
    assert re.search(r"repeated 9,9\d\d times in \d+ s: error \[channel\] channel_error", stream.getvalue())


def test_lines_of_all_kinds_are_bounded():
    """Lines that all differ are limited by bytes, and every one is written or counted."""
    stream, limits = io.StringIO(), ConsoleLimits(bytes=10_000)
    console = Console(stream, limits)
    words = ["".join(chr(97 + number // 26**place % 26) for place in range(4)) for number in range(20_000)]
    for word in words:
        console.write(f"error [channel] channel_error request={word}\n")
    console.close()
    assert len(stream.getvalue()) < limits.bytes + limits.kinds * 300 + 100
    assert count_all(stream.getvalue(), "channel_error") == len(words)


def test_each_window_begins_again():
    """After a window the count is written with the next line, which is written whole."""
    stream, now = io.StringIO(), [0.0]
    console = Console(stream, ConsoleLimits(window_s=30.0, same=2), elapsed=lambda: now[0])
    for _ in range(5):
        console.write("warn [x] slow\n")
    now[0] = 31.0
    console.write("warn [x] slow\n")
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["warn [x] slow"] * 2
    assert lines[2].endswith(" repeated 3 times in 31 s: warn [x] slow")
    assert lines[3:] == ["warn [x] slow"]
    console.close()


def test_a_count_is_written_where_nothing_follows():
    """A count is written without waiting for a further line."""
    stream = io.StringIO()
    console = Console(stream, ConsoleLimits(window_s=0.05, same=1))
    for _ in range(3):
        console.write("warn [x] slow\n")
    wait(lambda: count_all(stream.getvalue(), "slow") == 3)


def test_lines_never_shown_are_left_out():
    """A line that was never written is counted as left out, not as repeated."""
    stream = io.StringIO()
    console = Console(stream, ConsoleLimits(bytes=1_000))
    console.write("info [x] " + "a" * 500 + "\n")
    console.write("info [x] " + "b" * 500 + "\n")
    console.close()
    assert "repeated" not in stream.getvalue()
    assert " left out 1 line in 1 s: info [x] bbb" in stream.getvalue()


def test_errors_have_room_after_a_flood_of_info():
    """A flood of plain lines of all kinds leaves capacity for warnings and errors."""
    stream, limits = io.StringIO(), ConsoleLimits(bytes=10_000)
    console = Console(stream, limits)
    for number in range(1_000):
        console.write(f"2026-11-16T02:47:03Z [http] {chr(97 + number % 26) * (number // 26 + 1)}\n")
    console.write("2026-11-16T02:47:03Z error [provider] api_error status=500\n")
    console.write("2026-11-16T02:47:03Z warn [uvicorn.error] Invalid HTTP request received.\n")
    written = stream.getvalue()
    console.close()
    assert "api_error status=500" in written
    assert "Invalid HTTP request received." in written
    assert len(written) <= limits.bytes


def test_an_error_has_room_after_a_flood_of_warnings():
    """A flood of warnings of all kinds leaves capacity for an error."""
    stream = io.StringIO()
    console = Console(stream, ConsoleLimits(bytes=10_000))
    for number in range(1_000):
        console.write(f"2026-11-16T02:47:03Z warn [x] {chr(97 + number % 26) * (number // 26 + 1)}\n")
    console.write("2026-11-16T02:47:03Z error [store] the disk is full\n")
    console.close()
    assert "the disk is full" in stream.getvalue()


class Bad:
    """Raises when it is collected, and is part of a cycle."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        raise RuntimeError("a finaliser failed")


class CollectingStream(io.StringIO):
    """Collects garbage during the writes of one kind of line, as may happen at any allocation."""

    def write(self, text):
        """Write a text while a finaliser of garbage raises."""
        if "[x]" in text:
            Bad()
            gc.collect()
        return super().write(text)


def run_or_fail(work):
    """Run a function in a thread, and fail if it does not end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "the console is in a deadlock"


def test_a_finaliser_that_raises_during_a_write():
    """An exception of a finaliser during a write is counted; it neither deadlocks nor corrupts the counts."""
    stream = CollectingStream()
    console = Console(stream)

    def work():
        with log_to(console):
            for _ in range(3):
                console.write("info [x] a line\n")

    run_or_fail(work)
    text = stream.getvalue()
    assert text.count("info [x] a line\n") == 3
    assert re.search(r" left out 3 other lines in \d+ s", text)


def test_a_finaliser_that_raises_while_another_thread_logs():
    """The console's lock is the only one: a record of another thread cannot hold a second one against it."""
    inside, tried = threading.Event(), threading.Event()

    class Slow(io.StringIO):
        def write(self, text):
            if threading.current_thread().name == "writer":
                inside.set()
                tried.wait(20)
                logging.getLogger("python").error("a finaliser failed")
            return super().write(text)

    stream = Slow()
    console = Console(stream)

    def work():
        with log_to(console):
            writer = threading.Thread(target=console.write, args=("info [x] a line\n",), name="writer", daemon=True)
            writer.start()
            inside.wait(20)
            other = threading.Thread(target=logging.getLogger("other").error, args=("busy",), daemon=True)
            other.start()
            other.join(0.3)  # waits for the console while it holds its locks
            tried.set()
            writer.join()
            other.join()

    run_or_fail(work)
    assert "[other] busy" in stream.getvalue()


@pytest.fixture
def fresh_loggers(monkeypatch):
    """Reset library loggers to their default settings, which the servers of other tests change."""
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "asyncio", "threading", "py.warnings")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)  # also clears the cache of enabled levels
        monkeypatch.setattr(logger, "propagate", True)
        monkeypatch.setattr(logger, "disabled", False)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("fresh_loggers")
def test_libraries_log_through_it():
    """Loggers, warnings, tracebacks and failing threads are bounded like events, with times and without secrets."""
    stream, secret = io.StringIO(), "sk-ant-api03-" + "a1B2" * 12

    def fail():
        raise RuntimeError(f"no use for {secret}")

    with warnings.catch_warnings(), log_to(Console(stream)):
        warnings.simplefilter("always")
        for _ in range(500):
            logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
            try:
                fail()
            except RuntimeError:
                logging.getLogger("asyncio").exception("Task exception was never retrieved")
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        warnings.warn("an old way", DeprecationWarning, stacklevel=1)
    text = stream.getvalue()
    assert len(text) < 40_000
    assert secret not in text
    assert count_all(text, "[uvicorn.error] Invalid HTTP request received.") == 500
    assert count_all(text, "[asyncio] Task exception was never retrieved: RuntimeError") == 500
    assert "Traceback" in text
    assert "RuntimeError" in text
    assert "an old way" in text
    first = text.splitlines()[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ warn \[uvicorn.error\] Invalid HTTP request received.", first)


def test_ids_of_requests_do_not_tell_lines_apart():
    """Lines that differ only in their request and session ids are of one kind."""
    stream = io.StringIO()
    console = Console(stream)
    for number in range(1_000):
        ids = f"session={number * 7919:032x} request_id=req_{number * 104729:024x}"
        console.write(f"2026-11-16T02:47:03Z [channel] message_received user=alice {ids} turn={number:08x}\n")
    console.close()
    assert len(stream.getvalue().splitlines()) == 21
    assert "repeated 980 times" in stream.getvalue()


@contextmanager
def serving(folder, url, log):
    """Run `foreword serve` with its stderr in a file or a pipe, and yield its address and its process."""
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-m", "foreword", "-w", str(folder), "serve", "--port", "0", "--json"]
    with open(log, "w") if isinstance(log, os.PathLike) else nullcontext(log) as err:
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        yield json.loads(process.stdout.readline())["address"], process
    finally:
        process.kill()
        process.communicate()


def test_a_flood_of_requests_and_a_failing_provider(tmp_path):
    """Bad requests, broken HTTP and a failing provider leave a short log with exact counts, and few rows."""
    folder, log = tmp_path / "w", tmp_path / "serve.log"
    write_files(str(folder), {"foreword.yaml": CONFIG + "server: {rate: 100000}\n", "SOUL.md": "Calm.\n"})
    with ApiTokens(str(folder / ".foreword")) as tokens:
        secret = tokens.create("alice", ("alice", "bob")).secret
    with run_fake_provider() as provider, serving(folder, provider.url, log) as (address, process):
        provider.choose = lambda _: ScriptedError(status=400, message="bad request")
        with httpx2.Client(base_url=address, timeout=120) as client:
            for _ in range(300):
                assert client.get("/api/status", headers={"Host": "elsewhere.example"}).status_code == 421
            for _ in range(60):
                answer = client.post(
                    "/api/turns", json={"text": "Hello"}, headers={"Authorization": f"Bearer {secret}"}
                )
                assert answer.status_code == 502
        host, port = address.removeprefix("http://").split(":")
        for _ in range(100):
            with socket.create_connection((host, int(port))) as raw:
                raw.sendall(b"NONSENSE\r\n\r\n")
                raw.recv(1_000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    text = log.read_text()
    assert len(text) < 60_000
    assert count_all(text, "[uvicorn.error] Invalid HTTP request") == 100
    assert count_all(text, "error [provider] api_error") == 60
    assert REPEATED.search(text)
    refused = [row for row in read_events(folder, event_type="channel_error") if row["user_id"] is None]
    assert len(refused) < 250
    assert sum(row["metadata"].get("unrecorded", 0) for row in refused) + len(refused) <= 300
    assert os.path.getsize(folder / ".foreword" / "events.sqlite") < 3_000_000


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process is set on Linux alone")
def test_a_full_disk(tmp_path):
    """While no file can grow, each message gets 503 and the log counts repeated lines; afterwards it recovers."""
    folder, text = tmp_path / "w", []
    write_files(str(folder), {"foreword.yaml": CONFIG + "server: {rate: 100000}\n", "SOUL.md": "Calm.\n"})
    with ApiTokens(str(folder / ".foreword")) as tokens:
        headers = {"Authorization": f"Bearer {tokens.create('alice', ('alice', 'bob')).secret}"}
    with run_fake_provider() as provider, serving(folder, provider.url, subprocess.PIPE) as (address, process):
        reading = threading.Thread(target=lambda: text.extend(process.stderr))
        reading.start()
        with httpx2.Client(base_url=address, timeout=120, headers=headers) as client:
            assert client.post("/api/turns", json={"text": "Hello"}).status_code == 200
            before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
            answers = [client.post("/api/turns", json={"text": "Hello"}) for _ in range(150)]
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
            assert {answer.status_code for answer in answers} == {503}
            again = wait(lambda: (answer := client.post("/api/turns", json={"text": "Hi"})).is_success and answer)
            assert again.json()["reply"] == "Yes."
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        reading.join(60)
    log = "".join(text)
    assert len(log) < 40_000
    assert count_all(log, "NotStored: the message could not be stored") >= 150
    assert re.search(r"repeated 1[\d,]+ times in \d+ s: .*NotStored", log)


@pytest.mark.parametrize("statuses", [(502,), (502, 409)])
def test_a_broken_channel(tmp_path, statuses):
    """A Telegram API that fails every poll is logged once; alternating errors are logged a few times and counted."""
    stream, polls = io.StringIO(), 400

    def fail(method, _):
        asked = sum(name.lower() == "getupdates" for name, _ in bot.calls)
        return InjectedError(status=statuses[asked % len(statuses)]) if method.lower() == "getupdates" else None

    async def run():
        settings = TelegramOptions(
            settings=TelegramSettings(poll=1, waits=(0.0,)), migrations=str(tmp_path / "moves.json")
        )

        def opens(describe):
            return open_telegram(bot.token, TelegramBotSettings(api=bot.url), replace(settings, report=describe))

        async with open_house(tmp_path / "w", tree=console, opens={"telegram": opens}):
            await until(lambda: len(bot.calls) >= polls)

    with run_fake_telegram() as bot:
        bot.choose = fail
        console = Console(stream)
        with log_to(console):
            asyncio.run(run())
    text = stream.getvalue()
    assert len(text) < 20_000
    shown = count_all(text, "Telegram is unreachable") + count_all(text, "another process polls this bot")
    if len(statuses) == 1:
        assert shown == 1
    else:
        assert shown >= polls - 5
        assert REPEATED.search(text)
