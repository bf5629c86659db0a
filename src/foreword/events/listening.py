"""Listening: everything that the turns of a workspace are told to, as its configuration has it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime

from foreword.config.schema import Config
from foreword.events.budget import Purse
from foreword.events.console import Output
from foreword.events.event import Recorder
from foreword.events.log import USUAL, Bounds, EventLog
from foreword.events.prompts import Prompts
from foreword.events.several import Several
from foreword.events.tree import Tree
from foreword.frozen import frozen


@frozen
class Listeners:
    """Where a loop's telling goes; prompts and budgets are optional."""

    recorder: Recorder
    prompts: Prompts | None = None
    purse: Purse | None = None
    log: EventLog | None = None
    otlp: str = ""
    """The collector that is told, which is chosen at the start."""

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Hold the budgets and the log to another configuration; the collector stays until a restart."""
        if self.purse:
            self.purse.follow(after)
        if self.log:
            self.log.bounds = replace(self.log.bounds, days=after.events.retention_days)
        return [] if after.events.otlp == self.otlp else ["events.otlp"]


@contextmanager
def listen(
    folder: str,
    config: Config,
    clock: Callable[[], datetime],
    bounds: Bounds = USUAL,
    tree: Output | None = None,
) -> Iterator[Listeners]:
    """Open the log, the recorded prompts and the budgets of a folder, and a collector where the owner named one.

    With `tree`, every event is a line there, too. At the end everything that was told is written.
    """
    with ExitStack() as opened:
        if config.events.otlp:
            from foreword.events.otlp import start_export

            opened.enter_context(closing(start_export(config.events.otlp)))
        log = opened.enter_context(EventLog(folder, clock, replace(bounds, days=config.events.retention_days)))
        prompts = opened.enter_context(closing(Prompts(folder, clock)))
        purse = opened.enter_context(closing(Purse(folder, config, clock)))
        drawn = [opened.enter_context(closing(Tree(tree)))] if tree else []
        yield Listeners(
            recorder=Several(log, *drawn) if drawn else log,
            prompts=prompts,
            purse=purse,
            log=log,
            otlp=config.events.otlp,
        )
