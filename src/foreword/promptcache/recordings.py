"""Recorded sessions: captured requests, validated and replayed against a provider's rules and prices."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from foreword.config.schema import ModelOverride
from foreword.engine.sources.documents import is_unicode
from foreword.errors import ConfigError, ConfigFault, InputError, suggest_name
from foreword.promptcache.cache_usage import CacheAccount, choose_breakpoints
from foreword.promptcache.designs import set_breakpoints
from foreword.promptcache.ledger import LedgerState, SentRequest, find_part, make_sent_blocks
from foreword.promptcache.rules import REQUEST_SHAPES, CacheBlock, CacheUsage, list_blocks
from foreword.promptcache.simulation import (
    SimulatedRequest,
    account_for_session,
    advance_without_ledger,
    count_requests,
    price_usage,
)
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import PricedRequest, find_model, find_prices
from foreword.types import frozen

USAGE_KEYS = ("read", "write", "hour", "fresh")
TOTAL_KEYS = ("prompt_tokens", "input_tokens", "promptTokenCount")  # OpenAI's two shapes, and Gemini's
DETAIL_KEYS = ("prompt_tokens_details", "input_tokens_details")


def parse_usage(usage: Mapping[str, Any]) -> CacheUsage:
    """Parse the usage of an answer from any provider; raise InputError if it is invalid."""
    if set(usage) <= set(USAGE_KEYS):
        return CacheUsage(**{name: get_token_count(usage, name) for name in usage})
    if any(name.startswith("cache_") for name in usage):
        return parse_anthropic_usage(usage)
    whole = next((get_token_count(usage, name) for name in TOTAL_KEYS if name in usage), None)
    if whole is None:
        raise InputError(f"'usage' has none of {', '.join((*TOTAL_KEYS, *USAGE_KEYS))}")
    told: Mapping[str, Any] = next((usage[name] for name in DETAIL_KEYS if isinstance(usage.get(name), Mapping)), {})
    read = get_token_count(told, "cached_tokens") + get_token_count(usage, "cachedContentTokenCount")
    write = get_token_count(told, "cache_write_tokens")
    return CacheUsage(read=read, write=write, fresh=max(0, whole - read - write))


def parse_anthropic_usage(usage: Mapping[str, Any]) -> CacheUsage:
    """Parse the usage of POST /v1/messages, whose `input_tokens` are the uncached ones."""
    lives = usage.get("cache_creation")
    return CacheUsage(
        read=get_token_count(usage, "cache_read_input_tokens"),
        write=get_token_count(usage, "cache_creation_input_tokens"),
        hour=get_token_count(lives, "ephemeral_1h_input_tokens") if isinstance(lives, Mapping) else 0,
        fresh=get_token_count(usage, "input_tokens"),
    )


def get_token_count(usage: Mapping[str, Any], name: str) -> int:
    """Return a token count; 0 if absent."""
    value = usage.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"'usage.{name}' must be a number of tokens, not {value!r:.60}")
    return value


RECORDING_KEYS = {"at": str, "model": str, "shape": str, "request": dict, "usage": dict, "session": str}
REQUIRED_KEYS = ("at", "model", "shape", "request")
MAX_SHOWN_CHARS = 60  # characters shown of an invalid value


@frozen
class CapturedRequest:
    """A captured request and the usage its provider reported."""

    at: datetime
    model: str  # the full name, with the provider
    shape: str
    request: Mapping[str, Any]
    usage: CacheUsage | None = None
    session: str = ""  # its conversation; a miss is explained by the previous request of the same one


def parse_captured_request(value: Any) -> CapturedRequest:
    """Validate a parsed line and build the request; raise InputError if it is invalid."""
    if not isinstance(value, dict):
        raise InputError("a line must be an object with at, model, shape and request")
    for name in value:
        if name not in RECORDING_KEYS:
            raise InputError(f"{name!r:.60} is not a known key{suggest_name(name, list(RECORDING_KEYS))}")
    for name, kind in RECORDING_KEYS.items():
        found = value.get(name)
        if found is None and name in REQUIRED_KEYS:
            raise InputError(f"{name!r} is missing")
        if found is not None and not isinstance(found, kind):
            raise InputError(f"{name!r} must be {'a text' if kind is str else 'an object'}")
    shape, usage = value["shape"], value.get("usage")
    if shape not in REQUEST_SHAPES:
        raise InputError(f"unknown shape {shape!r:.60}{suggest_name(shape, list(REQUEST_SHAPES))}")
    made = CapturedRequest(
        at=read_time(value["at"]),
        model=value["model"],
        shape=shape,
        request=value["request"],
        usage=None if usage is None else parse_usage(usage),
        session=value.get("session") or "",
    )
    try:
        list_blocks(shape, made.request)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"the request does not have the shape {shape}: {reason}") from None
    return made


def read_time(text: str) -> datetime:
    """Parse the time of a request; without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"'at' is {text[:MAX_SHOWN_CHARS]!r}, not a time such as 2026-11-16T13:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


MAX_REQUESTS = 20_000  # requests of one recording
Overrides = Mapping[str, ModelOverride]
Count = Callable[[str], int]


@frozen
class ReplayedRecording:
    """A replayed recording: tokens by the rules, and tokens as reported."""

    asked: tuple[SimulatedRequest, ...]
    counted: tuple[CacheUsage, ...]
    reported: tuple[CacheUsage | None, ...]
    accounts: tuple[CacheAccount, ...]  # accounts of the reported tokens, or of the computed ones if none were reported
    usd: tuple[float | None, ...]

    @property
    def unmarked(self) -> bool:
        """Whether no request has a breakpoint although the provider requires one."""
        needy = [one for one in self.asked if one.facts.marked and not one.facts.newest]
        return bool(needy) and not any(block.ttl for one in needy for block in one.blocks)


def parse_recording(lines: Iterable[str], file: str = "recording") -> list[CapturedRequest]:
    """Parse JSON lines, one request each, sorted by time; raise ConfigError with all problems."""
    recorded: list[CapturedRequest] = []
    faults: list[ConfigFault] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            recorded.append(parse_captured_request(parse_json_line(line)))
        except InputError as error:
            faults.append(ConfigFault(file=file, line=number, message=str(error)))
    if not recorded and not faults:
        faults.append(
            ConfigFault(file=file, line=None, message="it contains no request", remedy="one JSON object a line")
        )
    if len(recorded) > MAX_REQUESTS:
        message = f"it contains {len(recorded):,} requests; the maximum is {MAX_REQUESTS:,}"
        faults.append(ConfigFault(file=file, line=None, message=message))
    if faults:
        raise ConfigError(faults)
    return sorted(recorded, key=lambda one: one.at)


def parse_json_line(line: str) -> Any:
    """Parse one line of JSON."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError("nested too deeply, or a number is too long") from None
    if "\\u" in line and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise InputError("contains half of a surrogate pair (\\ud800 to \\udfff), which is not a character")
    return value


def count_recording(
    recorded: Sequence[CapturedRequest],
    overrides: Overrides | None = None,
    *,
    model: str = "",
    count: Count | None = None,
) -> list[CacheUsage]:
    """Count what recorded requests read and write by the rules of their models, or of `model`.

    The model's tokenizer counts tokens unless `count` is given.
    """
    return count_requests(make_requests(recorded, overrides or {}, model, count))


def replay_recording(recorded: Sequence[CapturedRequest], overrides: Overrides, model: str = "") -> ReplayedRecording:
    """Replay a recording with the cost and the cache account of each request."""
    asked = make_requests(recorded, overrides, model, None)
    counted = count_requests(asked)
    reported = [None if model else one.usage for one in recorded]
    seen = [said or used for said, used in zip(reported, counted, strict=True)]
    accounts: dict[int, CacheAccount] = {}
    for session in dict.fromkeys(one.session for one in recorded):
        numbers = [at for at, one in enumerate(recorded) if one.session == session]
        found = account_for_session([asked[at] for at in numbers], [seen[at] for at in numbers])
        accounts.update(zip(numbers, found, strict=True))
    usd = [
        None if one.prices is None else price_usage(used, one.prices) for one, used in zip(asked, counted, strict=True)
    ]
    return ReplayedRecording(
        asked=tuple(asked),
        counted=tuple(counted),
        reported=tuple(reported),
        accounts=tuple(accounts[at] for at in range(len(asked))),
        usd=tuple(usd),
    )


def make_requests(
    recorded: Sequence[CapturedRequest], overrides: Overrides, model: str, count: Count | None
) -> list[SimulatedRequest]:
    """Build the requests of a recording; for another model, in its part order and with the ledger's breakpoints."""
    meters: dict[str, Meter] = {}
    asked = []
    for one in recorded:
        name = model or one.model
        if name not in meters:
            facts = find_model(name, overrides)
            meters[name] = Meter(facts, Counter(facts.tokenizer))
        counting, blocks = count or meters[name].count, list_blocks(one.shape, one.request)
        size = PricedRequest(tokens=sum(counting(block.text) for block in blocks), now=one.at)
        request = SimulatedRequest(
            at=one.at,
            model=name,
            blocks=blocks,
            facts=meters[name].facts.cache,
            prices=find_prices(name, overrides, size),
            count=counting,
        )
        asked.append(request)
    return list(convert_requests(recorded, asked)) if model else asked


def convert_requests(
    recorded: Sequence[CapturedRequest], asked: Sequence[SimulatedRequest]
) -> Iterator[SimulatedRequest]:
    """Convert requests to another provider: its part order, and breakpoints as the ledger would set them."""
    state: dict[str, LedgerState] = {}
    for was, one in zip(recorded, asked, strict=True):
        facts = one.facts
        parts = sorted(one.blocks, key=lambda block: facts.order.index(find_part(block.name)))
        blocks: Sequence[CacheBlock] = [replace(block, ttl="") for block in parts]
        before = state.get(was.session)
        sent = SentRequest(model=one.model, pieces=make_sent_blocks(blocks, facts, one.count), at=one.at)
        system = [at for at, block in enumerate(blocks) if find_part(block.name) == "system"]
        ttls = {each.at: each.ttl for each in choose_breakpoints(before, sent, facts, system)} if facts.marked else {}
        blocks, pieces = set_breakpoints(blocks, ttls), set_breakpoints(sent.pieces, ttls)
        state[was.session] = advance_without_ledger(before, replace(sent, pieces=pieces), facts)
        yield replace(one, blocks=tuple(blocks))
