"""The part of `foreword.yaml` that says who is who and which place is what."""

from typing import Literal

from foreword.frozen import frozen
from foreword.words import Trust


@frozen(eq=True)
class User:
    """A person whom the workspace knows."""

    trust: Trust = Trust.PUBLIC
    """The most this person may ever see."""
    timezone: str = ""
    """Their zone, such as Europe/Paris."""
    identities: tuple[str, ...] = ()
    """Who they are on the channels, such as telegram:1001; further ones come by `foreword pair`."""


@frozen(eq=True)
class Situation:
    """A kind of place in which the agent speaks."""

    ceiling: Trust = Trust.PUBLIC
    """The most that anybody may see in it."""
    prompt_overlay: str = ""
    """A file with the rules of this situation."""
    answer_noise: bool | None = None
    """Whether a greeting or a mere "ok" is answered; if unset, in private and where the agent is spoken to."""


@frozen(eq=True)
class Room:
    """A place where several people read every reply."""

    ceiling: Trust | None = None
    """The most that may be seen here, if lower than its situation allows."""
    situation: str = "group"
    """The situation that governs it."""
    group: str = ""
    """The folder below groups/ with its own files; its own name if unset."""
    timezone: str = ""
    """The zone its people live by; nobody's own zone is used in a room."""
    places: tuple[str, ...] = ()
    """Where it is on the channels, such as telegram:-100123."""
    members: tuple[str, ...] | None = None
    """The users whom it knows; anybody else is public in it. If unset, everybody is who they are."""
    trigger: Literal["mention", "always", "regex"] = "mention"
    """What the agent answers: what speaks to it, everything, or what fits the pattern, too."""
    pattern: str = ""
    """The regular expression of trigger regex; it is looked for in the first 1,000 characters of a message."""


@frozen(eq=True)
class Strangers:
    """How often people are answered whom the workspace does not know, in private and where no room is listed."""

    turns: int = 20
    """Turns of one of them in an hour; 0 answers nobody."""
    all_turns: int = 100
    """Turns of all of them together on a channel in an hour."""
