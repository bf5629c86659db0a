"""Telegram with restarts and failures: every accepted update is answered, and no send is repeated without a record."""

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

from foreword.testing import DroppedConnection, InjectedError, ScriptedReply, run_fake_provider, run_fake_telegram

HERE = os.path.dirname(os.path.abspath(__file__))
SOAK = bool(os.environ.get("FOREWORD_SOAK"))
UPDATES = 10_000 if SOAK else 150
PEOPLE, GROUPS = (1_000, 100) if SOAK else (30, 3)
LIVES = (3.0, 30.0) if SOAK else (0.3, 1.2)  # seconds between two kills
PATIENCE = 7_200.0 if SOAK else 240.0  # seconds until the test fails
AHEAD = 60  # unanswered messages
NUMBER = re.compile(r"number (\d+)")
MENTION = [{"type": "mention", "offset": 0, "length": 9}]


class Model:
    """Replies with the newest number in the request, and records the numbers."""

    def __init__(self):
        self.asked = set()

    def __call__(self, body):
        """Answer a request."""
        number = NUMBER.findall(json.dumps(body["messages"]))[-1]
        self.asked.add(number)
        return ScriptedReply(text=f"**answer** {number}.")


class Weather:
    """Random faults of Telegram."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.faults = Counter()

    def __call__(self, method, params):
        """Choose the fault of a request."""
        with self._lock:
            lot = self._chance.random()
        fault = None
        if method == "sendMessage":
            slow = InjectedError(status=429, description="Too Many Requests: retry after 1", retry_after=1)
            broken = InjectedError(status=400, description="Bad Request: can't parse entities: by chance")
            broken = broken if "parse_mode" in params else None  # plain text can always be parsed
            kinds = [DroppedConnection(), DroppedConnection(done=True), InjectedError(status=500), broken, slow]
            fault = kinds[int(lot * 100)] if lot < 0.05 else None
        elif method in ("getUpdates", "sendChatAction"):
            fault = (
                DroppedConnection(done=lot < 0.02) if lot < 0.04 else InjectedError(status=502) if lot < 0.06 else None
            )
        if fault:
            self.faults[method] += 1
        return fault


class Crowd(threading.Thread):
    """People who write numbers in private and in groups; some messages are repeated."""

    def __init__(self, bot, model, seed):
        super().__init__(daemon=True)
        self.bot, self.model, self.chance = bot, model, random.Random(seed)
        self.gone = threading.Event()

    def run(self):
        """Write all messages, within AHEAD of the model."""
        for number in range(UPDATES):
            while number - len(self.model.asked) > AHEAD and not self.gone.is_set():
                time.sleep(0.005)
            user = 1_001 + self.chance.randrange(PEOPLE)
            if self.chance.random() < 0.1:
                group = -55 - self.chance.randrange(GROUPS)
                update = self.bot.say(f"@reid_bot number {number}", user=user, chat=group, entities=MENTION)
            else:
                update = self.bot.say(f"number {number}", user=user)
            if self.chance.random() < 0.02:
                self.bot.push("message", update["message"])
            if self.chance.random() < 0.01:
                self.bot.push("an_unknown_kind", {"number": number})


class Gateways:
    """Gateways of one workspace, one after the other, each of which is killed."""

    def __init__(self, folder, provider, bot):
        words = [sys.executable, os.path.join(HERE, "telegram_child.py"), folder, provider, bot]
        paths = [HERE, os.path.dirname(HERE), *filter(None, sys.path)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True)

    def live(self, seconds):
        """Run a gateway for some seconds, then kill it."""
        self.parent.stdin.write("\n")
        self.parent.stdin.flush()
        child = int(self.parent.stdout.readline())
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        assert self.parent.stdout.readline() == "ended\n"

    def close(self):
        """End the parent process."""
        self.parent.stdin.close()
        self.parent.wait()
        self.parent.stdout.close()


def read(folder, asked):
    """Query the state while no gateway runs."""
    path = os.path.join(folder, ".foreword", "state.sqlite")
    if not os.path.exists(path):
        return []
    with closing(sqlite3.connect(path)) as state:
        return state.execute(asked).fetchall()


def is_done(folder):
    """Return whether all turns are answered and all messages delivered."""
    turns = read(folder, "SELECT count(*), sum(state = 'answered') FROM turns")
    waiting = read(folder, "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')")
    return turns == [(UPDATES, UPDATES)] and waiting == [(0,)]


def test_restarts_and_failures(tmp_path):
    """With any kills and faults each update has one turn and one reply, and no reply is sent twice."""
    folder, chance = os.fspath(tmp_path / "house"), random.Random(7)
    with run_fake_provider() as provider, run_fake_telegram() as bot:
        model = provider.choose = Model()
        weather = bot.choose = Weather(8)
        crowd = Crowd(bot, model, 9)
        crowd.start()
        deadline, kills = time.time() + PATIENCE, 0
        with closing(Gateways(folder, provider.url, bot.url)) as gateways:
            before, slow = [], 1.0
            while not is_done(folder) or bot.updates:
                gateways.live(chance.uniform(*LIVES) * slow)
                kills += 1
                now = read(folder, "SELECT count(*) FROM turns WHERE state = 'answered'")
                slow, before = slow * (2.0 if now == before else 1.0), now  # longer lives on a busy machine
                assert time.time() < deadline, read(folder, "SELECT state, count(*) FROM outbox GROUP BY state")
        crowd.gone.set()

    turns = dict(read(folder, "SELECT id, text FROM turns"))
    numbers = {turn: int(NUMBER.findall(text)[-1]) for turn, text in turns.items()}
    assert sorted(numbers.values()) == list(range(UPDATES))
    letters = read(folder, "SELECT turn_id, state, text FROM outbox")
    assert Counter(turn for turn, _, _ in letters) == Counter(dict.fromkeys(turns, 1))
    arrived = Counter(sent.text for sent in bot.sent)
    fates = Counter()
    for turn, state, text in letters:
        assert text == f"**answer** {numbers[turn]}."
        shown = arrived[f"answer {numbers[turn]}."]
        fates[state, shown] += 1
    # A delivered message arrived once; an uncertain one at most once.
    assert set(fates) <= {("sent", 1), ("uncertain", 0), ("uncertain", 1)}
    # The number of uncertain messages depends on the machine's load during a kill; enough must be certain.
    assert fates["sent", 1] > UPDATES * 0.25
    assert fates["uncertain", 0] + fates["uncertain", 1] >= weather.faults["sendMessage"] // 3
    assert kills > 1
    print(f"{UPDATES} updates, {kills} kills, faults {dict(weather.faults)}: {dict(fates)}")  # noqa: T201
