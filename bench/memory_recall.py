"""Recall: how much of the evidence for a question a memory search finds, in several kinds of conversation.

Each folder is one world of dialogues in LoCoMo's shape. The metric is evidence recall: of the messages that answer a
question, the share among the first k results, averaged over the questions that have such messages. The shipped weights
were found on the folders of development, so two more figures say what they are worth elsewhere: weights found on all
dialogues but the one that is measured, and weights found on all worlds but the one that is measured.
"""

import json
import math
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
from unittest.mock import patch

import foreword
from bench.memory_weights import Case, find_weights
from bench.memory_weights import measure as weigh_cases
from foreword.engine.sources.sections import Passage
from foreword.engine.trust import Audience
from foreword.memory import search as rank
from foreword.memory import stores as memory_module
from foreword.memory.chunk import split
from foreword.memory.index import Index
from foreword.memory.stores import Hit, Memory
from foreword.testing import write_files
from foreword.types import Trust

DEPTHS = (5, 10, 20)
CATEGORIES = {1: "several turns", 2: "time", 3: "inference", 4: "one turn", 5: "adversarial"}
STORE = "social"
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
    """Search the workspace memory through its public interface."""
    with open_memory(talk) as memory:
        yield lambda question: name_turns(
            talk, memory.search(question, Audience(clearance=Trust.FULL), limit=max(DEPTHS))
        )


def name_turns(talk: Talk, found: Iterable[Hit | Passage]) -> list[str]:
    """Return the turns of the results."""
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
        begin = time.process_time()
        found = search(question["question"])
        seconds = time.process_time() - begin
        wanted = find_evidence(question)
        shares = tuple(len(wanted.intersection(found[:depth])) / len(wanted) for depth in DEPTHS)
        yield Score(category=question["category"], shares=shares, seconds=seconds)


def average(shares: Iterable[Sequence[float]]) -> str:
    """Show the mean recall at each depth."""
    return "  ".join(f"{statistics.fmean(column):.3f}" for column in zip(*shares, strict=True))


def show_times(scores: Sequence[Score]) -> str:
    """Show the median and the 99th percentile of the latency."""
    times = [score.seconds * 1_000 for score in scores]
    return f"p50 {statistics.median(times):.2f} ms, p99 {statistics.quantiles(times, n=100)[98]:.2f} ms"


def show(name: str, scores: Sequence[Score]) -> None:
    """Print what one search reached, in all and for each kind of question."""
    print(f"{name:36} {average(score.shares for score in scores)}   {show_times(scores)}")
    for category, about in CATEGORIES.items():
        if some := [score.shares for score in scores if score.category == category]:
            print(f"  {category} {about:13} {len(some):5} questions {average(some)}")


def run(worlds: Mapping[str, Sequence[Talk]]) -> None:
    """Print each world with its baseline, then all worlds together."""
    ours: dict[str, list[Score]] = {}
    plain: dict[str, list[Score]] = {}
    for world, talks in worlds.items():
        ours[world], plain[world] = [], []
        for talk in talks:
            with open_plain(talk) as search:
                plain[world] += measure(talk, search)
            with open_ours(talk) as search:
                ours[world] += measure(talk, search)
        messages = sum(len(talk.turns) for talk in talks)
        print(f"\n{world}: {len(talks)} dialogues, {messages:,} messages, {len(ours[world]):,} questions")
        print(f"{'':36}   R@5   R@10   R@20")
        show("FTS5 BM25, any word", plain[world])
        show("foreword", ours[world])
        print(measure_turns(talks))
        print(measure_cut(talks), flush=True)
    print(f"\nmean of {len(worlds)} worlds\n{'':36}   R@5   R@10   R@20")
    for name, scores in (("FTS5 BM25, any word", plain), ("foreword", ours)):
        print(f"{name:36} {average([mean(one) for one in scores.values()])}")
    cases = {world: [list(read_cases(talk)) for talk in talks] for world, talks in worlds.items()}
    show_held_out(cases)
    show_parts(cases)


def mean(scores: Sequence[Score]) -> list[float]:
    """Return the mean recall at each depth."""
    return [statistics.fmean(column) for column in zip(*(score.shares for score in scores), strict=True)]


def read_cases(talk: Talk) -> Iterator[Case]:
    """Ask every question of a dialogue, and return the finalists of the ranking."""
    index = Index()
    with index.writing():
        for path, body in talk.files.items():
            index.put(STORE, path, ("", ""), split(body))
    search_words = rank.read_search_words(index)
    for question in talk.questions:
        scorer = rank.gather(rank.read_question(question["question"], index, search_words), STORE, index)
        finalists = scorer.describe(lambda rows: index.rows(STORE, rows), rank.FINALISTS)
        found = index.fetch(STORE, [finalist.row.id for finalist in finalists])
        chunks = [found[finalist.row.id] for finalist in finalists]
        places = [(chunk.path.removeprefix("memory/"), chunk.first) for chunk in chunks]
        wanted = find_evidence(question)
        answers = frozenset(at for at, place in enumerate(places) if talk.places.get(place) in wanted)
        yield Case([finalist.parts for finalist in finalists], answers, len(wanted))
    index.close()


Cases = Mapping[str, Sequence[Sequence[Case]]]


def show_held_out(cases: Cases) -> None:
    """Print the recall of weights that were fitted on other data."""
    every = find_weights([join(talks) for talks in cases.values()])
    print(f"\nweights found on the other dialogues, and on the other worlds\n{'':36}   R@5   R@10   R@20")
    for world, talks in cases.items():
        held: list[tuple[float, ...]] = []
        for at, talk in enumerate(talks):
            others = [join(one for place, one in enumerate(some) if (name, place) != (world, at))
                      for name, some in cases.items()]  # fmt: skip
            held += weigh_cases(talk, find_weights(others, every), DEPTHS)
        print(f"{world + ', other dialogues':36} {average(held)}", flush=True)
        if len(cases) > 1:
            weights = find_weights([join(some) for name, some in cases.items() if name != world], every)
            print(f"{world + ', other worlds':36} {average(weigh_cases(join(talks), weights, DEPTHS))}", flush=True)
    print("weights of everything: " + ", ".join(f"{name}={weight:.2f}" for name, weight in every._asdict().items()))


def show_parts(cases: Cases) -> None:
    """Print the loss of R@10 in each world without each part of the ranking."""
    print(f"\nR@10 lost without each part\n{'':12}" + "".join(f"{world:>16}" for world in cases))
    for part in rank.Parts._fields:
        weights = rank.TALK._replace(**{part: 0.0})
        lost = [measure_depth(talks, rank.TALK) - measure_depth(talks, weights) for talks in cases.values()]
        print(f"{part:12}" + "".join(f"{one:16.3f}" for one in lost))


def measure_depth(talks: Iterable[Sequence[Case]], weights: Sequence[float]) -> float:
    """Measure R@10 under some weights."""
    return statistics.fmean(share for (share,) in weigh_cases(join(talks), weights, (10,)))


def join(talks: Iterable[Sequence[Case]]) -> list[Case]:
    """Join the questions of several dialogues."""
    return [case for cases in talks for case in cases]


def measure_turns(talks: Sequence[Talk]) -> str:
    """Print what a turn recalls for a dialogue's own questions, and for those of the next dialogue."""
    found, right, shares, silent, padding = 0, 0, list[float](), list[bool](), list[int]()
    for talk, other in zip(talks, (*talks[1:], talks[0]), strict=True):
        with open_memory(talk) as memory:
            for question in talk.questions:
                wanted = find_evidence(question)
                turns = name_turns(talk, memory.recall(question["question"], Audience(clearance=Trust.FULL)))
                found += len(turns)
                right += len(wanted.intersection(turns))
                shares.append(len(wanted.intersection(turns)) / len(wanted))
            for question in other.questions:
                silent.append(not memory.recall(question["question"], Audience(clearance=Trust.FULL)))
                padding.append(len(memory.search(question["question"], Audience(clearance=Trust.FULL))))
    return (
        f"a turn recalls {found / len(shares):.1f} passages for a question; {right / max(found, 1):.3f} of them answer "
        f"it, and {statistics.mean(shares):.3f} of its evidence is among them\n"
        f"of the questions about another dialogue {statistics.mean(silent):.3f} recall nothing, and a search gives "
        f"{statistics.mean(padding):.1f} of 5 results"
    )


def measure_cut(talks: Sequence[Talk]) -> str:
    """Print how many of ten results the limits for weak results remove, and the recall they lose."""
    lines = [f"{'ten results':24}  results  irrelevant   R@10   about another dialogue"]
    shipped = (memory_module.MIN_SHARE, memory_module.MIN_OF_BEST)
    for name, (share, of_best) in (("every result", (-1.0, -math.inf)), ("without the weak ones", shipped)):
        shown, right, shares, others = list[int](), 0, list[float](), list[int]()
        with patch.multiple(memory_module, MIN_SHARE=share, MIN_OF_BEST=of_best):
            for talk, other in zip(talks, (*talks[1:], talks[0]), strict=True):
                with open_memory(talk) as memory:
                    for question in talk.questions:
                        wanted = find_evidence(question)
                        hits = memory.search(question["question"], Audience(clearance=Trust.FULL), limit=10)
                        found = wanted.intersection(name_turns(talk, hits))
                        shown.append(len(hits))
                        right += len(found)
                        shares.append(len(found) / len(wanted))
                    asked = [question["question"] for question in other.questions]
                    others += [len(memory.search(one, Audience(clearance=Trust.FULL), limit=10)) for one in asked]
        irrelevant = 1 - right / sum(shown)
        lines.append(
            f"{name:24} {statistics.mean(shown):8.1f} {irrelevant:11.3f} {statistics.mean(shares):6.3f}"
            f" {statistics.mean(others):10.1f} results"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run over the dialogues of some folders."""
    folders = [Path(name) for name in arguments]
    worlds = {folder.name: [read_talk(path) for path in sorted(folder.glob("*.json"))] for folder in folders}
    if not worlds or not all(len(talks) > 1 for talks in worlds.values()):
        print(
            "usage: python -m bench.memory_recall FOLDER…\n"
            "Each folder has two or more dialogues in LoCoMo's shape (*.json).",
            file=sys.stderr,
        )
        return 2
    run(worlds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
