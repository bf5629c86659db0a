"""Facts about models, from data/models.yaml and data/caches.yaml, and their prices per token.

The facts are window, vocabulary, abilities and prompt cache. Prices come from `genai-prices` and the configuration.
"""

import os
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from foreword.config.schema import ModelOverride
from foreword.config.structure import parse_yaml
from foreword.errors import InputError, UnknownName
from foreword.resources import read_resource
from foreword.types import Mode, TextEnum, Vocabulary, frozen

DEFAULT_RULE = "prefix"  # the rule for providers that are not listed


class CacheKind(TextEnum):
    """Whether a cache works with explicit breakpoints or caches any equal prefix."""

    MARKS = "marks"
    PREFIX = "prefix"


@frozen(eq=True)
class CacheTtl:
    """A TTL: the seconds an entry lives after its last use, and the write price relative to input."""

    name: str
    seconds: int
    write: float


@frozen(eq=True)
class CacheFacts:
    """The rules of one cache, from data/caches.yaml."""

    provider: str
    kind: CacheKind
    minimum: int
    lives: tuple[CacheTtl, ...]
    read: float
    marks: int = 0
    newest: bool = False
    lookback: int = 0
    step: int = 1
    order: tuple[str, ...]
    system_messages: bool = False
    source: str
    checked: str

    @property
    def marked(self) -> bool:
        """Whether it works with explicit breakpoints."""
        return self.kind is CacheKind.MARKS

    @property
    def usual(self) -> CacheTtl:
        """The default TTL."""
        return self.lives[0]

    def find_ttl(self, name: str) -> CacheTtl:
        """Return a TTL by name; the default if unknown."""
        return next((life for life in self.lives if life.name == name), self.usual)


@frozen(eq=True)
class ModelCacheRule:
    """Rules for some models only."""

    rule: str = ""
    minimum: int | None = None
    system_messages: bool | None = None


@frozen(eq=True)
class CacheTable:
    """The contents of data/caches.yaml."""

    rules: Mapping[str, CacheFacts]
    providers: Mapping[str, str]
    models: Mapping[str, ModelCacheRule] = field(default_factory=dict)


@cache
def find_cache(provider: str, bare: str, named: str = "") -> CacheFacts:
    """Find the cache rules of a model: the named ones, the model's if its provider matches, or the provider's."""
    table = read_caches()
    if named and named not in table.rules:
        raise UnknownName("cache", named, table.rules)
    line = table.models.get(find_longest_prefix(table.models, bare), ModelCacheRule())
    facts = table.rules[named or table.providers.get(provider, DEFAULT_RULE)]
    own = table.rules.get(line.rule)
    if own is None:
        return facts
    if not named and (not provider or own.provider == facts.provider):
        facts = own
    if own.provider != facts.provider:
        return facts  # another provider serves it, with a different minimum
    return replace(
        facts,
        minimum=facts.minimum if line.minimum is None else line.minimum,
        system_messages=facts.system_messages if line.system_messages is None else line.system_messages,
    )


def list_cache_rules() -> tuple[str, ...]:
    """List the names of the rules."""
    return tuple(read_caches().rules)


@cache
def read_caches() -> CacheTable:
    """Read the shipped table."""
    return parse_yaml(read_resource("data", "caches.yaml") or "", CacheTable, "caches.yaml")


@frozen(eq=True)
class ModelTableEntry:
    """An entry of the model table; it applies to all models whose name starts with its key."""

    window: int
    tokenizer: Vocabulary | None = None
    factor: float = 1.0
    margin: float | None = None
    local: bool = False
    native_tools: bool = True
    tools: bool = True
    """Whether it can use tools; very small models cannot use them reliably."""
    history: bool = True
    """Whether earlier messages are sent; a very small model repeats its earlier answers."""
    images: bool = False
    """Whether it takes images in a person's message."""
    answer: int | None = None
    """The maximum answer length, if below the window."""
    mode: Mode | None = None
    """The prompt mode for this model; otherwise its window decides."""


@frozen(eq=True)
class ModelFamily:
    """The vocabulary of all models whose names start with the same key."""

    tokenizer: Vocabulary = Vocabulary.O200K
    margin: float = 0.0


@frozen(eq=True)
class ModelTable:
    """The contents of data/models.yaml."""

    models: Mapping[str, ModelTableEntry]
    families: Mapping[str, ModelFamily]


@frozen(eq=True)
class ModelFacts(ModelTableEntry):
    """The facts for budgeting a turn, and which of them are assumptions."""

    name: str
    tokenizer: Vocabulary
    margin: float
    cache: CacheFacts
    assumed: str = ""

    @property
    def cache_minimum(self) -> int:
        """The shortest prefix that the provider caches, in tokens."""
        return self.cache.minimum

    @property
    def method(self) -> str:
        """Describe how its tokens are counted, such as: counted with gemma3, ±5 %."""
        factor = f" × {self.factor:g}" if self.factor != 1.0 else ""
        margin = f", ±{self.margin * 100:.0f} %" if self.margin else ""
        return f"counted with {self.tokenizer}{factor}{margin}"

    @property
    def provider(self) -> str:
        """The part of the name before the first colon."""
        return self.name.partition(":")[0] if ":" in self.name else ""


UNKNOWN_MODEL = ModelTableEntry(window=128_000)
UNKNOWN_FAMILY = ModelFamily(margin=0.25)
# The abilities of a user's model file are unknown, so its tools are part of the prompt.
MODEL_FILE = ModelTableEntry(window=4_096, margin=0.25, local=True, native_tools=False)
LOCAL_SERVERS = ("ollama", "lmstudio", "llamacpp")  # these silently truncate requests beyond their window
LOCAL_SERVER_WINDOW_TOKENS = 4_096  # tokens; the default window of such a server
KV_CACHE_BYTES = 2 << 30  # bytes for the KV cache of one engine; limits the window of a large model


def find_model(model: str, overrides: Mapping[str, ModelOverride], served: int | None = None) -> ModelFacts:
    """Find the facts of a model by the longest matching name; overrides have priority.

    `served` is the window that a local server reports for the model.
    """
    provider, bare = split_model_name(model)
    table = read_model_table().models
    name = find_longest_prefix(table, bare)
    override = overrides.get(model) or overrides.get(bare)
    if path := find_model_file(model):
        facts = read_model_file(model, path)
        return apply_override(facts, override) if override else facts
    entry = table.get(name, replace(UNKNOWN_MODEL, local=True) if provider == "local" else UNKNOWN_MODEL)
    facts = make_facts(model, entry, "" if name else describe_unknown(model, entry.window))
    facts = replace(facts, local=True) if provider == "local" else facts
    if provider in LOCAL_SERVERS:
        assumed = f"{provider} does not say the window of {bare}; one of {LOCAL_SERVER_WINDOW_TOKENS:,} is assumed"
        facts = replace(facts, window=served or LOCAL_SERVER_WINDOW_TOKENS, assumed="" if served else assumed)
    return apply_override(facts, override) if override else facts


def split_model_name(model: str) -> tuple[str, str]:
    """Split a name into the provider, if any, and the bare model name."""
    provider, colon, bare = model.partition(":")
    return (provider, bare) if colon else ("", model)


def find_longest_prefix(table: Mapping[str, object], name: str) -> str:
    """Return the longest key that is a prefix of a name; empty if none."""
    return max((key for key in table if name.startswith(key)), key=len, default="")


def find_family(bare: str) -> ModelFamily | None:
    """Find the family of a model by the last part of its name, such as `llama-3.3` of `meta/Llama-3.3-70B`."""
    families = read_model_table().families
    return families.get(find_longest_prefix(families, bare.rpartition("/")[2].lower()))


def describe_unknown(model: str, window: int) -> str:
    """Describe the assumptions about a model that is not in the table."""
    bare = split_model_name(model)[1]
    if not model:
        subject = "no model is named"
    elif find_family(bare):
        subject = f"the window of model {model!r} is not known"
    else:
        from difflib import get_close_matches

        near = get_close_matches(bare, read_model_table().models, n=1)
        subject = f"nothing is known about model {model!r}{f' (did you mean {near[0]}?)' if near else ''}"
    return f"{subject}; a window of {window:,} is assumed"


def make_facts(model: str, entry: ModelTableEntry, assumed: str) -> ModelFacts:
    """Build the facts of a model from its table entry and its family."""
    provider, bare = split_model_name(model)
    family = find_family(bare) or (UNKNOWN_FAMILY if assumed else ModelFamily())
    same = ("window", "factor", "local", "native_tools", "tools", "history", "images", "answer", "mode")
    return ModelFacts(
        name=model,
        tokenizer=entry.tokenizer or family.tokenizer,
        margin=family.margin if entry.margin is None else entry.margin,
        cache=find_cache(provider, bare),
        assumed=assumed,
        **{name: getattr(entry, name) for name in same},
    )


def find_model_file(model: str) -> str:
    """Return the path in `local:/path/to/model.gguf`; empty for other names."""
    provider, _, name = model.partition(":")
    return os.path.expanduser(name) if provider == "local" and ("/" in name or name.endswith(".gguf")) else ""


def read_model_file(model: str, path: str) -> ModelFacts:
    """Build the facts of a model file: its trained window, limited by memory."""
    from foreword.tokens.gguf import read_sizes

    try:
        header = read_sizes(path)
    except InputError as error:
        return make_facts(model, MODEL_FILE, f"{error}; a window of {MODEL_FILE.window:,} is assumed")
    if not header.trained_window:
        return make_facts(model, MODEL_FILE, f"{path} names no window; one of {MODEL_FILE.window:,} is assumed")
    window = header.trained_window
    if header.token_bytes:
        window = min(window, KV_CACHE_BYTES // header.token_bytes)
    return make_facts(model, replace(MODEL_FILE, window=window), "")


def apply_override(facts: ModelFacts, override: ModelOverride) -> ModelFacts:
    """Apply an override to the facts of a model."""
    names = ("window", "tokenizer", "factor", "native_tools", "tools", "history", "images", "answer", "mode")
    given = {name: getattr(override, name) for name in names if getattr(override, name) is not None}
    rules = find_cache(*split_model_name(facts.name), override.cache) if override.cache else facts.cache
    cache = replace(
        rules,
        minimum=rules.minimum if override.cache_minimum is None else override.cache_minimum,
        system_messages=rules.system_messages if override.system_messages is None else override.system_messages,
    )
    return replace(facts, cache=cache, assumed="" if override.window else facts.assumed, **given)


def list_models() -> tuple[str, ...]:
    """List the model names of the table; each applies to all names that start with it."""
    return tuple(read_model_table().models)


@cache
def read_model_table() -> ModelTable:
    """Read the shipped tables."""
    return parse_yaml(read_resource("data", "models.yaml") or "", ModelTable, "models.yaml")


MIN_SHOWN_USD = 0.00005  # smaller amounts would be shown as zero


@frozen(eq=True)
class Prices:
    """US dollars per token; without a cache price, the price of plain input applies."""

    input: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float | None = None
    """None if unknown; the cost of a whole call is then unknown as well."""


def format_usd(amount: float) -> str:
    """Format a small amount of money; savings are negative, and amounts that would round to zero are marked."""
    if 0 < abs(amount) < MIN_SHOWN_USD:
        return "under $0.0001" if amount > 0 else "under $0.0001 less"
    return f"{'-' if amount < 0 else ''}${abs(amount):,.4f}"


MILLION = 1_000_000
# As in the price table and the configuration.
PRICE_NAMES = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
NO_PRICES = (None,) * len(PRICE_NAMES)
FREE_PRICES = (0.0,) * len(PRICE_NAMES)


@frozen(eq=True)
class PricedRequest:
    """What a price depends on besides the model: the size of the request and its time."""

    tokens: int = 0
    now: datetime | None = None


ANY_REQUEST = PricedRequest()


def find_prices(
    model: str, overrides: Mapping[str, ModelOverride], request: PricedRequest = ANY_REQUEST
) -> Prices | None:
    """Return the prices of a model, configured ones first, or None if they are unknown."""
    override = overrides.get(model) or overrides.get(model.rpartition(":")[2]) or ModelOverride()
    given = tuple(getattr(override, f"{name}_usd") for name in PRICE_NAMES)
    known = NO_PRICES if None not in given else look_up_prices(model, request)
    found = (ours if ours is not None else theirs for ours, theirs in zip(given, known, strict=True))
    plain, read, write, hour, output = (None if price is None else price / MILLION for price in found)
    if plain is None:
        return None
    short = plain if write is None else write
    return Prices(
        input=plain,
        cache_read=plain if read is None else read,
        cache_write=short,
        cache_write_1h=short if hour is None else hour,
        output=output,
    )


def look_up_prices(model: str, request: PricedRequest) -> tuple[float | None, ...]:
    """Look up the prices of a million tokens in the table of genai-prices, without network access."""
    if model.startswith("local:"):  # a local model costs nothing per token
        return FREE_PRICES
    from genai_prices.data_snapshot import get_snapshot

    provider, _, name = model.rpartition(":") if ":" in model else ("", "", model)
    if not name:
        return NO_PRICES
    try:
        _, facts = get_snapshot().find_provider_model(name, None, provider.partition(":")[0] or None, None)
    except LookupError:
        return NO_PRICES
    prices = facts.get_prices(request.now or datetime.now(UTC))
    return tuple(choose_tier(getattr(prices, f"{kind}_mtok"), request.tokens) for kind in PRICE_NAMES)


def choose_tier(price: Any, tokens: int) -> float | None:
    """Return the price for a request of this size; above a threshold the tier's price applies to all tokens."""
    if price is None or not hasattr(price, "tiers"):
        return None if price is None else float(price)
    reached = [tier.price for tier in price.tiers if tokens > tier.start]
    return float(reached[-1] if reached else price.base)
