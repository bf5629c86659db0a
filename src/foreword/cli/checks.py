"""Checks of the installation: Python, the tokenizer, the prices, and git."""

import sys
from collections.abc import Iterator
from typing import Literal

from foreword.frozen import frozen
from foreword.words import Vocabulary

OLDEST = (3, 11)
# What the vocabularies' own encoders give for a short text.
FIXTURE = "hello world"
IDS = {"o200k": [24912, 2375], "cl100k": [15339, 1917]}
PRICED = "anthropic:claude-sonnet-5"


@frozen(eq=True)
class Check:
    """One thing that was looked at."""

    level: Literal["ok", "warning", "error"]
    subject: str
    message: str
    remedy: str = ""


def accept(subject: str, message: str) -> Check:
    """Find nothing wrong."""
    return Check(level="ok", subject=subject, message=message)


def doubt(subject: str, message: str, remedy: str = "") -> Check:
    """Find something that may be meant so."""
    return Check(level="warning", subject=subject, message=message, remedy=remedy)


def refuse(subject: str, message: str, remedy: str = "") -> Check:
    """Find something that has to be mended."""
    return Check(level="error", subject=subject, message=message, remedy=remedy)


def check_installation() -> Iterator[Check]:
    """Check everything that does not depend on a workspace."""
    yield check_python(sys.version_info[:3])
    yield check_tokenizer()
    yield check_prices()
    yield check_git()


def check_python(version: tuple[int, ...]) -> Check:
    """Check that this Python is new enough."""
    shown = ".".join(map(str, version))
    if version >= OLDEST:
        return accept("python", shown)
    return refuse("python", f"{shown} is too old", "install Python 3.11 or newer")


def check_tokenizer() -> Check:
    """Check that the vocabularies load and give the ids that their makers' encoders give."""
    remedy = "reinstall it: pip install --force-reinstall splintr-rs==0.22.0"
    try:
        from foreword.tokens.count import load_tokenizer

        ids = {name: load_tokenizer(Vocabulary(name)).encode_ordinary(FIXTURE) for name in IDS}
    except Exception as error:  # noqa: BLE001 - a broken binary may raise anything
        return refuse("tokenizer", f"splintr-rs does not load: {error}", remedy)
    if wrong := [name for name, expected in IDS.items() if ids[name] != expected]:
        return refuse("tokenizer", f"{' and '.join(wrong)} gives wrong ids, so counts are wrong", remedy)
    return accept("tokenizer", "o200k and cl100k give the right ids")


def check_prices() -> Check:
    """Check that the price table is there."""
    remedy = "reinstall it: pip install --force-reinstall genai-prices"
    try:
        from importlib.metadata import version

        from foreword.prices import find_prices

        known = find_prices(PRICED, {})
        name = f"genai-prices {version('genai-prices')}"
    except Exception as error:  # noqa: BLE001 - whatever a broken package raises, it is to be told
        return refuse("prices", f"genai-prices does not load: {error}", remedy)
    return accept("prices", name) if known else refuse("prices", f"{name} has no price for {PRICED}", remedy)


def check_git() -> Check:
    """Check that git is there to tell the state of a project."""
    from shutil import which

    place = which("git")
    if place:
        return accept("git", place)
    return doubt("git", "not found, so prompts do not tell a project's branch", "install git if you use --project")
