"""What is known about a model: its window, its vocabulary, and its cache."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from foreword.config.schema import ModelOverride
from foreword.config.structure import parse
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.shipped import read_shipped
from foreword.tokens.caches import CacheFacts, find_cache
from foreword.words import Mode, Vocabulary


@frozen(eq=True)
class Entry:
    """One line of the model table; it holds for every model whose name begins with it."""

    window: int
    tokenizer: Vocabulary | None = None
    factor: float = 1.0
    margin: float | None = None
    local: bool = False
    native_tools: bool = True
    tools: bool = True
    history: bool = True
    answer: int | None = None
    mode: Mode | None = None


@frozen(eq=True)
class Family:
    """The vocabulary of every model whose name starts alike."""

    tokenizer: Vocabulary = Vocabulary.O200K
    margin: float = 0.0


@frozen(eq=True)
class Table:
    """The tables of data/models.yaml."""

    models: Mapping[str, Entry]
    families: Mapping[str, Family]


@frozen(eq=True)
class ModelFacts:
    """The facts that a turn is budgeted by, and whether any of them was only assumed."""

    name: str
    window: int
    tokenizer: Vocabulary
    factor: float
    margin: float
    cache: CacheFacts
    local: bool = False
    native_tools: bool = True
    tools: bool = True
    """Whether it can use tools at all; a very small model only stumbles over them."""
    history: bool = True
    """Whether earlier messages are sent; a very small model repeats its earlier answers."""
    answer: int | None = None
    """The longest answer that is worth waiting for, if there is a bound below the window."""
    mode: Mode | None = None
    """The prompt mode that suits the model; else its window decides."""
    assumed: str = ""

    @property
    def cache_minimum(self) -> int:
        """The shortest prefix that the provider caches, in tokens."""
        return self.cache.minimum

    @property
    def method(self) -> str:
        """How its tokens are counted, such as: counted with gemma3, ±5 %."""
        factor = f" × {self.factor:g}" if self.factor != 1.0 else ""
        margin = f", ±{self.margin * 100:.0f} %" if self.margin else ""
        return f"counted with {self.tokenizer}{factor}{margin}"

    @property
    def provider(self) -> str:
        """The part of the name before the first colon."""
        return self.name.partition(":")[0] if ":" in self.name else ""


UNKNOWN = Entry(window=128_000)
UNKNOWN_FAMILY = Family(margin=0.25)
# Nobody knows what an own file is good at: its tools stand in the prompt.
OWN_FILE = Entry(window=4_096, margin=0.25, local=True, native_tools=False)
SERVERS = ("ollama", "lmstudio", "llamacpp")  # they cut what exceeds the window they were started with, in silence
SERVED = 4_096  # tokens; the window of a model on such a server unless it was started with another
ROOM = 2 << 30  # bytes for the conversations of one engine, which bounds the window of a large model


def find(model: str, overrides: Mapping[str, ModelOverride], served: int | None = None) -> ModelFacts:
    """Look a model up by the longest matching name, the user's facts before ours.

    `served` is the window that a server on this machine says it serves the model with.
    """
    provider, bare = split(model)
    table = read_table()
    name = find_longest(table, bare)
    override = overrides.get(model) or overrides.get(bare)
    if path := find_file(model):
        facts = know_file(model, path)
        return amend(facts, override) if override else facts
    entry = table.get(name, replace(UNKNOWN, local=True) if provider == "local" else UNKNOWN)
    facts = make_facts(model, entry, "" if name else describe_unknown(model, entry.window))
    facts = replace(facts, local=True) if provider == "local" else facts
    if provider in SERVERS:
        assumed = "" if served else f"{provider} does not say the window of {bare}; one of {SERVED:,} is assumed"
        facts = replace(facts, window=served or SERVED, assumed=assumed)
    return amend(facts, override) if override else facts


def split(model: str) -> tuple[str, str]:
    """Split a name into the provider, if one is named, and the model's own name."""
    provider, colon, bare = model.partition(":")
    return (provider, bare) if colon else ("", model)


def find_longest(table: Mapping[str, object], name: str) -> str:
    """Return the longest key that a name starts with; nothing where there is none."""
    return max((key for key in table if name.startswith(key)), key=len, default="")


def find_family(bare: str) -> Family | None:
    """Find the family of a model by the last part of its name, such as `llama-3.3` of `meta/Llama-3.3-70B`."""
    families = read_families()
    return families.get(find_longest(families, bare.rpartition("/")[2].lower()))


def describe_unknown(model: str, window: int) -> str:
    """Say what is assumed about a model that the table does not have."""
    bare = split(model)[1]
    if not model:
        subject = "no model is named"
    elif find_family(bare):
        subject = f"the window of model {model!r} is not known"
    else:
        subject = f"nothing is known about model {model!r}{suggest_model(bare, read_table())}"
    return f"{subject}; a window of {window:,} is assumed"


def make_facts(model: str, entry: Entry, assumed: str) -> ModelFacts:
    """Make the facts of a model from a line of the table and from its family."""
    provider, bare = split(model)
    family = find_family(bare) or (UNKNOWN_FAMILY if assumed else Family())
    return ModelFacts(
        name=model,
        window=entry.window,
        tokenizer=entry.tokenizer or family.tokenizer,
        factor=entry.factor,
        margin=family.margin if entry.margin is None else entry.margin,
        cache=find_cache(provider, bare),
        local=entry.local,
        native_tools=entry.native_tools,
        tools=entry.tools,
        history=entry.history,
        answer=entry.answer,
        mode=entry.mode,
        assumed=assumed,
    )


def find_file(model: str) -> str:
    """Find the file that `local:/path/to/model.gguf` names; nothing for any other name."""
    provider, _, name = model.partition(":")
    return os.path.expanduser(name) if provider == "local" and ("/" in name or name.endswith(".gguf")) else ""


def know_file(model: str, path: str) -> ModelFacts:
    """Know a model by its own file: the window it was trained with, as far as its conversations fit the memory."""
    from foreword.tokens.gguf import read_sizes

    try:
        header = read_sizes(path)
    except InputError as error:
        return make_facts(model, OWN_FILE, f"{error}; a window of {OWN_FILE.window:,} is assumed")
    if not header.trained:
        return make_facts(model, OWN_FILE, f"{path} names no window; one of {OWN_FILE.window:,} is assumed")
    window = min(header.trained, ROOM // header.token_bytes) if header.token_bytes else header.trained
    return make_facts(model, replace(OWN_FILE, window=window), "")


def suggest_model(name: str, table: Mapping[str, Entry]) -> str:
    """Offer the nearest model that is known."""
    from difflib import get_close_matches

    near = get_close_matches(name, table, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def amend(facts: ModelFacts, override: ModelOverride) -> ModelFacts:
    """Let the user's facts about a model win over ours."""
    rules = find_cache(*split(facts.name), override.cache) if override.cache else facts.cache
    return replace(
        facts,
        window=override.window or facts.window,
        tokenizer=override.tokenizer or facts.tokenizer,
        factor=override.factor or facts.factor,
        native_tools=facts.native_tools if override.native_tools is None else override.native_tools,
        tools=facts.tools if override.tools is None else override.tools,
        history=facts.history if override.history is None else override.history,
        answer=override.answer or facts.answer,
        mode=override.mode or facts.mode,
        cache=replace(
            rules,
            minimum=rules.minimum if override.cache_minimum is None else override.cache_minimum,
            system_messages=rules.system_messages if override.system_messages is None else override.system_messages,
        ),
        assumed="" if override.window else facts.assumed,
    )


def list_known() -> tuple[str, ...]:
    """Name the models of the table; each line holds for every name that begins with it."""
    return tuple(read_table())


def read_table() -> Mapping[str, Entry]:
    """Return the models that ship with the package."""
    return read_tables().models


def read_families() -> Mapping[str, Family]:
    """Return the families that ship with the package."""
    return read_tables().families


@cache
def read_tables() -> Table:
    """Read the tables that ship with the package."""
    return parse(read_shipped("data", "models.yaml") or "", Table, "models.yaml")
