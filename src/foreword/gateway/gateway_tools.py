"""The tools that need a gateway: schedules and notices; and the toolset of an agent with all of them.

They need no approval: they act for the calling person only, and scheduled runs hold calls that need approval. Building
a prompt imports this module, so it imports the rest of the gateway late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from foreword.agent.tools.declaration import ToolRun, list_tools, tool
from foreword.agent.tools.delegation import DELEGATION_TOOLS
from foreword.agent.tools.registry import find_workspace_tools
from foreword.errors import Forbidden, InputError
from foreword.turn import ToolAnswer, Toolset
from foreword.types import Delivery, Trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from sqlite3 import Connection

    from pydantic import Field

    from foreword.config.schema import Directory
    from foreword.gateway.gateway_context import GatewayContext

MAX_SAY_CHARS, MAX_NOTICE_CHARS, MAX_SCHEDULE_NAME_CHARS = 4_000, 2_000, 60  # characters


class ScheduleTools:
    """The schedule tools; each call is one transaction."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    @tool(kind="schedule", trust=Trust.FAMILIAR, seconds=20, changes=True, confirm=False)
    async def schedule_create(
        self,
        run: ToolRun,
        *,
        say: Annotated[str, Field(min_length=1, max_length=MAX_SAY_CHARS)],
        cron: str = "",
        at: str = "",
        zone: str = "",
        name: Annotated[str, Field(max_length=MAX_SCHEDULE_NAME_CHARS)] = "",
        delivery: Annotated[str, Field(json_schema_extra={"enum": [str(one) for one in Delivery]})] = "always",
    ) -> ToolAnswer:
        """Plan a later run of yourself for this person, once or again and again: you are told the text at that time,
        and your reply is delivered here. Give either cron or at.

        Args:
            say: What you will be told; you will know nothing else of this conversation.
            cron: Minute, hour, day, month and weekday, such as 0 8 * * 1-5.
            at: Once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00.
            zone: The time zone; the person's own if left out.
            name: What it is known by.
            delivery: What happens with the reply; always if left out.
        """  # noqa: D205 - the model gets the whole sentence
        from foreword.gateway.schedule.creation import WantedSchedule, create_schedule

        wanted = WantedSchedule(say=say, cron=cron, at=at, zone=zone, name=name, delivery=delivery)
        return await self._write(run, lambda state: create_schedule(state, self._context, run.assembly, wanted))

    @tool(kind="schedule", trust=Trust.FAMILIAR, seconds=20)
    async def schedule_list(self, run: ToolRun) -> ToolAnswer:
        """List this person's schedules, with their ids and when each is due next."""
        from foreword.gateway.schedule.creation import describe_visible_schedules

        return await self._write(run, lambda state: describe_visible_schedules(state, run.assembly))

    @tool(kind="schedule", trust=Trust.FAMILIAR, seconds=20, changes=True, confirm=False)
    async def schedule_cancel(self, run: ToolRun, schedule: str) -> ToolAnswer:
        """Cancel one of this person's schedules.

        Args:
            schedule: Its id, as schedule_list gives it.
        """
        from foreword.gateway.schedule.creation import cancel_visible_schedule

        return await self._write(run, lambda state: cancel_visible_schedule(state, run.assembly, schedule))

    async def _write(self, run: ToolRun, work: Callable[[Connection], str]) -> ToolAnswer:
        if run.turn.user not in self._context.workspace.config.users:
            raise Forbidden("nobody is known to be speaking, so there is nobody to plan for")
        return run.answer(await self._context.writer.write_durable(work))


class NoticeTool:
    """The tool that sends the person of a turn a private message."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    @tool(kind="messages", trust=Trust.FAMILIAR, seconds=20, changes=True, confirm=False)
    async def notify_user(
        self, run: ToolRun, text: Annotated[str, Field(min_length=1, max_length=MAX_NOTICE_CHARS)]
    ) -> ToolAnswer:
        """Send this person a short notice in private, at the address they used last."""
        from foreword.gateway.notifications import post_notice

        notice, turn = text.strip(), run.node.trace.id if run.node else ""
        if not notice:
            raise InputError("'text' is blank")
        answer = await self._context.writer.write_durable(
            lambda state: post_notice(state, self._context, run.assembly, notice, turn)
        )
        return run.answer(answer)


SCHEDULE_TOOLS = Toolset(list_tools(ScheduleTools))
NOTIFICATION_TOOLS = Toolset(list_tools(NoticeTool))
GATEWAY_TOOLSETS = (DELEGATION_TOOLS, SCHEDULE_TOOLS, NOTIFICATION_TOOLS)


def find_gateway_tools(given: Iterable[Directory]) -> Toolset:
    """Return all gateway tools of an agent with these directories, except those of MCP servers."""
    return Toolset([*find_workspace_tools(given).tools, *(one for each in GATEWAY_TOOLSETS for one in each.tools)])


def find_unusable_tools(*, known: bool, planned: bool, reached: bool) -> frozenset[str]:
    """Return the names of the tools that have no effect in a turn.

    Unknown people have no schedules, scheduled runs cannot create schedules, and notices need an address other than
    that of the reply.
    """
    if not known:
        return SCHEDULE_TOOLS.names | NOTIFICATION_TOOLS.names
    return frozenset([*(["schedule_create"] if planned else []), *([] if reached else NOTIFICATION_TOOLS.names)])
