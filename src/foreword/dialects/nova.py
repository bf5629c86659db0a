"""The prompt function of Nova: without a workspace, with every value as an argument."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from foreword.config.schema import Agent, Responsibility
from foreword.dialects import build_prompt, make_identity, make_tools
from foreword.engine.sources.memory_sections import FACTS_FILE
from foreword.errors import InputError, UnknownName
from foreword.host import find_host_zone
from foreword.turn import Client, Task, Tool, Turn, parse_word
from foreword.types import Delivery

NOVA = "nova"
NOVA_FIELDS = ("identity", "instructions", "responsibilities", "role")
NOVA_IDENTITY = ("name", "emoji", "creature", "vibe", "description")


def build_system_prompt(  # noqa: PLR0917 - the document defines the signature
    agent: Mapping[str, Any],
    channel: str,
    cwd: str,
    directories: Sequence[str],
    task: Task | None = None,
    background: bool | Delivery | str = False,  # noqa: FBT001, FBT002 - the document defines the flag
    *,
    memories: Sequence[str] = (),
    tools: Sequence[Tool | str] | None = None,
    timezone: str | None = None,
    now: datetime | None = None,
) -> str:
    """Assemble the prompt of an agent: its texts, its directories, the channel, its memories and its task.

    `agent` has `identity` (a text, or fields), `instructions`, `responsibilities` (each with `title` and `content`), or
    the old `role`. `background` is True for a silent run, or a delivery: `always`, `as_needed` or `never`. `tools`
    decide what `<Storage>` lists and whether `<Background>` mentions `notify_user`. Without a time zone the server's
    is used. Raise BudgetError if a section does not fit.
    """
    if isinstance(directories, str):
        raise InputError(f"directories must be a list of paths, not {directories!r}; use [{directories!r}]")
    turn = Turn(
        channel=channel,
        project=cwd,
        directories=tuple(directories),
        task=task,
        background=find_delivery(background),
        tools=make_tools(tools),
        client=Client(zone=timezone or find_host_zone()),
        now=now,
    )
    texts = {FACTS_FILE: json.dumps(list(memories))} if memories else {}
    return build_prompt(NOVA, turn, make_agent(agent), texts, native_tools=True)


def find_delivery(background: bool | Delivery | str) -> Delivery | None:  # noqa: FBT001 - the document defines the flag
    """Return the delivery of a run; True is a silent run, which delivers nothing."""
    if isinstance(background, bool):
        return Delivery.NEVER if background else None
    found = parse_word(Delivery, "background", background)
    return found if isinstance(found, Delivery) else None


def make_agent(agent: Mapping[str, Any]) -> Agent:
    """Build the settings of an agent; refuse a key that Nova does not have."""
    for key in agent:
        if key not in NOVA_FIELDS:
            raise UnknownName("key of an agent", str(key), NOVA_FIELDS)
    identity = agent.get("identity")
    if not isinstance(identity, str):
        identity = make_identity(identity, NOVA_IDENTITY)
    return Agent(
        identity=None if isinstance(identity, str) and not identity.strip() else identity,
        instructions=str(agent.get("instructions") or ""),
        responsibilities=tuple(map(make_responsibility, agent.get("responsibilities") or ())),
        role=str(agent.get("role") or ""),
    )


def make_responsibility(given: object) -> Responsibility:
    """Build a responsibility from its title and content."""
    if not isinstance(given, Mapping) or not {"title", "content"} <= given.keys():
        raise InputError(f"a responsibility must be a mapping with title and content, not {given!r}")
    return Responsibility(title=str(given["title"]), content=str(given["content"]))
