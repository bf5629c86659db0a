"""What a chat says first: who is there, which model answers and why, what may be seen, and which session goes on."""

import asyncio
from collections.abc import Iterator

from foreword.cli.chat.talk import Talk
from foreword.cli.output import count
from foreword.events.line import show_time
from foreword.gateway.past import Kind
from foreword.runtime.choosing import describe_embedded
from foreword.runtime.discovery import find_servers

SHORT = 8  # digits of an id that are shown


async def greet(talk: Talk) -> None:
    """Say that a very small model answers, if one does; then who is there and where the conversation goes on."""
    if line := await describe_model(talk, "type /model"):
        talk.note(line)
    talk.note(" · ".join(introduce(talk)))
    talk.note(await tell_session(talk))


def introduce(talk: Talk) -> Iterator[str]:
    """Say agent, model and clearance."""
    found = talk.found
    yield found.lane.agent
    yield talk.choose().model
    yield f"clearance {found.clearance.level}, because {found.clearance.reason}"


async def tell_session(talk: Talk) -> str:
    """Say which session goes on, and how to begin another."""
    session = talk.session
    if session is None:
        return "a new conversation; /help lists what else can be typed"
    turns = sum(row.kind is Kind.TURN for row in await talk.gateway.sessions.read(session.id))
    waiting = len(await talk.gateway.sessions.list_unfinished(session.id))
    if not (turns or waiting or session.plan):
        return f"session {session.id[:SHORT]} begins; /help lists what else can be typed"
    past = f"{count(turns, 'turn')}, the last on {show_time(session.used, talk.zone)}" if turns else "no turn yet"
    plan = ", plan mode is on" if session.plan else ""
    come = f"; {count(waiting, 'message')} {'is' if waiting == 1 else 'are'} still being answered" if waiting else ""
    return (
        f"going on with {session.id[:SHORT]} ({past}){plan}{come}; /new begins anew, /help lists what else can be typed"
    )


def show_model(talk: Talk) -> str:
    """Show the model that answers, and why it is that one where it is not the one that was configured."""
    chosen = talk.choose()
    return f"{chosen.model} ({chosen.reason})" if chosen.reason else chosen.model


async def describe_model(talk: Talk, switch: str) -> str:
    """Say why a very small model answers and how to get a real one; nothing where the named model answers."""
    chosen = talk.choose()
    if not chosen.reason:
        return ""
    config = talk.gateway.workspace.config
    servers = await asyncio.to_thread(find_servers, config, talk.environ)
    return describe_embedded(chosen, config.agents[talk.found.lane.agent].model, servers, switch)
