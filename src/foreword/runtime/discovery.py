"""Model servers on this machine: Ollama, LM Studio and llama.cpp.

Only loopback addresses are asked. One deadline bounds everything that is read from a server, so that a program that
sends a byte now and then cannot hold up a command.
"""

import json
import socket
import time
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

TIMEOUT_S = 1.0  # for all answers of one server together
MAX_ANSWER_BYTES = 1 << 20
MAX_WINDOW = 10_000_000  # a larger number is not plausible


@frozen(eq=True)
class ServedModel:
    """A model that a server offers."""

    name: str
    """The name as `provider:model`."""
    window: int | None = None
    """The context window, where the server reports it."""


@frozen(eq=True)
class ModelServer:
    """A model server that answered."""

    title: str
    url: str
    models: tuple[ServedModel, ...]


def find_servers(config: Config | None, environ: Mapping[str, str] | Secrets) -> list[ModelServer]:
    """Find the model servers of this machine at their default or configured addresses, in parallel."""
    addresses = {name: find_address(name, config, environ) for name in READERS}
    asked = {name: url for name, url in addresses.items() if is_loopback(url)}
    with ThreadPoolExecutor(max_workers=len(READERS)) as pool:
        found = pool.map(lambda name: ask_server(name, asked[name]), asked)
        return [server for server in found if server]


def find_window(model: str, config: Config, environ: Mapping[str, str] | Secrets) -> int | None:
    """Return the context window that a local server reports for a model; None for any other model."""
    name = model.partition(":")[0]
    url = find_address(name, config, environ) if name in READERS else ""
    server = ask_server(name, url) if is_loopback(url) else None
    return next((one.window for one in server.models if one.name == model), None) if server else None


def find_silent(model: str, config: Config, environ: Mapping[str, str] | Secrets) -> str:
    """Return the address of a model's local server if nothing listens there; empty for any other model."""
    name = model.partition(":")[0]
    url = find_address(name, config, environ) if name in READERS else ""
    if not is_loopback(url):
        return ""
    place = urlsplit(url)
    try:
        socket.create_connection((place.hostname or "", place.port or 80), TIMEOUT_S).close()
    except (OSError, ValueError):  # a port beyond 65535 is a ValueError
        return place._replace(path="").geturl()
    return ""


def find_address(name: str, config: Config | None, environ: Mapping[str, str] | Secrets) -> str:
    """Find the address of a server: from the configuration, the environment, or the default."""
    configured = config.providers[name].base_url if config and name in config.providers else ""
    provider = KNOWN[name]
    given = next((found for variable in provider.addresses if (found := environ.get(variable))), "")
    return configured or given or provider.base_url


def is_loopback(url: str) -> bool:
    """Return whether an address is on the loopback."""
    try:
        host = urlsplit(url).hostname or ""
        return urlsplit(url).scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False


def ask_server(name: str, url: str) -> ModelServer | None:
    """Ask a server for its models; None where no server of that kind answers in time."""
    title, read = READERS[name]
    root, deadline = urlsplit(url)._replace(path="").geturl(), time.monotonic() + TIMEOUT_S
    try:
        offered = dict(read(lambda path: get_json(root, path, deadline)))
    except (OSError, HTTPException, ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None
    models = tuple(ServedModel(name=f"{name}:{model}", window=window) for model, window in offered.items())
    return ModelServer(title=title, url=url, models=models)


def get_json(root: str, path: str, deadline: float) -> Any:
    """Get a JSON document from a server on this machine, before a deadline."""
    place = urlsplit(root)
    connection = BoundedConnection(place.hostname or "", place.port, deadline)
    try:
        connection.request("GET", path, headers={"accept": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(response.status)
        return json.loads(response.read(MAX_ANSWER_BYTES))
    finally:
        connection.close()


class BoundedConnection(HTTPConnection):
    """An HTTP connection with a deadline for the whole exchange."""

    def __init__(self, host: str, port: int | None, deadline: float) -> None:
        super().__init__(host, port)
        self._deadline = deadline

    def connect(self) -> None:
        """Connect before the deadline."""
        plain = socket.create_connection((self.host, self.port), find_remaining(self._deadline))
        self.sock = BoundedSocket(plain, self._deadline)


class BoundedSocket(socket.socket):
    """A socket with a deadline for all reads together; a timeout of the standard library is for each read."""

    def __init__(self, plain: socket.socket, deadline: float) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._deadline = deadline
        self.settimeout(find_remaining(deadline))

    def recv_into(self, *arguments: Any) -> int:
        """Read available bytes, or raise TimeoutError at the deadline."""
        self.settimeout(find_remaining(self._deadline))
        return super().recv_into(*arguments)


def find_remaining(deadline: float) -> float:
    """Return the seconds until a deadline, or raise TimeoutError."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


Get = Callable[[str], Any]
Offer = Iterator[tuple[str, int | None]]


def read_ollama(get: Get) -> Offer:
    """Read the models of Ollama, and the windows of those it has loaded."""
    names = [str(model["name"]) for model in get("/api/tags")["models"]]
    loaded = {str(model["name"]): model.get("context_length") for model in get("/api/ps")["models"]} if names else {}
    yield from ((name, check_window(loaded.get(name))) for name in names)


def read_lm_studio(get: Get) -> Offer:
    """Read the models of LM Studio; one that is not loaded has no window."""
    for model in get("/api/v0/models")["data"]:
        if model.get("type") != "embeddings":
            yield str(model["id"]), check_window(model.get("loaded_context_length"))


def read_llama_cpp(get: Get) -> Offer:
    """Read the model of a llama.cpp server and its window."""
    models = [model for model in get("/v1/models")["data"] if model.get("owned_by") == "llamacpp"]
    if not models:
        raise ValueError("another server uses this port")
    window = check_window(get("/props")["default_generation_settings"]["n_ctx"])
    yield from ((str(model["id"]), window) for model in models)


def check_window(value: object) -> int | None:
    """Return a window that a server reports, if it is plausible."""
    return value if isinstance(value, int) and 0 < value <= MAX_WINDOW else None


READERS: Mapping[str, tuple[str, Callable[[Get], Offer]]] = {
    "ollama": ("Ollama", read_ollama),
    "lmstudio": ("LM Studio", read_lm_studio),
    "llamacpp": ("llama.cpp", read_llama_cpp),
}
