"""Selection of a model, and discovery of model servers on this machine: Ollama, LM Studio and llama.cpp.

Only loopback addresses are queried. One deadline covers all reads from a server, so a slow server cannot block a
command.
"""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from threading import Timer
from typing import Any
from urllib.parse import urlsplit

from foreword.agent.providers.embedded_weights import MISSING_ENGINE_TEXT, is_engine_installed
from foreword.agent.providers.model_clients import (
    EMBEDDED_PREFIX,
    KNOWN_PROVIDERS,
    find_api_key,
    find_provider_address,
    list_provider_addresses,
)
from foreword.config.env import Secrets
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.types import frozen

TIMEOUT_S = 1.0  # for all answers of one server
MAX_ANSWER_BYTES = 1 << 20
MAX_WINDOW_TOKENS = 10_000_000  # a larger number is not plausible


@frozen(eq=True)
class ServedModel:
    """A model of a server."""

    name: str
    """The name as `provider:model`."""
    window: int | None = None


@frozen(eq=True)
class ModelServer:
    """A model server that answered."""

    title: str
    url: str
    models: tuple[ServedModel, ...]


def find_model_servers(config: Config | None, environ: Mapping[str, str] | Secrets) -> list[ModelServer]:
    """Find the model servers of this machine at their default or configured addresses, in parallel."""
    from concurrent.futures import ThreadPoolExecutor

    queried = {name: url for name in SERVER_READERS if (url := find_loopback_address(name, config, environ))}
    with ThreadPoolExecutor(max_workers=len(SERVER_READERS)) as pool:
        found = pool.map(lambda name: query_server(name, queried[name]), queried)
        return [server for server in found if server]


def find_served_window(model: str, config: Config, environ: Mapping[str, str] | Secrets) -> int | None:
    """Return the context window that a local server reports for a model; None for any other model."""
    name, url = find_local_server(model, config, environ)
    server = query_server(name, url) if url else None
    return next((one.window for one in server.models if one.name == model), None) if server else None


def find_unreachable_server(model: str, config: Config, environ: Mapping[str, str] | Secrets) -> str:
    """Return the address of a model's local server if nothing listens there; empty for any other model."""
    _, url = find_local_server(model, config, environ)
    place = urlsplit(url)
    try:
        if url:
            socket.create_connection((place.hostname or "", place.port or 80), TIMEOUT_S).close()
    except (OSError, ValueError):  # a port beyond 65535 is a ValueError
        return place._replace(path="").geturl()
    return ""


def find_local_server(model: str, config: Config, environ: Mapping[str, str] | Secrets) -> tuple[str, str]:
    """Return the provider of a model and its loopback address; the address is empty for any other server."""
    name = model.partition(":")[0]
    return name, find_loopback_address(name, config, environ) if name in SERVER_READERS else ""


def find_loopback_address(name: str, config: Config | None, environ: Mapping[str, str] | Secrets) -> str:
    """Return the address of a model server if it is on this machine; empty otherwise."""
    configured = list_provider_addresses(config) if config else {}
    url = find_provider_address(name, KNOWN_PROVIDERS[name], configured, environ)
    return url if is_loopback(url) else ""


def is_loopback(url: str) -> bool:
    """Return whether an address is on the loopback."""
    try:
        host = urlsplit(url).hostname or ""
        return urlsplit(url).scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False


def query_server(name: str, url: str) -> ModelServer | None:
    """Query a server for its models; return None if no server of that kind answers in time."""
    from http.client import HTTPException

    title, read = SERVER_READERS[name]
    root, deadline = urlsplit(url)._replace(path="").geturl(), time.monotonic() + TIMEOUT_S
    try:
        offered = dict(read(lambda path: get_json(root, path, deadline)))
    except (OSError, HTTPException, ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None
    models = tuple(ServedModel(name=f"{name}:{model}", window=window) for model, window in offered.items())
    return ModelServer(title=title, url=url, models=models)


def get_json(root: str, path: str, deadline: float) -> Any:
    """Get a JSON document from a server on this machine, before a deadline."""
    from http.client import HTTPConnection  # late: it takes a tenth of the start of a command

    place, seconds = urlsplit(root), deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    connection = HTTPConnection(place.hostname or "", place.port, timeout=seconds)
    connection.connect()
    # The timeout of a connection applies to each read; a shutdown ends them all.
    watchdog = Timer(seconds, end_connection, [connection.sock])
    watchdog.start()
    try:
        connection.request("GET", path, headers={"accept": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(response.status)
        return json.loads(response.read(MAX_ANSWER_BYTES))
    finally:
        watchdog.cancel()
        connection.close()


def end_connection(connected: socket.socket) -> None:
    """End the reads and writes of a socket."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


Get = Callable[[str], Any]
ModelListing = Iterator[tuple[str, int | None]]


def read_ollama(get: Get) -> ModelListing:
    """Read the models of Ollama, and the windows of those it has loaded."""
    names = [str(model["name"]) for model in get("/api/tags")["models"]]
    loaded = {str(model["name"]): model.get("context_length") for model in get("/api/ps")["models"]} if names else {}
    yield from ((name, check_window(loaded.get(name))) for name in names)


def read_lm_studio(get: Get) -> ModelListing:
    """Read the models of LM Studio; one that is not loaded has no window."""
    for model in get("/api/v0/models")["data"]:
        if model.get("type") != "embeddings":
            yield str(model["id"]), check_window(model.get("loaded_context_length"))


def read_llama_cpp(get: Get) -> ModelListing:
    """Read the model of a llama.cpp server and its window."""
    models = [model for model in get("/v1/models")["data"] if model.get("owned_by") == "llamacpp"]
    if not models:
        raise ValueError("another server uses this port")
    window = check_window(get("/props")["default_generation_settings"]["n_ctx"])
    yield from ((str(model["id"]), window) for model in models)


def check_window(value: object) -> int | None:
    """Return a window that a server reports, if it is plausible."""
    return value if isinstance(value, int) and 0 < value <= MAX_WINDOW_TOKENS else None


SERVER_READERS: Mapping[str, tuple[str, Callable[[Get], ModelListing]]] = {
    "ollama": ("Ollama", read_ollama),
    "lmstudio": ("LM Studio", read_lm_studio),
    "llamacpp": ("llama.cpp", read_llama_cpp),
}


EMBEDDED_MODEL = f"{EMBEDDED_PREFIX}:smollm2"


@frozen(eq=True)
class ChosenModel:
    """The selected model, and a message for the person if it is not the named one."""

    model: str
    reason: str = ""
    why: str = ""


def choose_model(name: str, config: Config, environ: Mapping[str, str] | Secrets) -> ChosenModel:
    """Return the named model; the embedded one if no model is named, or if no provider has a key."""
    prefix = name.partition(":")[0]
    provider = KNOWN_PROVIDERS.get(prefix)
    if not name:
        why = "no model is named"
    elif provider is None or not provider.needs_key or has_configured_provider(prefix, config, environ):
        return ChosenModel(model=name)
    else:
        why = f"no key is set for {prefix}"
    if not is_engine_installed():
        keys = f"set {' or '.join(provider.keys)}, or " if provider else ""
        raise InputError(f"{why}; {keys}use the embedded model: {MISSING_ENGINE_TEXT.partition(': ')[2]}")
    return ChosenModel(model=EMBEDDED_MODEL, reason=f"{why}; answering with the embedded {EMBEDDED_MODEL}", why=why)


def describe_embedded(chosen: ChosenModel, name: str, servers: Sequence[ModelServer], switch: str) -> str:
    """Explain in one line that a very small model answers, and how to select another one with `switch`."""
    provider = KNOWN_PROVIDERS.get(name.partition(":")[0])
    ways = [f"set {provider.keys[0]}"] if provider and provider.keys else []
    ways += [f"{switch} {one.models[0].name} ({one.title} runs on this machine)" for one in servers if one.models]
    ways = ways or [f"{switch} provider:name"]
    return (
        f"{chosen.why}, so a 135M model answers: trust the quotes from your files more than its words. "
        f"For a real one: {', or '.join(ways)}"
    )


def has_configured_provider(prefix: str, config: Config, environ: Mapping[str, str] | Secrets) -> bool:
    """Return whether any provider is set up; then a missing key is an error that opening the model reports."""
    return prefix in config.providers or any(find_api_key(known, environ) for known in KNOWN_PROVIDERS.values())
