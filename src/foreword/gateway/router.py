"""The router: decides what happens to a message of a channel, with a reason.

    decision = route(heard, config, paired)  # a turn, overheard, ignored, or answered at once

Only the channel's ids identify the sender and the place. Display names, group titles and the text change neither.
Unknown senders and places are public.

Checks that the recipient of a reply is still the person, and the place still the room, of the message.
"""

import re
import sqlite3
from datetime import datetime
from hashlib import sha256

from foreword.config.load import NAME_CHANNELS, make_search
from foreword.config.schema import Config, Room
from foreword.engine.signal import find_noise
from foreword.engine.trust import get_ceiling
from foreword.errors import InputError
from foreword.gateway.channel import PUBLIC_SITUATION, ChatKind, InboundMessage
from foreword.gateway.equipment import list_roots, open_project
from foreword.gateway.messages import RoutedMessage, SenderIds
from foreword.gateway.pairing import PairingRequest, read_pairing_request
from foreword.gateway.schedule.destinations import list_addresses
from foreword.gateway.session_manager import resolve_session_key, set_field, settle_plan, switch_plan
from foreword.storage.deliveries import OutboundMessage
from foreword.storage.pairings import find_paired
from foreword.storage.sessions import PlanState, Session, add_session, find_current_session, find_newest_plan
from foreword.storage.turns import Exchange, list_unfinished
from foreword.types import TextEnum, frozen
from foreword.workspace import Workspace

_TYPED = re.compile(r"/(plan|project|drop)(?:@\w+)?(?:\s+(.*?))?\s*", re.IGNORECASE | re.DOTALL)
_DECISION = re.compile(r"/(allow|deny)(?:_([0-9a-f]+))?(?:@\w+)?(?:\s+([0-9a-f]+))?", re.IGNORECASE)
PRIVATE_ONLY = "This command works only in a private chat."
NOTHING_WAITS = "You have no unanswered messages."
HOW_TO_DROP = "Write /drop for the newest unanswered message, or /drop all."


@frozen(eq=True)
class MessengerCommand:
    """A command as typed."""

    name: str
    rest: str = ""

    @property
    def accepts(self) -> bool:
        """Return whether it accepts the plan, which the agent then carries out."""
        return self.name == "plan" and self.rest.lower() == "accept"

    @property
    def decides(self) -> bool:
        """Return whether it decides about a held call, whose id is `rest`; `/allow_ID` is the form that a tap sends."""
        return self.name in ("allow", "deny")


def read_command(text: str) -> MessengerCommand | None:
    """Read a command; return None for any other text."""
    if decision := _DECISION.fullmatch(text.strip()):
        return MessengerCommand(name=decision[1].lower(), rest=decision[2] or decision[3] or "")
    found = _TYPED.fullmatch(text.strip())
    return MessengerCommand(name=found[1].lower(), rest=(found[2] or "").strip()) if found else None


def run_command(
    state: sqlite3.Connection, command: MessengerCommand, incoming: RoutedMessage, workspace: Workspace, now: datetime
) -> str:
    """Run /plan or /project in the current session of a message; return the answer for the person."""
    key = resolve_session_key(incoming, workspace.config).key
    session = find_current_session(state, key)
    try:
        if not command.rest:
            return show_plan(state, session) if command.name == "plan" else show_project(session, incoming, workspace)
        session = session or add_session(state, key, incoming.situation, now)
        return COMMAND_FUNCTIONS[command.name](state, session, command.rest, workspace)
    except InputError as error:
        return f"{error}."


def show_plan(state: sqlite3.Connection, session: Session | None) -> str:
    """Describe whether plan mode is on, and show the stored plan."""
    on = bool(session and session.plan)
    said = f"Plan mode is {'on: I plan and do nothing' if on else 'off'}. /plan {'off' if on else 'on'} switches it."
    plan = find_newest_plan(state, session.id) if session else None
    if plan is None:
        return said
    how = "" if plan.state is PlanState.ACCEPTED else "; /plan accept runs it"
    return f"{said}\n\nThe newest plan ({plan.state}){how}:\n\n{plan.text}"


def change_plan(state: sqlite3.Connection, session: Session, rest: str, _: Workspace) -> str:
    """Switch plan mode, or accept the newest plan."""
    word = rest.lower()
    if word == "accept":
        settle_plan(state, session.id, PlanState.ACCEPTED)
        return ""
    if word not in ("on", "off"):
        return "Write /plan, /plan on, /plan off or /plan accept."
    switch_plan(state, session.id, on=word == "on")
    return "Plan mode is on: I plan and do nothing." if word == "on" else "Plan mode is off."


def show_project(session: Session | None, incoming: RoutedMessage, workspace: Workspace) -> str:
    """Describe which project is open and which can be opened."""
    key = resolve_session_key(incoming, workspace.config).key
    roots = list_roots(key.agent, key.clearance, workspace.config, workspace.files.root)
    if not roots:
        return "No project can be opened here."
    now = f"The project is {session.project}." if session and session.project else "No project is open."
    return f"{now} /project DIR opens one in {' or '.join(roots)}, /project off closes it."


def change_project(state: sqlite3.Connection, session: Session, rest: str, workspace: Workspace) -> str:
    """Open a project, or close it."""
    if rest.lower() == "off":
        set_field(state, session.id, "project", "")
        return "No project is open."
    key = session.key
    project = open_project(rest, key.agent, key.clearance, workspace.config, workspace.files.root)
    set_field(state, session.id, "project", project.path)
    return f"The project is {project.path}."


def list_unanswered(state: sqlite3.Connection, incoming: RoutedMessage, workspace: Workspace) -> list[Exchange]:
    """List the unanswered messages of a person in their current session."""
    session = find_current_session(state, resolve_session_key(incoming, workspace.config).key)
    found = list_unfinished(state, session.id) if session else []
    return [one for one in found if one.reply.user == incoming.user]


COMMAND_FUNCTIONS = {"plan": change_plan, "project": change_project}


SITUATION_OF_FAMILY = {"scheduled": "system"}
UNKNOWN_PLACE = "nowhere"
_HELP = re.compile(r"/(?:help|start(?:@\w+)?(?:\s+\S+)?|help@\w+)", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9+@_-][A-Za-z0-9._:+@-]{0,99}")


class Route(TextEnum):
    """What happens to a message."""

    TURN = "turn"
    """The agent answers it."""
    OVERHEARD = "overheard"
    """It is stored for the next turn of the room."""
    IGNORED = "ignored"
    PAIRING = "pairing"
    """It may contain a pairing code; the gateway answers it."""
    COMMAND = "command"
    """It is a command such as /plan; the gateway answers it."""
    HELP = "help"
    """It is what an app sends on /start or /help; the gateway answers it."""


@frozen(eq=True)
class RoutingDecision:
    """What happens to a message, and why."""

    route: Route
    reason: str
    incoming: RoutedMessage
    """The message as a turn would get it, with user, room and situation."""
    claim: PairingRequest = PairingRequest()
    """Its pairing codes; codes shown in a group are revoked."""
    command: MessengerCommand | None = None
    """The command, if it is one."""


def route(heard: InboundMessage, config: Config, paired: str = "") -> RoutingDecision:
    """Decide what happens to a message; `paired` is the user paired with its sender's identity."""
    incoming = make_routed_message(heard, config, paired)
    family = find_family(heard.channel)
    claim = (
        PairingRequest()
        if family in NAME_CHANNELS
        else read_pairing_request(heard, known=incoming.user in config.users)
    )
    if claim.asked:
        return RoutingDecision(route=Route.PAIRING, reason="it asks to be paired", incoming=incoming, claim=claim)
    speaks = heard.chat is ChatKind.PRIVATE or heard.called
    if family not in NAME_CHANNELS and speaks and _HELP.fullmatch(heard.text.strip()):
        return RoutingDecision(route=Route.HELP, reason="it asks for help", incoming=incoming)
    command = read_command(heard.text) if family not in NAME_CHANNELS and speaks else None
    if command and (command.decides or incoming.user in config.users):
        return RoutingDecision(route=Route.COMMAND, reason="it is a command", incoming=incoming, command=command)
    if heard.address and not heard.text.strip():
        return RoutingDecision(route=Route.IGNORED, reason="it has no text", incoming=incoming)
    chosen, reason = decide_answer(heard, incoming, config)
    return RoutingDecision(route=chosen, reason=reason, incoming=incoming, claim=claim)


def make_routed_message(heard: InboundMessage, config: Config, paired: str = "") -> RoutedMessage:
    """Make the inbound message: resolve user, room and situation."""
    room = resolve_room(heard, config)
    own = find_family(heard.channel) in NAME_CHANNELS
    return RoutedMessage(
        text=heard.text,
        user=resolve_user(heard, config, paired),
        channel=heard.channel,
        agent=heard.agent,
        situation=resolve_situation(heard, room, config),
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
        proof=None if own else SenderIds(sender=heard.sender, place=heard.place),
        asks=heard.asks,
        address=heard.address,
    )


def decide_answer(heard: InboundMessage, incoming: RoutedMessage, config: Config) -> tuple[Route, str]:
    """Decide whether the agent answers."""
    room = config.rooms.get(incoming.room, Room())
    private = heard.chat is ChatKind.PRIVATE
    if not private and not heard.called:
        if room.trigger == "mention":
            return Route.OVERHEARD, "nobody speaks to the agent, and the room answers mentions alone"
        if room.trigger == "regex" and not make_search(room.pattern)(heard.text):
            return Route.OVERHEARD, "it does not address the agent, and the room's pattern does not match"
    situation = config.situations.get(incoming.situation)
    answers = situation.answer_noise if situation else None
    # A client that fetches the reply waits for one, even for noise.
    if heard.address and not (private or heard.called if answers is None else answers):
        signal = find_noise(heard.text)
        if signal:
            return Route.IGNORED if private else Route.OVERHEARD, f"it is noise: {signal}"
    if private:
        return Route.TURN, "it was written in private"
    if heard.called:
        return Route.TURN, "it addresses the agent"
    return Route.TURN, "the room answers everything" if room.trigger == "always" else "the room's pattern matches"


def find_family(channel: str) -> str:
    """Return the family of a channel: the part before the first colon."""
    return channel.partition(":")[0]


def find_identity(heard: InboundMessage) -> str:
    """Return the identity of the sender; empty if the channel knows none."""
    return f"{find_family(heard.channel)}:{heard.sender}" if heard.sender else ""


def resolve_user(heard: InboundMessage, config: Config, paired: str = "") -> str:
    """Return the user who wrote; a stranger's identity, which is never a user's name, if there is none."""
    identity = find_identity(heard)
    if find_family(heard.channel) in NAME_CHANNELS:
        return heard.sender
    for name, user in config.users.items():
        if identity in user.identities:
            return name
    return paired if identity and paired in config.users else identity


def resolve_room(heard: InboundMessage, config: Config) -> str:
    """Return the room of a place: a configured one, or a name made from the ids of channel and place."""
    if heard.chat is ChatKind.PRIVATE:
        return ""
    family = find_family(heard.channel)
    if family in NAME_CHANNELS and heard.place:  # at the shell, the owner names a room as in the configuration
        return heard.place
    written = f"{family}:{heard.place}"
    for name, room in config.rooms.items():
        if heard.place and written in room.places:
            return name
    # Ids become folder names; an id that cannot be one is replaced with its hash.
    plain = _PLAIN.fullmatch(heard.place or UNKNOWN_PLACE) and ".." not in heard.place
    digest = sha256(heard.place.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{family}:{heard.place or UNKNOWN_PLACE}" if plain else f"{family}:{digest}"


def resolve_situation(heard: InboundMessage, room: str, config: Config) -> str:
    """Return the situation of a place, or the requested one if that allows no more."""
    known = config.rooms.get(room)
    if heard.chat is ChatKind.PRIVATE:
        own = SITUATION_OF_FAMILY.get(find_family(heard.channel), "dm")
    elif heard.chat is ChatKind.GROUP:
        own = known.situation if known else "group"
    else:
        own = choose_stricter_situation(PUBLIC_SITUATION, known.situation, config) if known else PUBLIC_SITUATION
    return choose_stricter_situation(own, heard.situation, config) if heard.situation else own


def choose_stricter_situation(own: str, other: str, config: Config) -> str:
    """Return the other situation if it allows no more than the own one."""
    lower = get_ceiling(other, config) <= get_ceiling(own, config)
    return other if lower else own


ACCESS_CHANGED = "What you may see here has changed since you wrote, so this is not answered. Please write again."


def is_same_sender(state: sqlite3.Connection, incoming: RoutedMessage, config: Config) -> bool:
    """Return whether a message would now resolve to the same person and the same room.

    A former stranger passes: a stranger's session holds nothing that they may not read now.
    """
    proof = incoming.proof
    if proof is None:
        return True
    chat = ChatKind.GROUP if incoming.room else ChatKind.PRIVATE
    heard = InboundMessage(channel=incoming.channel, sender=proof.sender, text="", chat=chat, place=proof.place)
    identity = find_identity(heard)
    known = (identity, resolve_user(heard, config, find_paired(state, identity)))
    return incoming.user in known and resolve_room(heard, config) == incoming.room


def may_receive(state: sqlite3.Connection, letter: OutboundMessage, incoming: RoutedMessage, config: Config) -> bool:
    """Return whether the current recipient at an address may read an outbound message."""
    if letter.text == ACCESS_CHANGED:
        return True
    reply = letter.key == letter.turn
    if reply and not incoming.scheduled_run and not incoming.through:
        return is_same_sender(state, incoming, config)
    if reply and incoming.room:
        return True
    return (letter.channel, letter.address) in list_addresses(state, config, incoming.user)
