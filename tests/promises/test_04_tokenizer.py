"""The tokenizer installs on current Pythons, and each model family is counted with its vocabulary."""

import json
import os
import sqlite3
import time
import tomllib
from hashlib import blake2b
from pathlib import Path

import pytest

from foreword.testing import make_workspace
from foreword.tokens.count import Counter, SqliteCountStore, count_tokens, load_tokenizer
from foreword.tokens.models import find_model
from foreword.turn import Turn
from foreword.types import Vocabulary

ROOT = Path(__file__).parents[2]
# The ids that each vocabulary's authors give for "Hello, world!".
HELLO = {
    "o200k": [13225, 11, 2375, 0],
    "cl100k": [9906, 11, 1917, 0],
    "llama3": [9906, 11, 1917, 0],
    "deepseek_v3": [19923, 14, 2058, 3],
    "qwen3": [9707, 11, 1879, 0],
    "glm4": [9703, 11, 1879, 0],
    "kimi": [19180, 11, 2695, 0],
    "mistral_v3": [22177, 1044, 4304, 1033],
    "gemma3": [9259, 236764, 1902, 236888],
}
LONG = "Ask before you buy anything, and keep the receipt. " * 20


def test_current_pythons_are_supported() -> None:
    """The package supports Python 3.11 to 3.15 and does not depend on rs-bpe, which has no wheels after 3.13."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name}
    assert project["requires-python"] == ">=3.11"
    assert names == {"3.11", "3.12", "3.13", "3.14", "3.15"}
    assert not any(one.startswith("rs-bpe") for one in project["dependencies"])


@pytest.mark.parametrize(
    ("model", "vocabulary", "margin"),
    [
        ("openai:gpt-5", "o200k", 0),
        ("openai:gpt-4", "cl100k", 0),
        ("groq:llama-3.3-70b-versatile", "llama3", 0),
        ("ollama:llama3.2:3b", "llama3", 0),
        ("openrouter:meta-llama/Llama-3.1-8B-Instruct", "llama3", 0),
        ("deepseek:deepseek-chat", "deepseek_v3", 0),
        ("ollama:qwen3:8b", "qwen3", 0),
        ("zai:glm-4.6", "glm4", 0),
        ("moonshot:kimi-k2", "kimi", 0),
        ("mistral:mistral-large-latest", "mistral_v3", 0.1),
        ("ollama:gemma3:4b", "gemma3", 0),
        ("google:gemini-2.5-pro", "gemma3", 0.05),
    ],
)
def test_models_are_counted_with_their_own_vocabulary(
    model: str, vocabulary: str, margin: float, tmp_path: Path
) -> None:
    """A known family is counted with its vocabulary, and JSON and `explain` name it with its margin."""
    assert load_tokenizer(find_model(model, {}).tokenizer).encode_ordinary("Hello, world!") == HELLO[vocabulary]
    with make_workspace(tmp_path, {"SOUL.md": LONG}) as ws:
        assembly = ws.assemble(Turn(user="alice", situation="dm", model=model))
    shown = assembly.to_dict()
    assert (shown["tokenizer"], shown["margin"]) == (vocabulary, margin)
    assert f"counted with {vocabulary}" in assembly.explain()


def test_a_model_without_a_vocabulary_says_how_it_is_counted(tmp_path: Path) -> None:
    """Claude is counted with o200k times a factor, and `explain` shows both and the margin."""
    with make_workspace(tmp_path, {"SOUL.md": LONG}) as ws:
        assembly = ws.assemble(Turn(user="alice", situation="dm", model="anthropic:claude-sonnet-5"))
    assert "counted with o200k × 1.2, ±15 %" in assembly.explain()


def test_stored_counts_belong_to_one_vocabulary(tmp_path: Path) -> None:
    """Counts stored by an earlier release are used for their vocabulary only."""
    folder = tmp_path / ".foreword"
    folder.mkdir()
    key = blake2b(LONG.encode(), digest_size=16).digest()
    with sqlite3.connect(folder / "counts.sqlite") as base:
        base.execute(
            "CREATE TABLE counts (vocabulary TEXT NOT NULL, content BLOB NOT NULL, tokens INTEGER NOT NULL, "
            "PRIMARY KEY (vocabulary, content))"
        )
        base.execute("INSERT INTO counts VALUES ('o200k', ?, 4321)", (key,))
    base.close()
    shelf = SqliteCountStore(os.fspath(folder))
    assert Counter(Vocabulary.O200K, shelf).count(LONG) == 4321
    llama = Counter(Vocabulary.LLAMA3, shelf)
    assert llama.count(LONG) == Counter(Vocabulary.LLAMA3).count(LONG) != 4321
    llama.save()
    assert shelf.load("o200k") == {key: 4321}
    assert shelf.load("llama3") == {key: Counter(Vocabulary.LLAMA3).count(LONG)}


def test_forgetting_reaches_the_tokenizer() -> None:
    """After `forget` the tokenizer's cache contains no word of a counted text."""
    counter = Counter(Vocabulary.O200K)
    counter.count("zqxjkvbw Wolkenkuckucksheim")
    assert load_tokenizer(Vocabulary.O200K).cache_len > 0
    counter.forget()
    assert load_tokenizer(Vocabulary.O200K).cache_len == 0


@pytest.mark.parametrize("vocabulary", list(Vocabulary))
def test_every_vocabulary_can_forget(vocabulary: Vocabulary) -> None:
    """`forget` works with every vocabulary, including one whose tokenizer has no cache."""
    counter = Counter(vocabulary)
    before = counter.count("zqxjkvbw Wolkenkuckucksheim")
    counter.forget()
    assert counter.count("zqxjkvbw Wolkenkuckucksheim") == before


@pytest.mark.parametrize("letter", ["a", " ", "\n", "🪶"])
@pytest.mark.parametrize("vocabulary", [Vocabulary.O200K, Vocabulary.GEMMA3])
def test_one_long_line_is_not_quadratic(vocabulary: Vocabulary, letter: str) -> None:
    """Counting 16 times as many equal letters takes far less than 256 times as long."""

    def measure(length: int) -> float:
        count_tokens(vocabulary, "warm " + letter)
        times = []
        for _ in range(3):
            begin = time.process_time()
            count_tokens(vocabulary, letter * length)
            times.append(time.process_time() - begin)
        return max(min(times), 1e-4)

    assert measure(160_000) / measure(10_000) < 128


def test_override_names_a_vocabulary(tmp_path: Path) -> None:
    """`models.NAME.tokenizer` counts a model with any vocabulary that ships."""
    config = (
        "owner: alice\nusers: {alice: {trust: full}}\nagents: {a: {model: 'x:own'}}\n"
        "models: {own: {window: 32000, tokenizer: qwen3}}\n"
    )
    with make_workspace(tmp_path, {"foreword.yaml": config}) as ws:
        shown = json.loads(json.dumps(ws.assemble(Turn(user="alice", situation="dm", model="x:own")).to_dict()))
    assert shown["tokenizer"] == "qwen3"
