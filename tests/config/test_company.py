"""Claims about identities and places: every mistake is refused with its line, and no pattern runs away."""

import time

import pytest

from foreword.config.load import MAX_PATTERN_CHARS, MAX_SEARCHED_CHARS, check_pattern, load_config, make_search
from foreword.errors import ConfigError

HEAD = "owner: alice\nusers:\n  alice: {identities: ['telegram:1001']}\n  bob: {}\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("  eve: {identities: [telegram]}", ":5: users.eve.identities[0] must be a channel, a colon and"),
        ("  eve: {identities: ['telegram: 7']}", ":5: users.eve.identities[0] must be a channel, a colon and"),
        (
            "  eve: {identities: ['telegram:1001']}",
            ":5: users.eve.identities[0] is 'telegram:1001', which line 3 already",
        ),
        (
            "  eve: {identities: ['web:alice']}",
            ":5: users.eve.identities[0] belongs to another user: on web the identity is the user's name",
        ),
        ("rooms: {r: {places: ['-100']}}", ":5: rooms.r.places[0] must be a channel, a colon and"),
        ("rooms:\n  r: {places: ['t:1']}\n  s: {places: ['t:1']}", ":7: rooms.s.places[0] is 't:1', which is already"),
        ("rooms:\n  r: {places: ['t:1']}\n  't:1': {}", ":6: rooms.r.places[0] is 't:1', which is already a room"),
        ("strangers: {turns: -1}", ":5: strangers.turns must not be below 0, not -1"),
        ("rooms: {r: {members: [alcie]}}", ":5: rooms.r.members[0] is 'alcie', who is not listed under users; did you"),
        ("rooms: {r: {trigger: sometimes}}", ":5: rooms.r.trigger must be"),
        ("rooms: {r: {trigger: regex}}", ":5: rooms.r.pattern is missing"),
        ("rooms: {r: {pattern: hi}}", ":5: rooms.r.pattern needs `trigger: regex`"),
        ("rooms:\n  r:\n    trigger: regex\n    pattern: '('", ":8: rooms.r.pattern is not a regular expression"),
        ("rooms: {r: {trigger: regex, pattern: '(a+)+b'}}", ":5: rooms.r.pattern repeats a part that can itself vary"),
    ],
)
def test_refused(text, fault):
    """An invalid identity, place, member or trigger is a fault with its line."""
    with pytest.raises(ConfigError) as caught:
        load_config(HEAD + text)
    (shown,) = caught.value.faults
    assert fault in str(shown)


def test_taken():
    """The parser accepts well-formed entries, and a missing key has the documented default."""
    config = load_config(f"{HEAD}rooms:\n  r: {{places: ['t:-1', 't:-2'], members: []}}\n  's:1': {{places: ['s:1']}}")
    assert config.users["alice"].identities == ("telegram:1001",)
    assert (config.rooms["r"].members, config.rooms["s:1"].members) == ((), None)
    assert config.rooms["r"].trigger == "mention"


SLOW = [
    "(a+)+b",
    "(a|a)*b",
    "(a|ab)+c",
    ".*.*x",
    "(a?){50}b",
    "(a*){3}b",
    "(?:a{0,9}){9}",
    "a*a*b",
    "(.+)(.+)x",
    "(a{2,5})+",
]
ODD = [
    "(?=x)",
    "(?i)x",
    "(?P<n>x)",
    r"(x)\1",
    "(?<=x)y",
    "(?>a)",
    "[",
    "x{99999999999}",
    "a" * (MAX_PATTERN_CHARS + 1),
    "\\",
]
FINE = [
    r"\breid\b",
    "^(hey|hi),? reid",
    "remind me.*",
    "[a-z]+ please",
    "(ab){2,3}c?",
    "x{3}",
    "a|b|c",
    r"^.*x.*y",
    "[]a]+",
]


@pytest.mark.parametrize("pattern", [*SLOW, *ODD])
def test_no_such_pattern(pattern):
    """A pattern that could take long, or uses features that no trigger needs, is refused with an explanation."""
    assert check_pattern(pattern)


@pytest.mark.parametrize("pattern", FINE)
def test_quick(pattern):
    """An accepted pattern ends soon on any text."""
    assert check_pattern(pattern) == ""
    search = make_search(pattern)
    began = time.process_time()
    for text in ("a" * MAX_SEARCHED_CHARS * 2, "ab" * MAX_SEARCHED_CHARS, "hey reid" * MAX_SEARCHED_CHARS, ""):
        search(text)
    assert time.process_time() - began < 5


def test_search():
    """The search ignores case and does not read far into a text."""
    search = make_search(r"\breid\b")
    assert search("So, REID?")
    assert not search("freidel")
    assert not search("x" * MAX_SEARCHED_CHARS + " reid")
