"""What ships inside the package: built-in texts, blueprints and tables."""

import os
from functools import cache

HOME = os.path.dirname(os.path.abspath(__file__))


def read_shipped(*parts: str) -> str | None:
    """Return the text of a file that ships with Foreword, or None where there is none."""
    try:
        with open(os.path.join(HOME, *parts), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


@cache
def list_prompts() -> frozenset[str]:
    """Name the built-in texts, by their paths without the ending."""
    home = os.path.join(HOME, "prompts")
    paths = [os.path.join(base, name) for base, _, names in os.walk(home) for name in names]
    return frozenset(os.path.relpath(path, home).removesuffix(".md").replace(os.sep, "/") for path in paths)


def list_blueprints() -> tuple[str, ...]:
    """Name the blueprints that ship with Foreword."""
    names = os.listdir(os.path.join(HOME, "blueprints"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def read_blueprint(name: str) -> str | None:
    """Read a blueprint that ships with Foreword."""
    return read_shipped("blueprints", f"{name}.yaml") if name in list_blueprints() else None
