"""SIGKILL at random moments: no accepted message is lost or answered twice, and no finished tool call is repeated."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing

from foreword.agent.conversation import convert_to_texts, load_messages
from foreword.testing import ScriptedCall, ScriptedReply

HERE = os.path.dirname(os.path.abspath(__file__))
TURNS = 200 if os.environ.get("FOREWORD_SOAK") else 20
PATIENCE = 240.0  # seconds until the test fails without progress


def read_number(body):
    """Read the message number of a request from the newest user message."""
    return int(re.findall(r"number (\d+)", json.dumps(body["messages"]))[-1])


def count_results(body):
    """Count the tool results since the newest user message."""
    count = 0
    for message in reversed(body["messages"]):
        kinds = [part.get("type") for part in message["content"]] if isinstance(message["content"], list) else []
        if message["role"] == "user" and "tool_result" not in kinds:
            break
        count += kinds.count("tool_result")
    return count


class Model:
    """Calls one tool, then the other, then answers; records when each result first arrived."""

    def __init__(self):
        self.shown = {}

    def __call__(self, body):
        """Answer a request."""
        number, results = read_number(body), count_results(body)
        if number >= TURNS:
            return ScriptedReply(text="ready")
        time.sleep(0.003)
        if results:
            self.shown.setdefault((number, results), time.time())
        if results < 2:
            name = ("note", "press")[results]
            return ScriptedReply(calls=(ScriptedCall(name=name, arguments={"n": number}),))
        return ScriptedReply(text=f"answer {number}")


class Gateways:
    """Gateways of one workspace, one after the other, each of which is killed."""

    def __init__(self, folder, url, diary):
        words = [sys.executable, os.path.join(HERE, "kill_child.py"), folder, url, diary]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *filter(None, sys.path)])}
        self.parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True)
        self.accepted = {}

    def live(self, first, last, seconds):
        """Run a gateway for some seconds; it accepts the remaining messages."""
        self.parent.stdin.write(f"{first} {last}\n")
        self.parent.stdin.flush()
        child = self.read()["child"]
        timer = threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
        timer.start()
        while "ended" not in (said := self.read()):
            assert self.accepted.setdefault(said["n"], said["turn"]) == said["turn"]
        timer.join()

    def read(self):
        """Read a line, which is never torn by a kill."""
        return json.loads(self.parent.stdout.readline())

    def close(self):
        """End the parent process."""
        self.parent.stdin.close()
        self.parent.wait()
        self.parent.stdout.close()


def read_turns(folder):
    """Read all turns and the history."""
    path = os.path.join(folder, ".foreword", "state.sqlite")
    if not os.path.exists(path):
        return [], []
    with closing(sqlite3.connect(path)) as state:
        turns = state.execute(
            "SELECT id, text, state, reply, session_id, attempt FROM turns ORDER BY number"
        ).fetchall()
        past = state.execute(
            "SELECT turn_id, messages, session_id FROM history ORDER BY session_id, position"
        ).fetchall()
    return turns, past


def test_killed(tmp_path, stand_in):
    """After kills at any moment every accepted message is answered once, in order, and no call is repeated."""
    model = stand_in.choose = Model()
    chance = random.Random(7)
    folder, diary = os.fspath(tmp_path / "house"), os.fspath(tmp_path / "diary")
    deadline = time.time() + PATIENCE + TURNS * 2
    kills = 0
    with closing(Gateways(folder, stand_in.url, diary)) as child:
        while True:
            first = max(child.accepted, default=-1) + 1
            child.live(first, TURNS, chance.uniform(0.05, 0.5))
            kills += 1
            turns, past = read_turns(folder)
            if len(child.accepted) == TURNS and all(row[2] == "answered" for row in turns):
                break
            assert time.time() < deadline, Counter(row[2] for row in turns)

    assert kills > 3
    by_id = {row[0]: row for row in turns}
    assert len(turns) == TURNS
    for number, turn in child.accepted.items():
        assert by_id[turn][1] == f"number {number}"
        assert by_id[turn][3] == f"answer {number}"
    assert Counter(row[0] for row in past) == Counter(dict.fromkeys(by_id, 1))
    for turn, messages, session in past:
        output = convert_to_texts(load_messages(messages))
        number = by_id[turn][1].split()[1]
        assert [message.role for message in output] == ["user", "assistant"] * (len(output) // 2)
        assert output[-1].text == f"answer {number}"
        assert by_id[turn][4] == session
    ran = [json.loads(line) for line in tmp_path.joinpath("diary").read_text().splitlines()]
    pressed = Counter(run["n"] for run in ran if run["tool"] == "press")
    assert max(pressed.values()) == 1
    for run in ran:
        result = 1 if run["tool"] == "note" else 2
        assert run["time"] <= model.shown.get((run["n"], result), run["time"])
