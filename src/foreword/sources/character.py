"""What is kept of an agent beside its files: a soul and an identity that somebody set while it runs."""

from foreword.config.schema import Identity
from foreword.frozen import frozen
from foreword.words import Trust

KNOWN_FROM = (
    Trust.FAMILIAR
)  # who may know the name that an agent was given this way; a stranger meets the configured one


@frozen(eq=True)
class Character:
    """Who an agent is by what is kept of it; it wins over the configuration and the files, where it says something."""

    soul: str = ""
    identity: Identity | str | None = None


UNKEPT = Character()


def keep_nothing(_: str) -> Character:
    """Know nothing of an agent beside its files."""
    return UNKEPT
