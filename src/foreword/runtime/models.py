"""Models by name: `provider:model` becomes a model of pydantic-ai whose requests go through our transport.

The libraries are imported when the first model is opened: that takes a second or two.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from foreword.config.environment import Secrets
from foreword.config.schema import Config, ModelOverride
from foreword.errors import InputError, UnknownName
from foreword.frozen import frozen
from foreword.runtime.providers import KEYED, KNOWN, LOCAL, MAX_PROVIDERS, Provider, find_key, list_providers
from foreword.tokens import find as find_facts

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

    from foreword.local.engine import Engine

CONNECT = 10.0  # seconds until a provider has to have taken the call
ENGINE = "engine"  # the host of the embedded engine, which has no address of its own
SILENCE = 120.0  # seconds without a byte after which a call has failed


@frozen
class Opened:
    """A model that can be called, and the shape in which its prompt is put into the request."""

    model: "Model"
    shape: str
    keyed: bool = False
    """Whether a request may say which conversation it belongs to, so that it finds the cache of the one before."""
    remembers: Callable[[datetime], datetime] | None = None
    """Since when it has what it was sent, at some time, where that is known: what ends takes its cache along."""


def open_models(config: Config, environ: Mapping[str, str] | Secrets | None = None) -> "Models":
    """Open models at the addresses of a configuration, and with its facts about them."""
    return Models(list_addresses(config), environ, overrides=config.models)


def list_addresses(config: Config) -> Mapping[str, str]:
    """List the addresses that a configuration has for providers."""
    return {name: provider.base_url for name, provider in config.providers.items() if provider.base_url}


class Models:
    """Opens models and keeps them; many turns share one connection pool."""

    def __init__(
        self,
        addresses: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | Secrets | None = None,
        silence: float = SILENCE,
        overrides: Mapping[str, ModelOverride] | None = None,
    ) -> None:
        self._addresses = addresses or {}
        self._environ = os.environ if environ is None else environ
        self._silence = silence
        self._overrides = overrides or {}
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._opening = Lock()  # the first turns of many sessions may look for one model at once, each in a thread
        self._models: dict[str, Opened] = {}
        self._engines: dict[str, Engine] = {}

    def follow(self, config: Config) -> bool:
        """Hold to the addresses of a configuration that was read anew; return whether they are others.

        Models are then opened again when they are next looked for; the embedded one has no address and stays.
        """
        addresses = list_addresses(config)
        self._overrides = config.models
        if addresses == self._addresses:
            return False
        with self._opening:
            self._addresses = addresses
            self._models = {name: opened for name, opened in self._models.items() if name in self._engines}
        return True

    @property
    def engines(self) -> Collection[str]:
        """The embedded models that were opened, by name."""
        return [*self._engines]

    def find(self, name: str) -> Opened:
        """Find a model by `provider:model`, or say what is missing."""
        opened = self._models.get(name)
        if opened is None:
            with self._opening:  # turns that begin at once ask from several threads, and a model is opened once
                opened = self._models.get(name) or self._open(name)
                self._models[name] = opened
        return opened

    def remembers(self, name: str, at: datetime) -> datetime | None:
        """Say since when a model has what it was sent, where that is known and it was opened."""
        opened = self._models.get(name)
        return opened.remembers(at) if opened and opened.remembers else None

    async def start(self, name: str) -> Opened:
        """Find a model and have it up before anybody waits for its first word: imported, fetched and loaded."""
        opened = await asyncio.to_thread(self.find, name)
        if name in self._engines:
            await asyncio.to_thread(self._engines[name].start)
        return opened

    def _open(self, name: str) -> Opened:
        prefix, colon, model = name.partition(":")
        if not colon or not model:
            raise InputError(f"{name!r} names no model; write it as provider:model, such as anthropic:claude-sonnet-5")
        if prefix == LOCAL:
            return self._open_local(name)
        provider = self._find_provider(prefix)
        key = find_key(provider, self._environ)
        if not key and provider.needs_key:
            raise InputError(f"{name} needs a key; set {' or '.join(provider.keys)} in the environment or in .env")
        opened = OPENERS[provider.speaks](model, provider.base_url, key or "none", self._share_client())
        shape = "openai" if provider.speaks == "compatible" else provider.speaks
        return Opened(model=opened, shape=shape, keyed=provider.speaks in KEYED)

    def _open_local(self, name: str) -> Opened:
        """Open the embedded engine; it is started by the first request, which may take seconds."""
        from foreword.local.engine import Engine
        from foreword.local.setup import prepare
        from foreword.local.transport import EngineTransport

        engine = self._engines[name] = Engine(prepare(find_facts(name, self._overrides), self._environ))
        client = self._clients[name] = self._make_client(EngineTransport(engine))
        model = open_compatible(name.partition(":")[2], f"http://{ENGINE}/v1", "none", client)
        return Opened(model=model, shape="openai", keyed=True, remembers=engine.remembers)

    def _find_provider(self, prefix: str) -> Provider:
        """Find a provider; the configured address wins over the variable, and that over the usual one."""
        own = self._addresses.get(prefix, "")
        provider = KNOWN.get(prefix)
        if provider is None:
            if not own:
                raise UnknownName("provider", prefix, list_providers(self._addresses), most=MAX_PROVIDERS)
            # Whatever else has an address is taken to speak as OpenAI does, as most servers do.
            return Provider(base_url=own, keys=(f"{prefix.upper().replace('-', '_')}_API_KEY",), needs_key=False)
        given = next((found for variable in provider.addresses if (found := self._environ.get(variable))), "")
        own = own or self._addresses.get(provider.family, "")
        return replace(provider, base_url=own or given or provider.base_url)

    def _share_client(self) -> "httpx2.AsyncClient":
        """Share one client among all models that are reached over the network."""
        if "" not in self._clients:
            import httpx2

            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            self._clients[""] = self._make_client(httpx2.AsyncHTTPTransport(limits=limits))
        return self._clients[""]

    def _make_client(self, transport: "httpx2.AsyncBaseTransport") -> "httpx2.AsyncClient":
        """Make a client that sends nothing but what is ours."""
        import httpx2

        from foreword.runtime.wire import OwnedTransport

        timeout = httpx2.Timeout(self._silence, connect=CONNECT)
        return httpx2.AsyncClient(transport=OwnedTransport(transport), timeout=timeout)

    async def close(self) -> None:
        """Close every connection, and end the embedded engine."""
        self._models.clear()
        self._engines.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


def open_anthropic(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of Anthropic; its SDK's own spans are off, since each call is exported as a span of ours."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    own = AsyncAnthropic(api_key=key, base_url=url or None, http_client=client, max_retries=0, open_telemetry=False)
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=own))


def open_chat(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of OpenAI's chat completions."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    own = AsyncOpenAI(api_key=key, base_url=url or None, http_client=client, max_retries=0)
    return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=own))


def open_compatible(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of a server that speaks as OpenAI does, and knows the limit of an answer by its older name."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    own = AsyncOpenAI(api_key=key, base_url=url, http_client=client, max_retries=0)
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return OpenAIChatModel(model, provider=OpenAIProvider(openai_client=own), profile=profile)


def open_responses(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of OpenAI's responses."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    own = AsyncOpenAI(api_key=key, base_url=url or None, http_client=client, max_retries=0)
    return OpenAIResponsesModel(model, provider=OpenAIProvider(openai_client=own))


def open_gemini(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of Google."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    once = HttpRetryOptions(attempts=1)
    provider = GoogleProvider(api_key=key, base_url=url or None, http_client=client, retry_options=once)
    return GoogleModel(model, provider=provider)


OPENERS: Mapping[str, Callable[[str, str, str, "httpx2.AsyncClient"], "Model"]] = {
    "anthropic": open_anthropic,
    "openai": open_chat,
    "compatible": open_compatible,
    "responses": open_responses,
    "gemini": open_gemini,
}
