"""The configured channels, found before their libraries are imported."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from foreword.config.schema import find_token
from foreword.errors import InputError
from foreword.gateway.channel import Channel, ReportToOwner
from foreword.workspace import STATE_FOLDER, Workspace

ChannelFactory = Callable[[ReportToOwner], AbstractAsyncContextManager[Channel]]
"""Opens a channel for the duration of a `with` block."""


def find_channels(workspace: Workspace, environ: Mapping[str, str]) -> Mapping[str, ChannelFactory]:
    """Return the configured channels; raise InputError if a token or a package is missing."""
    settings = workspace.config.telegram
    if settings is None:
        return {}
    token = find_token(settings, environ)  # before importing aiogram, which takes seconds on a small machine
    try:
        from foreword.gateway.channels.telegram.bot_client import MIGRATIONS_FILE
        from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
    except ModuleNotFoundError as error:
        raise InputError(f"Telegram needs the package {error.name}: pip install 'foreword[telegram]'") from None
    migrations = os.path.join(workspace.files.root, STATE_FOLDER, MIGRATIONS_FILE)
    return {
        "telegram": lambda report: open_telegram(token, settings, TelegramOptions(report=report, migrations=migrations))
    }
