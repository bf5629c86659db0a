"""kill -9 at random moments: no accepted message lost, none answered twice, no finished call of a tool repeated."""

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

from foreword.runtime.history import load, recount
from foreword.testing import Called, Says

HERE = os.path.dirname(os.path.abspath(__file__))
TURNS = 200 if os.environ.get("FOREWORD_SOAK") else 20
PATIENCE = 240.0  # seconds after which a gateway that answers nothing is a failure


def read_number(body):
    """Read which message a request is about: the newest words of a person."""
    return int(re.findall(r"number (\d+)", json.dumps(body["messages"]))[-1])


def count_results(body):
    """Count the results of tools since the newest words of a person."""
    count = 0
    for message in reversed(body["messages"]):
        kinds = [part.get("type") for part in message["content"]] if isinstance(message["content"], list) else []
        if message["role"] == "user" and "tool_result" not in kinds:
            break
        count += kinds.count("tool_result")
    return count


class Model:
    """Calls one tool, then the other, then answers; remembers when it was first shown a result."""

    def __init__(self):
        self.shown = {}

    def __call__(self, body):
        """Answer a request."""
        number, results = read_number(body), count_results(body)
        if number >= TURNS:
            return Says(text="ready")
        time.sleep(0.003)
        if results:
            self.shown.setdefault((number, results), time.time())
        if results < 2:
            name = ("note", "press")[results]
            return Says(calls=(Called(name=name, arguments={"n": number}),))
        return Says(text=f"answer {number}")


class Gateways:
    """Gateways of one house, one after the other, each of which is killed."""

    def __init__(self, folder, url, diary):
        words = [sys.executable, os.path.join(HERE, "kill_child.py"), folder, url, diary]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *filter(None, sys.path)])}
        self.parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True)
        self.accepted = {}

    def live(self, first, last, seconds):
        """Let a gateway live for so long; it accepts what nobody has accepted yet."""
        self.parent.stdin.write(f"{first} {last}\n")
        self.parent.stdin.flush()
        child = self.read()["child"]
        timer = threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
        timer.start()
        while "ended" not in (said := self.read()):
            assert self.accepted.setdefault(said["n"], said["turn"]) == said["turn"]
        timer.join()

    def read(self):
        """Read a line, which a kill never divides."""
        return json.loads(self.parent.stdout.readline())

    def close(self):
        """End the process that breeds them."""
        self.parent.stdin.close()
        self.parent.wait()
        self.parent.stdout.close()


def read_turns(folder):
    """Read what became of every turn."""
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
    """Whatever moment it is killed at, everything accepted is answered once, in order, and no call is made twice."""
    model = stand_in.choose = Model()
    chance = random.Random(7)
    folder, diary = os.fspath(tmp_path / "house"), os.fspath(tmp_path / "diary")
    deadline = time.time() + PATIENCE + TURNS * 2
    kills = 0
    with closing(Gateways(folder, stand_in.url, diary)) as child:
        while True:
            first = max(child.accepted, default=-1) + 1
            child.live(first, TURNS, chance.uniform(0.05, 1.0))
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
        told = recount(load(messages))
        number = by_id[turn][1].split()[1]
        assert [message.role for message in told] == ["user", "assistant"] * (len(told) // 2)
        assert told[-1].text == f"answer {number}"
        assert by_id[turn][4] == session
    ran = [json.loads(line) for line in tmp_path.joinpath("diary").read_text().splitlines()]
    pressed = Counter(run["n"] for run in ran if run["tool"] == "press")
    assert max(pressed.values()) == 1
    for run in ran:
        result = 1 if run["tool"] == "note" else 2
        assert run["time"] <= model.shown.get((run["n"], result), run["time"])
