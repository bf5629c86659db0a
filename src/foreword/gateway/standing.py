"""Standing: whether those who wrote, and the places they wrote in, are still what they were then.

Between a message and its reply an identity can be taken back, and a place can become another room. What was found for
somebody is not delivered to whoever is left at their address.
"""

import sqlite3

from foreword.config.schema import Config
from foreword.gateway.channel import Chat, Heard
from foreword.gateway.letter import Letter
from foreword.gateway.message import Incoming
from foreword.gateway.pairing import find_paired
from foreword.gateway.router import find_identity, find_room, find_user
from foreword.gateway.schedule.destination import list_addresses

CHANGED = "What you may see here has changed since you wrote, so this is not answered. Please write again."


def is_same(state: sqlite3.Connection, incoming: Incoming, config: Config) -> bool:
    """Whether a message would be taken for the same person's now, and for one of the same room.

    Who was a stranger then was told nothing that they may not know now.
    """
    proof = incoming.proof
    if proof is None:
        return True
    chat = Chat.GROUP if incoming.room else Chat.PRIVATE
    heard = Heard(channel=incoming.channel, sender=proof.sender, text="", chat=chat, place=proof.place)
    identity = find_identity(heard)
    known = (identity, find_user(heard, config, find_paired(state, identity)))
    return incoming.user in known and find_room(heard, config) == incoming.room


def may_have(state: sqlite3.Connection, letter: Letter, incoming: Incoming, config: Config) -> bool:
    """Whether whoever is at the address of a letter may still have what a turn found."""
    if letter.text == CHANGED:
        return True
    reply = letter.key == letter.turn
    if reply and not incoming.errand and not incoming.through:
        return is_same(state, incoming, config)
    if reply and incoming.room:
        return True
    return (letter.channel, letter.address) in list_addresses(state, config, incoming.user)
