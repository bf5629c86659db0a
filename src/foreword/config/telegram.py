"""The settings of the Telegram bot, and their checks."""

import re

from foreword.frozen import frozen

TOKEN = "TELEGRAM_TOKEN"  # noqa: S105 - the name of a variable
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
