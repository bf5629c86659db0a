"""The settings of what lives while the agents run."""

from typing import Literal

from foreword.frozen import frozen


@frozen(eq=True)
class BulletinSettings:
    """A digest of memory that travels with messages, one for each agent and clearance."""

    hours: float = 0.0
    """The least number of hours between two digests; 0 makes none, and one is made only if memory has changed."""
    by: Literal["model", "rule"] = "model"
    """Who makes it: the agent's own model, at the price of a call each, or a rule, which also stands in for a model."""
