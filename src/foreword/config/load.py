"""Loads `foreword.yaml`: its shape, then what the shape alone cannot say, with every fault at once."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from foreword.config.company import check_company
from foreword.config.finding import Finding, Places
from foreword.config.finding import find as _find
from foreword.config.finding import find_texts as _find_texts
from foreword.config.finding import list_names as _list_names
from foreword.config.nodes import Node, Scalar, Sequence, Table
from foreword.config.pattern import judge_pattern
from foreword.config.people import Situation
from foreword.config.scheduling import check_schedules
from foreword.config.schema import SITUATIONS, STORES, Config, PromptFile, Server
from foreword.config.structure import settle, spell, structure
from foreword.config.telegram import judge_token
from foreword.errors import Fault, suggest
from foreword.names import SIGNS, judge_name, normalize_name

LONGEST = 36_500  # days that events may be kept

_ROOM_SIGNS = "._-:+@"
_ORIGIN = re.compile(r"https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")
_PROVIDER = re.compile(r"[a-z][a-z0-9-]*")
# Each of these becomes the name of a folder, or part of one; the signs that it may have.
_NAMED = {"agents": SIGNS, "users": SIGNS, "situations": SIGNS, "stores": SIGNS, "rooms": _ROOM_SIGNS}

_KINDS = ("agents", "users", "situations", "rooms", "stores")
# Mappings whose keys are names, and values that are names or refer to them; a star stands for any name or item.
_NAMING = {*((kind,) for kind in _KINDS), *(("budgets", kind) for kind in ("agents", "users", "channels", "schedules"))}
_REFERENCES = {
    ("owner",),
    ("agents", "*", "mcp", "*", "name"),
    ("users", "*", "identities", "*"),
    ("rooms", "*", "situation"),
    ("rooms", "*", "group"),
    ("rooms", "*", "members", "*"),
    *(("schedule", "*", key) for key in ("user", "agent", "name", "to")),
    ("telegram", "agent"),
}

# Names of stores that are no folder of memory/, each with a trust of its own.
_TAKEN = {"facts": "memories.json", "main": "MEMORY.md", "own": "each person's own memory (users/NAME/memory/)"}


def load(
    text: str,
    file: str = "foreword.yaml",
    blueprints: Collection[str] = (),
    list_caches: Callable[[], Collection[str]] | None = None,
) -> Config:
    """Load a configuration from its text, or raise ConfigError with every fault.

    The names of blueprints are checked if those that exist are given, and so are those of caches.
    """
    from foreword.config.composer import compose

    structured = structure(normalize_names(compose(text, file)), Config, file)
    further = [
        Fault(file=file, line=line, message=f"{spell(keys)} {message}")
        for keys, line, message in (
            *_check(structured.places),
            *_check_blueprints(structured.places, blueprints),
            *_check_caches(structured.places, list_caches),
        )
    ]
    return _complete(settle(structured, further), structured.places)


def normalize_names(node: Node, keys: tuple[str, ...] = ()) -> Node:
    """Normalise the names of a configuration and the references to them, so that two spellings of a name are one.

    Everything else stays as written: the name of a file may have either spelling, and a text is the owner's.
    """
    match node:
        case Scalar() if keys in _REFERENCES:
            return replace(node, text=normalize_name(node.text))
        case Sequence():
            return replace(node, items=tuple(normalize_names(item, (*keys, "*")) for item in node.items))
        case Table():
            named = keys in _NAMING
            return replace(node, entries=tuple(_normalize_entry(entry, keys, named=named) for entry in node.entries))
    return node


def _normalize_entry(entry: tuple[Node, Node], keys: tuple[str, ...], *, named: bool) -> tuple[Node, Node]:
    key, value = entry
    if not isinstance(key, Scalar):
        return entry
    if named:
        return replace(key, text=normalize_name(key.text)), normalize_names(value, (*keys, "*"))
    return key, normalize_names(value, (*keys, key.text))


def _check(places: Places) -> Iterator[Finding]:
    yield from _check_owner(places)
    yield from _check_agents(places)
    yield from _check_names(places)
    yield from _check_stores(places)
    yield from _check_groups(places)
    yield from _check_situations(places)
    yield from check_company(places)
    yield from _check_paths(places)
    yield from _check_twins(places)
    yield from _check_titles(places)
    yield from _check_models(places)
    yield from _check_servers(places)
    yield from _check_providers(places)
    yield from _check_budgets(places)
    yield from _check_bulletin(places)
    yield from _check_events(places)
    yield from _check_server(places)
    yield from _check_clients(places)
    yield from _check_telegram(places)
    yield from check_schedules(places)


def _check_owner(places: Places) -> Iterator[Finding]:
    for keys, line, owner in _find_texts(places, "owner"):
        if ("users", owner) not in places:
            nearest = suggest(owner, _list_names(places, "users"))
            yield keys, line, f"is {owner!r}, who is not listed under users{nearest}"


def _check_agents(places: Places) -> Iterator[Finding]:
    for keys, place in _find(places, "agents"):
        if place.value == {}:
            yield keys, place.line, "must list at least one agent"


def _check_blueprints(places: Places, blueprints: Collection[str]) -> Iterator[Finding]:
    for keys, line, name in _find_texts(places, "agents", "*", "blueprint"):
        if blueprints and name not in blueprints:
            yield keys, line, f"is {name!r}, which does not exist{suggest(name, sorted(blueprints))}"


def _check_caches(places: Places, list_caches: Callable[[], Collection[str]] | None) -> Iterator[Finding]:
    for keys, line, name in _find_texts(places, "models", "*", "cache"):
        known = sorted(list_caches()) if list_caches and name else [name]
        if name not in known:
            yield keys, line, f"is {name!r}, which is not a cache that is known{suggest(name, known)}"


def _check_names(places: Places) -> Iterator[Finding]:
    for kind, signs in _NAMED.items():
        for keys, place in _find(places, kind, "*"):
            if problem := judge_name(str(keys[-1]), signs):
                yield keys, place.line, problem


def _check_stores(places: Places) -> Iterator[Finding]:
    for name, path in _TAKEN.items():
        for keys, place in _find(places, "stores", name):
            yield keys, place.line, f"is what {path} is known by; give the store another name"


def _check_groups(places: Places) -> Iterator[Finding]:
    for keys, line, group in _find_texts(places, "rooms", "*", "group"):
        if group and (problem := judge_name(group, _ROOM_SIGNS)):
            yield keys, line, problem


def _check_situations(places: Places) -> Iterator[Finding]:
    known = sorted({*SITUATIONS, *_list_names(places, "situations")})
    for keys, line, situation in _find_texts(places, "rooms", "*", "situation"):
        if situation not in known:
            yield keys, line, f"is {situation!r}, which is not a situation{suggest(situation, known)}"


def _check_paths(places: Places) -> Iterator[Finding]:
    for keys, line, written in _find_texts(places, "prompt", "files", "*", "path"):
        if problem := judge_path(written):
            yield keys, line, problem
    for keys, line, written in _find_texts(places, "situations", "*", "prompt_overlay"):
        if written and (problem := judge_path(written)):
            yield keys, line, problem


def _check_titles(places: Places) -> Iterator[Finding]:
    seen: set[tuple[object, str]] = set()
    for keys, line, title in _find_texts(places, "agents", "*", "responsibilities", "*", "title"):
        plain = " ".join(title.split())  # as it is shown
        if not plain:
            yield keys, line, "is blank; a responsibility is known by its title"
        elif (keys[1], plain) in seen:
            yield keys, line, f"repeats the responsibility {plain!r}"
        seen.add((keys[1], plain))


def _check_twins(places: Places) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for keys, line, written in _find_texts(places, "prompt", "files", "*", "path"):
        plain = normalise_path(written)
        if plain in seen:
            yield keys, line, f"repeats {plain!r} from line {seen[plain]}"
        seen.setdefault(plain, line)


def _check_models(places: Places) -> Iterator[Finding]:
    for keys, place in _find(places, "models", "*", "*"):
        price = str(keys[-1]).endswith("_usd") or keys[-1] == "cache_minimum"
        if isinstance(place.value, int | float) and place.value < 0:
            yield keys, place.line, f"must not be below 0, not {place.value}"
        elif place.value == 0 and place.value is not False and not price:
            yield keys, place.line, "must be above 0"


def _check_providers(places: Places) -> Iterator[Finding]:
    for keys, place in _find(places, "providers", "*"):
        name = str(keys[-1])
        if name == "local":
            yield keys, place.line, "is the embedded model, which has no address"
        elif not any(each[: len(keys)] == keys and each != keys for each in places):
            yield keys, place.line, "says nothing; give it a base_url, or diagnostics"
        elif not _PROVIDER.fullmatch(name):
            yield keys, place.line, "is not a usable name; use lower-case letters, digits and -, a letter first"
    for keys, line, address in _find_texts(places, "providers", "*", "base_url"):
        if problem := judge_address(address):
            yield keys, line, problem


def _check_events(places: Places) -> Iterator[Finding]:
    for keys, place in _find(places, "events", "retention_days"):
        if isinstance(place.value, int) and not 1 <= place.value <= LONGEST:
            yield keys, place.line, f"must be between 1 and {LONGEST:,} days, not {place.value}"
    for keys, line, address in _find_texts(places, "events", "otlp"):
        if address and not address.startswith(("http://", "https://")):
            yield keys, line, "must be an address that begins with http:// or https://"


def _check_bulletin(places: Places) -> Iterator[Finding]:
    for keys, place in _find(places, "bulletin", "hours"):
        if isinstance(place.value, int | float) and place.value != 0 and not 1 <= place.value <= LONGEST * 24:
            yield keys, place.line, f"must be 0, or between 1 and {LONGEST * 24:,} hours, not {place.value}"


def _check_server(places: Places) -> Iterator[Finding]:
    for key, low, high in (("port", 0, 65_535), ("rate", 1, 1_000_000)):
        for keys, place in _find(places, "server", key):
            if isinstance(place.value, int) and not low <= place.value <= high:
                yield keys, place.line, f"must be between {low} and {high:,}, not {place.value}"
    for keys, line, name in (*_find_texts(places, "server", "hosts", "*"), *_find_texts(places, "server", "host")):
        if not _HOST.fullmatch(name):
            yield keys, line, f"is a name or an address without a port or a path, not {name!r}"


def _check_clients(places: Places) -> Iterator[Finding]:
    for keys, line, origin in _find_texts(places, "server", "cors", "*"):
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            yield keys, line, f"is an origin such as https://chat.example or http://localhost:3000, not {origin!r}"
    for keys, line, pattern in _find_texts(places, "server", "housekeeping", "*"):
        if problem := judge_pattern(pattern) if pattern else "is blank; leave it out":
            yield keys, line, problem
    for keys, line, chosen in _find_texts(places, "server", "client_tools"):
        if chosen == "pass":
            yield keys, line, "cannot be 'pass' yet: handing tools to the client is not built; use ignore or refuse"


def _check_telegram(places: Places) -> Iterator[Finding]:
    for keys, line, token in _find_texts(places, "telegram", "token"):
        if problem := judge_token(token):
            yield keys, line, problem
    for keys, line, address in _find_texts(places, "telegram", "api"):
        if problem := judge_address(address):
            yield keys, line, problem
    for keys, line, agent in _find_texts(places, "telegram", "agent"):
        if agent and ("agents",) in places and ("agents", agent) not in places:
            yield keys, line, f"is {agent!r}, which is not an agent{suggest(agent, _list_names(places, 'agents'))}"


def _check_servers(places: Places) -> Iterator[Finding]:
    named: set[tuple[object, str]] = set()
    for keys, place in _find(places, "agents", "*", "mcp", "*"):
        server = place.value
        if not isinstance(server, Server):
            continue
        if bool(server.command) == bool(server.url):
            yield keys, place.line, "must have either a command or a url"
        elif server.url and not server.url.startswith(("http://", "https://")):
            yield keys, place.line, "must have a url that begins with http:// or https://"
        elif server.seconds <= 0:
            yield keys, place.line, "must have seconds above 0"
        elif server.name and (problem := judge_name(server.name)):
            yield (*keys, "name"), place.line, problem
        elif server.name and (keys[1], server.name) in named:
            yield (*keys, "name"), place.line, f"repeats the server {server.name!r}"
        named.add((keys[1], server.name))


def _check_budgets(places: Places) -> Iterator[Finding]:
    limits = (*_find(places, "budgets", "*"), *_find(places, "budgets", "*", "*", "*"))
    for keys, place in limits:
        if isinstance(place.value, int | float) and place.value < 0:
            yield keys, place.line, f"must not be below 0, not {place.value}"
    for kind in ("agents", "users"):
        known = _list_names(places, kind)
        for keys, place in _find(places, "budgets", kind, "*"):
            name = str(keys[-1])
            if known and name not in known:
                yield keys, place.line, f"is not listed under {kind}{suggest(name, known)}"


def judge_address(address: str) -> str:
    """Say what is wrong with the address of a provider, or nothing; a key in it is not repeated."""
    from urllib.parse import urlsplit

    if not address.isascii() or not address.isprintable() or " " in address:
        return "must be an address without spaces or control characters"
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address; its host or its port cannot be read"
    if parts.scheme not in ("http", "https") or not host:
        return "must be an address that begins with http:// or https:// and names a host"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "must be an address and nothing else; put the key into .env"
    return ""


def judge_path(path: str) -> str:
    """Say what is wrong with a path of the workspace, or nothing."""
    if not path.isprintable() or "\\" in path:
        return "must be a path with / between its parts and without control characters"
    if path.startswith("/") or path[1:2] == ":":
        return f"must be relative to the workspace, not {path!r}"
    if ".." in path.split("/"):
        return f"must not contain '..': {path!r}"
    plain = normalise_path(path)
    if plain == "foreword.yaml" or (plain != "." and is_hidden(plain)):
        return f"must not be the configuration or a hidden file such as .env: {path!r}"
    return "" if plain != "." else f"must name a file, not {path!r}"


def is_hidden(path: str) -> bool:
    """Whether a part of a path begins with a dot, as the names of keys and of state do."""
    return any(part.startswith(".") for part in path.split("/"))


def normalise_path(path: str) -> str:
    """Put a path into its plain form."""
    return posixpath.normpath(path)


def _complete(config: Config, places: Places) -> Config:
    """Put the given situations and stores over the defaults, and the paths into their plain form."""
    situations = {name: _complete_situation(name, situation, places) for name, situation in config.situations.items()}
    files = tuple(_complete_file(file) for file in config.prompt.files)
    return replace(
        config,
        situations={**SITUATIONS, **situations},
        stores={**STORES, **config.stores},
        prompt=replace(config.prompt, files=files),
    )


def _complete_situation(name: str, situation: Situation, places: Places) -> Situation:
    if situation.prompt_overlay:
        situation = replace(situation, prompt_overlay=normalise_path(situation.prompt_overlay))
    # Only the places tell a ceiling of public from one that was not written.
    if name in SITUATIONS and ("situations", name, "ceiling") not in places:
        situation = replace(situation, ceiling=SITUATIONS[name].ceiling)
    return situation


def _complete_file(file: PromptFile) -> PromptFile:
    return replace(file, path=normalise_path(file.path))
