"""The channels that a configuration asks for, ready to be opened with a gateway."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime

from foreword.config.telegram import find_token
from foreword.errors import InputError
from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.trace import Timepiece, Trace
from foreword.gateway.channel import Channel, Tell
from foreword.workspace import STATE, Workspace

Opens = Callable[[Tell], AbstractAsyncContextManager[Channel]]
"""Opens a channel, which closes when the block is left."""


def find_channels(workspace: Workspace, environ: Mapping[str, str]) -> Mapping[str, Opens]:
    """Find the channels that a workspace asks for; what is missing for one is said before anything is opened."""
    settings = workspace.config.telegram
    if settings is None:
        return {}
    token = find_token(settings, environ)  # before aiogram, whose import takes seconds on a small machine
    try:
        from foreword.gateway.channels.telegram.channel import Circumstances, open_telegram
        from foreword.gateway.channels.telegram.moves import FILE
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is needed for Telegram: pip install 'foreword[telegram]'") from None
    moves = os.path.join(workspace.files.root, STATE, FILE)
    return {"telegram": lambda tell: open_telegram(token, settings, Circumstances(tell=tell, moves=moves))}


def make_tell(name: str, recorder: Recorder, clock: Callable[[], datetime]) -> Tell:
    """Make what a channel tells the owner with: events that full trust alone reads."""

    def tell(words: str, level: Level) -> None:
        trace = Trace(recorder, replace(NOBODY, channel=name), Timepiece(now=clock))
        trace.tell(EventType.CHANNEL_ERROR, level=level, error=words)

    return tell
