"""Models by name: known providers, configured addresses, and errors for missing settings."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from foreword.agent.providers.model_clients import KNOWN_PROVIDERS, ModelClients
from foreword.config.env import Secrets
from foreword.envelope import SHAPE_OF_PROVIDER
from foreword.errors import InputError, UnknownName

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
