"""What is known about the prompt cache that a model is served with."""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache

from foreword.config.structure import parse
from foreword.errors import UnknownName
from foreword.frozen import frozen
from foreword.shipped import read_shipped
from foreword.words import Word

OTHERS = "prefix"  # the rule of every provider that is not listed


class CacheKind(Word):
    """Whether a cache is read and written up to marks, or keeps any equal beginning by itself."""

    MARKS = "marks"
    PREFIX = "prefix"


@frozen(eq=True)
class Life:
    """How long an entry may live after its last use, and what writing it costs as a share of the price of input."""

    name: str
    seconds: int
    write: float


@frozen(eq=True)
class CacheFacts:
    """The rules of one cache, as they stand in data/caches.yaml."""

    provider: str
    kind: CacheKind
    minimum: int
    lives: tuple[Life, ...]
    read: float
    marks: int = 0
    newest: bool = False
    lookback: int = 0
    step: int = 1
    key: bool = False
    order: tuple[str, ...]
    reports: tuple[str, ...]
    system_messages: bool = False
    source: str
    checked: str

    @property
    def marked(self) -> bool:
        """Whether it is read and written up to marks."""
        return self.kind is CacheKind.MARKS

    @property
    def usual(self) -> Life:
        """The life that a request gets which asks for none."""
        return self.lives[0]

    def find_life(self, name: str) -> Life:
        """Find a life by its name; what no rule knows is the usual one."""
        return next((life for life in self.lives if life.name == name), self.usual)


@frozen(eq=True)
class CacheLine:
    """What holds for some models only."""

    rule: str = ""
    minimum: int | None = None
    system_messages: bool | None = None


@frozen(eq=True)
class CacheTable:
    """The whole of data/caches.yaml."""

    rules: Mapping[str, CacheFacts]
    providers: Mapping[str, str]
    models: Mapping[str, CacheLine] = field(default_factory=dict)


@cache
def find_cache(provider: str, bare: str, named: str = "") -> CacheFacts:
    """Find the rules for a model: those that are named, its own line's where its provider has them, the provider's."""
    table = read_caches()
    if named and named not in table.rules:
        raise UnknownName("cache", named, table.rules)
    name = max((name for name in table.models if bare.startswith(name)), key=len, default="")
    line = table.models.get(name, CacheLine())
    facts = table.rules[named or table.providers.get(provider, OTHERS)]
    own = table.rules.get(line.rule)
    if own is None:
        return facts
    if not named and (not provider or own.provider == facts.provider):
        facts = own
    if own.provider != facts.provider:
        return facts  # served by somebody else, whose cache has its own least size
    return replace(
        facts,
        minimum=facts.minimum if line.minimum is None else line.minimum,
        system_messages=facts.system_messages if line.system_messages is None else line.system_messages,
    )


def list_rules() -> tuple[str, ...]:
    """Name the rules that there are."""
    return tuple(read_caches().rules)


@cache
def read_caches() -> CacheTable:
    """Read the table that ships with the package."""
    return parse(read_shipped("data", "caches.yaml") or "", CacheTable, "caches.yaml")
