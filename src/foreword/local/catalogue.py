"""The models that can be fetched, by name (`data/local.yaml`)."""

from collections.abc import Mapping
from functools import cache

from foreword.config.structure import parse
from foreword.errors import UnknownName
from foreword.frozen import frozen
from foreword.shipped import read_shipped


@frozen(eq=True)
class Weights:
    """Weights inside a wheel, and how the model likes to be asked."""

    package: str
    version: str
    file: str
    sha256: str
    size: int
    template: str = ""
    temperature: float | None = None
    top_p: float | None = None
    repeat_penalty: float | None = None
    repeat_ngram: int = 0


@frozen(eq=True)
class Catalogue:
    """The catalogue as it stands in data/local.yaml."""

    models: Mapping[str, Weights]


def find_weights(name: str) -> Weights:
    """Find the weights of a model by its name."""
    known = read_catalogue()
    if name not in known:
        raise UnknownName("local model", name, [*known, "/path/to/model.gguf"])
    return known[name]


@cache
def read_catalogue() -> Mapping[str, Weights]:
    """Read the catalogue that ships with the package."""
    return parse(read_shipped("data", "local.yaml") or "", Catalogue, "local.yaml").models
