"""API tokens: random, stored as hashes, and refused identically for every reason."""

from datetime import timedelta

import pytest

from foreword.errors import InputError, UnknownName
from foreword.secret import find_secrets
from foreword.storage.api_tokens import TOKEN_PREFIX, ApiTokens
from foreword.storage.database import STATE_FILE
from foreword.testing import NOON, FrozenClock

USERS = ("alice", "bob")


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def tokens(tmp_path, clock):
    with ApiTokens(str(tmp_path), clock) as opened:
        yield opened


def test_round(tokens):
    """A created token is found as its user's."""
    made = tokens.create("alice", USERS, name="phone")
    found = tokens.find(made.secret, USERS)
    assert (found.user, found.name, found.id) == ("alice", "phone", made.token.id)


def test_256_bits(tokens):
    """A token has 256 random bits and is unique."""
    secrets = {tokens.create("alice", USERS).secret for _ in range(20)}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {len(TOKEN_PREFIX) + 43}


def test_not_stored(tokens, tmp_path):
    """No file contains the token itself."""
    made = tokens.create("alice", USERS)
    for path in tmp_path.iterdir():
        assert made.secret.encode() not in path.read_bytes(), path.name
    assert (tmp_path / STATE_FILE).exists()


def test_looks_like_a_secret(tokens):
    """A token in a text is detected as a secret, so that it is redacted in logs and reported in files."""
    assert any(find_secrets(f"use {tokens.create('alice', USERS).secret} here"))


def test_whatever_is_wrong_takes_one_way(tokens, clock):
    """Unknown, malformed, revoked, expired and orphaned tokens all take one identical index lookup."""
    gone, old = tokens.create("alice", USERS), tokens.create("alice", USERS, days=1)
    tokens.revoke(gone.token.id)
    left = tokens.create("bob", USERS).secret
    clock.now = NOON + timedelta(days=2)
    asked: list[str] = []
    tokens._connection.set_trace_callback(asked.append)
    ways = []
    for secret in (f"{TOKEN_PREFIX}{'x' * 43}", "", "ä\ud800", "x" * 100_000, gone.secret, old.secret, left):
        asked.clear()
        assert tokens.find(secret, ("alice",)) is None
        ways.append([statement.partition("WHERE")[0] for statement in asked])
    assert all(way == ways[0] for way in ways)
    assert len(ways[0]) == 1
    plan = tokens._connection.execute("EXPLAIN QUERY PLAN SELECT id FROM tokens WHERE hash = ?", ("x",)).fetchall()
    assert "USING" in plan[0][-1]
    assert "INDEX" in plan[0][-1]


def test_expires(tokens, clock):
    """A token with `days` is valid exactly until their end."""
    made = tokens.create("alice", USERS, days=3)
    clock.now = NOON + timedelta(days=3, microseconds=-1)
    assert tokens.find(made.secret, USERS)
    clock.now = NOON + timedelta(days=3)
    assert tokens.find(made.secret, USERS) is None


def test_last_use(tokens, clock):
    """The last use is stored with a resolution of one hour, so that most lookups write nothing."""
    made = tokens.create("alice", USERS)
    tokens.find(made.secret, USERS)
    clock.now = NOON + timedelta(minutes=59)
    tokens.find(made.secret, USERS)
    assert tokens.find_all()[0].used == NOON
    clock.now = NOON + timedelta(minutes=60)
    tokens.find(made.secret, USERS)
    assert tokens.find_all()[0].used == clock.now


def test_revoke_all(tokens):
    """Revoking by user revokes all tokens of that user and no others."""
    first, second = tokens.create("alice", USERS), tokens.create("alice", USERS)
    other = tokens.create("bob", USERS)
    assert {token.id for token in tokens.revoke("alice")} == {first.token.id, second.token.id}
    assert tokens.find(first.secret, USERS) is None
    assert tokens.find(other.secret, USERS)


def test_refused(tokens):
    """An unknown user, invalid days and invalid names are refused."""
    with pytest.raises(UnknownName, match="did you mean 'alice'"):
        tokens.create("alic", USERS)
    with pytest.raises(InputError, match="days"):
        tokens.create("alice", USERS, days=0)
    with pytest.raises(InputError, match="printable"):
        tokens.create("alice", USERS, name="a\nb")
    with pytest.raises(InputError, match="neither the id of a token"):
        tokens.revoke("nobody")
