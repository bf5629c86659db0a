"""Model servers on this machine: Ollama, LM Studio and llama.cpp, asked on the loopback only and for a moment only."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from foreword.config.environment import Secrets
from foreword.config.schema import Config
from foreword.frozen import frozen
from foreword.runtime.providers import KNOWN

TIMEOUT_S = 0.4  # for each answer of a server; one that is not there refuses at once
MAX_ANSWER_BYTES = 1 << 20
MAX_WINDOW = 10_000_000  # a larger figure is nonsense


@frozen(eq=True)
class ServedModel:
    """A model that a server offers."""

    name: str
    """The name as `provider:model`."""
    window: int | None = None
    """The window it is served with, where the server says so."""


@frozen(eq=True)
class ModelServer:
    """A server of models that answered."""

    title: str
    url: str
    models: tuple[ServedModel, ...]


def find_servers(config: Config | None, environ: Mapping[str, str] | Secrets) -> list[ModelServer]:
    """Find the model servers that run on this machine, at their usual or configured addresses, all at once."""
    addresses = {name: find_address(name, config, environ) for name in READERS}
    asked = {name: url for name, url in addresses.items() if is_loopback(url)}
    with ThreadPoolExecutor(max_workers=len(READERS)) as pool:
        found = pool.map(lambda name: ask_server(name, asked[name]), asked)
        return [server for server in found if server]


def find_window(model: str, config: Config, environ: Mapping[str, str] | Secrets) -> int | None:
    """Ask the local server of a model for the window it is served with; None for any other model."""
    name = model.partition(":")[0]
    url = find_address(name, config, environ) if name in READERS else ""
    server = ask_server(name, url) if is_loopback(url) else None
    return next((one.window for one in server.models if one.name == model), None) if server else None


def find_address(name: str, config: Config | None, environ: Mapping[str, str] | Secrets) -> str:
    """Find the address of a server: the configured one, that of the environment, or the usual one."""
    configured = config.providers[name].base_url if config and name in config.providers else ""
    provider = KNOWN[name]
    given = next((found for variable in provider.addresses if (found := environ.get(variable))), "")
    return configured or given or provider.base_url


def is_loopback(url: str) -> bool:
    """Whether an address is one of this machine alone."""
    try:
        host = urlsplit(url).hostname or ""
        return urlsplit(url).scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False


def ask_server(name: str, url: str) -> ModelServer | None:
    """Ask a server what it offers; None where none answers as one of its kind."""
    title, read = READERS[name]
    root = urlsplit(url)._replace(path="").geturl()
    try:
        offered = dict(read(lambda path: get_json(root, path)))
    except (OSError, HTTPException, ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None
    models = tuple(ServedModel(name=f"{name}:{model}", window=window) for model, window in offered.items())
    return ModelServer(title=title, url=url, models=models)


def get_json(root: str, path: str) -> Any:
    """Get a JSON document from a server on this machine."""
    place = urlsplit(root)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"accept": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(response.status)
        return json.loads(response.read(MAX_ANSWER_BYTES))
    finally:
        connection.close()


Get = Callable[[str], Any]
Offer = Iterator[tuple[str, int | None]]


def read_ollama(get: Get) -> Offer:
    """Read what Ollama has, and the window of what it has loaded."""
    names = [str(model["name"]) for model in get("/api/tags")["models"]]
    loaded = {str(model["name"]): model.get("context_length") for model in get("/api/ps")["models"]} if names else {}
    yield from ((name, check_window(loaded.get(name))) for name in names)


def read_lm_studio(get: Get) -> Offer:
    """Read what LM Studio has; a model that is not loaded has no window yet."""
    for model in get("/api/v0/models")["data"]:
        if model.get("type") != "embeddings":
            yield str(model["id"]), check_window(model.get("loaded_context_length"))


def read_llama_cpp(get: Get) -> Offer:
    """Read the one model that a server of llama.cpp has, and the window it was started with."""
    models = [model for model in get("/v1/models")["data"] if model.get("owned_by") == "llamacpp"]
    if not models:
        raise ValueError("another server uses this port")
    window = check_window(get("/props")["default_generation_settings"]["n_ctx"])
    yield from ((str(model["id"]), window) for model in models)


def check_window(value: object) -> int | None:
    """Take a window that a server names, if it can be one."""
    return value if isinstance(value, int) and 0 < value <= MAX_WINDOW else None


READERS: Mapping[str, tuple[str, Callable[[Get], Offer]]] = {
    "ollama": ("Ollama", read_ollama),
    "lmstudio": ("LM Studio", read_lm_studio),
    "llamacpp": ("llama.cpp", read_llama_cpp),
}
