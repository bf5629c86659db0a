"""Opens the gateway of a workspace: finds its channels, constructs its parts, and closes them in order."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import field, replace
from datetime import datetime

from foreword.agent.loop import DEFAULT_TURN_LIMITS as BOUNDS
from foreword.agent.loop import AgentLoop, TurnLimits
from foreword.agent.mcp_servers import McpServers
from foreword.agent.providers.model_clients import open_models
from foreword.agent.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from foreword.agent.tools.declaration import bind_tools
from foreword.agent.tools.delegation import Delegation
from foreword.agent.tools.registry import Toolbox
from foreword.events.event import NO_CONTEXT, EventType, Level, NoticeFanout, NoticeTarget, read_utc_now
from foreword.events.sinks import Output, open_event_stream
from foreword.events.tracer import Tracer, describe_error
from foreword.gateway.bulletins import Bulletins
from foreword.gateway.channel import Channel, ChannelFactory, ReceiveMessage, ReportToOwner
from foreword.gateway.channels.pull_channel import ScheduleChannel, SessionDelivery
from foreword.gateway.equipment import EquipmentFinder, ModelSelection, changes_model
from foreword.gateway.gateway_context import DEFAULT_GATEWAY_SETTINGS, GatewayContext, GatewaySettings, background_task
from foreword.gateway.gateway_tools import NoticeTool, ScheduleTools
from foreword.gateway.housekeeping import Housekeeping
from foreword.gateway.inbox import Inbox
from foreword.gateway.notifications import OutboxNotices
from foreword.gateway.outbox import Outbox
from foreword.gateway.reload import AsyncFollower, Reloader, StartupSettings
from foreword.gateway.schedule.destinations import PULL_CHANNELS
from foreword.gateway.schedule.scheduler import SCHEDULED_CHANNEL
from foreword.gateway.service import Gateway
from foreword.gateway.session_manager import SessionManager
from foreword.gateway.transcripts import Archiver
from foreword.gateway.turn_inputs import Assembler, TurnInputs
from foreword.gateway.worker import DEFAULT_WORKER_RETRY_POLICY, Worker, WorkerRetryPolicy
from foreword.storage.database import open_state
from foreword.storage.writer import Writer
from foreword.turn import Tool
from foreword.types import frozen
from foreword.workspace import STATE_FOLDER, Workspace


def make_channel_reporter(name: str, context: GatewayContext) -> ReportToOwner:
    """Make the function with which a channel records events that only full trust reads."""

    def report(words: str, level: Level) -> None:
        trace = context.trace(replace(NO_CONTEXT, channel=name))
        trace.emit(EventType.CHANNEL_ERROR, level=level, error=words)

    return report


STABLE_RUN_S = 60.0  # seconds of running after which a failure counts as the first one


async def run_channel(channel: Channel, hear: ReceiveMessage, trace: Tracer, waits: tuple[float, ...]) -> None:
    """Run a channel until it returns; log a failure and restart it after a delay."""
    failed = 0
    while True:
        began = time.monotonic()
        try:
            await channel.run(hear)
        except Exception as error:  # noqa: BLE001 - people keep writing, whatever the error
            trace.emit(EventType.CHANNEL_ERROR, level=Level.ERROR, **describe_error(error))
        else:
            return
        failed = 0 if time.monotonic() - began >= STABLE_RUN_S else failed
        await asyncio.sleep(waits[min(failed, len(waits) - 1)])
        failed += 1


@frozen
class GatewayOptions:
    """Options of a gateway."""

    clock: Callable[[], datetime] = read_utc_now
    tree: Output | None = None
    """Output for one line per event."""
    settings: GatewaySettings = DEFAULT_GATEWAY_SETTINGS
    turn_retry: WorkerRetryPolicy = DEFAULT_WORKER_RETRY_POLICY
    retrying: RetryPolicy = DEFAULT_RETRY_POLICY
    bounds: TurnLimits = BOUNDS
    bulletin: float = 60.0
    """Seconds between two checks for due bulletins; also the delay after the start."""
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Channels that receive messages and deliver replies, by name."""
    opens: Mapping[str, ChannelFactory] = field(default_factory=dict)
    """Channels that are opened and closed with the gateway, by name."""
    scheduling: bool = False
    """Whether this process fires schedules; `serve` does, a chat does not."""
    tools: tuple[Tool, ...] = ()
    """Additional tools for the agents."""
    notices: tuple[NoticeTarget, ...] = ()
    """Where the owner is notified of invalid edits."""


DEFAULT_OPTIONS = GatewayOptions()


@asynccontextmanager
async def open_gateway(
    workspace: Workspace, environ: Mapping[str, str] = os.environ, options: GatewayOptions = DEFAULT_OPTIONS
) -> AsyncIterator[Gateway]:
    """Open the gateway of a workspace; it runs until the block exits."""
    folder = os.path.join(workspace.files.root, STATE_FOLDER)
    clock = options.clock
    async with AsyncExitStack() as opened:
        writer = opened.enter_context(closing(Writer(open_state(folder).connection)))
        listeners = opened.enter_context(open_event_stream(folder, workspace.config, clock, tree=options.tree))
        models = open_models(workspace.config, environ)
        opened.push_async_callback(models.close)
        channels = dict(options.channels)
        context = GatewayContext(
            workspace=workspace, writer=writer, recorder=listeners.recorder, clock=clock, channels=channels
        )
        for name, opens in options.opens.items():
            channels[name] = await opened.enter_async_context(opens(make_channel_reporter(name, context)))
        board = NoticeFanout(*options.notices, *([OutboxNotices(context)] if channels else []))
        results = SessionManager(writer, clock).list_results
        servers = await opened.enter_async_context(
            McpServers(workspace, context.recorder, environ, notices=board, results=results)
        )
        choices = ModelSelection(workspace, models, environ)
        assembler = opened.enter_context(closing(Assembler(workspace)))
        delegating = Delegation(workspace, choices.choose, assembler.assemble)
        owners = (delegating, ScheduleTools(context), NoticeTool(context))
        toolbox = Toolbox(workspace, servers, (*(one for each in owners for one in bind_tools(each)), *options.tools))
        loop = AgentLoop(
            workspace, models, listeners, toolbox=toolbox, bounds=options.bounds, retrying=options.retrying
        )
        equipping = EquipmentFinder(context, choices, toolbox, environ)
        preparing = TurnInputs(context, equipping, assembler, loop.ask, find_engine_start=models.find_cache_start)
        inbox = Inbox(writer, clock, cache=preparing.cache)
        pull_channels = {
            name: SessionDelivery(name, writer) for name in PULL_CHANNELS if options.scheduling and name not in channels
        }
        delivers = {**pull_channels, **channels}
        gateway = Gateway(
            context,
            listeners,
            inbox,
            choices=choices,
            preparing=preparing,
            worker=Worker(inbox, preparing, loop, options.turn_retry),
            outbox=Outbox(writer, delivers, context.recorder, clock, lambda: workspace.config) if delivers else None,
            housekeeping=Housekeeping(
                context=context, choose=choices.choose, assemble=preparing.assemble, ask=loop.ask
            ),
            reloading=Reloader(workspace, context.recorder, clock, board),
            settings=options.settings,
            pull_channels=pull_channels,
        )
        archiving = Archiver(context)
        gateway.reloading.followers += (
            listeners,
            choices,
            servers,
            archiving,
            AsyncFollower(lambda _: gateway.retry(), changes_model),
        )
        await opened.enter_async_context(background_task(gateway.reloading.keep()))
        await opened.enter_async_context(
            background_task(Bulletins(context, choices, preparing, loop).keep(options.bulletin))
        )
        gateway.start()
        opened.push_async_callback(archiving.look)  # once more, for conversations that have ended since
        await opened.enter_async_context(background_task(archiving.keep()))
        opened.push_async_callback(gateway.close)
        running = dict(channels)
        if options.scheduling:
            fixed = StartupSettings(started=workspace.config, names=("telegram",))
            gateway.reloading.followers += (fixed, AsyncFollower(gateway.scheduler.follow))
            running[SCHEDULED_CHANNEL] = ScheduleChannel(gateway.scheduler.run_due, options.settings.look)
        for name, channel in running.items():
            trace = context.trace(replace(NO_CONTEXT, channel=name))
            loop_task = run_channel(channel, gateway.receive, trace, options.settings.again)
            await opened.enter_async_context(background_task(loop_task))
        yield gateway
