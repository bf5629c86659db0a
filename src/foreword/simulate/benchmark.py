"""The benchmark of caches: the living session at each provider, beside other designs and the oracle."""

from collections.abc import Iterator, Sequence

from foreword.figure import Figure
from foreword.simulate.reading import find_living
from foreword.simulate.scenario import Scenario
from foreword.simulate.side import ORACLE, OURS, SPLIT, STRING, draw, set_side_by_side

# One for each rule of data/caches.yaml.
MODELS = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4",
    "openai:gpt-5.6",
    "google:gemini-3-pro-preview",
    "deepseek:deepseek-chat",
    "xai:grok-4",
    "local:smollm2",
)
READ, OVER = 97.0, 1.05  # per cent that are to be read; what the oracle costs, times this, is the most


def run(models: Sequence[str] = MODELS, scenario: Scenario | None = None) -> Iterator[str | Figure]:
    """Play a session, the living one unless another is given, at each provider: a table, and figures with aims."""
    session = scenario or find_living()
    for model in models:
        compared = set_side_by_side(session, model, {})
        yield draw(compared)
        shares = {name: f"{result.share:.1%}" for name, result in compared.results.items()}
        others = ", ".join(f"{name} {shares[name]}" for name in (STRING, SPLIT, ORACLE))
        unread = 100 * (1 - compared.results[OURS].share)
        yield Figure(name=f"{model}, not read", value=unread, unit="%", aim=100 - READ, baseline=f"read: {others}")
        yield Figure(name=f"{model}, of the oracle", value=compared.divide(OURS, ORACLE), unit="×", aim=OVER)
        yield Figure(name=f"{model}, of the split", value=compared.divide(OURS, SPLIT), unit="×", aim=1.0)
