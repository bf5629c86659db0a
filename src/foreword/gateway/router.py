"""The router: what becomes of what a channel heard, as a value with a reason.

    decision = route(heard, config, paired)  # a turn, overheard, ignored, or something that is answered at once

Who wrote is known by the channel's own id alone: what somebody calls themselves, how a group is called and what a
message says change neither whose words they are nor what may be seen. What is not known is public.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256

from foreword.config.company import OWN
from foreword.config.pattern import make_search
from foreword.config.people import Room
from foreword.config.schema import Config
from foreword.frozen import frozen
from foreword.gateway.channel import OPEN, Chat, Heard
from foreword.gateway.commands import Command, read_command
from foreword.gateway.message import Incoming, Proof
from foreword.gateway.pairing import Claim, read_claim
from foreword.signal import find_noise
from foreword.trust.clearance import bound_of_situation
from foreword.words import Word

SCHEDULED = {"scheduled": "system"}
NOWHERE = "nowhere"
_HELP = re.compile(r"/(?:help|start(?:@\w+)?(?:\s+\S+)?|help@\w+)", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9+@_-][A-Za-z0-9._:+@-]{0,99}")


class Route(Word):
    """What becomes of a message."""

    TURN = "turn"
    """The agent answers it."""
    OVERHEARD = "overheard"
    """It is kept for the room, whose next turn hears it."""
    IGNORED = "ignored"
    PAIRING = "pairing"
    """It may hold a code that makes its sender somebody, and is answered without the agent."""
    COMMAND = "command"
    """It is a command such as /plan, and is answered by the gateway."""
    HELP = "help"
    """It is what an app sends when somebody begins or asks for help, and is answered without the agent."""


@frozen(eq=True)
class Decision:
    """What becomes of a message, and why."""

    route: Route
    reason: str
    incoming: Incoming
    """The message as a turn would have it: who, where, and as whom it is answered."""
    claim: Claim = Claim()
    """The codes that it shows; in company everybody has seen them, so they are good no more."""
    command: Command | None = None
    """The command that it is, if any."""


def route(heard: Heard, config: Config, paired: str = "") -> Decision:
    """Decide what becomes of a message; `paired` is the user that its sender's identity was paired with."""
    incoming = place(heard, config, paired)
    family = find_family(heard.channel)
    claim = Claim() if family in OWN else read_claim(heard, known=incoming.user in config.users)
    if claim.asked:
        return Decision(route=Route.PAIRING, reason="it asks to be paired", incoming=incoming, claim=claim)
    speaks = heard.chat is Chat.PRIVATE or heard.called
    if family not in OWN and speaks and _HELP.fullmatch(heard.text.strip()):
        return Decision(route=Route.HELP, reason="it asks how this works", incoming=incoming)
    command = read_command(heard.text) if family not in OWN and speaks else None
    if command and (command.decides or incoming.user in config.users):
        return Decision(route=Route.COMMAND, reason="it is a command", incoming=incoming, command=command)
    if heard.address and not heard.text.strip():
        return Decision(route=Route.IGNORED, reason="it has no words", incoming=incoming)
    chosen, reason = choose(heard, incoming, config)
    return Decision(route=chosen, reason=reason, incoming=incoming, claim=claim)


def place(heard: Heard, config: Config, paired: str = "") -> Incoming:
    """Say who speaks and where, in the words of the configuration."""
    room = find_room(heard, config)
    own = find_family(heard.channel) in OWN
    return Incoming(
        text=heard.text,
        user=find_user(heard, config, paired),
        channel=heard.channel,
        agent=heard.agent,
        situation=find_situation(heard, room, config),
        room=room,
        session=heard.session,
        client=heard.client,
        project=heard.project,
        mode=heard.mode,
        cwd=heard.cwd,
        plan=heard.plan,
        before=heard.before,
        traceparent=heard.traceparent,
        request=heard.request,
        key=heard.key,
        origin="" if own else f"{heard.place}/{heard.sender}",
        proof=None if own else Proof(sender=heard.sender, place=heard.place),
        asks=heard.asks,
        address=heard.address,
    )


def choose(heard: Heard, incoming: Incoming, config: Config) -> tuple[Route, str]:
    """Choose whether the agent answers."""
    room = config.rooms.get(incoming.room, Room())
    private = heard.chat is Chat.PRIVATE
    if not private and not heard.called:
        if room.trigger == "mention":
            return Route.OVERHEARD, "nobody speaks to the agent, and the room answers mentions alone"
        if room.trigger == "regex" and not compile_search(room.pattern)(heard.text):
            return Route.OVERHEARD, "nobody speaks to the agent, and the pattern of the room does not fit"
    situation = config.situations.get(incoming.situation)
    answers = situation.answer_noise if situation else None
    # Who fetches the reply waits for one, whatever they said.
    if heard.address and not (private or heard.called if answers is None else answers):
        signal = find_noise(heard.text)
        if signal:
            return Route.IGNORED if private else Route.OVERHEARD, f"it is noise: {signal}"
    if private:
        return Route.TURN, "it was written in private"
    if heard.called:
        return Route.TURN, "it speaks to the agent"
    return Route.TURN, "the room answers everything" if room.trigger == "always" else "the pattern of the room fits"


def find_family(channel: str) -> str:
    """Find the family of a channel, which is the part before the first colon."""
    return channel.partition(":")[0]


def find_identity(heard: Heard) -> str:
    """Find who the channel says has written; nothing where it knows nobody."""
    return f"{find_family(heard.channel)}:{heard.sender}" if heard.sender else ""


def find_user(heard: Heard, config: Config, paired: str = "") -> str:
    """Find the user who has written; a stranger keeps their identity, which is the name of no user."""
    identity = find_identity(heard)
    if find_family(heard.channel) in OWN:
        return heard.sender
    for name, user in config.users.items():
        if identity in user.identities:
            return name
    return paired if identity and paired in config.users else identity


def find_room(heard: Heard, config: Config) -> str:
    """Find the room that a place is: a configured one, or one named by the ids of channel and place."""
    if heard.chat is Chat.PRIVATE:
        return ""
    family = find_family(heard.channel)
    if family in OWN and heard.place:  # the owner names a room at the shell as the configuration does
        return heard.place
    written = f"{family}:{heard.place}"
    for name, room in config.rooms.items():
        if heard.place and written in room.places:
            return name
    # Ids become names of folders, so one that cannot be such a name is known by its hash.
    plain = _PLAIN.fullmatch(heard.place or NOWHERE) and ".." not in heard.place
    digest = sha256(heard.place.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{family}:{heard.place or NOWHERE}" if plain else f"{family}:{digest}"


def find_situation(heard: Heard, room: str, config: Config) -> str:
    """Find the situation of a place; what a message asks for counts where that allows no more."""
    known = config.rooms.get(room)
    if heard.chat is Chat.PRIVATE:
        own = SCHEDULED.get(find_family(heard.channel), "dm")
    elif heard.chat is Chat.GROUP:
        own = known.situation if known else "group"
    else:
        own = choose_lower(OPEN, known.situation, config) if known else OPEN
    return choose_lower(own, heard.situation, config) if heard.situation else own


def choose_lower(own: str, other: str, config: Config) -> str:
    """Choose the other situation where it allows no more than one's own."""
    lower = bound_of_situation(other, config).level <= bound_of_situation(own, config).level
    return other if lower else own


@lru_cache(maxsize=256)
def compile_search(pattern: str) -> Callable[[str], bool]:
    """Make the search of a room's pattern."""
    return make_search(pattern)
