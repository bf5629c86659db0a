"""The hooks that are installed, of which a configuration names those that it wants."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from foreword.blueprint.hook import GROUP, Hook
from foreword.config import Config
from foreword.config.structure import structure
from foreword.errors import ConfigError, Fault, InputError, suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def find_hooks(names: Sequence[str], text: str, file: str) -> Mapping[str, Hook]:
    """Load the hooks that a configuration's text names; an installed package alone changes no prompt."""
    if not names:
        return {}
    from importlib.metadata import entry_points

    from foreword.config.composer import compose

    installed = {point.name: point for point in entry_points(group=GROUP)}
    if unknown := [at for at, name in enumerate(names) if name not in installed]:
        places = structure(compose(text, file), Config, file).places
        raise ConfigError(
            [
                Fault(
                    file=file,
                    line=places["prompt", "hooks", at].line,
                    message=f"unknown hook {names[at]!r}{suggest(names[at], sorted(installed))}",
                )
                for at in unknown
            ]
        )
    return {name: load_hook(name, installed[name]) for name in names}


def load_hook(name: str, point: "EntryPoint") -> Hook:
    """Load one hook; whatever goes wrong in somebody's own module is told with the hook's name."""
    try:
        hook = point.load()
    except Exception as error:  # noqa: BLE001 - importing somebody's own code may raise anything
        raise InputError(
            f"hook {name!r} cannot be loaded from {point.value}: {type(error).__name__}: {error}"
        ) from None
    if not callable(hook):
        raise InputError(f"hook {name!r} is {point.value}, which is no function")
    found: Hook = hook
    return found
