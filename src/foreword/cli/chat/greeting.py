"""What a chat says first: who is there, which model answers and why, what may be seen, and which session goes on."""

from collections.abc import Iterator

from foreword.cli.chat.talk import Talk
from foreword.cli.output import count
from foreword.events.line import show_time
from foreword.gateway.past import Kind

SHORT = 8  # digits of an id that are shown


async def greet(talk: Talk) -> None:
    """Say who is there and where the conversation goes on."""
    talk.note(" · ".join(introduce(talk)))
    talk.note(await tell_session(talk))


def introduce(talk: Talk) -> Iterator[str]:
    """Say agent, model and clearance."""
    found = talk.found
    yield found.lane.agent
    yield show_model(talk)
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
