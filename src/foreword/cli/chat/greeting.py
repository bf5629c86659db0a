"""What a chat says first."""

from foreword.cli.chat.talk import Talk


async def greet(talk: Talk) -> None:
    """Say who is there."""
    talk.note(f"{talk.found.lane.agent}")
