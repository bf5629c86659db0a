"""Tokenizers: compares ours with other installed ones, each in a fresh process.

The others are not dependencies. Install one to measure it: `pip install bpe-openai`.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from glob import glob
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from bench.figure import Figure

ROOT = Path(__file__).parents[1]
TEXTS = 2_000
Encode = Callable[[str], list[int]]

# fmt: off
WORDS = [
    "word", " two", ".", "\n", "\n\n", "/", "## ", "\t", "  ", "    ", "é", "e\u0301", "ж", "漢字", "日本語", "🪶",
    "🇩🇪", "`", "👩\u200d👩\u200d👧", "</x>", "1,204", "\r\n", "<|endoftext|>", "<|im_start|>", "'s", "I'LL", "ſ", "İ",
    "\0", "\u200b", "\ufeff", "\u3000", "\xa0", "नमस्ते", "مرحبا", "0123456789", "def f(x):", "ΑΒγ",
]
# fmt: on


def open_splintr() -> Encode:
    """Load ours."""
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base").encode_ordinary


def open_bpe_openai() -> Encode:
    """Load bpe-openai by its binding, without the wrapper that searches for special tokens."""
    from bpe_openai._bindings import tokenizer_for_encoding

    encode: Encode = tokenizer_for_encoding("o200k_base").encode
    return encode


def open_rs_bpe() -> Encode:
    """Load rs-bpe, which has wheels for Python 3.11 to 3.13."""
    from rs_bpe.bpe import openai

    encode: Encode = openai.o200k_base().encode
    return encode


OPENERS: Mapping[str, tuple[str, Callable[[], Encode]]] = {
    "splintr-rs": ("splintr", open_splintr),
    "bpe-openai": ("bpe_openai", open_bpe_openai),
    "rs-bpe": ("rs_bpe", open_rs_bpe),
}


def run() -> Iterator[str | Figure]:
    """Measure the installed tokenizers; ids are compared as a hash over all texts."""
    found = {name: measure_apart(name) for name, (module, _) in OPENERS.items() if find_spec(module)}
    ours, others = found.pop("splintr-rs"), found
    for key, (name, unit) in FIGURES.items():
        others_shown = "; ".join(f"{other} {values[key]:,.2f} {unit}" for other, values in others.items())
        yield Figure(name=name, value=ours[key], unit=unit, baseline=others_shown)
    for other, values in others.items():
        same = "the same ids" if values["ids"] == ours["ids"] else "OTHER ids"
        yield f"{other}: {same} on {values['texts']:,} texts"


FIGURES = {
    "load": ("load a vocabulary and count one word", "ms"),
    "first": ("the first text with an unusual word", "ms"),
    "short": ("a text of 0.1 kB", "µs"),
    "long": ("a text of 100 kB", "ms"),
    "letter": ("100,000 times one letter", "ms"),
    "spaces": ("100,000 spaces", "ms"),
    "emoji": ("100,000 emoji", "ms"),
    "size": ("installed size", "MB"),
}


def measure_apart(name: str) -> dict[str, float]:
    """Measure one tokenizer in a fresh process without warm caches."""
    command = [sys.executable, "-m", "bench.tokenizers", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def measure(name: str) -> dict[str, float | str]:
    """Measure one tokenizer, in milliseconds of CPU time and in MB."""
    module, opener = OPENERS[name]
    begin = time.process_time()
    encode = opener()
    encode("hello")
    load = time.process_time() - begin
    first = clock_once(encode, "zqxjkvbw zzqq")
    real = read_texts()
    ids = sha256(json.dumps([encode(text) for text in (*make_texts(), *real)]).encode()).hexdigest()
    prose = "".join(real)
    short = [prose[at : at + 100] for at in range(0, 200_000, 100)]
    return {
        "load": load * 1_000,
        "first": first,
        "short": min(clock_once(lambda _: [encode(text) for text in short], "") for _ in range(3)) * 1_000 / len(short),
        "long": min(clock_once(encode, prose[at : at + 100_000]) for at in range(0, 500_000, 100_000)),
        "letter": clock_once(encode, "a" * 100_000),
        "spaces": clock_once(encode, " " * 100_000),
        "emoji": clock_once(encode, "🪶" * 100_000),
        "size": measure_size(module),
        "ids": ids,
        "texts": TEXTS + len(real),
    }


def clock_once(call: Callable[[str], object], text: str) -> float:
    """Time one call, in milliseconds of CPU time."""
    begin = time.process_time()
    call(text)
    return (time.process_time() - begin) * 1_000


def make_texts() -> list[str]:
    """Generate texts of several kinds, the same in every run."""
    chance = random.Random(16)
    mixed = ["".join(chance.choices(WORDS, k=chance.randint(0, 60))) for _ in range(TEXTS // 2)]
    ranges = ((0, 0x7F), (0, 0x7FF), (0, 0xD7FF), (0xE000, 0x10FFFF))
    any_character = [
        "".join(chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.randint(0, 60)))
        for _ in range(TEXTS // 2)
    ]
    return mixed + any_character


def read_texts() -> list[str]:
    """Read the documentation and the source of this repository."""
    paths = [
        *sorted(glob("docs/**/*.md", root_dir=ROOT, recursive=True)),
        *sorted(glob("src/foreword/**/*.py", root_dir=ROOT, recursive=True)),
    ]
    return [(ROOT / path).read_text() for path in paths]


def measure_size(module: str) -> float:
    """Return the size of an installed package, in MB."""
    spec = find_spec(module)
    folders = spec.submodule_search_locations if spec else None
    return sum(file.stat().st_size for folder in folders or () for file in Path(folder).rglob("*")) / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
