"""Opens the gateway of a workspace: its state, its log, its models and its tools, and closes all of it in order."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import field
from datetime import UTC, datetime

from foreword.events.console import Output
from foreword.events.listening import listen
from foreword.events.notices import Board, Notices
from foreword.facts import describe_place
from foreword.frozen import frozen
from foreword.gateway.archiving import Archiving
from foreword.gateway.beside import beside
from foreword.gateway.bulletins import Bulletins, Scribe
from foreword.gateway.channel import Channel
from foreword.gateway.channels.configured import Opens, make_tell
from foreword.gateway.channels.schedule import ScheduleChannel
from foreword.gateway.channels.shelf import Shelf
from foreword.gateway.choices import Choices, is_other_model
from foreword.gateway.delegating import Delegating, Means
from foreword.gateway.equipping import Equipping
from foreword.gateway.gateway import Gateway
from foreword.gateway.hearing import hearing
from foreword.gateway.housekeeping import Housekeeping
from foreword.gateway.inbox import Inbox
from foreword.gateway.living import Learning
from foreword.gateway.notifying import Notifying
from foreword.gateway.offering import Offering
from foreword.gateway.outbox import Outbox
from foreword.gateway.preparing import Preparing
from foreword.gateway.reloading import ByLetter, Fixed, Soon
from foreword.gateway.rhythm import USUAL as RHYTHM
from foreword.gateway.rhythm import Rhythm
from foreword.gateway.schedule.destination import SHELVES
from foreword.gateway.schedule.planning import Planning
from foreword.gateway.schedule.scheduler import CHANNEL, Scheduler, Ways
from foreword.gateway.sessions import Sessions
from foreword.gateway.sqlite_inbox import SqliteInbox
from foreword.gateway.working import USUAL as PATIENCE
from foreword.gateway.working import Patience, Working
from foreword.gateway.writer import Writer
from foreword.runtime.loop import Loop
from foreword.runtime.models import open_models
from foreword.runtime.retrying import PATIENT, Retrying
from foreword.runtime.run import USUAL as BOUNDS
from foreword.runtime.run import Bounds
from foreword.runtime.servers import Servers
from foreword.runtime.toolbox import Further, Toolbox
from foreword.store.state import open_state
from foreword.tools import DELEGATING, NOTIFYING, SCHEDULING
from foreword.workspace import STATE, Workspace


def tell_time() -> datetime:
    """Tell the time of the host."""
    return datetime.now(UTC)


@frozen
class Options:
    """How a gateway runs, where it is not as usual."""

    clock: Callable[[], datetime] = tell_time
    tree: Output | None = None
    """Where every event is written as a line."""
    rhythm: Rhythm = RHYTHM
    patience: Patience = PATIENCE
    retrying: Retrying = PATIENT
    bounds: Bounds = BOUNDS
    bulletin: float = 60.0
    """Seconds between two looks at whether a bulletin is due; nothing is made sooner after the start."""
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Channels that hear people and deliver replies by themselves, by name."""
    opens: Mapping[str, Opens] = field(default_factory=dict)
    """Channels that are opened with the gateway and closed after it, by name."""
    scheduling: bool = False
    """Whether schedules are fired: by the one that serves, and not by everybody who only talks."""
    further: tuple[Further, ...] = ()
    """Tools of one's own, which the agents have beside the others."""
    notices: tuple[Notices, ...] = ()
    """Ways to the owner, who is told of edits that cannot come into force."""


AS_USUAL = Options()


@asynccontextmanager
async def open_gateway(
    workspace: Workspace, environ: Mapping[str, str] = os.environ, options: Options = AS_USUAL
) -> AsyncIterator[Gateway]:
    """Open the gateway of a workspace; it works until the block is left."""
    folder = os.path.join(workspace.files.root, STATE)
    clock = options.clock
    async with AsyncExitStack() as opened:
        writer = opened.enter_context(closing(Writer(open_state(folder).connection)))
        listeners = opened.enter_context(listen(folder, workspace.config, clock, tree=options.tree))
        recorder = listeners.recorder
        models = open_models(workspace.config, environ)
        opened.push_async_callback(models.close)
        channels = dict(options.channels)
        for name, opens in options.opens.items():
            channels[name] = await opened.enter_async_context(opens(make_tell(name, recorder, clock)))
        board = Board(*options.notices)
        servers = await opened.enter_async_context(
            Servers(workspace, recorder, environ, notices=board, results=Sessions(writer, clock).list_results)
        )
        choices = Choices(workspace, models, environ)
        delegating = Delegating(workspace, choices.choose)
        further = (
            Further(tools=DELEGATING, runs=delegating),
            Further(tools=SCHEDULING, runs=Planning(workspace, writer, clock, channels)),
            Further(tools=NOTIFYING, runs=Notifying(workspace, writer, clock, channels)),
            *options.further,
        )
        toolbox = Toolbox(workspace, servers, further)
        loop = Loop(workspace, models, listeners, tools=toolbox, bounds=options.bounds, retrying=options.retrying)
        equipping = Equipping(
            workspace,
            choices,
            toolbox,
            Offering(workspace, writer, channels),
            place=lambda: describe_place(workspace.config, environ),
        )
        preparing = opened.enter_context(
            closing(Preparing(workspace, writer, equipping, loop.ask, clock, remembers=models.remembers))
        )
        delegating.means = Means(loop=loop, toolbox=toolbox, assemble=preparing.assemble)
        inbox: Inbox = SqliteInbox(writer, clock, remembered=preparing.remembered)
        gateway = Gateway(
            workspace,
            listeners,
            writer,
            inbox,
            clock,
            choices=choices,
            housekeeping=Housekeeping(choices.choose, preparing.assemble, loop.ask, recorder, clock),
            rhythm=options.rhythm,
            board=board,
        )
        archiving = Archiving(workspace, writer, recorder, clock)
        gateway.reloading.followers += (choices, servers, archiving, Soon(lambda _: gateway.retry(), is_other_model))
        if channels:
            gateway.reloading.board.ways.append(ByLetter(workspace, writer, clock, channels))
        await opened.enter_async_context(beside(gateway.reloading.keep()))
        scribe = Scribe(choose=choices.choose, assemble=preparing.assemble, ask=loop.ask)
        bulletins = Bulletins(workspace, writer, scribe, recorder, clock)
        await opened.enter_async_context(beside(bulletins.keep(options.bulletin)))
        learning = Learning(writer)
        opened.push_async_callback(learning.close)
        working = Working(inbox, preparing, loop, gateway.set_aside, options.patience, after=learning.take_note)
        shelves = {name: Shelf(name, writer) for name in SHELVES if options.scheduling and name not in channels}
        delivers = {**shelves, **channels}
        outbox = Outbox(writer, delivers, listeners, clock, lambda: workspace.config) if delivers else None
        gateway.start(working, outbox)
        opened.push_async_callback(archiving.look)  # once more, for what has ended since
        await opened.enter_async_context(beside(archiving.keep()))
        opened.push_async_callback(gateway.close)
        ways = Ways(
            accept=gateway.accept, recorder=recorder, clock=clock, channels=channels, shelves=frozenset(shelves)
        )
        gateway.scheduler = Scheduler(workspace, writer, ways)
        heard = dict(channels)
        if options.scheduling:
            fixed = Fixed(started=workspace.config, names=("telegram",))
            gateway.reloading.followers += (fixed, Soon(gateway.scheduler.follow))
            heard[CHANNEL] = ScheduleChannel(gateway.scheduler.look, options.rhythm.look)
        await opened.enter_async_context(hearing(heard, gateway.receive, recorder, options.rhythm))
        yield gateway
