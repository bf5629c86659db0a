"""What is kept of an agent beside its files: a soul and an identity that somebody set, and what it has taken on."""

from foreword.config.schema import Identity, Responsibility
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
    responsibilities: tuple[Responsibility, ...] = ()
    """What it has taken on while it runs, beside what the configuration has."""


UNKEPT = Character()


def keep_nothing(_: str) -> Character:
    """Know nothing of an agent beside its files."""
    return UNKEPT
