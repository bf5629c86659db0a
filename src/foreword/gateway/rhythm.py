"""How often the gateway looks around, and how much it does at once."""

from foreword.frozen import frozen


@frozen
class Rhythm:
    """How often the gateway looks around."""

    look: float = 1.0
    """Seconds between two looks for turns that are due, or that a dead process left."""
    renew: float = 5.0
    """Seconds between two renewals of the leases."""
    grace: float = 20.0
    """Seconds that running turns are given when the gateway ends."""
    most: int = 1_000
    """Turns that run at once."""
    thinking: float = 600.0
    """Seconds that a person who is asked something has to answer."""
    again: tuple[float, ...] = (1.0, 2.0, 4.0, 30.0, 60.0)
    """Seconds after which a channel that broke is started again; the last one again and again."""


USUAL = Rhythm()
