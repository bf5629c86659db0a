"""The prompt of Nova as one function: no workspace, no files, every value an argument."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from foreword.config.schema import Agent, Identity, Responsibility
from foreword.errors import InputError, UnknownName
from foreword.facts import find_zone
from foreword.sources.memories import FACTS
from foreword.standalone import build_prompt, make_identity, make_tools
from foreword.turn import Client, Task, Tool, Turn, choose
from foreword.words import Delivery

NAME = "nova"
FIELDS = ("identity", "instructions", "responsibilities", "role")
IDENTITY = ("name", "emoji", "creature", "vibe", "description")


def build_system_prompt(  # noqa: PLR0917 - the signature is the document's own
    agent: Mapping[str, Any],
    channel: str,
    cwd: str,
    directories: Sequence[str],
    task: Task | None = None,
    background: bool | Delivery | str = False,  # noqa: FBT001, FBT002 - the document's flag
    *,
    memories: Sequence[str] = (),
    tools: Sequence[Tool | str] | None = None,
    timezone: str | None = None,
    now: datetime | None = None,
) -> str:
    """Assemble the prompt of an agent: its texts, where it works, the channel, its memories, its task.

    `agent` has `identity` (a text, or fields), `instructions`, `responsibilities` (each with `title` and `content`), or
    the old `role`. `background` is True for a silent run, or a delivery: `always`, `as_needed` or `never`. `tools`
    decide what `<Storage>` names and whether `<Background>` speaks of `notify_user`. Without a time zone the server's
    is used. Raise BudgetError if a section does not fit.
    """
    if isinstance(directories, str):
        raise InputError(f"directories are a list of paths, not {directories!r}; a single one is [{directories!r}]")
    turn = Turn(
        channel=channel,
        project=cwd,
        directories=tuple(directories),
        task=task,
        background=find_delivery(background),
        tools=make_tools(tools),
        client=Client(zone=timezone or find_zone()),
        now=now,
    )
    texts = {FACTS: json.dumps(list(memories))} if memories else {}
    return build_prompt(NAME, turn, make_agent(agent), texts, native_tools=True)


def find_delivery(background: bool | Delivery | str) -> Delivery | None:  # noqa: FBT001 - the document's flag
    """Find the delivery of a run: a silent one delivers nothing."""
    if isinstance(background, bool):
        return Delivery.NEVER if background else None
    found = choose(Delivery, "background", background)
    return found if isinstance(found, Delivery) else None


def make_agent(agent: Mapping[str, Any]) -> Agent:
    """Make the settings of an agent; a key that Nova does not have is refused."""
    for key in agent:
        if key not in FIELDS:
            raise UnknownName("key of an agent", str(key), FIELDS)
    return Agent(
        identity=find_identity(agent.get("identity")),
        instructions=str(agent.get("instructions") or ""),
        responsibilities=tuple(map(make_responsibility, agent.get("responsibilities") or ())),
        role=str(agent.get("role") or ""),
    )


def find_identity(identity: Mapping[str, str] | str | None) -> Identity | str | None:
    """Take an identity as a text or as fields; a blank one is none."""
    return (identity if identity.strip() else None) if isinstance(identity, str) else make_identity(identity, IDENTITY)


def make_responsibility(given: object) -> Responsibility:
    """Make a responsibility of its title and its content."""
    if not isinstance(given, Mapping) or not {"title", "content"} <= given.keys():
        raise InputError(f"a responsibility is a mapping with title and content, not {given!r}")
    return Responsibility(title=str(given["title"]), content=str(given["content"]))
