"""Models by name: `provider:model` becomes a model of pydantic-ai whose requests go through our transport.

The libraries are imported when the first model is opened: that takes a second or two.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from foreword.config.environment import Secrets
from foreword.errors import InputError, UnknownName
from foreword.frozen import frozen

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

CONNECT = 10.0  # seconds until a provider has to have taken the call
SILENCE = 120.0  # seconds without a byte after which a call has failed


@frozen(eq=True)
class Provider:
    """Where a provider is reached, and under which variables its key and its address are found."""

    speaks: str = "compatible"
    """The shape of its requests: anthropic, openai, compatible (the same at another house), responses or gemini."""
    base_url: str = ""
    keys: tuple[str, ...] = ()
    """The variables that may hold its key, the usual one first."""
    addresses: tuple[str, ...] = ()
    """The variables that may hold its address."""
    needs_key: bool = True
    family: str = ""
    """The name under which its address is configured too, such as openai for openai-responses."""


OPENAI = Provider(speaks="openai", keys=("OPENAI_API_KEY",), addresses=("OPENAI_BASE_URL",), family="openai")
GOOGLE = Provider(
    speaks="gemini",
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    addresses=("GOOGLE_GEMINI_BASE_URL",),
    family="google",
)
KNOWN: Mapping[str, Provider] = {
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
}


@frozen
class Opened:
    """A model that can be called, and the shape in which its prompt is put into the request."""

    model: "Model"
    shape: str


class Models:
    """Opens models and keeps them; many turns share one connection pool."""

    def __init__(
        self,
        addresses: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | Secrets | None = None,
        silence: float = SILENCE,
    ) -> None:
        self._addresses = addresses or {}
        self._environ = os.environ if environ is None else environ
        self._silence = silence
        self._client: httpx2.AsyncClient | None = None
        self._models: dict[str, Opened] = {}

    def find(self, name: str) -> Opened:
        """Find a model by `provider:model`, or say what is missing."""
        if name not in self._models:
            self._models[name] = self._open(name)
        return self._models[name]

    def _open(self, name: str) -> Opened:
        prefix, colon, model = name.partition(":")
        if not colon or not model:
            raise InputError(f"{name!r} names no model; write it as provider:model, such as anthropic:claude-sonnet-5")
        provider = self._find_provider(prefix)
        key = next((found for variable in provider.keys if (found := self._environ.get(variable))), "")
        if not key and provider.needs_key:
            raise InputError(f"{name} needs a key; set {' or '.join(provider.keys)} in the environment or in .env")
        opened = OPENERS[provider.speaks](model, provider.base_url, key or "none", self._share_client())
        return Opened(model=opened, shape="openai" if provider.speaks == "compatible" else provider.speaks)

    def _find_provider(self, prefix: str) -> Provider:
        """Find a provider; the configured address wins over the variable, and that over the usual one."""
        own = self._addresses.get(prefix, "")
        provider = KNOWN.get(prefix)
        if provider is None:
            if not own:
                raise UnknownName("provider", prefix, [*KNOWN, *self._addresses])
            # Whatever else has an address is taken to speak as OpenAI does, as most servers do.
            return Provider(base_url=own, keys=(f"{prefix.upper().replace('-', '_')}_API_KEY",), needs_key=False)
        given = next((found for variable in provider.addresses if (found := self._environ.get(variable))), "")
        own = own or self._addresses.get(provider.family, "")
        return replace(provider, base_url=own or given or provider.base_url)

    def _share_client(self) -> "httpx2.AsyncClient":
        """Share one client among all models of this process."""
        if self._client is None:
            import httpx2

            from foreword.runtime.wire import OwnedTransport

            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            self._client = httpx2.AsyncClient(
                transport=OwnedTransport(httpx2.AsyncHTTPTransport(limits=limits)),
                timeout=httpx2.Timeout(self._silence, connect=CONNECT),
            )
        return self._client

    async def close(self) -> None:
        """Close every connection."""
        self._models.clear()
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def open_anthropic(model: str, url: str, key: str, client: "httpx2.AsyncClient") -> "Model":
    """Open a model of Anthropic."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    own = AsyncAnthropic(api_key=key, base_url=url or None, http_client=client, max_retries=0)
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
