"""Opens models by name: `provider:model` becomes a provider at an address, in its wire shape.

The HTTP client and the wire shapes are imported when the first model is opened: commands that only build a prompt need
neither.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from foreword.agent.conversation import ImagePart
from foreword.config.env import Secrets
from foreword.config.schema import Config, ModelOverride
from foreword.errors import InputError, UnknownName
from foreword.tokens.models import ModelFacts
from foreword.tokens.models import find_model as find_facts
from foreword.types import frozen

if TYPE_CHECKING:
    import httpx2

    from foreword.agent.providers.embedded_engine import EmbeddedEngine
    from foreword.agent.providers.provider import Provider, WireShape


EMBEDDED_PREFIX = "local"  # the prefix of embedded models
MAX_LISTED_PROVIDERS = 40  # listed in an error


@frozen(eq=True)
class KnownProvider:
    """A provider: its wire shape, its address, and the environment variables of its key and address."""

    speaks: str = "compatible"
    """Its wire shape, a key of `SHAPES`."""
    base_url: str = ""
    keys: tuple[str, ...] = ()
    """The environment variables of its key, the preferred one first."""
    addresses: tuple[str, ...] = ()
    """The environment variables of its address."""
    needs_key: bool = True
    family: str = ""
    """The provider that owns the ids and signatures of its answers, and another configuration name for its address."""


OPENAI = KnownProvider(
    speaks="openai",
    base_url="https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    addresses=("OPENAI_BASE_URL",),
    family="openai",
)
GOOGLE = KnownProvider(
    speaks="gemini",
    base_url="https://generativelanguage.googleapis.com",
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    addresses=("GOOGLE_GEMINI_BASE_URL",),
    family="google",
)


def describe_local(name: str, port: int) -> KnownProvider:
    """Describe a server that people run themselves."""
    return KnownProvider(
        base_url=f"http://localhost:{port}/v1",
        keys=(f"{name}_API_KEY",),
        addresses=(f"{name}_BASE_URL",),
        needs_key=False,
    )


KNOWN_PROVIDERS: Mapping[str, KnownProvider] = {
    "anthropic": KnownProvider(
        speaks="anthropic",
        base_url="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY",),
        addresses=("ANTHROPIC_BASE_URL",),
    ),
    "openai": OPENAI,
    "openai-chat": OPENAI,
    "openai-responses": replace(OPENAI, speaks="responses"),
    "google": GOOGLE,
    "google-gla": GOOGLE,
    "gemini": GOOGLE,
    "azure": KnownProvider(
        speaks="azure", keys=("AZURE_OPENAI_API_KEY",), addresses=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL")
    ),
    "bedrock": KnownProvider(keys=("AWS_BEARER_TOKEN_BEDROCK",), addresses=("BEDROCK_BASE_URL",)),
    "google-vertex": KnownProvider(
        speaks="gemini",
        base_url="https://aiplatform.googleapis.com/v1/publishers/google",
        keys=("VERTEX_API_KEY",),
        addresses=("VERTEX_BASE_URL",),
    ),
    "deepseek": KnownProvider(base_url="https://api.deepseek.com", keys=("DEEPSEEK_API_KEY",)),
    "groq": KnownProvider(base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
    "mistral": KnownProvider(base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",)),
    "openrouter": KnownProvider(base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
    "together": KnownProvider(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "xai": KnownProvider(base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
    "ollama": describe_local("OLLAMA", 11434),
    "lmstudio": describe_local("LMSTUDIO", 1234),
    "llamacpp": describe_local("LLAMACPP", 8080),
    "vllm": describe_local("VLLM", 8000),
}


def list_provider_names(configured: Iterable[str]) -> set[str]:
    """List the valid provider prefixes of a model name."""
    return {*KNOWN_PROVIDERS, *configured, EMBEDDED_PREFIX}


def find_api_key(provider: KnownProvider, environ: Mapping[str, str] | Secrets) -> str:
    """Return the API key of a provider from its environment variables; empty if none is set."""
    return next((found for variable in provider.keys if (found := environ.get(variable))), "")


CONNECT_TIMEOUT_S = 10.0  # connect timeout in seconds
ENGINE_HOST = "engine"  # the placeholder host of the embedded engine
READ_TIMEOUT_S = 120.0  # read timeout in seconds
CACHE_KEY_PROVIDERS = ("openai", "responses", "azure")  # wire shapes that accept a cache key per conversation


@frozen
class ModelWire:
    """How requests to a model are written."""

    wire: "WireShape"
    family: str
    """The provider that owns the ids and signatures of its answers."""
    keyed: bool = False
    """Whether requests carry a cache key of the conversation."""
    find_cache_start: Callable[[datetime], datetime] | None = None
    """Returns the start of the current cache lifetime, if it is known: a restarted engine loses its cache."""

    @property
    def shape(self) -> str:
        """The name of its envelopes."""
        return self.wire.name


@frozen
class OpenModel(ModelWire):
    """An open model: it sends the requests as well."""

    provider: "Provider"
    base_url: str = ""

    def find_unsupported_format(self, model: str, wanted: str, *, tools: bool) -> str:
        """Return why the model does not take a response format; empty if it does."""
        return self.wire.find_unsupported_format(model, str(json.loads(wanted)["type"]), tools=tools) if wanted else ""

    def find_unsupported_image(self, facts: ModelFacts, images: Iterable[ImagePart]) -> str:
        """Return why the model does not take images; empty if it does."""
        model = facts.name
        if not facts.images:
            named = json.dumps(model)
            return f"{model} takes no images; if yours does, set models: {{{named}: {{images: true}}}} in foreword.yaml"
        other = sorted({image.media_type for image in images} - self.wire.image_types)
        return f"{model} does not take images of the type {', '.join(other)}" if other else ""

    def check_format(self, model: str, wanted: str, *, tools: bool) -> None:
        """Raise InputError if the model does not take a response format."""
        if why := self.find_unsupported_format(model, wanted, tools=tools):
            raise InputError(why)


def find_model_wire(name: str, configured: Collection[str] = ()) -> ModelWire:
    """Return how requests to a model are written, without an address or a key; `configured` are further providers."""
    from foreword.agent.providers.wire_shapes import WIRE_SHAPES

    prefix = parse_model_name(name)[0]
    known = KNOWN_PROVIDERS.get(prefix) or (KnownProvider() if prefix in {*configured, EMBEDDED_PREFIX} else None)
    if known is None:
        raise UnknownName("provider", prefix, list_provider_names(configured), most=MAX_LISTED_PROVIDERS)
    keyed = known.speaks in CACHE_KEY_PROVIDERS or prefix == EMBEDDED_PREFIX
    return ModelWire(wire=WIRE_SHAPES[known.speaks], family=known.family or prefix, keyed=keyed)


def parse_model_name(name: str) -> tuple[str, str]:
    """Split `provider:model`; raise InputError for any other form."""
    prefix, colon, model = name.partition(":")
    if not colon or not model:
        raise InputError(f"{name!r} is not a model name; use provider:model, such as anthropic:claude-sonnet-5")
    return prefix, model


def find_provider_address(
    name: str, provider: KnownProvider, configured: Mapping[str, str], environ: Mapping[str, str] | Secrets
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
        """Open a model ahead of its first request: import the HTTP client, fetch and load its weights."""
        import asyncio  # late: commands that only build a prompt need no event loop

        opened = await asyncio.to_thread(self.find, name)
        if name in self._engines:
            await asyncio.to_thread(self._engines[name].start)
        return opened

    def _open(self, name: str) -> OpenModel:
        from foreword.agent.providers.http_provider import HttpProvider

        prefix, model = parse_model_name(name)
        if prefix == EMBEDDED_PREFIX:
            return self._open_local(name)
        known = self._find_provider(prefix)
        key = find_api_key(known, self._environ)
        if not key and known.needs_key:
            raise InputError(f"{name} needs an API key; set {' or '.join(known.keys)} in the environment or in .env")
        if not known.base_url:
            raise InputError(
                f"{name} needs the address of your own endpoint; set {' or '.join(known.addresses)}, or"
                f" providers.{prefix}.base_url in foreword.yaml"
            )
        if not known.base_url.startswith(("http://", "https://")):
            raise InputError(f"the address of {prefix} is {known.base_url!r}; it must begin with http:// or https://")
        if not key.isascii():
            raise InputError(f"the API key for {name} has a letter that no key has; check {' or '.join(known.keys)}")
        own = find_model_wire(name, self._addresses)
        named = f"{own.family}:{model}"
        return OpenModel(
            provider=HttpProvider(self._share_client(), own.wire, known.base_url, named, key or "none"),
            wire=own.wire,
            family=own.family,
            keyed=own.keyed,
            base_url=known.base_url,
        )

    def _open_local(self, name: str) -> OpenModel:
        """Open the embedded engine; the first request starts it, which may take seconds."""
        from foreword.agent.providers.embedded_engine import EmbeddedEngine, EngineTransport
        from foreword.agent.providers.embedded_weights import make_engine_settings
        from foreword.agent.providers.http_provider import HttpProvider

        engine = self._engines[name] = EmbeddedEngine(
            make_engine_settings(find_facts(name, self._overrides), self._environ)
        )
        client = self._clients[name] = self._make_client(EngineTransport(engine))
        own = find_model_wire(name)
        return OpenModel(
            provider=HttpProvider(client, own.wire, f"http://{ENGINE_HOST}/v1", name, "none"),
            wire=own.wire,
            family=own.family,
            keyed=own.keyed,
            find_cache_start=engine.find_cache_start,
        )

    def _find_provider(self, prefix: str) -> KnownProvider:
        """Return a provider; its configured address overrides the environment, which overrides the default."""
        provider = KNOWN_PROVIDERS.get(prefix)
        if provider is None:
            own = self._addresses.get(prefix)
            if not own:
                raise UnknownName("provider", prefix, list_provider_names(self._addresses), most=MAX_LISTED_PROVIDERS)
            # An unknown provider with an address is treated as OpenAI-compatible, as most servers are.
            return KnownProvider(base_url=own, keys=(f"{prefix.upper().replace('-', '_')}_API_KEY",), needs_key=False)
        return replace(provider, base_url=find_provider_address(prefix, provider, self._addresses, self._environ))

    def _share_client(self) -> "httpx2.AsyncClient":
        """Return the client that all network models share."""
        if "" not in self._clients:
            import httpx2

            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            self._clients[""] = self._make_client(httpx2.AsyncHTTPTransport(limits=limits))
        return self._clients[""]

    def _make_client(self, transport: "httpx2.AsyncBaseTransport") -> "httpx2.AsyncClient":
        import httpx2

        timeout = httpx2.Timeout(self._read_timeout, connect=CONNECT_TIMEOUT_S)
        return httpx2.AsyncClient(transport=transport, timeout=timeout)

    async def close(self) -> None:
        """Close all connections and stop the embedded engines."""
        self._models.clear()
        self._engines.clear()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()
