"""A simulator of prompt caches: scripted sessions against each provider's rules and prices, design by design."""

from foreword.simulate.reading import find_living, read_scenario
from foreword.simulate.scenario import Scenario
from foreword.simulate.side import Comparison, draw, set_side_by_side

__all__ = ["Comparison", "Scenario", "draw", "find_living", "read_scenario", "set_side_by_side"]
