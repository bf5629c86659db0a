"""Read the files that ship inside the package: built-in texts, blueprints and tables."""

import os
from functools import cache

PACKAGE_FOLDER = os.path.dirname(os.path.abspath(__file__))


def read_resource(*parts: str) -> str | None:
    """Return the text of a file that ships with Foreword, or None if it does not exist."""
    try:
        with open(os.path.join(PACKAGE_FOLDER, *parts), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


@cache
def list_prompts() -> frozenset[str]:
    """List the built-in texts, by path without the suffix."""
    home = os.path.join(PACKAGE_FOLDER, "prompts")
    paths = [os.path.join(base, name) for base, _, names in os.walk(home) for name in names]
    return frozenset(os.path.relpath(path, home).removesuffix(".md").replace(os.sep, "/") for path in paths)


def list_blueprints() -> tuple[str, ...]:
    """List the blueprints that ship with Foreword."""
    names = os.listdir(os.path.join(PACKAGE_FOLDER, "blueprints"))
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def read_blueprint(name: str) -> str | None:
    """Return the text of a blueprint that ships with Foreword, or None."""
    return read_resource("blueprints", f"{name}.yaml") if name in list_blueprints() else None


@cache
def read_words(name: str) -> frozenset[str]:
    """Read a list of words of `data/`; a line with # is a comment."""
    lines = (read_resource("data", f"{name}.txt") or "").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
