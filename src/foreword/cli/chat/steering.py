"""Commands that steer: the session, its model, plan mode, and what is read from the disk."""

from foreword.cli.chat.clean import clean_line
from foreword.cli.chat.talk import Talk
from foreword.errors import ConfigError, InputError


async def reload(talk: Talk, _: str) -> str:
    """Read the workspace now, and say what changed in what the agent is told, or what is wrong."""
    workspace = talk.gateway.workspace
    config = workspace.config
    workspace.refresh(now=True)
    changed = note_slots(talk)
    if workspace.fault:
        fault = workspace.fault
        many = f"{len(fault.faults)} faults:\n" if isinstance(fault, ConfigError) and len(fault.faults) > 1 else ""
        raise InputError(f"the configuration is not valid, so the old one is used: {many}{fault}")
    if workspace.config is not config:
        changed.insert(0, "foreword.yaml")
    talk.note(f"changed: {', '.join(changed)}" if changed else "nothing has changed")
    return ""


def note_slots(talk: Talk) -> list[str]:
    """Note what the slots are made of now, and name those that differ from the last time."""
    now = {row.id: row.sha256 for row in talk.look().rows() if row.span and row.pace != "turn"}
    before, talk.seen = talk.seen, now
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)] if before else []


async def leave(_: Talk, __: str) -> str:
    """End the chat."""
    raise EOFError
