"""Finding what was written in a configuration, for checks that its shape alone cannot make."""

from collections.abc import Iterator, Mapping

from foreword.config.structure import Keys, Place

Places = Mapping[Keys, Place]
Finding = tuple[Keys, int, str]
"""The keys that lead to a value, its line, and what is wrong with it."""


def find(places: Places, *pattern: str) -> Iterator[tuple[Keys, Place]]:
    """Find the places whose keys fit; a star stands for any one part."""
    for keys, place in places.items():
        pairs = zip(pattern, keys, strict=False)
        if len(keys) == len(pattern) and all(wanted in ("*", part) for wanted, part in pairs):
            yield keys, place


def find_texts(places: Places, *pattern: str) -> Iterator[Finding]:
    """Find the texts whose keys fit, each with its line."""
    for keys, place in find(places, *pattern):
        if isinstance(place.value, str):
            yield keys, place.line, place.value


def list_names(places: Places, kind: str) -> list[str]:
    """List what is named under a key."""
    return [str(keys[-1]) for keys, _ in find(places, kind, "*")]
