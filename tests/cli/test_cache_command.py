"""`foreword cache simulate`: tables, JSON, and refused input."""

import json

import pytest

from foreword.cli.cache_command import name_lifetime
from foreword.promptcache.rules import CacheUsage
from foreword.testing import write_files
from foreword.tokens.models import find_cache

SMALL = """\
name: small
tools: {count: 4, tokens: 300}
sections: [{id: soul, tokens: 900}, {id: user, pace: session, tokens: 300}]
turns: 6
pauses: [{turn: 5, seconds: 900}]
work: [{turn: 3, calls: 2}]
edits: [{turn: 4, section: soul}, {turn: 6, section: user, policy: now}]
"""
DESIGNS = ["ours", "no cache", "one string with a clock", "static/dynamic split", "oracle"]
SONNET, GPT = "anthropic:claude-sonnet-5", "openai:gpt-5.4"


@pytest.fixture
def small(folder):
    """A small scenario in the workspace."""
    write_files(folder, {"small.yaml": SMALL})
    return "small.yaml"


def test_a_table_for_each_model(say, small):
    """Each model has a table with the cache reads and the cost of every design, including the oracle."""
    answer = say("cache", "simulate", small, "--model", SONNET, "--model", GPT)
    assert answer.code == 0
    assert [answer.out.count(f"\n {design} ") for design in DESIGNS] == [2] * 5
    assert answer.out.index(SONNET) < answer.out.index(GPT)
    assert "rules of anthropic (2026-11), from 1,024 tokens" in answer.out
    assert "break" not in answer.out


def test_json(say, small):
    """With --json each design has its share, cost and multiples."""
    found = say("cache", "simulate", small, "--json").json
    assert (found["scenario"], found["turns"]) == ("small", 6)
    (model,) = found["models"]
    assert model["model"] == SONNET  # the model of the workspace's agent
    assert list(model["designs"]) == DESIGNS
    assert model["designs"]["oracle"]["of_oracle"] == 1.0
    assert model["designs"]["ours"]["read_share"] > model["designs"]["static/dynamic split"]["read_share"]
    assert "calls" not in model


def test_the_life_of_what_is_written():
    """A call shows the lifetime of its cache writes, with tokens if there are two lifetimes."""
    facts = find_cache("anthropic", "claude-sonnet-5")
    shown = [
        name_lifetime(CacheUsage(read=9, write=write, hour=hour), facts) for write, hour in ((0, 0), (5, 0), (5, 5))
    ]
    assert shown == ["–", "5m", "1h"]
    assert name_lifetime(CacheUsage(write=3_000, hour=2_000), facts) == "1h 2,000 + 5m 1,000"


def test_rules_of_the_workspace(say, small, folder):
    """Cache rules and prices of the workspace override the shipped facts."""
    before = say("cache", "simulate", small, "--json").json["models"][0]
    text = (folder / "foreword.yaml").read_text()
    own = f'{text}models:\n  "{SONNET}": {{cache: prefix, cache_minimum: 64, input_usd: 40}}\n'
    (folder / "foreword.yaml").write_text(own)
    after = say("cache", "simulate", small, "--json").json["models"][0]
    assert (before["rules"]["minimum"], after["rules"]["minimum"]) == (1024, 64)
    assert after["designs"]["no cache"]["usd"] > 10 * before["designs"]["no cache"]["usd"]


def test_without_a_workspace(say, small, folder, tmp_path, monkeypatch):
    """The command works without a workspace if the command line or the scenario names a model."""
    monkeypatch.chdir(tmp_path)
    path = folder / small
    assert "no model given" in say("cache", "simulate", path).err
    path.write_text(f"model: {GPT}\n{SMALL}")
    assert say("cache", "simulate", path).out.startswith(GPT)


@pytest.mark.parametrize("more", [[], ["--recorded", "r.jsonl"]])
def test_an_unknown_model(say, small, folder, more):
    """A model without facts is an error that lists the known models, unless the configuration gives its facts."""
    write_files(folder, {"r.jsonl": record(0)})
    line = ["cache", "simulate", *(more or [small]), "--json", "--model"]
    for name, near in (("anthropic:claude-sonet-5", " (did you mean claude-sonnet-5?)"), ("nope", "")):
        answer = say(*line, name)
        assert (answer.code, answer.out) == (2, "")
        assert f"nothing is known about model {name!r}{near}; add its facts under `models`" in answer.err
        assert "claude-sonnet-5, claude-haiku-5-5," in answer.err
        assert "smollm2" in answer.err
    text = (folder / "foreword.yaml").read_text()
    (folder / "foreword.yaml").write_text(f"{text}models:\n  nope: {{cache: prefix, cache_minimum: 64}}\n")
    answer = say(*line, "nope")
    assert answer.code == 0
    assert "the price of nope is unknown" in answer.err


def test_beyond_the_window(say, folder):
    """A session beyond its model's window is simulated, with a warning."""
    write_files(folder, {"long.yaml": SMALL.replace("tokens: 900", "tokens: 9000")})
    answer = say("cache", "simulate", "long.yaml", "--model", "local:smollm2")
    assert "but the window of local:smollm2 has 8,192" in answer.err
    assert " tokens " in answer.out


FAULTS = """\
name: x
turn: 3
turns: 5
seconds: [9, 3]
sections:
  - {id: a, pace: turn}
  - {id: a, tokens: 0}
pauses: [{turn: 9, seconds: 1}]
work:
  - {turn: 2, calls: 1}
  - {turn: 2, calls: 300}
folded: [1]
edits:
  - {turn: 1, section: b, policy: later}
  - {turn: 3, section: a}
  - {turn: 3, section: a}
"""
EXPECTED = """\
bad.yaml:2: turn is not a known key; did you mean 'turns'?
bad.yaml:4: seconds must list the minimum first: [3, 9], not [9, 3]
bad.yaml:6: sections[0].pace must be static or session; use `tail` for text that changes every turn
bad.yaml:7: sections[1].tokens must be between 1 and 200,000, not 0
bad.yaml:7: sections[1].id repeats 'a' from line 6
bad.yaml:8: pauses[0].turn must be a turn between 1 and 5, not 9
bad.yaml:11: work[1].calls must be between 0 and 200, not 300
bad.yaml:11: work[1].turn is turn 2, as on line 10; name a turn once
bad.yaml:12: folded[0] must be a turn between 2 and 5, not 1
bad.yaml:14: edits[0].policy must be one of now, append, cold, next-session, auto, not the text 'later'
bad.yaml:14: edits[0].turn must be a turn between 2 and 5, not 1
bad.yaml:14: edits[0].section is 'b', which is not a section; there is a, a
bad.yaml:16: edits[2].section repeats the edit before this turn on line 15; merge the two edits
"""


def test_faults_of_a_scenario_all_at_once(say, folder):
    """Every fault of a scenario is reported with its line, its key and the allowed values."""
    write_files(folder, {"bad.yaml": FAULTS})
    answer = say("cache", "simulate", "bad.yaml")
    assert answer.code == 2
    assert answer.err == f"foreword: 13 faults:\n{EXPECTED}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "s.yaml:1: the file is empty"),
        ("name: [", "s.yaml:1: this is not valid YAML"),
        ("name: x\n", "sections is missing"),
        ("name: x\nsections: []\n", "s.yaml:2: sections must list at least one section"),
        (
            "name: x\nseconds: [9]\nsections: [{id: a}]\n",
            "s.yaml:2: seconds must be two numbers: the minimum and the maximum",
        ),
        (
            "name: x\nturns: 900\nsections: [{id: a, tokens: 90000}]\n",
            "about 178,146,000 tokens in total; the maximum is 30,000,000",
        ),
        (
            "name: x\nturns: 999\nwork: [{turn: 2, calls: 190}]\nsections: [{id: a}]\n",
            "has 1,189 model calls; the maximum is 1,000",
        ),
    ],
)
def test_what_cannot_be_played(say, folder, text, reason):
    """An empty, broken or too large scenario is refused with a remedy."""
    write_files(folder, {"s.yaml": text})
    answer = say("cache", "simulate", "s.yaml")
    assert answer.code == 2
    assert reason in answer.err


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["cache", "--recorded", "r.jsonl"], "--recorded is an option of foreword cache simulate"),
        (["cache", "simulate", "--session", "x"], "--session is an option of foreword cache without"),
        (["cache", "simulat"], "did you mean 'simulate'?"),
        (["cache", "simulate", "none.yaml"], "none.yaml cannot be read: No such file or directory"),
        (["cache", "simulate", "small.yaml", "--model", ""], "--model is empty"),
        (["cache", "simulate", "small.yaml", "--recorded", "r.jsonl"], "give a scenario or --recorded, not both"),
        (["cache", "simulate", "--recorded", "none.jsonl"], "none.jsonl cannot be read"),
    ],
)
def test_what_is_refused(say, words, reason):
    """Contradictory options are refused."""
    answer = say(*words)
    assert answer.code == 2
    assert reason in answer.err


def record(turn):
    """Return a recorded request of a conversation."""
    texts = [f"Message {at}." for at in range(2 * turn + 1)]
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    system = {"role": "system", "content": "Be kind.\n" * 600 + ("" if turn < 3 else "Be brief.\n")}
    return json.dumps({
        "at": f"2026-11-16T12:0{turn}:00Z", "model": GPT, "shape": "openai",
        "request": {"model": "gpt-5.4", "messages": [system, *messages]},
        "usage": {"prompt_tokens": 1_300, "prompt_tokens_details": {"cached_tokens": 1_152 if turn else 0}},
    })  # fmt: skip


def test_recorded(say, folder):
    """Recorded requests are simulated with their model's rules, next to the reported values."""
    write_files(folder, {"r.jsonl": "\n".join(map(record, range(4)))})
    answer = say("cache", "simulate", "--recorded", "r.jsonl")
    assert answer.out.startswith(f"{GPT}: 4 requests, ")
    assert "1,152 / 0 / 148" in answer.out
    (play,) = say("cache", "simulate", "--recorded", "r.jsonl", "--json").json["plays"]
    assert [call["predicted"]["read"] for call in play["calls"]] == [0, 1_792, 1_792, 1_664]
    assert play["sum"]["reported"]["read"] == 3 * 1_152
    assert play["sum"]["usd"] == pytest.approx(sum(call["usd"] for call in play["calls"]))
    other = say("cache", "simulate", "--recorded", "r.jsonl", "--model", SONNET, "--json").json["plays"][0]
    assert other["calls"][1]["predicted"]["read"] > 1_000
    assert other["calls"][3]["blame"]["cause"] == "section"
    assert other["calls"][0]["reported"] is None
