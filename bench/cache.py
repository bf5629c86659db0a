"""The cache benchmark: the living session at each provider, compared with other designs and the oracle."""

from collections.abc import Iterator, Sequence

from bench.figure import Figure
from foreword.promptcache.scenario import Scenario, load_shipped_scenario
from foreword.promptcache.simulation import ORACLE, OURS, SPLIT, STRING, compare_designs, format_comparison

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
MIN_READ_PERCENT, MAX_COST_RATIO = 97.0, 1.05  # targets: minimum percentage read; maximum cost relative to the oracle


def run(models: Sequence[str] = MODELS, scenario: Scenario | None = None) -> Iterator[str | Figure]:
    """Play a session (default: the living one) at each provider; yield a table and figures with targets."""
    session = scenario or load_shipped_scenario()
    for model in models:
        compared = compare_designs(session, model, {})
        yield format_comparison(compared)
        shares = {name: f"{result.share:.1%}" for name, result in compared.results.items()}
        others = ", ".join(f"{name} {shares[name]}" for name in (STRING, SPLIT, ORACLE))
        unread = 100 * (1 - compared.results[OURS].share)
        yield Figure(
            name=f"{model}, not read", value=unread, unit="%", aim=100 - MIN_READ_PERCENT, baseline=f"read: {others}"
        )
        yield Figure(
            name=f"{model}, of the oracle", value=compared.divide_costs(OURS, ORACLE), unit="×", aim=MAX_COST_RATIO
        )
        yield Figure(name=f"{model}, of the split", value=compared.divide_costs(OURS, SPLIT), unit="×", aim=1.0)
