"""The settings of the Telegram bot, and their checks."""

import re
from collections.abc import Mapping

from foreword.errors import InputError
from foreword.frozen import frozen

TOKEN = "TELEGRAM_TOKEN"  # noqa: S105 - the name of a variable
_SHAPE = re.compile(r"[0-9]+:\S+")  # the number of the bot, and its secret
_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")


@frozen(eq=True)
class TelegramBot:
    """The bot that people write to on Telegram; @BotFather makes one and gives its token."""

    token: str = f"${TOKEN}"
    """The variable of the environment or of .env that holds the bot's token, as `$NAME`."""
    api: str = "https://api.telegram.org"
    """The address of the Bot API; another one where you run a server of your own."""
    agent: str = ""
    """The agent that answers; else the first one."""


def judge_token(written: str) -> str:
    """Say what is wrong with a token as it stands in the configuration, without showing it."""
    if _VARIABLE.fullmatch(written):
        return ""
    return f"must name a variable, such as ${TOKEN}; the token itself belongs into .env"


def find_token(settings: TelegramBot, environ: Mapping[str, str]) -> str:
    """Find the bot's token in the environment, or say where it belongs; nothing slow is loaded for that."""
    name = settings.token.removeprefix("$")
    token = environ.get(name, "")
    if not token:
        raise InputError(
            f"telegram needs the bot's token in {name}: put the line {name}=… with what @BotFather gave you into .env"
        )
    if not _SHAPE.fullmatch(token):
        raise InputError(f"{name} is not a bot's token; @BotFather gives one, such as 12345678:AA…")
    return token
