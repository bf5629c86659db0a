"""The weights of an embedded model, fetched before it is asked: a bar and an answer cannot share the screen."""

from collections.abc import Mapping

from foreword.config import Config
from foreword.runtime.providers import LOCAL
from foreword.tokens import find


def fetch_weights(model: str, config: Config, environ: Mapping[str, str]) -> None:
    """Fetch what a model needs that is not here yet; one that is reached over the network needs nothing."""
    if model.partition(":")[0] == LOCAL:
        from foreword.local.setup import locate, prepare

        locate(prepare(find(model, config.models), environ))
