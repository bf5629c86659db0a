"""Checks a message before it is accepted: what cannot be one is refused in words that say why."""

from foreword.gateway.message import BadMessage, Incoming
from foreword.gateway.request import write_request

LONGEST_FACT = 100  # characters of a zone, a language or a location
LONGEST = 1_000_000  # characters of a message; longer ones fit no model


def check(incoming: Incoming) -> None:
    """Refuse a message that cannot be one."""
    if not incoming.text.strip():
        raise BadMessage("text", "the message is empty")
    if len(incoming.text) > LONGEST:
        raise BadMessage("text", f"the message has {len(incoming.text):,} characters, and {LONGEST:,} are the most")
    if incoming.room.startswith("("):  # so is company called that nobody has named
        raise BadMessage("room", "room names must not start with '('")
    named = (incoming.user, incoming.channel, incoming.agent, incoming.situation, incoming.room, incoming.session)
    told = (incoming.client.zone, incoming.client.language, incoming.client.location)
    if any(len(fact) > LONGEST_FACT for fact in told):
        raise BadMessage("client", f"what a device says of its person has {LONGEST_FACT:,} characters at most")
    if any("\x00" in text for text in (incoming.text, *named, *told, incoming.key)):
        raise BadMessage("text", "the message has a NUL character in it")
    try:
        f"{write_request(incoming)}{incoming.text}".encode()
    except UnicodeEncodeError:
        raise BadMessage("text", "the message contains an unpaired surrogate") from None
