"""Claims about recorded sessions: for captured requests the rules compute the usage that a provider reported."""

import json
import urllib.request
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.schema import ModelOverride
from foreword.errors import ConfigError
from foreword.promptcache.cache_usage import Cause
from foreword.promptcache.recordings import count_recording, parse_recording, replay_recording
from foreword.promptcache.simulation import SimulatedClock
from foreword.testing import NOON, run_fake_provider
from foreword.tokens.count import Counter
from foreword.types import Vocabulary

SONNET = "anthropic:claude-sonnet-5"
PATHS = {
    SONNET: ("anthropic", "/v1/messages"),
    "openai:gpt-5.4": ("openai", "/v1/chat/completions"),
    "openai:gpt-5.6": ("responses", "/v1/responses"),
    "google:gemini-3-pro-preview": ("gemini", "/v1beta/models/gemini-3-pro-preview:generateContent"),
}
SYSTEM = "\n".join(f"## Part {part}\n" + "Keep what you know to yourself.\n" * 60 for part in range(12))
NAMES = "messages input contents role content parts text tools system type cache_control instructions function"
KEYS = st.sampled_from([*NAMES.split(), "input_tokens", "cache_read_input_tokens"])
MARK = {"cache_control": {"type": "ephemeral"}}


def write(shape, model, texts, system=SYSTEM):
    """Write a request with so many messages, in a provider's shape."""
    name = model.partition(":")[2]
    if shape == "gemini":
        contents = [{"role": ("user", "model")[at % 2], "parts": [{"text": text}]} for at, text in enumerate(texts)]
        return {"systemInstruction": {"parts": [{"text": system}]}, "contents": contents}
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    if shape == "responses":
        return {"model": name, "instructions": system, "input": messages}
    if shape == "openai":
        return {"model": name, "messages": [{"role": "system", "content": system}, *messages]}
    messages[-1]["content"] = [{"type": "text", "text": texts[-1], **MARK}]
    return {"model": name, "max_tokens": 9, "system": [{"type": "text", "text": system, **MARK}], "messages": messages}


def talk(turns, system=SYSTEM, start=0):
    """List the requests of a conversation with their times."""
    for turn in range(turns):
        texts = [f"Message {at}. " * 30 for at in range(2 * turn + 1)]
        yield timedelta(minutes=start + turn), texts, system


def capture(model, *talks):
    """Send conversations to a fake provider over HTTP and record the requests unchanged."""
    shape, path = PATHS[model]
    clock = SimulatedClock(NOON)
    with run_fake_provider(clock=clock) as provider:
        for after, texts, system in (one for talk in talks for one in talk):
            clock.now = NOON + after
            body = write(shape, model, texts, system)
            request = urllib.request.Request(
                provider.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request) as answer:
                shown = json.load(answer)
            usage = shown.get("usage") or shown["usageMetadata"]
            line = {"at": clock.now.isoformat(), "model": model, "shape": shape, "request": body, "usage": usage}
            yield json.dumps(line), provider.requests[-1].counted


@pytest.mark.parametrize("model", PATHS)
def test_what_was_reported_is_what_the_rules_say(model):
    """In every shape the figures of captured requests are those that their provider reported."""
    captured = list(capture(model, talk(5), talk(3, SYSTEM.replace("Part 7", "Part seven"), 5)))
    recorded = parse_recording(line for line, _ in captured)
    counted = count_recording(recorded, count=Counter(Vocabulary.O200K).count)
    assert counted == [used for _, used in captured]
    assert [one.usage.read for one in recorded] == [one.read for one in counted]
    assert [one.usage.total for one in recorded] == [one.total for one in counted]
    assert sum(one.read for one in counted) > sum(one.total for one in counted) / 2


def test_why_something_was_not_read():
    """A break in a recording is explained by its heading and its byte."""
    moved = talk(1, SYSTEM.replace("Part 7", "Part seven"), 3)
    recorded = parse_recording(line for line, _ in capture(SONNET, talk(3), moved))
    blame = replay_recording(recorded, {}).accounts[3].blame
    assert (blame.cause, blame.where) == (Cause.SECTION, "Part 7")
    assert blame.byte == SYSTEM.encode().index(b"Part 7") + len("Part ")


def test_conversations_are_told_apart():
    """With a session on each line, alternating requests are no breaks of each other."""
    lines = [json.loads(line) for line, _ in capture(SONNET, talk(3))]
    others = [json.loads(line) for line, _ in capture(SONNET, talk(3, "Be kind. " * 400))]
    mixed = [
        json.dumps({**line, "session": name})
        for pair in zip(lines, others, strict=True)
        for name, line in zip("ab", pair, strict=True)
    ]
    played = replay_recording(parse_recording(mixed), {})
    assert not any(account.blame for account in played.accounts)
    assert all(usd > 0 for usd in played.usd)


def test_another_provider():
    """A recording is played against any rules; required breakpoints are where the ledger would put them."""
    recorded = parse_recording(line for line, _ in capture("openai:gpt-5.4", talk(6)))
    played = replay_recording(recorded, {}, SONNET)
    assert all(used.read for used in played.counted[1:])
    assert played.reported == (None,) * 6
    assert not any(account.blame for account in played.accounts)
    other = replay_recording(recorded, {}, "google:gemini-3-pro-preview")
    assert other.asked[0].blocks[0].name == "0 system"


def test_no_marks_at_all():
    """Requests without breakpoints read nothing where a provider needs them, and the report says so."""
    lines = [json.loads(line) for line, _ in capture(SONNET, talk(2))]
    bare = [json.dumps(line).replace(', "cache_control": {"type": "ephemeral"}', "") for line in lines]
    played = replay_recording(parse_recording(bare), {})
    assert played.unmarked
    assert not any(used.read for used in played.counted)


def test_own_facts():
    """A workspace's facts about a model also apply to recordings."""
    recorded = parse_recording(line for line, _ in capture(SONNET, talk(2)))
    over = {"claude-sonnet-5": ModelOverride(cache_minimum=1_000_000, input_usd=7.0)}
    played = replay_recording(recorded, over)
    assert not any(used.read for used in played.counted)
    assert played.usd[0] == pytest.approx(played.counted[0].total * 7e-6)


LINE = {"at": "2026-11-16T12:00:00Z", "model": "m", "shape": "openai", "request": {"messages": []}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "r.jsonl:2: not valid JSON"),
        ("[]", "r.jsonl:2: a line must be an object with at, model, shape and request"),
        (json.dumps({**LINE, "modle": "m"}), "'modle' is not a known key; did you mean 'model'?"),
        (json.dumps({"at": "now"}), "'model' is missing"),
        (json.dumps({**LINE, "at": "noon"}), "'at' is 'noon', not a time such as 2026-11-16T13:00:00Z"),
        (json.dumps({**LINE, "shape": "opnai"}), "unknown shape 'opnai'; did you mean 'openai'?"),
        (json.dumps({**LINE, "shape": "gemini"}), "the request does not have the shape gemini: 'contents' is missing"),
        (json.dumps({**LINE, "request": []}), "'request' must be an object"),
        (json.dumps({**LINE, "usage": {"tokens": 3}}), "'usage' has none of prompt_tokens"),
        (json.dumps({**LINE, "usage": {"read": -1}}), "'usage.read' must be a number of tokens, not -1"),
        (json.dumps({**LINE, "model": "\ud800"}), "half of a surrogate pair"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_faults_of_a_recording(line, reason):
    """A wrong line is refused with its number and its problem."""
    with pytest.raises(ConfigError) as refused:
        parse_recording([json.dumps(LINE), line], "r.jsonl")
    assert reason in str(refused.value)
    assert "r.jsonl:2: " in str(refused.value)


def test_nothing_recorded():
    """A recording without a request is refused."""
    with pytest.raises(ConfigError, match="it contains no request"):
        parse_recording(["", " "])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


messages = st.lists(st.dictionaries(KEYS, json_values, max_size=4), max_size=3) | json_values
requests = st.fixed_dictionaries(dict.fromkeys(["messages", "input", "contents", "tools", "system"], messages))


@given(st.sampled_from(["anthropic", "openai", "responses", "gemini"]), requests | json_values, json_values)
def test_whatever_stands_there(shape, request, usage):
    """Any line is either played, or refused with its number."""
    line = {**LINE, "shape": shape, "request": request, "usage": usage}
    try:
        recorded = parse_recording([json.dumps(line)], "r.jsonl")
    except ConfigError as error:
        shown = str(error)
    else:
        shown = f"r.jsonl:1: {len(count_recording(recorded))} played"
    assert shown.startswith("r.jsonl:1: ")
