"""Claims about Telegram in a configuration: a bot is two braces, and its token is never in the file."""

import pytest

from foreword.config.load import load_config
from foreword.config.schema import TelegramBotSettings
from foreword.errors import ConfigError

HEAD = "owner: alice\nusers: {alice: {trust: full}}\nagents: {reid: {}, ada: {}}\n"
TOKEN = "12345678:AAF-very-secret-token-of-nobody-at-all"


def test_none():
    """Without the key there is no bot; with it every setting has its default."""
    assert load_config(HEAD).telegram is None
    assert load_config(f"{HEAD}telegram: {{}}\n").telegram == TelegramBotSettings(token="$TELEGRAM_TOKEN", agent="")
    assert load_config(f"{HEAD}telegram: {{agent: ada, token: $ADA}}\n").telegram.agent == "ada"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{{token: '{TOKEN}'}}", "telegram.token must name a variable, such as $TELEGRAM_TOKEN"),
        ("{token: ''}", "telegram.token must name a variable"),
        ("{api: telegram.example}", "telegram.api must be an address that begins with http://"),
        ("{agent: adda}", "telegram.agent is 'adda', which is not an agent; did you mean 'ada'?"),
        ("{tokn: $A}", "telegram.tokn is not a known key"),
    ],
)
def test_faults(line, words):
    """A fault has its line, and does not repeat a token found in the file."""
    with pytest.raises(ConfigError) as caught:
        load_config(f"{HEAD}telegram: {line}\n")
    (fault,) = caught.value.faults
    assert words in fault.message
    assert fault.line == 4
    assert TOKEN not in str(caught.value)
