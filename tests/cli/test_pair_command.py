"""`foreword pair`: creates a code, lists pairings, and revokes them."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from foreword.gateway.pairing import redeem_code
from foreword.storage.pairings import PairedIdentity

USERS = ("alice", "bob")


def pair(folder, code, identity="telegram:7", name="Bobby"):
    """Redeem a code like the gateway does."""
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite", isolation_level=None)) as state:
        who = PairedIdentity(identity=identity, user="", name=name, since=datetime.now(UTC))
        return redeem_code(state, code, who, USERS)


def test_code(say, folder):
    """Only the code is on stdout; its usage is on stderr, and only a hash is stored."""
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
    """Only the newest code of a user is valid."""
    first, second = (say("pair", "bob", "--json").json["code"] for _ in range(2))
    assert pair(folder, first) == ""
    assert pair(folder, second) == "bob"


def test_revoke(say, folder):
    """A pairing is revoked by its identity, or with all pairings of a user."""
    pair(folder, say("pair", "bob").out.strip())
    assert say("pair", "revoke", "telegram:7").out == "revoked: telegram:7 of bob\n"
    code = say("pair", "bob").out.strip()
    assert say("pair", "revoke", "bob").out == "revoked: the code of bob\n"
    assert pair(folder, code) == ""
    assert "foreword pair USER" in say("pair", "list").out


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("bbo",), "did you mean 'bob'"),
        (("bob", "--minutes", "0"), "minutes"),
        (("bob", "--minutes", "9999"), "minutes"),
        (("revoke",), "needs an identity"),
        (("revoke", "telegram:9"), "neither a paired identity"),
        (("list", "bob"), "no further argument"),
        ((), "USER"),
    ],
)
def test_refused(say, words, shown):
    """Every error gives a remedy."""
    refused = say("pair", *words)
    assert refused.code == 2
    assert shown in refused.err
