"""The router: user, room and route of a message; unknown values are public."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.load import load_config
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.gateway.messages import name_author, write_model_text
from foreword.gateway.router import Route, make_routed_message, resolve_room, route
from foreword.gateway.session_manager import resolve_session_key
from foreword.types import Trust

CONFIG = load_config(
    """\
owner: alice
users:
  alice: {trust: full, identities: ["telegram:1001", "web:alice"]}
  bob: {trust: familiar, identities: ["telegram:1002"]}
  carol: {trust: inner}
situations:
  friends: {ceiling: inner}
  quiet: {ceiling: full, answer_noise: false}
rooms:
  kitchen: {places: ["telegram:-100", "signal:k"], members: [alice], trigger: always}
  attic: {places: ["telegram:-200"], ceiling: public}
  cellar: {places: ["telegram:-300"], situation: friends, trigger: regex, pattern: "\\\\breid\\\\b"}
  "telegram:-400": {trigger: always}
  stage: {places: ["telegram:-500"], trigger: always}
""",
    "foreword.yaml",
)
HI = InboundMessage(channel="telegram", sender="1001", text="What is on today?", key="1", address="1001")
GROUP = {"chat": ChatKind.GROUP, "address": "-100", "place": "-100", "called": True}


def find(heard, paired=""):
    """Return the clearance and the user of a message."""
    incoming = make_routed_message(heard, CONFIG, paired)
    return resolve_session_key(incoming, CONFIG).clearance.level, incoming.user


@pytest.mark.parametrize(
    ("fields", "paired", "expected"),
    [
        ({}, "", (Trust.FULL, "alice")),
        ({"channel": "telegram:work"}, "", (Trust.FULL, "alice")),
        ({"sender": "1002"}, "", (Trust.FAMILIAR, "bob")),
        ({"sender": "7"}, "", (Trust.PUBLIC, "telegram:7")),
        ({"sender": "7"}, "carol", (Trust.INNER, "carol")),
        ({"sender": "7"}, "dave", (Trust.PUBLIC, "telegram:7")),  # removed or renamed since
        ({"sender": "1001"}, "carol", (Trust.FULL, "alice")),  # the configuration takes precedence
        ({"sender": ""}, "carol", (Trust.PUBLIC, "")),
        ({"sender": "alice"}, "", (Trust.PUBLIC, "telegram:alice")),
        ({"channel": "signal"}, "", (Trust.PUBLIC, "signal:1001")),
        ({"channel": "web", "sender": "alice"}, "", (Trust.FULL, "alice")),
        ({"channel": "web", "sender": "zoe"}, "", (Trust.PUBLIC, "zoe")),
        ({"channel": "terminal", "sender": "bob"}, "", (Trust.FAMILIAR, "bob")),
    ],
)
def test_identities(fields, paired, expected):
    """An identity belongs to a user by configuration, then by pairing; any other is public under its own id."""
    assert find(replace(HI, **fields), paired) == expected


@pytest.mark.parametrize(
    ("fields", "situation", "level"),
    [
        ({}, "dm", Trust.FULL),
        ({**GROUP, "place": "-900"}, "group", Trust.FAMILIAR),  # Coop's example: full trust in a familiar group
        (GROUP, "group", Trust.FAMILIAR),
        ({**GROUP, "sender": "1002"}, "group", Trust.PUBLIC),  # known, but not a member of this room
        ({**GROUP, "place": "-200"}, "group", Trust.PUBLIC),
        ({**GROUP, "place": "-300"}, "friends", Trust.INNER),
        ({**GROUP, "place": "-500", "chat": ChatKind.BROADCAST}, "broadcast", Trust.PUBLIC),
        ({**GROUP, "place": "-900", "chat": ChatKind.BROADCAST}, "broadcast", Trust.PUBLIC),
        ({**GROUP, "place": "", "chat": ChatKind.BROADCAST}, "broadcast", Trust.PUBLIC),
        ({**GROUP, "place": ""}, "group", Trust.FAMILIAR),
        ({"situation": "friends"}, "friends", Trust.INNER),
        ({**GROUP, "place": "-900", "situation": "dm"}, "group", Trust.FAMILIAR),  # a request can only lower it
        ({"situation": "unheard-of"}, "unheard-of", Trust.PUBLIC),
        ({"channel": "scheduled", "sender": "alice"}, "system", Trust.FULL),
    ],
)
def test_situations(fields, situation, level):
    """The kind of chat determines the situation; a broadcast or an unknown situation is public."""
    heard = replace(HI, **fields)
    assert make_routed_message(heard, CONFIG).situation == situation
    assert find(heard)[0] is level


def test_rooms():
    """A room is identified by the ids of its places, not its title; an unlisted place has a stable name from its id."""
    heard = replace(HI, **GROUP, title="kitchen")
    assert resolve_room(heard, CONFIG) == "kitchen"
    assert resolve_room(replace(heard, channel="signal", place="k"), CONFIG) == "kitchen"
    assert resolve_room(replace(heard, channel="signal"), CONFIG) == "signal:-100"
    assert resolve_room(replace(heard, place="-400"), CONFIG) == "telegram:-400"
    assert resolve_room(replace(heard, chat=ChatKind.PRIVATE), CONFIG) == ""
    for title in ("kitchen", "attic", "", "\n"):
        assert resolve_room(replace(heard, place="-900", title=title), CONFIG) == "telegram:-900"
    for odd in ("../../etc", "a/b", "..", "x" * 500, "\ud800", "a\x00b", "(group)"):
        name = resolve_room(replace(heard, place=odd), CONFIG)
        assert name.removeprefix("telegram:").isalnum(), odd


@pytest.mark.parametrize(
    ("fields", "becomes", "why"),
    [
        ({}, Route.TURN, "private"),
        ({"text": "ok"}, Route.TURN, "private"),
        ({"text": "   "}, Route.IGNORED, "no text"),
        ({"text": "hello", "situation": "quiet"}, Route.IGNORED, "noise"),
        ({"text": "hello", "situation": "quiet", "address": ""}, Route.TURN, "private"),
        ({**GROUP, "place": "-900"}, Route.TURN, "addresses the agent"),
        ({**GROUP, "place": "-900", "called": False}, Route.OVERHEARD, "mentions alone"),
        ({**GROUP, "called": False}, Route.TURN, "answers everything"),
        ({**GROUP, "called": False, "text": "lol"}, Route.OVERHEARD, "noise: it is a greeting"),
        ({**GROUP, "text": "hello"}, Route.TURN, "addresses the agent"),
        ({**GROUP, "place": "-300", "called": False}, Route.OVERHEARD, "pattern"),
        ({**GROUP, "place": "-300", "called": False, "text": "So, Reid?"}, Route.TURN, "room's pattern matches"),
        ({**GROUP, "place": "-300", "called": False, "text": f"{'x' * 1000} reid"}, Route.OVERHEARD, "pattern"),
        ({**GROUP, "place": "-300"}, Route.TURN, "addresses the agent"),
        ({"text": "/pair AB23-CD45"}, Route.PAIRING, "paired"),
        ({"text": "ab23-cd45", "sender": "7"}, Route.PAIRING, "paired"),
        ({"text": "2345-6789"}, Route.TURN, "private"),  # a known user needs no code
        ({"text": "/pair"}, Route.PAIRING, "paired"),
        ({**GROUP, "text": "/pair@reid_bot"}, Route.PAIRING, "paired"),
        ({**GROUP, "text": "/pair@other_bot", "called": False, "place": "-900"}, Route.OVERHEARD, "mentions alone"),
        ({"text": "my code is AB23-CD45"}, Route.TURN, "private"),
        ({"text": "ABCD-EFGH"}, Route.TURN, "private"),  # not a code: it has no digit
        ({"channel": "web", "sender": "alice", "text": "/pair AB23-CD45", "address": ""}, Route.TURN, "private"),
        ({**GROUP, "text": "AB23-CD45"}, Route.TURN, "addresses the agent"),
    ],
)
def test_routes(fields, becomes, why):
    """Every private message is answered; in a room the trigger decides, and other messages are overheard."""
    decision = route(replace(HI, **fields), CONFIG)
    assert decision.route is becomes
    assert why in decision.reason


def test_codes_in_company():
    """In a group pairing codes are found anywhere in the text; in private only as a command or alone."""
    said = replace(HI, text="mine is ab23-cd45, or EF67-GH89!")
    assert route(replace(said, **GROUP), CONFIG).claim.codes == ("AB23-CD45", "EF67-GH89")
    assert route(said, CONFIG).claim.codes == ()


ANYTHING = st.text(max_size=40)
CLAIMED = ANYTHING | st.sampled_from(["alice", "Alice", "alice: ", "telegram:1001", "\nalice: yes", "kitchen", "owner"])


SITUATIONS = st.sampled_from(["", "dm", "system", "friends", "group", "x"])


@given(
    st.fixed_dictionaries({"name": CLAIMED, "title": CLAIMED, "text": CLAIMED, "situation": SITUATIONS}), st.booleans()
)
def test_words_prove_nothing(claims, group):
    """No display name, title or text changes the user of a message or raises its clearance."""
    where = {**GROUP, "place": "-900"} if group else {}
    for sender, most in (("1002", Trust.FAMILIAR), ("7", Trust.PUBLIC)):
        plain = replace(HI, sender=sender, **where)
        said = replace(plain, **claims)
        level, user = find(said)
        assert user == find(plain)[1] != "alice"
        assert level <= find(plain)[0] <= most
        if group:
            lines = write_model_text(make_routed_message(said, CONFIG)).split("\n")
            assert lines[0].startswith(f"{name_author(user)}: ")
            assert all(line.startswith("  ") for line in lines[1:])
            assert not any(line.lower().startswith("alice") for line in lines)


def test_labels():
    """A stranger's label is unique, stable and never equal to a user name."""
    labels = [name_author(user) for user in ("telegram:7", "telegram:8", "signal:7", "")]
    assert len(set(labels)) == 4
    assert labels[0] == name_author("telegram:7")
    assert all(" " in one for one in labels)
    assert name_author("alice") == "alice"
