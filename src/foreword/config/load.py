"""Loads `foreword.yaml`: its structure first, then checks that types cannot express; reports all problems at once."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from foreword.config.schedule_settings import check_schedules
from foreword.config.schema import DEFAULT_SITUATIONS, DEFAULT_STORES, Config, McpServer, Room, check_token
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
from foreword.errors import ConfigFault, quote_name, suggest_name
from foreword.turn import NAME_SIGNS, check_name, normalize_name

NAME_CHANNELS = ("terminal", "web", "scheduled")  # channels that identify users by their name in this configuration
MAX_IDENTITY_CHARS = 200  # maximum characters of an identity or a place
MAX_RETENTION_DAYS = 36_500  # maximum retention of events in days
ROOM_SIGNS = "._-:+@"
SAME_FOLDER_HINT = "on some disks the two would share the folder users/NAME/; rename one of them"
_IDENTITY = re.compile(r"[a-z][a-z0-9-]*:[^\s\x00-\x1f]+")
_ORIGIN = re.compile(r"\*|https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")
_PROVIDER = re.compile(r"[a-z][a-z0-9-]*")

# Mappings whose keys become folder names or parts of them, with the signs they may contain.
_NAMED = {**dict.fromkeys(("agents", "users", "situations", "stores"), NAME_SIGNS), "rooms": ROOM_SIGNS}
# Mappings whose keys are names, and values that are names or refer to them; `*` matches any name or item.
_NAMING = {*((kind,) for kind in _NAMED), *(("budgets", kind) for kind in ("agents", "users", "channels", "schedules"))}
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
# Names of stores that are not folders of memory/; each has its own trust.
_RESERVED_STORES = {
    "facts": "memories.json",
    "main": "MEMORY.md",
    "own": "each person's own memory (users/NAME/memory/)",
}


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

    parsed = convert_node(normalize_names(parse_nodes(text, file)), Config, file)
    values = parsed.values
    problems = (
        *check_values(values),
        *check_names(values),
        *check_references(values, blueprints, list_caches),
        *check_duplicates(values),
        *check_rooms(values),
        *check_servers(values),
        *check_providers(values),
        *check_schedules(values),
    )
    faults = (ConfigFault(file=file, line=line, message=f"{format_keys(keys)} {text}") for keys, line, text in problems)
    return complete_config(raise_or_return(parsed, faults), values)


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
            return replace(node, entries=tuple(_normalize_entry(entry, keys) for entry in node.entries))
    return node


def _normalize_entry(entry: tuple[Node, Node], keys: tuple[str, ...]) -> tuple[Node, Node]:
    key, value = entry
    if not isinstance(key, ScalarNode):
        return entry
    if keys in _NAMING:
        return replace(key, text=normalize_name(key.text)), normalize_names(value, (*keys, "*"))
    return key, normalize_names(value, (*keys, key.text))


def check_values(values: ParsedValues) -> Iterator[ConfigProblem]:
    """Check single values."""
    for pattern, check in VALUE_CHECKS.items():
        for keys, place in find_values(values, *pattern):
            if place.value is not None and (problem := check(place.value)):
                yield keys, place.line, problem
    for keys, place in find_values(values, "models", "*", "*"):
        may_be_zero = str(keys[-1]).endswith("_usd") or keys[-1] == "cache_minimum"
        if problem := check_not_negative(place.value):
            yield keys, place.line, problem
        elif place.value == 0 and place.value is not False and not may_be_zero:
            yield keys, place.line, "must be above 0"


def check_names(values: ParsedValues) -> Iterator[ConfigProblem]:
    """Check names that become folder names. Users must differ in more than case, and some stores are reserved."""
    for kind, signs in _NAMED.items():
        for keys, place in find_values(values, kind, "*"):
            if problem := check_name(str(keys[-1]), signs):
                yield keys, place.line, problem
    seen: dict[str, tuple[str, int]] = {}
    for keys, place in find_values(values, "users", "*"):
        name = str(keys[-1])
        other, line = seen.setdefault(name.casefold(), (name, place.line))
        if other != name:
            yield keys, place.line, f"differs from {other!r} on line {line} only in case; {SAME_FOLDER_HINT}"
    for name, path in _RESERVED_STORES.items():
        for keys, place in find_values(values, "stores", name):
            yield keys, place.line, f"is reserved for {path}; rename the store"


def check_references(
    values: ParsedValues, blueprints: Collection[str], list_caches: Callable[[], Collection[str]] | None
) -> Iterator[ConfigProblem]:
    """Check that names exist which refer to other entries or to built-in data."""
    users, agents = list_names(values, "users"), list_names(values, "agents")
    situations = sorted({*DEFAULT_SITUATIONS, *list_names(values, "situations")})
    yield from find_unknown(values, ("owner",), users, "who is not listed under users")
    yield from find_unknown(values, ("rooms", "*", "members", "*"), users, "who is not listed under users")
    yield from find_unknown(values, ("rooms", "*", "situation"), situations, "which is not a situation")
    if ("agents",) in values:
        yield from find_unknown(values, ("telegram", "agent"), ["", *agents], "which is not an agent")
    if blueprints:
        yield from find_unknown(values, ("agents", "*", "blueprint"), sorted(blueprints), "which does not exist")
    if list_caches and any(name for _, _, name in find_texts(values, "models", "*", "cache")):
        caches = ["", *sorted(list_caches())]
        yield from find_unknown(values, ("models", "*", "cache"), caches, "which is not a known cache")
    for kind, known in (("agents", agents), ("users", users)):
        for keys, place in find_values(values, "budgets", kind, "*") if known else ():
            if keys[-1] not in known:
                yield keys, place.line, f"is not listed under {kind}{suggest_name(str(keys[-1]), known)}"


def find_unknown(
    values: ParsedValues, pattern: tuple[str, ...], known: Collection[str], problem: str
) -> Iterator[ConfigProblem]:
    """Find the texts that are not among the known names."""
    for keys, line, name in find_texts(values, *pattern):
        if name not in known:
            yield keys, line, f"is {quote_name(name)}, {problem}{suggest_name(name, [each for each in known if each])}"


def check_duplicates(values: ParsedValues) -> Iterator[ConfigProblem]:
    """Check that identities, files and titles are given once."""
    lines: dict[object, int] = {}
    for keys, line, identity in find_texts(values, "users", "*", "identities", "*"):
        family, _, name = identity.partition(":")
        if not is_identity(identity):
            continue
        if family in NAME_CHANNELS and name != keys[1]:
            yield keys, line, f"belongs to another user: on {family} the identity is the user's name"
        elif identity in lines:
            yield keys, line, f"is {identity!r}, which line {lines[identity]} already uses"
        lines.setdefault(identity, line)
    for keys, line, written in find_texts(values, "prompt", "files", "*", "path"):
        plain = posixpath.normpath(written)
        if ("path", plain) in lines:
            yield keys, line, f"repeats {plain!r} from line {lines['path', plain]}"
        lines.setdefault(("path", plain), line)
    for keys, line, title in find_texts(values, "agents", "*", "responsibilities", "*", "title"):
        plain = " ".join(title.split())  # as displayed
        if plain and (keys[1], plain) in lines:
            yield keys, line, f"repeats the responsibility {plain!r}"
        lines.setdefault((keys[1], plain), line)


def check_rooms(values: ParsedValues) -> Iterator[ConfigProblem]:
    """Check that a place belongs to one room, and that a pattern and its trigger fit."""
    rooms = list(find_values(values, "rooms", "*"))
    # A room named like a place is that place.
    seen = {str(keys[-1]): place.line for keys, place in rooms if ":" in str(keys[-1])}
    for keys, line, written in find_texts(values, "rooms", "*", "places", "*"):
        if is_identity(written) and written in seen and written != keys[1]:
            yield keys, line, f"is {written!r}, which is already a room on line {seen[written]}"
        seen.setdefault(written, line)
    for keys, place in rooms:
        room, where = place.value, (*keys, "pattern")
        if isinstance(room, Room):
            unused = "needs `trigger: regex`" if room.pattern else ""
            if problem := check_pattern(room.pattern) if room.trigger == "regex" else unused:
                yield where, values.get(where, place).line, problem


def check_servers(values: ParsedValues) -> Iterator[ConfigProblem]:
    """Check the MCP servers of each agent."""
    named: set[tuple[object, str]] = set()
    for keys, place in find_values(values, "agents", "*", "mcp", "*"):
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


def check_providers(values: ParsedValues) -> Iterator[ConfigProblem]:
    """Check the names of providers, and that each has a setting."""
    for keys, place in find_values(values, "providers", "*"):
        name = str(keys[-1])
        if name == "local":
            yield keys, place.line, "is the embedded model, which has no address"
        elif not any(each[: len(keys)] == keys and each != keys for each in values):
            yield keys, place.line, "is empty; set base_url or diagnostics"
        elif not _PROVIDER.fullmatch(name):
            yield keys, place.line, "is not a usable name; use lower-case letters, digits and -, a letter first"


def is_identity(name: str) -> bool:
    """Whether an identity or a place has the right form."""
    return len(name) <= MAX_IDENTITY_CHARS and name.isprintable() and bool(_IDENTITY.fullmatch(name))


def check_form(is_valid: Callable[[str], object], form: str) -> Callable[[str], str]:
    """Return a check for the form of a text."""
    return lambda text: "" if is_valid(text) else f"must be {form}, not {quote_name(text)}"


def check_not_negative(value: object) -> str:
    """Return the problem with a negative number, or an empty text."""
    return f"must not be below 0, not {value}" if isinstance(value, int | float) and value < 0 else ""


def check_between(low: int, high: int, unit: str = "", zero: str = "") -> Callable[[float], str]:
    """Return a check for a range of numbers; `zero` begins the message if 0 is valid as well."""
    problem = f"must be {zero}between {low} and {high:,}{unit}"
    return lambda value: "" if low <= value <= high or (zero and value == 0) else f"{problem}, not {value}"


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
    plain = posixpath.normpath(path)
    if plain == "foreword.yaml" or (plain != "." and is_hidden(plain)):
        return f"must not be the configuration or a hidden file such as .env: {path!r}"
    return "" if plain != "." else f"must name a file, not {path!r}"


def is_hidden(path: str) -> bool:
    """Whether a part of a path begins with a dot, like key and state files."""
    return any(part.startswith(".") for part in path.split("/"))


# Python's engine backtracks at every position and repetition of a pattern. Only patterns with a small upper bound of
# tries are accepted: no nested repetitions, and at most one unbounded repetition.
MAX_SEARCHED_CHARS = 1_000  # characters of a text that a search reads
MAX_PATTERN_CHARS = 200  # maximum characters of a pattern
MAX_TRIES = 2_500_000  # maximum tries of a search in the worst case
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<branch>\|)|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|\\(?:[AbBdDsSwWZ]|[^A-Za-z0-9]|[fnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})|(?P<escape>\\)|.",
    re.DOTALL,
)
# Lazy and possessive quantifiers count the same.
_TIMES = re.compile(r"(?:[*+?]|\{(?P<exact>\d+)\}|\{(?P<least>\d*),(?P<most>\d*)\})[?+]?")


def check_pattern(pattern: str) -> str:
    """Return the problem with a pattern, or an empty text."""
    if not pattern:
        return "is missing; trigger regex needs one"
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"has {len(pattern):,} characters; the maximum is {MAX_PATTERN_CHARS}"
    try:
        re.compile(pattern)
        tries = count_tries(pattern)
    except re.error as error:
        return f"is not a regular expression: {error}"
    except (OverflowError, RecursionError):
        return "is not a usable regular expression"
    except ValueError as error:
        return str(error)
    return "" if tries <= MAX_TRIES else "could take too long; use * or + only once, and {0,9} for short repetitions"


def make_search(pattern: str) -> Callable[[str], bool]:
    """Return a case-insensitive search for a checked pattern."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.search(text[:MAX_SEARCHED_CHARS]) is not None


def count_tries(pattern: str) -> int:
    """Count the tries that a search can need; raise ValueError for a pattern without a known bound."""
    groups: list[tuple[int, int, bool]] = []
    branches, tries, varies, at = 0, 1, False, 0  # of the current group; `varies` if it can match in several ways
    while token := _TOKEN.match(pattern, at):
        at = token.end()
        inner, inner_varies = 1, False
        if token.lastgroup == "escape":
            raise ValueError("refers to a group or uses an unsupported escape")
        if token.lastgroup == "open":
            if pattern.startswith("?", at):
                raise ValueError("has an unsupported kind of group; use only ( ) and (?: )")
            groups.append((branches, tries, varies))
            branches, tries, varies = 0, 1, False
            continue
        if token.lastgroup == "branch":
            branches, tries, varies = branches + tries, 1, True
            continue
        if token.lastgroup == "close":
            inner, inner_varies = branches + tries, varies
            branches, tries, varies = groups.pop()
        least, most = 1, 1
        if times := _TIMES.match(pattern, at):
            at = times.end()
            least, most = read_times(times)
        if most > 1 and inner_varies:
            raise ValueError("repeats a part that can itself vary; repeat single characters or fixed words")
        varies = varies or inner_varies or most > least
        tries *= inner * (most - least + 1)
    anchored = pattern.startswith(("^", r"\A")) and "|" not in pattern
    return (1 if anchored else MAX_SEARCHED_CHARS) * (branches + tries)


def read_times(times: re.Match[str]) -> tuple[int, int]:
    """Read the minimum and maximum repetitions of a quantifier."""
    if times["exact"]:
        return (exact := min(int(times["exact"]), MAX_SEARCHED_CHARS)), exact
    sign = times[0][0]
    least = int(times["least"] or 0) if sign == "{" else int(sign == "+")
    most = int(times["most"] or MAX_SEARCHED_CHARS) if sign == "{" else 1 if sign == "?" else MAX_SEARCHED_CHARS
    return min(least, MAX_SEARCHED_CHARS), min(most, MAX_SEARCHED_CHARS)


NOT_IMPLEMENTED = "cannot be 'pass' yet: client-side tools are not implemented; use ignore or refuse"
HTTP_ONLY = "must be an address that begins with http:// or https://"
check_identity = check_form(is_identity, "a channel, a colon and the channel's own id, such as telegram:1001")
check_host = check_form(_HOST.fullmatch, "a host name or an address without port or path")
check_origin = check_form(_ORIGIN.fullmatch, "an origin such as https://chat.example or http://localhost:3000")
VALUE_CHECKS: dict[tuple[str, ...], Callable[[Any], str]] = {
    ("agents",): lambda agents: "" if agents else "must list at least one agent",
    ("agents", "*", "responsibilities", "*", "title"): (
        lambda title: "" if title.strip() else "is blank; a responsibility needs a title"
    ),
    ("users", "*", "identities", "*"): check_identity,
    ("rooms", "*", "places", "*"): check_identity,
    ("rooms", "*", "group"): lambda group: check_name(group, ROOM_SIGNS) if group else "",
    ("strangers", "*"): check_not_negative,
    ("situations", "*", "prompt_overlay"): lambda path: check_path(path) if path else "",
    ("prompt", "files", "*", "path"): check_path,
    ("providers", "*", "base_url"): check_address,
    ("budgets", "*"): check_not_negative,
    ("budgets", "*", "*", "*"): check_not_negative,
    ("bulletin", "hours"): check_between(1, MAX_RETENTION_DAYS * 24, " hours", zero="0, or "),
    ("events", "retention_days"): check_between(1, MAX_RETENTION_DAYS, " days"),
    ("events", "otlp"): lambda url: "" if not url or url.startswith(("http://", "https://")) else HTTP_ONLY,
    ("server", "port"): check_between(0, 65_535),
    ("server", "rate"): check_between(1, 1_000_000),
    ("server", "host"): check_host,
    ("server", "hosts", "*"): check_host,
    ("server", "cors", "*"): check_origin,
    ("server", "housekeeping", "*"): lambda text: check_pattern(text) if text else "is blank; leave it out",
    ("server", "client_tools"): lambda choice: NOT_IMPLEMENTED if choice == "pass" else "",
    ("telegram", "token"): check_token,
    ("telegram", "api"): check_address,
}


def complete_config(config: Config, values: ParsedValues) -> Config:
    """Merge the configured situations and stores with the defaults, and normalise paths."""
    situations = dict(config.situations)
    for name, situation in situations.items():
        overlay = situation.prompt_overlay and posixpath.normpath(situation.prompt_overlay)
        situations[name] = replace(situation, prompt_overlay=overlay)
        # Only the parsed values distinguish an explicit ceiling of public from the default.
        if name in DEFAULT_SITUATIONS and ("situations", name, "ceiling") not in values:
            situations[name] = replace(situations[name], ceiling=DEFAULT_SITUATIONS[name].ceiling)
    files = tuple(replace(file, path=posixpath.normpath(file.path)) for file in config.prompt.files)
    return replace(
        config,
        situations={**DEFAULT_SITUATIONS, **situations},
        stores={**DEFAULT_STORES, **config.stores},
        prompt=replace(config.prompt, files=files),
    )
