"""Scale: a memory of 100,000 chunks, built, searched and changed through the public search."""

import os
import random
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import accumulate, cycle, islice

import foreword
from foreword.engine.trust import Audience
from foreword.testing import write_files
from foreword.types import Trust

DOCUMENTS, CHUNKS, WORDS = 2_000, 50, 25
VOCABULARY = 30_000
PARAGRAPHS, COPIES = 5_000, 23  # of a note of 50 MB
MESSAGES = 20_000  # of a chat export
QUERIES, PLAIN = 500, 100  # for ours, and for the baseline
STORE = "social"
SYLLABLES = ("ba", "co", "di", "fe", "gu", "la", "mo", "ni", "pe", "ru", "sa", "to", "vi", "wo", "ze", "kha", "stri")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana")
CONFIG = "owner: alice\nusers: {alice: {trust: full}}\n"


class Speech:
    """Random words with few common and many rare ones, the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._words = [self._spell(number) for number in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def _spell(self, number: int) -> str:
        text = ""
        while number or not text:
            number, at = divmod(number, len(SYLLABLES))
            text += SYLLABLES[at]
        return text

    def say(self, count: int) -> str:
        """Say some words."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def write(self) -> str:
        """Write a document of one session, dated."""
        day = f"# {self._random.randint(1, 28)} May {self._random.randint(2015, 2025)}"
        sizes = [self._random.randint(5, 2 * WORDS - 5) for _ in range(CHUNKS)]
        turns = [f"{self._random.choice(NAMES)}: {self.say(size)}." for size in sizes]
        return "\n\n".join([day, *turns]) + "\n"

    def ask(self) -> str:
        """Write a question about a person: question words, and four to eight words of the text."""
        return f"What did {self._random.choice(NAMES)} {self.say(self._random.randint(4, 8))}?"


def main(_: Sequence[str]) -> int:
    """Print build time, size, latency and the time of one change."""
    speech = Speech()
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, {"foreword.yaml": CONFIG})
        files = {f"memory/{STORE}/{number:05}.md": speech.write() for number in range(DOCUMENTS)}
        write_files(folder, files)
        text = sum(map(len, files.values()))
        with foreword.open(folder) as workspace:
            begin = time.process_time()
            workspace.memory.search("hello", Audience(clearance=Trust.FULL))
            print(f"{DOCUMENTS * CHUNKS:,} chunks of {text / 1e6:.1f} MB built in {time.process_time() - begin:.1f} s")
            workspace.memory.close()
            path = os.path.join(folder, ".foreword", "memory.sqlite")
            print(f"index {os.path.getsize(path) / 1e6:.1f} MB")
            queries = [speech.ask() for _ in range(QUERIES)]
            show("search (aim 10 and 30)", [measure(workspace, query) for query in queries])
            show("FTS5 BM25, any word, same table", measure_plain(path, queries[:PLAIN]))
            changes = [change(workspace, folder, speech, number) for number in range(11)]
            print(f"one changed file found after {statistics.median(changes):.1f} ms (aim 100), search included")
    paragraphs = [speech.say(random.Random(number).randint(20, 120)) for number in range(PARAGRAPHS)]
    note = "\n\n".join(islice(cycle(paragraphs), PARAGRAPHS * COPIES))
    print(f"first search of a note of {len(note) / 1e6:.0f} MB: {time_first_search(note):.1f} s")
    stamps = [f"[2026-03-14 10:{at % 60:02}] {NAMES[at % 2]}" for at in range(MESSAGES)]
    export = "\n".join(f"{stamp}: {speech.say(WORDS)}" for stamp in stamps)
    print(f"first search of a chat export of {MESSAGES:,} messages: {time_first_search(export):.1f} s")
    return 0


def time_first_search(text: str) -> float:
    """Return the seconds of the search that indexes a file."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, {"foreword.yaml": CONFIG, f"memory/{STORE}/large.md": f"{text}\n\nxylophone\n"})
        with foreword.open(folder) as workspace:
            begin = time.process_time()
            (hit,) = workspace.memory.search("xylophone", Audience(clearance=Trust.FULL), limit=1)
            seconds = time.process_time() - begin
    if "xylophone" not in hit.text:
        raise SystemExit("the last line was not found")
    return seconds


def measure(workspace: foreword.Workspace, query: str) -> float:
    """Return the milliseconds of one search."""
    begin = time.process_time()
    workspace.memory.search(query, Audience(clearance=Trust.FULL), limit=10)
    return (time.process_time() - begin) * 1_000


def measure_plain(path: str, queries: Sequence[str]) -> list[float]:
    """Return the milliseconds of each query on the same table by BM25 alone, without reading texts."""
    base = sqlite3.connect(path)
    table = f"words_{STORE.encode().hex()}"
    times = []
    for query in queries:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        begin = time.process_time()
        base.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT 10", (words,)).fetchall()
        times.append((time.process_time() - begin) * 1_000)
    base.close()
    return times


def show(name: str, times: Sequence[float]) -> None:
    """Print the median and the 99th percentile of some milliseconds."""
    print(f"{name}: p50 {statistics.median(times):.1f} ms, p99 {statistics.quantiles(times, n=100)[98]:.1f} ms")


def change(workspace: foreword.Workspace, folder: str, speech: Speech, number: int) -> float:
    """Change one file by hand and return the milliseconds of the search that sees it."""
    write_files(folder, {f"memory/{STORE}/{number:05}.md": f"{speech.write()}\n\nxylophone{number}\n"})
    time.sleep(0.6)  # so that the next search checks the disk
    begin = time.process_time()
    (hit,) = workspace.memory.search(f"xylophone{number}", Audience(clearance=Trust.FULL), limit=1)
    if f"xylophone{number}" not in hit.text:
        raise SystemExit("the change was not found")
    return (time.process_time() - begin) * 1_000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
