"""Models by name: known providers, configured addresses, and errors for missing settings."""

import asyncio
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from foreword.agent.providers.model_clients import KNOWN_PROVIDERS, ModelClients
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.config.env import Secrets
from foreword.envelope import SHAPE_OF_PROVIDER, Envelope
from foreword.errors import InputError, UnknownName
from foreword.promptcache.rules import CacheUsage
from foreword.testing.fake_answers import ANTHROPIC, CHAT, GEMINI, RESPONSES, FakeAnswer
from foreword.testing.fixtures import LoopbackHandler, LoopbackServer, serve_in_thread

KEYS = {variable: "k" for provider in KNOWN_PROVIDERS.values() for variable in provider.keys}


def test_known():
    """Every known provider opens with its key, and equal names return the same model."""
    models = ModelClients({}, KEYS)
    for provider, known in KNOWN_PROVIDERS.items():
        if not known.base_url:
            models = ModelClients({provider: "http://there.example/v1"}, KEYS)
        opened = models.find(f"{provider}:some-model")
        assert opened.provider.model == "some-model"
        assert opened.shape == SHAPE_OF_PROVIDER.get(provider, "openai")
        assert models.find(f"{provider}:some-model") is opened
        asyncio.run(models.close())


def test_own_endpoint():
    """A provider at which everybody has an endpoint of their own needs its address, which the error says."""
    for name in ("azure", "bedrock"):
        with pytest.raises(InputError, match=f"{name}:m needs the address of .*; set .*_(ENDPOINT|BASE_URL)"):
            ModelClients({}, KEYS).find(f"{name}:m")


def test_no_key():
    """The error about a missing key names its variables."""
    for name, provider in KNOWN_PROVIDERS.items():
        if provider.needs_key:
            words = f"{name}:m needs an API key; set {' or '.join(provider.keys)} in"
            with pytest.raises(InputError, match=words):
                ModelClients({}, {}).find(f"{name}:m")


@pytest.mark.parametrize("name", ["claude", "", "anthropic:", ":"])
def test_no_model(name):
    """A name without a provider or a model is refused with the expected form."""
    with pytest.raises(InputError, match="provider"):
        ModelClients({}, KEYS).find(name)


def test_unknown():
    """An unknown provider is refused with the nearest known one."""
    with pytest.raises(UnknownName, match="unknown provider 'antropic'; did you mean 'anthropic'"):
        ModelClients({}, KEYS).find("antropic:claude")


def find_address(models, name):
    """Find where a model is reached."""
    opened = models.find(name)
    asyncio.run(models.close())
    return opened.base_url.rstrip("/")


def test_addresses():
    """The configured address has priority over the variable, and that over the default."""
    variable = {**KEYS, "OPENAI_BASE_URL": "http://there/v1"}
    assert find_address(ModelClients({"openai": "http://here/v1"}, variable), "openai:m") == "http://here/v1"
    assert find_address(ModelClients({}, variable), "openai:m") == "http://there/v1"
    assert find_address(ModelClients({}, KEYS), "openai:m") == "https://api.openai.com/v1"
    assert find_address(ModelClients({}, KEYS), "anthropic:m") == "https://api.anthropic.com"

    family = ModelClients({"openai": "http://here/v1", "google": "http://there"}, KEYS)
    assert find_address(family, "openai-responses:m") == "http://here/v1"
    assert find_address(family, "gemini:m") == "http://there"


def test_addresses_that_are_none():
    """An address without http:// and a key that no header can carry are refused before anything is sent."""
    with pytest.raises(InputError, match="the address of ollama is 'localhost:11434'; it must begin with http://"):
        ModelClients({}, {"OLLAMA_BASE_URL": "localhost:11434"}).find("ollama:m")
    with pytest.raises(InputError, match="check OPENAI_API_KEY"):
        ModelClients({}, {"OPENAI_API_KEY": "clé"}).find("openai:m")


def test_own_server():
    """An unknown provider with an address is treated as OpenAI-compatible, and needs no key."""
    models = ModelClients({"shed": "http://shed.local:8000/v1"}, {})
    assert find_address(models, "shed:qwen") == "http://shed.local:8000/v1"


def test_keys_from_a_file():
    """A key may come from the workspace's .env."""
    secrets = Secrets.read("ANTHROPIC_API_KEY=k\n", {})
    models = ModelClients({}, secrets)
    assert models.find("anthropic:m").shape == "anthropic"
    asyncio.run(models.close())


def test_late():
    """No provider library is imported before a model is opened."""
    script = "import sys, foreword.agent.providers.model_clients; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"pydantic", "anthropic", "openai", "google", "httpx2"})


def test_opened_once_by_many_at_once():
    """Concurrent threads share one model and one connection pool."""
    models = ModelClients({}, KEYS)
    names = [f"{provider}:some-model" for provider in ("anthropic", "openai", "google")]
    with ThreadPoolExecutor(16) as threads:
        opened = list(threads.map(models.find, names * 16))
    assert len({id(one) for one in opened}) == len(names)
    assert len({id(one.provider._client) for one in opened}) == 1
    asyncio.run(models.close())


class AddressHandler(LoopbackHandler):
    """Records the address and the headers of each request, and answers it in the shape of its path."""

    def do_POST(self):  # noqa: N802 - the name that http.server calls
        """Answer a request."""
        self.read_body()
        self.server.fake.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        endings = {"messages": ANTHROPIC, "completions": CHAT, "responses": RESPONSES}
        shape = next((shape for ending, shape in endings.items() if self.path.endswith(ending)), GEMINI)
        answer = FakeAnswer(model="m", text="Yes.", calls=(), counted=CacheUsage(fresh=1), out=1)
        self.send_text(200, "".join(shape.stream(answer)), **{"Content-Type": "text/event-stream"})


@contextmanager
def record_addresses():
    """Run a server that records requests; yield its address and the records."""
    requests = []
    server = LoopbackServer(AddressHandler, requests)
    with serve_in_thread(server, SimpleNamespace(set=lambda: None)):
        yield server.url, requests


async def ask(models, name):
    """Send a request to a model; return the text of its answer."""
    try:
        envelope = Envelope(shape="openai", model=name, request={})
        return [event async for event in models.find(name).provider.stream(envelope)][-1].answer.text
    finally:
        await models.close()


CHAT_PATH, BEARER = "/v1/chat/completions", {"authorization": "Bearer k"}
STREAMED = ":streamGenerateContent?alt=sse"
REQUESTS = [
    # provider, path of the configured address, path of the request, headers
    ("anthropic", "", "/v1/messages", {"x-api-key": "k"}),
    ("anthropic", "/v1", "/v1/messages", {"x-api-key": "k"}),
    ("anthropic", "/proxy/", "/proxy/v1/messages", {"x-api-key": "k"}),
    ("openai", "/v1", CHAT_PATH, BEARER),
    ("openai-responses", "/v1/", "/v1/responses", BEARER),
    ("google", "", f"/v1/models/m{STREAMED}", {"x-goog-api-key": "k"}),
    ("google", "/v1beta", f"/v1beta/models/m{STREAMED}", {"x-goog-api-key": "k"}),
    ("google-vertex", "/v1/publishers/google", f"/v1/publishers/google/models/m{STREAMED}", {"x-goog-api-key": "k"}),
    ("azure", "", "/openai/v1/chat/completions", {"api-key": "k"}),
    ("azure", "/", "/openai/v1/chat/completions", {"api-key": "k"}),
    ("azure", "/gateway/openai/v1", "/gateway/openai/v1/chat/completions", {"api-key": "k"}),
    ("bedrock", "/openai/v1", "/openai/v1/chat/completions", BEARER),
    ("openrouter", "/api/v1", "/api/v1/chat/completions", BEARER),
    *((name, "/v1", CHAT_PATH, BEARER) for name in ("ollama", "lmstudio", "llamacpp", "vllm")),
]


@pytest.mark.parametrize(
    ("name", "place", "path", "headers"), REQUESTS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_requests_by_address(name, place, path, headers):
    """A request goes to the path of its provider below the configured address, with its header for the key."""
    with record_addresses() as (url, requests):
        assert asyncio.run(ask(ModelClients({name: url + place}, KEYS), f"{name}:m")) == "Yes."
    ((asked, sent),) = requests
    assert asked == path
    assert headers.items() <= sent.items()
    carriers = {"authorization", "api-key", "x-api-key", "x-goog-api-key"}
    assert carriers & set(sent) == set(headers)


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm", "azure", "bedrock", "google-vertex"])
def test_addresses_from_variables(name):
    """The address of a server may come from the environment."""
    with record_addresses() as (url, requests):
        for variable in KNOWN_PROVIDERS[name].addresses:
            assert asyncio.run(ask(ModelClients({}, {**KEYS, variable: f"{url}/v1"}), f"{name}:m")) == "Yes."
    assert len(requests) == len(KNOWN_PROVIDERS[name].addresses)
    assert all(path.startswith("/v1/") for path, _ in requests)


@pytest.mark.parametrize("name", ["ollama", "lmstudio", "llamacpp", "vllm"])
def test_local_servers_without_a_key(name):
    """A local server needs no key and no address."""
    port = {"ollama": 11434, "lmstudio": 1234, "llamacpp": 8080, "vllm": 8000}[name]
    assert find_address(ModelClients({}, {}), f"{name}:m") == f"http://localhost:{port}/v1"


def test_documented():
    """The table of providers in the documentation has each of them, with its variables."""
    page = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
    section = page.partition("## Providers")[2].partition("## ")[0]
    rows = [[*line.split("|"), ""][:4] for line in section.splitlines() if line.startswith("`")]
    documented = {
        name: (re.findall(r"`(\w+)`", keys), re.findall(r"`([A-Z_]+)`", address))
        for names, _, keys, address in rows
        for name in re.findall(r"`([\w-]+)`", names)
    }
    assert documented == {name: ([*one.keys], [*one.addresses]) for name, one in KNOWN_PROVIDERS.items()}
    assert {known.speaks for known in KNOWN_PROVIDERS.values()} == set(WIRE_SHAPES)
