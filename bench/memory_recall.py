"""Recall: which of the turns that answer a question a memory search finds, over LoCoMo dialogues.

The metric is evidence recall: of a question's evidence turns, the share among the first k results, averaged over the
questions that have evidence. The weights of `foreword.memory.rank` were found on five dialogues, so a run over those
five is no measure of others; `bench.memory_weights` leaves one out in turn (0.759, 0.829 and 0.875 at 5, 10 and 20).
The parts that are weighed were chosen with all five in view.
"""

import json
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import foreword
from foreword.memory import rank
from foreword.memory.memory import Hit, Memory
from foreword.sources.passage import Passage
from foreword.testing import write_files
from foreword.trust import Audience
from foreword.words import Trust

DEPTHS = (5, 10, 20)
CATEGORIES = {1: "several turns", 2: "time", 3: "inference", 4: "one turn", 5: "adversarial"}
CONFIG = "owner: alice\nusers: {alice: {trust: full}}\n"
TURN = re.compile(r"D\d+:\d+")
Search = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One dialogue: its turns in order, its sessions as Markdown, its questions."""

    turns: Mapping[str, str]
    files: Mapping[str, str]
    places: Mapping[tuple[str, int], str]
    """The turn that begins at a path and line."""
    questions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one search found of one question's evidence, and how long it took."""

    category: int
    shares: tuple[float, ...]
    seconds: float


def read_talk(path: Path) -> Talk:
    """Read a dialogue; one file for each session, headed by its date, one paragraph for each turn."""
    data = json.loads(path.read_text(encoding="utf-8"))
    turns: dict[str, str] = {}
    files: dict[str, str] = {}
    places: dict[tuple[str, int], str] = {}
    for number in sorted(int(found[1]) for key in data if (found := re.fullmatch(r"session_(\d+)", key))):
        name = f"social/{number:03}.md"
        lines = [f"# {data.get(f'session_{number}_date_time', '')}", ""]
        for turn in data[f"session_{number}"]:
            places[name, len(lines) + 1] = turn["dia_id"]
            turns[turn["dia_id"]] = show_turn(turn)
            lines += [show_turn(turn), ""]
        files[f"memory/{name}"] = "\n".join(lines)
    asked = [one for one in data["qa"] if find_evidence(one)]
    return Talk(turns=turns, files=files, places=places, questions=asked)


def show_turn(turn: Mapping[str, Any]) -> str:
    """Show a turn as one line."""
    image = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return " ".join(f"{turn['speaker']}: {turn['text']}{image}".split())


def find_evidence(question: Mapping[str, Any]) -> set[str]:
    """Find the turns that answer a question; some fields hold several ids."""
    return {turn for field in question.get("evidence") or () for turn in TURN.findall(field)}


@contextmanager
def open_memory(talk: Talk) -> Iterator[Memory]:
    """Open a workspace whose memory is the dialogue."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, {"foreword.yaml": CONFIG, **talk.files})
        with foreword.open(folder) as workspace:
            workspace.memory.search("hello", Audience(clearance=Trust.FULL))  # builds the index
            yield workspace.memory


@contextmanager
def open_ours(talk: Talk) -> Iterator[Search]:
    """Search the memory as anybody would."""
    with open_memory(talk) as memory:
        yield lambda question: name_turns(
            talk, memory.search(question, Audience(clearance=Trust.FULL), limit=max(DEPTHS))
        )


def name_turns(talk: Talk, found: Iterable[Hit | Passage]) -> list[str]:
    """Name the turns that were found."""
    return [talk.places.get((one.path, one.first), "") for one in found]


@contextmanager
def open_plain(talk: Talk) -> Iterator[Search]:
    """Search one full-text table by BM25: porter stemming, any of the question's words, one turn each."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE turns USING fts5(id UNINDEXED, text, tokenize='porter unicode61')")
    base.executemany("INSERT INTO turns VALUES (?, ?)", talk.turns.items())

    def search(question: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        query = "SELECT id FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT ?"
        return [turn for (turn,) in base.execute(query, (words, max(DEPTHS)))] if words else []

    yield search
    base.close()


def measure(talk: Talk, search: Search) -> Iterator[Score]:
    """Ask every question that has evidence."""
    for question in talk.questions:
        begin = time.perf_counter()
        found = search(question["question"])
        seconds = time.perf_counter() - begin
        wanted = find_evidence(question)
        shares = tuple(len(wanted.intersection(found[:depth])) / len(wanted) for depth in DEPTHS)
        yield Score(category=question["category"], shares=shares, seconds=seconds)


def average(scores: Sequence[Score]) -> str:
    """Show the mean recall at each depth."""
    means = [statistics.mean(score.shares[at] for score in scores) for at in range(len(DEPTHS))]
    return "  ".join(f"{mean:.3f}" for mean in means)


def show_times(scores: Sequence[Score]) -> str:
    """Show the median and the 99th percentile of the latency."""
    times = [score.seconds * 1_000 for score in scores]
    return f"p50 {statistics.median(times):.2f} ms, p99 {statistics.quantiles(times, n=100)[98]:.2f} ms"


def show(name: str, scores: Sequence[Score]) -> None:
    """Print what one search reached, in all and per category."""
    print(f"{name:36} {average(scores)}   {show_times(scores)}")
    for category, about in CATEGORIES.items():
        if some := [score for score in scores if score.category == category]:
            print(f"  {category} {about:13} {len(some):5} questions {average(some)}")


def run(talks: Sequence[Talk]) -> None:
    """Print recall beside the baseline, what a turn recalls by itself, and what is lost without each part."""
    count = sum(len(talk.questions) for talk in talks)
    print(f"{len(talks)} dialogues, {count:,} questions\n{'':36}   R@5   R@10   R@20")
    plain: list[Score] = []
    ours: list[Score] = []
    for talk in talks:
        with open_plain(talk) as search:
            plain += measure(talk, search)
        with open_ours(talk) as search:
            ours += measure(talk, search)
    show("FTS5 BM25, any word", plain)
    show("foreword", ours)
    print(measure_turns(talks))
    for part, lost in ablate(talks).items():
        print(f"{'without ' + part:36} {average(lost)}")


def measure_turns(talks: Sequence[Talk]) -> str:
    """Say what a turn recalls by itself for a dialogue's own questions, and for those of the next dialogue."""
    found, right, shares, silent = 0, 0, list[float](), list[bool]()
    for talk, other in zip(talks, (*talks[1:], talks[0]), strict=True):
        with open_memory(talk) as memory:
            for question in talk.questions:
                wanted = find_evidence(question)
                turns = name_turns(talk, memory.recall(question["question"], Audience(clearance=Trust.FULL)))
                found += len(turns)
                right += len(wanted.intersection(turns))
                shares.append(len(wanted.intersection(turns)) / len(wanted))
            silent += [
                not memory.recall(question["question"], Audience(clearance=Trust.FULL)) for question in other.questions
            ]
    return (
        f"a turn recalls {found / len(shares):.1f} passages for a question; {right / max(found, 1):.3f} of them answer "
        f"it, and {statistics.mean(shares):.3f} of its evidence is among them\n"
        f"nothing is recalled for {statistics.mean(silent):.3f} of the questions about another dialogue"
    )


def ablate(talks: Sequence[Talk]) -> Mapping[str, Sequence[Score]]:
    """Measure once more without each part of the ranking."""
    lost: dict[str, list[Score]] = {part: [] for part in rank.Parts._fields}
    weights = rank.TALK
    for talk in talks:
        with open_ours(talk) as search:
            for part in lost:
                rank.TALK = weights._replace(**{part: 0.0})
                lost[part] += measure(talk, search)
    rank.TALK = weights
    return lost


def main(arguments: Sequence[str]) -> int:
    """Run over the dialogues of a folder."""
    paths = sorted(Path(arguments[0]).glob("*.json")) if len(arguments) == 1 else []
    if not paths:
        print("usage: python -m bench.memory_recall FOLDER, with LoCoMo dialogues (*.json) in it", file=sys.stderr)
        return 2
    run([read_talk(path) for path in paths])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
