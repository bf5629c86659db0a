"""Loads `foreword.yaml`: structure first, then further checks; reports all problems at once.

Checks of users and rooms: each identity and each place may belong to only one.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from foreword.config.regex import check_pattern
from foreword.config.schedule_settings import check_schedules
from foreword.config.schema import (
    DEFAULT_SITUATIONS,
    DEFAULT_STORES,
    Config,
    McpServer,
    PromptFile,
    Room,
    Situation,
    check_token,
)
from foreword.config.structure import (
    ConfigProblem,
    MappingNode,
    Node,
    ParsedValues,
    ScalarNode,
    SequenceNode,
    convert_node,
    find_texts,
    find_values,
    format_keys,
    list_names,
    raise_or_return,
)
from foreword.config.structure import find_texts as _find_texts
from foreword.config.structure import find_values as _find
from foreword.config.structure import list_names as _list_names
from foreword.errors import ConfigFault, suggest_name
from foreword.turn import NAME_SIGNS, check_name, normalize_name

NAME_CHANNELS = ("terminal", "web", "scheduled")  # channels that identify users by their name in this configuration
MAX_IDENTITY_CHARS = 200  # maximum characters of an identity or a place
_WRITTEN = re.compile(r"[a-z][a-z0-9-]*:[^\s\x00-\x1f]+")
SAME_FOLDER_HINT = "on some disks the two would share the folder users/NAME/; rename one of them"
IDENTITY_FORMAT = "must be a channel, a colon and the channel's own id, such as telegram:1001"


def check_people(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check names, identities, places, members, triggers and the limits for strangers."""
    yield from _check_case(places)
    yield from _check_identities(places)
    yield from _check_places(places)
    yield from _check_members(places)
    yield from _check_triggers(places)
    for keys, place in find_values(places, "strangers", "*"):
        if isinstance(place.value, int) and place.value < 0:
            yield keys, place.line, f"must not be below 0, not {place.value}"


def _check_case(places: ParsedValues) -> Iterator[ConfigProblem]:
    seen: dict[str, tuple[str, int]] = {}
    for keys, place in find_values(places, "users", "*"):
        name = str(keys[-1])
        other, line = seen.setdefault(name.casefold(), (name, place.line))
        if other != name:
            yield keys, place.line, f"differs from {other!r} on line {line} only in case; {SAME_FOLDER_HINT}"


def _check_identities(places: ParsedValues) -> Iterator[ConfigProblem]:
    seen: dict[str, int] = {}
    for keys, line, identity in find_texts(places, "users", "*", "identities", "*"):
        family, _, name = identity.partition(":")
        if not is_identity(identity):
            yield keys, line, f"{IDENTITY_FORMAT}, not {_show(identity)}"
        elif family in NAME_CHANNELS and name != keys[1]:
            yield keys, line, f"belongs to another user: on {family} the identity is the user's name"
        elif identity in seen:
            yield keys, line, f"is {identity!r}, which line {seen[identity]} already uses"
        seen.setdefault(identity, line)


def _check_places(places: ParsedValues) -> Iterator[ConfigProblem]:
    # A room named like a place is that place.
    seen = {str(keys[-1]): place.line for keys, place in find_values(places, "rooms", "*") if ":" in str(keys[-1])}
    for keys, line, written in find_texts(places, "rooms", "*", "places", "*"):
        if not is_identity(written):
            yield keys, line, f"{IDENTITY_FORMAT}, not {_show(written)}"
        elif written in seen and written != keys[1]:
            yield keys, line, f"is {written!r}, which is already a room on line {seen[written]}"
        seen.setdefault(written, line)


def _check_members(places: ParsedValues) -> Iterator[ConfigProblem]:
    known = list_names(places, "users")
    for keys, line, name in find_texts(places, "rooms", "*", "members", "*"):
        if name not in known:
            yield keys, line, f"is {_show(name)}, who is not listed under users{suggest_name(name, known)}"


def _check_triggers(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, place in find_values(places, "rooms", "*"):
        room = place.value
        if not isinstance(room, Room):
            continue
        line = places[*keys, "pattern"].line if (*keys, "pattern") in places else place.line
        if room.pattern and room.trigger != "regex":
            yield (*keys, "pattern"), line, "needs `trigger: regex`"
        elif room.trigger == "regex" and (problem := check_pattern(room.pattern)):
            yield (*keys, "pattern"), line, problem


def is_identity(name: str) -> bool:
    """Whether an identity or a place has the right form."""
    return len(name) <= MAX_IDENTITY_CHARS and name.isprintable() and bool(_WRITTEN.fullmatch(name))


def _show(name: str) -> str:
    return repr(name if len(name) <= MAX_IDENTITY_CHARS else f"{name[:MAX_IDENTITY_CHARS]}…")


MAX_RETENTION_DAYS = 36_500  # maximum retention of events in days

_ROOM_SIGNS = "._-:+@"
_ORIGIN = re.compile(r"https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")
_PROVIDER = re.compile(r"[a-z][a-z0-9-]*")
# Names that become folder names or parts of them, with the signs they may contain.
_NAMED = {
    "agents": NAME_SIGNS,
    "users": NAME_SIGNS,
    "situations": NAME_SIGNS,
    "stores": NAME_SIGNS,
    "rooms": _ROOM_SIGNS,
}

_KINDS = ("agents", "users", "situations", "rooms", "stores")
# Mappings whose keys are names, and values that are names or refer to them; `*` matches any name or item.
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

# Reserved names of stores that are not folders of memory/; each has its own trust.
_TAKEN = {"facts": "memories.json", "main": "MEMORY.md", "own": "each person's own memory (users/NAME/memory/)"}


def load_config(
    text: str,
    file: str = "foreword.yaml",
    blueprints: Collection[str] = (),
    list_caches: Callable[[], Collection[str]] | None = None,
) -> Config:
    """Load a configuration from its text; raise ConfigError with all problems.

    Names of blueprints and caches are checked if the known ones are given.
    """
    from foreword.config.yaml import parse_nodes

    structured = convert_node(normalize_names(parse_nodes(text, file)), Config, file)
    further = [
        ConfigFault(file=file, line=line, message=f"{format_keys(keys)} {message}")
        for keys, line, message in (
            *_check(structured.places),
            *_check_blueprints(structured.places, blueprints),
            *_check_caches(structured.places, list_caches),
        )
    ]
    return _complete(raise_or_return(structured, further), structured.places)


def normalize_names(node: Node, keys: tuple[str, ...] = ()) -> Node:
    """Normalise names and references to them, so that different spellings of a name are equal.

    Other values stay as written: a file name may have either spelling, and texts belong to the owner.
    """
    match node:
        case ScalarNode() if keys in _REFERENCES:
            return replace(node, text=normalize_name(node.text))
        case SequenceNode():
            return replace(node, items=tuple(normalize_names(item, (*keys, "*")) for item in node.items))
        case MappingNode():
            named = keys in _NAMING
            return replace(node, entries=tuple(_normalize_entry(entry, keys, named=named) for entry in node.entries))
    return node


def _normalize_entry(entry: tuple[Node, Node], keys: tuple[str, ...], *, named: bool) -> tuple[Node, Node]:
    key, value = entry
    if not isinstance(key, ScalarNode):
        return entry
    if named:
        return replace(key, text=normalize_name(key.text)), normalize_names(value, (*keys, "*"))
    return key, normalize_names(value, (*keys, key.text))


def _check(places: ParsedValues) -> Iterator[ConfigProblem]:
    yield from _check_owner(places)
    yield from _check_agents(places)
    yield from _check_names(places)
    yield from _check_stores(places)
    yield from _check_groups(places)
    yield from _check_situations(places)
    yield from check_people(places)
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


def _check_owner(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, line, owner in _find_texts(places, "owner"):
        if ("users", owner) not in places:
            nearest = suggest_name(owner, _list_names(places, "users"))
            yield keys, line, f"is {owner!r}, who is not listed under users{nearest}"


def _check_agents(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, place in _find(places, "agents"):
        if place.value == {}:
            yield keys, place.line, "must list at least one agent"


def _check_blueprints(places: ParsedValues, blueprints: Collection[str]) -> Iterator[ConfigProblem]:
    for keys, line, name in _find_texts(places, "agents", "*", "blueprint"):
        if blueprints and name not in blueprints:
            yield keys, line, f"is {name!r}, which does not exist{suggest_name(name, sorted(blueprints))}"


def _check_caches(places: ParsedValues, list_caches: Callable[[], Collection[str]] | None) -> Iterator[ConfigProblem]:
    for keys, line, name in _find_texts(places, "models", "*", "cache"):
        known = sorted(list_caches()) if list_caches and name else [name]
        if name not in known:
            yield keys, line, f"is {name!r}, which is not a known cache{suggest_name(name, known)}"


def _check_names(places: ParsedValues) -> Iterator[ConfigProblem]:
    for kind, signs in _NAMED.items():
        for keys, place in _find(places, kind, "*"):
            if problem := check_name(str(keys[-1]), signs):
                yield keys, place.line, problem


def _check_stores(places: ParsedValues) -> Iterator[ConfigProblem]:
    for name, path in _TAKEN.items():
        for keys, place in _find(places, "stores", name):
            yield keys, place.line, f"is reserved for {path}; rename the store"


def _check_groups(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, line, group in _find_texts(places, "rooms", "*", "group"):
        if group and (problem := check_name(group, _ROOM_SIGNS)):
            yield keys, line, problem


def _check_situations(places: ParsedValues) -> Iterator[ConfigProblem]:
    known = sorted({*DEFAULT_SITUATIONS, *_list_names(places, "situations")})
    for keys, line, situation in _find_texts(places, "rooms", "*", "situation"):
        if situation not in known:
            yield keys, line, f"is {situation!r}, which is not a situation{suggest_name(situation, known)}"


def _check_paths(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, line, written in _find_texts(places, "prompt", "files", "*", "path"):
        if problem := check_path(written):
            yield keys, line, problem
    for keys, line, written in _find_texts(places, "situations", "*", "prompt_overlay"):
        if written and (problem := check_path(written)):
            yield keys, line, problem


def _check_titles(places: ParsedValues) -> Iterator[ConfigProblem]:
    seen: set[tuple[object, str]] = set()
    for keys, line, title in _find_texts(places, "agents", "*", "responsibilities", "*", "title"):
        plain = " ".join(title.split())  # as displayed
        if not plain:
            yield keys, line, "is blank; a responsibility needs a title"
        elif (keys[1], plain) in seen:
            yield keys, line, f"repeats the responsibility {plain!r}"
        seen.add((keys[1], plain))


def _check_twins(places: ParsedValues) -> Iterator[ConfigProblem]:
    seen: dict[str, int] = {}
    for keys, line, written in _find_texts(places, "prompt", "files", "*", "path"):
        plain = normalise_path(written)
        if plain in seen:
            yield keys, line, f"repeats {plain!r} from line {seen[plain]}"
        seen.setdefault(plain, line)


def _check_models(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, place in _find(places, "models", "*", "*"):
        price = str(keys[-1]).endswith("_usd") or keys[-1] == "cache_minimum"
        if isinstance(place.value, int | float) and place.value < 0:
            yield keys, place.line, f"must not be below 0, not {place.value}"
        elif place.value == 0 and place.value is not False and not price:
            yield keys, place.line, "must be above 0"


def _check_providers(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, place in _find(places, "providers", "*"):
        name = str(keys[-1])
        if name == "local":
            yield keys, place.line, "is the embedded model, which has no address"
        elif not any(each[: len(keys)] == keys and each != keys for each in places):
            yield keys, place.line, "is empty; set base_url or diagnostics"
        elif not _PROVIDER.fullmatch(name):
            yield keys, place.line, "is not a usable name; use lower-case letters, digits and -, a letter first"
    for keys, line, address in _find_texts(places, "providers", "*", "base_url"):
        if problem := check_address(address):
            yield keys, line, problem


def _check_events(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, place in _find(places, "events", "retention_days"):
        if isinstance(place.value, int) and not 1 <= place.value <= MAX_RETENTION_DAYS:
            yield keys, place.line, f"must be between 1 and {MAX_RETENTION_DAYS:,} days, not {place.value}"
    for keys, line, address in _find_texts(places, "events", "otlp"):
        if address and not address.startswith(("http://", "https://")):
            yield keys, line, "must be an address that begins with http:// or https://"


def _check_bulletin(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, place in _find(places, "bulletin", "hours"):
        if (
            isinstance(place.value, int | float)
            and place.value != 0
            and not 1 <= place.value <= MAX_RETENTION_DAYS * 24
        ):
            yield keys, place.line, f"must be 0, or between 1 and {MAX_RETENTION_DAYS * 24:,} hours, not {place.value}"


def _check_server(places: ParsedValues) -> Iterator[ConfigProblem]:
    for key, low, high in (("port", 0, 65_535), ("rate", 1, 1_000_000)):
        for keys, place in _find(places, "server", key):
            if isinstance(place.value, int) and not low <= place.value <= high:
                yield keys, place.line, f"must be between {low} and {high:,}, not {place.value}"
    for keys, line, name in (*_find_texts(places, "server", "hosts", "*"), *_find_texts(places, "server", "host")):
        if not _HOST.fullmatch(name):
            yield keys, line, f"must be a host name or an address without port or path, not {name!r}"


def _check_clients(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, line, origin in _find_texts(places, "server", "cors", "*"):
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            yield keys, line, f"must be an origin such as https://chat.example or http://localhost:3000, not {origin!r}"
    for keys, line, pattern in _find_texts(places, "server", "housekeeping", "*"):
        if problem := check_pattern(pattern) if pattern else "is blank; leave it out":
            yield keys, line, problem
    for keys, line, chosen in _find_texts(places, "server", "client_tools"):
        if chosen == "pass":
            yield keys, line, "cannot be 'pass' yet: client-side tools are not implemented; use ignore or refuse"


def _check_telegram(places: ParsedValues) -> Iterator[ConfigProblem]:
    for keys, line, token in _find_texts(places, "telegram", "token"):
        if problem := check_token(token):
            yield keys, line, problem
    for keys, line, address in _find_texts(places, "telegram", "api"):
        if problem := check_address(address):
            yield keys, line, problem
    for keys, line, agent in _find_texts(places, "telegram", "agent"):
        if agent and ("agents",) in places and ("agents", agent) not in places:
            yield keys, line, f"is {agent!r}, which is not an agent{suggest_name(agent, _list_names(places, 'agents'))}"


def _check_servers(places: ParsedValues) -> Iterator[ConfigProblem]:
    named: set[tuple[object, str]] = set()
    for keys, place in _find(places, "agents", "*", "mcp", "*"):
        server = place.value
        if not isinstance(server, McpServer):
            continue
        if bool(server.command) == bool(server.url):
            yield keys, place.line, "must have either a command or a url"
        elif server.url and not server.url.startswith(("http://", "https://")):
            yield keys, place.line, "must have a url that begins with http:// or https://"
        elif server.seconds <= 0:
            yield keys, place.line, "must have seconds above 0"
        elif server.name and (problem := check_name(server.name)):
            yield (*keys, "name"), place.line, problem
        elif server.name and (keys[1], server.name) in named:
            yield (*keys, "name"), place.line, f"repeats the server {server.name!r}"
        named.add((keys[1], server.name))


def _check_budgets(places: ParsedValues) -> Iterator[ConfigProblem]:
    limits = (*_find(places, "budgets", "*"), *_find(places, "budgets", "*", "*", "*"))
    for keys, place in limits:
        if isinstance(place.value, int | float) and place.value < 0:
            yield keys, place.line, f"must not be below 0, not {place.value}"
    for kind in ("agents", "users"):
        known = _list_names(places, kind)
        for keys, place in _find(places, "budgets", kind, "*"):
            name = str(keys[-1])
            if known and name not in known:
                yield keys, place.line, f"is not listed under {kind}{suggest_name(name, known)}"


def check_address(address: str) -> str:
    """Return the problem with a provider's address, or an empty text; never quote the address, it may hold a key."""
    from urllib.parse import urlsplit

    if not address.isascii() or not address.isprintable() or " " in address:
        return "must be an address without spaces or control characters"
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not an address; its host or its port cannot be read"
    if parts.scheme not in ("http", "https") or not host:
        return "must be an address that begins with http:// or https:// and names a host"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "must be an address only; put the key into .env"
    return ""


def check_path(path: str) -> str:
    """Return the problem with a workspace path, or an empty text."""
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
    """Whether a part of a path begins with a dot, like key and state files."""
    return any(part.startswith(".") for part in path.split("/"))


def normalise_path(path: str) -> str:
    """Normalise a path."""
    return posixpath.normpath(path)


def _complete(config: Config, places: ParsedValues) -> Config:
    """Merge the configured situations and stores with the defaults, and normalise paths."""
    situations = {name: _complete_situation(name, situation, places) for name, situation in config.situations.items()}
    files = tuple(_complete_file(file) for file in config.prompt.files)
    return replace(
        config,
        situations={**DEFAULT_SITUATIONS, **situations},
        stores={**DEFAULT_STORES, **config.stores},
        prompt=replace(config.prompt, files=files),
    )


def _complete_situation(name: str, situation: Situation, places: ParsedValues) -> Situation:
    if situation.prompt_overlay:
        situation = replace(situation, prompt_overlay=normalise_path(situation.prompt_overlay))
    # Only the places distinguish an explicit ceiling of public from the default.
    if name in DEFAULT_SITUATIONS and ("situations", name, "ceiling") not in places:
        situation = replace(situation, ceiling=DEFAULT_SITUATIONS[name].ceiling)
    return situation


def _complete_file(file: PromptFile) -> PromptFile:
    return replace(file, path=normalise_path(file.path))
