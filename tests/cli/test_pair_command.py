"""Claims about `foreword pair`: it makes a code, shows who is who, and takes a pairing back."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from foreword.gateway.pairing import Paired, redeem

USERS = ("alice", "bob")


def pair(folder, code, identity="telegram:7", name="Bobby"):
    """Send a code, as the gateway takes it."""
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite", isolation_level=None)) as state:
        who = Paired(identity=identity, user="", name=name, since=datetime.now(UTC))
        return redeem(state, code, who, USERS)


def test_code(say, folder):
    """What is printed is a code and nothing else; how to use it is on stderr, and only a hash of it is kept."""
    made = say("pair", "bob")
    code = made.out.strip()
    assert f"/pair {code}" in made.err
    assert code.encode() not in (folder / ".foreword" / "state.sqlite").read_bytes()
    assert pair(folder, code) == "bob"
    assert pair(folder, code) == ""
    assert "telegram:7" in say("pair", "list").out
    (listed,) = say("pair", "list", "--json").json
    assert (listed["identity"], listed["user"], listed["name"]) == ("telegram:7", "bob", "Bobby")


def test_newest(say, folder):
    """Of a person's codes the newest alone is good."""
    first, second = (say("pair", "bob", "--json").json["code"] for _ in range(2))
    assert pair(folder, first) == ""
    assert pair(folder, second) == "bob"


def test_revoke(say, folder):
    """What was paired is taken back by its identity, or with all that a person has."""
    pair(folder, say("pair", "bob").out.strip())
    assert say("pair", "revoke", "telegram:7").out == "revoked: telegram:7 of bob\n"
    code = say("pair", "bob").out.strip()
    assert say("pair", "revoke", "bob").out == "revoked: the code of bob\n"
    assert pair(folder, code) == ""
    assert "foreword pair USER" in say("pair", "list").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bbo",), "did you mean 'bob'"),
        (("bob", "--minutes", "0"), "minutes"),
        (("bob", "--minutes", "9999"), "minutes"),
        (("revoke",), "whom"),
        (("revoke", "telegram:9"), "no identity that was paired"),
        (("list", "bob"), "nothing more"),
        ((), "USER"),
    ],
)
def test_refused(say, words, told):
    """Every mistake says what to do."""
    refused = say("pair", *words)
    assert refused.code == 2
    assert told in refused.err
