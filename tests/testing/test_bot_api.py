"""The fake Bot API follows the rules that a bot meets at Telegram."""

import json
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from foreword.testing import DroppedConnection, FloodLimits, InjectedError, run_fake_telegram
from waiting import wait


@pytest.fixture
def bot():
    """A fake Bot API with one user who has written."""
    with run_fake_telegram() as one:
        one.say("hello")
        yield one


def ask(bot, method, token=None, **params):
    """Send a request and return the response, whatever its status."""
    data = urllib.parse.urlencode(params).encode()
    request = urllib.request.Request(f"{bot.url}/bot{token or bot.token}/{method}", data)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def test_token(bot):
    """A wrong token in the path is 401, and a malformed one is 404."""
    assert ask(bot, "getMe")["result"]["username"] == "reid_bot"
    assert ask(bot, "getMe", token="12345678:wrong")["error_code"] == 401
    assert ask(bot, "getMe", token="nonsense")["error_code"] == 404
    assert ask(bot, "makeTea")["error_code"] == 404


def test_updates(bot):
    """Updates are returned until an offset confirms them, up to the limit."""
    second = bot.say("again")
    first = ask(bot, "getUpdates")["result"]
    assert [update["message"]["text"] for update in first] == ["hello", "again"]
    assert ask(bot, "getUpdates")["result"] == first
    assert len(ask(bot, "getUpdates", limit=1)["result"]) == 1
    assert ask(bot, "getUpdates", offset=second["update_id"])["result"] == first[1:]
    assert ask(bot, "getUpdates", offset=second["update_id"] + 1)["result"] == []
    assert ask(bot, "getUpdates")["result"] == []


def test_waiting(bot):
    """A poll waits for updates; a second poll ends the first with a conflict."""
    answers = []
    ask(bot, "getUpdates", offset=-1)
    last = bot.updates[-1]["update_id"] + 1
    asking = threading.Thread(target=lambda: answers.append(ask(bot, "getUpdates", offset=last, timeout=20)))
    asking.start()
    wait(lambda: bot._polls == 2)
    second = threading.Thread(target=lambda: answers.append(ask(bot, "getUpdates", offset=last, timeout=20)))
    second.start()
    asking.join()
    bot.say("news")
    second.join()
    assert answers[0]["error_code"] == 409
    assert answers[1]["result"][0]["message"]["text"] == "news"


REFUSED = [
    ({"text": ""}, "message text is empty"),
    ({"text": " \n"}, "message text is empty"),
    ({"text": "x" * 4_097}, "message is too long"),
    ({"text": "👍" * 2_049}, "message is too long"),
    ({"text": "<b>x", "parse_mode": "HTML"}, "can't parse entities"),
    ({"text": "<b>x</i>", "parse_mode": "HTML"}, "can't parse entities"),
    ({"text": "1 < 2", "parse_mode": "HTML"}, "can't parse entities"),
    ({"text": "<h1>x</h1>", "parse_mode": "HTML"}, "can't parse entities"),
    ({"text": "x", "entities": '[{"type": "bold", "offset": 0, "length": 9}]'}, "ENTITY_BOUNDS_INVALID"),
    ({"text": "x", "chat_id": "5"}, "chat not found"),
    ({"text": "x", "chat_id": ""}, "chat_id is empty"),
    ({"text": "x", "message_thread_id": "4"}, "message thread not found"),
]


@pytest.mark.parametrize(("params", "words"), REFUSED)
def test_refused(bot, params, words):
    """Requests that Telegram refuses are refused with its messages, and nothing is sent."""
    answer = ask(bot, "sendMessage", **{"chat_id": 1001} | params)
    assert answer["error_code"] == 400
    assert words in answer["description"]
    assert bot.sent == []


def test_sent(bot):
    """The limit counts the text without its tags, and entities match the visible text."""
    text = f'<b>{"x" * 4_000}</b><pre><code class="language-c">&lt;</code></pre><a href="https://a.example">y</a>'
    assert ask(bot, "sendMessage", chat_id=1001, text=text, parse_mode="HTML")["ok"]
    (sent,) = bot.sent
    assert sent.text == "x" * 4_000 + "<y"
    assert sent.entities == (
        {"type": "bold", "offset": 0, "length": 4_000},
        {"type": "pre", "offset": 4_000, "length": 1, "language": "c"},
        {"type": "text_link", "offset": 4_001, "length": 1, "url": "https://a.example"},
    )


def test_edited(bot):
    """A message can be edited to another text."""
    number = ask(bot, "sendMessage", chat_id=1001, text="one")["result"]["message_id"]
    same = {"chat_id": 1001, "message_id": number}
    assert "not modified" in ask(bot, "editMessageText", text="one", **same)["description"]
    assert ask(bot, "editMessageText", text="two", **same)["ok"]
    assert [sent.text for sent in bot.sent] == ["two"]
    assert "not found" in ask(bot, "editMessageText", chat_id=1001, message_id=99, text="x")["description"]


def test_gone(bot):
    """A chat that the bot was removed from is 403, and a moved group answers with its new id."""
    bot.barred[-5] = "Forbidden: bot was kicked from the group chat"
    bot.moved[-6] = -1006
    assert ask(bot, "sendMessage", chat_id=-5, text="x")["error_code"] == 403
    assert ask(bot, "sendMessage", chat_id=-6, text="x")["parameters"] == {"migrate_to_chat_id": -1006}
    assert ask(bot, "sendChatAction", chat_id=1001, action="typing")["result"] is True


def test_flood():
    """Sending too fast is 429 with the seconds to wait."""
    with run_fake_telegram(FloodLimits(private=(2, 50.0))) as bot:
        bot.say("hello")
        answers = [ask(bot, "sendMessage", chat_id=1001, text="x") for _ in range(3)]
    assert [answer["ok"] for answer in answers] == [True, True, False]
    assert answers[2]["error_code"] == 429
    assert 45 < answers[2]["parameters"]["retry_after"] <= 50


def test_faults(bot):
    """Injected faults are errors, or dropped connections before or after the request is executed."""
    bot.faults["sendmessage"] = [InjectedError(status=502), DroppedConnection(), DroppedConnection(done=True)]
    assert ask(bot, "sendMessage", chat_id=1001, text="x")["error_code"] == 502
    for count in (0, 1):
        with pytest.raises(ConnectionError):
            ask(bot, "sendMessage", chat_id=1001, text="x")
        assert len(bot.sent) == count
