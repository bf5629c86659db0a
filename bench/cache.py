"""The living session at each provider: what is read from the cache, what it costs, and beside which other designs."""

import sys
from collections.abc import Iterator

from bench.figure import Figure
from foreword.simulate import draw, find_living, set_side_by_side
from foreword.simulate.side import NONE, ORACLE, OURS, SPLIT, STRING

MODELS = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4",
    "openai:gpt-5.6",
    "google:gemini-3-pro-preview",
    "deepseek:deepseek-chat",
    "local:smollm2",
)
READ, OVER = 97.0, 1.05  # per cent that are to be read; what the oracle costs, times this, is the most


def run(models: tuple[str, ...] = MODELS) -> Iterator[Figure]:
    """Play the living session at each provider."""
    scenario = find_living()
    for model in models:
        compared = set_side_by_side(scenario, model, {})
        shares = {name: f"{result.share * 100:.1f} %" for name, result in compared.results.items()}
        others = ", ".join(f"{name} {shares[name]}" for name in (STRING, SPLIT, ORACLE))
        share = compared.results[OURS].share * 100
        yield Figure(name=f"{model}, not read", value=100 - share, unit="%", aim=100 - READ, baseline=f"read {others}")
        unit = "tok" if compared.free else "USD"
        amounts = ", ".join(f"{name} {compared.weigh(name):,.4g}" for name in (NONE, STRING, SPLIT, ORACLE))
        yield Figure(name=f"{model}, input", value=compared.weigh(OURS), unit=unit, baseline=amounts)
        yield Figure(name=f"{model}, of the oracle", value=compared.divide(OURS, ORACLE), unit="×", aim=OVER)
        beside = f"{1 / compared.divide(OURS, SPLIT):.2f} times cheaper than the split"
        yield Figure(
            name=f"{model}, no cache by ours", value=1 / compared.divide(OURS, NONE), unit="×", baseline=beside
        )


if __name__ == "__main__":
    for named in sys.argv[1:] or MODELS:
        print(draw(set_side_by_side(find_living(), named, {})), flush=True)
