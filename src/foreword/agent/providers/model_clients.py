"""Opens models by name: `provider:model` becomes a pydantic-ai model that uses our transport.

The provider libraries are imported when the first model is opened, because that takes one to two seconds.

The known providers: wire shape, address, and the environment variables of the key.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from foreword.config.env import Secrets
from foreword.config.schema import Config, ModelOverride
from foreword.errors import InputError, UnknownName
from foreword.tokens.models import find_model as find_facts
from foreword.types import frozen

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

    from foreword.agent.providers.embedded_engine import EmbeddedEngine


EMBEDDED_PREFIX = "local"  # the prefix of embedded models
MAX_LISTED_PROVIDERS = 40  # listed in an error
CACHE_KEY_SHAPES = ("openai", "responses")  # shapes that accept a cache key per conversation


@frozen(eq=True)
class Provider:
    """A provider: its wire shape, its address, and the environment variables of its key and address."""

    speaks: str = "compatible"
    """The wire shape: anthropic, openai, compatible (chat completions of another provider), responses or gemini."""
    base_url: str = ""
    keys: tuple[str, ...] = ()
    """The environment variables of its key, the preferred one first."""
    addresses: tuple[str, ...] = ()
    """The environment variables of its address."""
    needs_key: bool = True
    family: str = ""
    """Another configuration name for its address, such as openai for openai-responses."""


OPENAI = Provider(speaks="openai", keys=("OPENAI_API_KEY",), addresses=("OPENAI_BASE_URL",), family="openai")
GOOGLE = Provider(
    speaks="gemini",
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    addresses=("GOOGLE_GEMINI_BASE_URL",),
    family="google",
)
KNOWN_PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(speaks="anthropic", keys=("ANTHROPIC_API_KEY",), addresses=("ANTHROPIC_BASE_URL",)),
    "openai": OPENAI,
    "openai-chat": OPENAI,
    "openai-responses": replace(OPENAI, speaks="responses"),
    "google": GOOGLE,
    "google-gla": GOOGLE,
    "gemini": GOOGLE,
    "deepseek": Provider(base_url="https://api.deepseek.com", keys=("DEEPSEEK_API_KEY",)),
    "groq": Provider(base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
    "mistral": Provider(base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",)),
    "openrouter": Provider(base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
    "together": Provider(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "xai": Provider(base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
    "ollama": Provider(
        base_url="http://localhost:11434/v1",
        keys=("OLLAMA_API_KEY",),
        addresses=("OLLAMA_BASE_URL",),
        needs_key=False,
    ),
    "lmstudio": Provider(
        base_url="http://localhost:1234/v1",
        keys=("LMSTUDIO_API_KEY",),
        addresses=("LMSTUDIO_BASE_URL",),
        needs_key=False,
    ),
    "llamacpp": Provider(
        base_url="http://localhost:8080/v1",
        keys=("LLAMACPP_API_KEY",),
        addresses=("LLAMACPP_BASE_URL",),
        needs_key=False,
    ),
}


def list_provider_names(configured: Iterable[str]) -> set[str]:
    """List the valid provider prefixes of a model name."""
    return {*KNOWN_PROVIDERS, *configured, EMBEDDED_PREFIX}


def find_api_key(provider: Provider, environ: Mapping[str, str] | Secrets) -> str:
    """Return the API key of a provider from its environment variables; empty if none is set."""
    return next((found for variable in provider.keys if (found := environ.get(variable))), "")


CONNECT_TIMEOUT_S = 10.0  # connect timeout in seconds
ENGINE_HOST = "engine"  # the placeholder host of the embedded engine
READ_TIMEOUT_S = 120.0  # read timeout in seconds


@frozen
class OpenModel:
    """An open model and its wire shape."""

    model: "Model"
    shape: str
    keyed: bool = False
    """Whether requests carry a cache key of the conversation."""
    find_cache_start: Callable[[datetime], datetime] | None = None
    """Returns the start of the current cache lifetime, if it is known: a restarted engine loses its cache."""


def find_provider_address(
    name: str, provider: Provider, configured: Mapping[str, str], environ: Mapping[str, str] | Secrets
) -> str:
    """Return the address of a provider: from the configuration, else the environment, else its default."""
    own = configured.get(name) or configured.get(provider.family, "")
    return own or next((found for one in provider.addresses if (found := environ.get(one))), provider.base_url)


def open_models(config: Config, environ: Mapping[str, str] | Secrets | None = None) -> "ModelClients":
    """Make a `ModelClients` with the addresses and model overrides of a configuration."""
    return ModelClients(list_provider_addresses(config), environ, overrides=config.models)


def list_provider_addresses(config: Config) -> Mapping[str, str]:
    """Return the configured provider addresses."""
    return {name: provider.base_url for name, provider in config.providers.items() if provider.base_url}


class ModelClients:
    """Opens models and caches them; all turns share one connection pool."""

    def __init__(
        self,
        addresses: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | Secrets | None = None,
        read_timeout: float = READ_TIMEOUT_S,
        overrides: Mapping[str, ModelOverride] | None = None,
    ) -> None:
        self._addresses = addresses or {}
        self._environ = os.environ if environ is None else environ
        self._read_timeout = read_timeout
        self._overrides = overrides or {}
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._opening = Lock()  # several threads may look up the same model at once
        self._models: dict[str, OpenModel] = {}
        self._engines: dict[str, EmbeddedEngine] = {}

    def follow(self, config: Config) -> bool:
        """Apply the addresses of a reloaded configuration; return whether they changed.

        After a change, models are reopened at their next use. Embedded models have no address and stay open.
        """
        addresses = list_provider_addresses(config)
        self._overrides = config.models
        if addresses == self._addresses:
            return False
        with self._opening:
            self._addresses = addresses
            self._models = {name: opened for name, opened in self._models.items() if name in self._engines}
        return True

    @property
    def engines(self) -> Collection[str]:
        """The names of the open embedded models."""
        return [*self._engines]

    def find(self, name: str) -> OpenModel:
        """Return a model by `provider:model`; raise InputError if it cannot be opened."""
        opened = self._models.get(name)
        if opened is None:
            with self._opening:  # open each model once, even from several threads
                opened = self._models.get(name) or self._open(name)
                self._models[name] = opened
        return opened

    def find_cache_start(self, name: str, at: datetime) -> datetime | None:
        """Return the start of an open model's cache lifetime, if it is known."""
        opened = self._models.get(name)
        return opened.find_cache_start(at) if opened and opened.find_cache_start else None

    async def start(self, name: str) -> OpenModel:
        """Open a model ahead of its first request: import its library, fetch and load its weights."""
        import asyncio  # late: commands that only build a prompt need no event loop

        opened = await asyncio.to_thread(self.find, name)
        if name in self._engines:
            await asyncio.to_thread(self._engines[name].start)
        return opened

    def _open(self, name: str) -> OpenModel:
        prefix, colon, model = name.partition(":")
        if not colon or not model:
            raise InputError(f"{name!r} is not a model name; use provider:model, such as anthropic:claude-sonnet-5")
        if prefix == EMBEDDED_PREFIX:
            return self._open_local(name)
        provider = self._find_provider(prefix)
        key = find_api_key(provider, self._environ)
        if not key and provider.needs_key:
            raise InputError(f"{name} needs an API key; set {' or '.join(provider.keys)} in the environment or in .env")
        opened = OPENERS[provider.speaks](model, provider.base_url, key or "none", self._share_client())
        shape = "openai" if provider.speaks == "compatible" else provider.speaks
        return OpenModel(model=opened, shape=shape, keyed=provider.speaks in CACHE_KEY_SHAPES)

    def _open_local(self, name: str) -> OpenModel:
        """Open the embedded engine; the first request starts it, which may take seconds."""
        from foreword.agent.providers.embedded_engine import EmbeddedEngine, EngineTransport
        from foreword.agent.providers.embedded_weights import make_engine_settings

        engine = self._engines[name] = EmbeddedEngine(
            make_engine_settings(find_facts(name, self._overrides), self._environ)
        )
        client = self._clients[name] = self._make_client(EngineTransport(engine))
        model = open_openai("compatible", name.partition(":")[2], f"http://{ENGINE_HOST}/v1", "none", client)
        return OpenModel(model=model, shape="openai", keyed=True, find_cache_start=engine.find_cache_start)

    def _find_provider(self, prefix: str) -> Provider:
        """Return a provider; its configured address overrides the environment, which overrides the default."""
        provider = KNOWN_PROVIDERS.get(prefix)
        if provider is None:
            own = self._addresses.get(prefix)
            if not own:
                raise UnknownName("provider", prefix, list_provider_names(self._addresses), most=MAX_LISTED_PROVIDERS)
            # An unknown provider with an address is treated as OpenAI-compatible, as most servers are.
            return Provider(base_url=own, keys=(f"{prefix.upper().replace('-', '_')}_API_KEY",), needs_key=False)
        return replace(provider, base_url=find_provider_address(prefix, provider, self._addresses, self._environ))

    def _share_client(self) -> "httpx2.AsyncClient":
        """Return the client that all network models share."""
        if "" not in self._clients:
            import httpx2

            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            self._clients[""] = self._make_client(httpx2.AsyncHTTPTransport(limits=limits))
        return self._clients[""]

    def _make_client(self, transport: "httpx2.AsyncBaseTransport") -> "httpx2.AsyncClient":
        """Make a client whose requests always carry our prompt."""
        import httpx2

        from foreword.agent.providers.transport import PromptTransport

        timeout = httpx2.Timeout(self._read_timeout, connect=CONNECT_TIMEOUT_S)
        return httpx2.AsyncClient(transport=PromptTransport(transport), timeout=timeout)

    async def close(self) -> None:
        """Close all connections and stop the embedded engines."""
        self._models.clear()
        self._engines.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


def open_anthropic(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open an Anthropic model; its SDK's spans are off because we export a span for each call."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    own = AsyncAnthropic(api_key=key, base_url=url or None, http_client=client, max_retries=0, open_telemetry=False)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=own))


def open_openai(speaks: str, model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of OpenAI's APIs; compatible servers take `max_tokens` instead of `max_completion_tokens`."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    own = AsyncOpenAI(api_key=key, base_url=url or None, http_client=client, max_retries=0)
    provider = OpenAIProvider(openai_client=own)
    if speaks == "responses":
        return OpenAIResponsesModel(model, provider=provider)
    if speaks == "openai":
        return OpenAIChatModel(model, provider=provider)
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return OpenAIChatModel(model, provider=provider, profile=profile)


def open_gemini(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a Google model."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    once = HttpRetryOptions(attempts=1)
    provider = GoogleProvider(api_key=key, base_url=url or None, http_client=client, retry_options=once)
    return GoogleModel(model, provider=provider)


OPENERS: Mapping[str, Callable[[str, str, str, "httpx2.AsyncClient"], "Model"]] = {
    "anthropic": open_anthropic,
    **{speaks: partial(open_openai, speaks) for speaks in ("openai", "compatible", "responses")},
    "gemini": open_gemini,
}
