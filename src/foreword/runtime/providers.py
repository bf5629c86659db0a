"""Providers by name: how each one speaks, where it is reached, and which variables hold its key."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from foreword.config.environment import Secrets
from foreword.frozen import frozen

LOCAL = "local"  # what stands before the colon of an embedded model
MAX_PROVIDERS = 40  # that an error lists
KEYED = ("openai", "responses")  # those who take a key that names the conversation a request belongs to


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


def list_providers(configured: Iterable[str]) -> set[str]:
    """List the names that may stand before the colon of a model."""
    return {*KNOWN, *configured, LOCAL}


def find_key(provider: Provider, environ: Mapping[str, str] | Secrets) -> str:
    """Find the key of a provider under one of its variables."""
    return next((found for variable in provider.keys if (found := environ.get(variable))), "")
