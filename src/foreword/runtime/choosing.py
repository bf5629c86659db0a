"""Chooses the model that answers: the one that is named, or the embedded one where nothing else can."""

from collections.abc import Mapping, Sequence

from foreword.config.environment import Secrets
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.local.setup import MISSING, is_installed
from foreword.runtime.discovery import ModelServer
from foreword.runtime.providers import KNOWN, LOCAL, find_key

EMBEDDED = f"{LOCAL}:smollm2"


@frozen(eq=True)
class Chosen:
    """A model, and what the person is to be told about the choice; nothing where it is the one that was named."""

    model: str
    reason: str = ""
    why: str = ""
    """Why the named model cannot answer."""


def choose_model(name: str, config: Config, environ: Mapping[str, str] | Secrets) -> Chosen:
    """Choose the named model; the embedded one if none is named, or if its key and every other one is missing."""
    prefix = name.partition(":")[0]
    provider = KNOWN.get(prefix)
    if not name:
        why = "no model is named"
    elif provider is None or not provider.needs_key or is_meant(prefix, config, environ):
        return Chosen(model=name)
    else:
        why = f"no key is set for {prefix}"
    if not is_installed():
        keys = f"set {' or '.join(provider.keys)}, or " if provider else ""
        raise InputError(f"{why}; {keys}use the embedded model: {MISSING.partition(': ')[2]}")
    return Chosen(model=EMBEDDED, reason=f"{why}; answering with the embedded {EMBEDDED}", why=why)


def describe_embedded(chosen: Chosen, name: str, servers: Sequence[ModelServer], switch: str) -> str:
    """Say in one line that a very small model answers, and how to get a real one; `switch` is what chooses a model."""
    provider = KNOWN.get(name.partition(":")[0])
    ways = [f"set {provider.keys[0]}"] if provider and provider.keys else []
    ways += [f"{switch} {one.models[0].name} ({one.title} runs on this machine)" for one in servers if one.models]
    ways = ways or [f"{switch} provider:name"]
    return (
        f"{chosen.why}, so a 135M model answers: trust the quotes from your files more than its words. "
        f"For a real one: {', or '.join(ways)}"
    )


def is_meant(prefix: str, config: Config, environ: Mapping[str, str] | Secrets) -> bool:
    """Whether somebody has set up providers: then a missing key is a mistake, which opening the model names."""
    return prefix in config.providers or any(find_key(known, environ) for known in KNOWN.values())
