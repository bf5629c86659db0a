"""Claims about models by name: known providers and configured addresses open, and what is missing is named."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from foreword.config.environment import Secrets
from foreword.errors import InputError, UnknownName
from foreword.runtime.models import KNOWN, Models
from foreword.runtime.own import NotOurs
from foreword.wire.envelope import PROVIDERS

KEYS = {variable: "k" for provider in KNOWN.values() for variable in provider.keys}


@pytest.mark.parametrize("provider", KNOWN)
def test_known(provider):
    """Every known provider opens with its key, and the same name is the same model."""
    models = Models({}, KEYS)
    opened = models.find(f"{provider}:some-model")
    assert opened.model.model_name == "some-model"
    assert opened.shape == PROVIDERS.get(provider, "openai")
    assert models.find(f"{provider}:some-model") is opened
    asyncio.run(models.close())


@pytest.mark.parametrize("provider", [name for name, provider in KNOWN.items() if provider.needs_key])
def test_no_key(provider):
    """Without a key the error names the variables that could hold one."""
    with pytest.raises(InputError, match=f"{provider}:m needs a key; set {' or '.join(KNOWN[provider].keys)} in"):
        Models({}, {}).find(f"{provider}:m")


@pytest.mark.parametrize("name", ["claude", "", "anthropic:", ":"])
def test_no_model(name):
    """A name without a provider or a model is refused with the form that is meant."""
    with pytest.raises(InputError, match="provider"):
        Models({}, KEYS).find(name)


def test_unknown():
    """An unknown provider is refused with the nearest one."""
    with pytest.raises(UnknownName, match="unknown provider 'antropic'; did you mean 'anthropic'"):
        Models({}, KEYS).find("antropic:claude")


def find_address(models, name):
    """Find where a model is reached."""
    opened = models.find(name)
    asyncio.run(models.close())
    return opened.model.base_url.rstrip("/")


def test_addresses():
    """The configuration wins over the variable, and the variable over the usual address."""
    variable = {**KEYS, "OPENAI_BASE_URL": "http://there/v1"}
    assert find_address(Models({"openai": "http://here/v1"}, variable), "openai:m") == "http://here/v1"
    assert find_address(Models({}, variable), "openai:m") == "http://there/v1"
    assert find_address(Models({}, KEYS), "openai:m") == "https://api.openai.com/v1"
    assert find_address(Models({}, KEYS), "anthropic:m") == "https://api.anthropic.com"

    family = Models({"openai": "http://here/v1", "google": "http://there"}, KEYS)
    assert find_address(family, "openai-responses:m") == "http://here/v1"
    assert find_address(family, "gemini:m") == "http://there"


def test_own_server():
    """Any other name with an address is a server that speaks as OpenAI does, and needs no key."""
    models = Models({"shed": "http://shed.local:8000/v1"}, {})
    assert find_address(models, "shed:qwen") == "http://shed.local:8000/v1"


def test_keys_from_a_file():
    """A key may come from the .env of the workspace."""
    secrets = Secrets.read("ANTHROPIC_API_KEY=k\n", {})
    models = Models({}, secrets)
    assert models.find("anthropic:m").shape == "anthropic"
    asyncio.run(models.close())


def test_nothing_leaves_without_a_prompt(stand_in):
    """A model that is called without a prompt of ours sends nothing."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters

    from foreword.runtime.trouble import explain

    async def call():
        models = Models({"anthropic": stand_in.url}, KEYS)
        model = models.find("anthropic:claude-sonnet-5").model
        try:
            await model.request([ModelRequest(parts=[UserPromptPart(content="Hi")])], {}, ModelRequestParameters())
        finally:
            await models.close()

    with pytest.raises(Exception) as caught:  # noqa: PT011 - the library wraps it as it likes
        asyncio.run(call())
    assert isinstance(explain(caught.value), NotOurs)
    assert stand_in.requests == []


def test_late():
    """Nothing heavy is imported before a model is opened."""
    script = "import sys, foreword.runtime.models; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"pydantic_ai", "pydantic", "anthropic", "openai", "google", "httpx2"})


def test_opened_once_by_many_at_once():
    """Turns that begin at the same moment, in several threads, share one model and one pool of connections."""
    models = Models({}, KEYS)
    names = [f"{provider}:some-model" for provider in ("anthropic", "openai", "google")]
    with ThreadPoolExecutor(16) as threads:
        opened = list(threads.map(models.find, names * 16))
    assert len({id(one) for one in opened}) == len(names)
    assert len({id(one.model.client._client) for one in opened if one.shape != "gemini"}) == 1
    asyncio.run(models.close())
