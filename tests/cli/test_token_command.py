"""Claims about `foreword token`: it makes, lists and revokes, and shows a token once."""

from foreword.gateway.tokens import Tokens

USERS = ("alice", "bob")


def find(folder, secret):
    """Find a token as the API does."""
    with Tokens(str(folder / ".foreword")) as tokens:
        return tokens.find(secret, USERS)


def test_create(say, folder):
    """What create prints is a token and nothing else, for whatever needs one; the rest is on stderr."""
    made = say("token", "create", "alice", "--name", "phone", "--days", "30")
    assert made.code == 0
    assert "cannot be read again" in made.err
    assert find(folder, made.out.strip()).user == "alice"
    listed = say("token", "list")
    assert "phone" in listed.out
    assert made.out.strip() not in listed.out


def test_json(say, folder):
    """With --json a token comes with what is known about it."""
    made = say("token", "create", "bob", "--json").json
    assert find(folder, made["token"]).user == "bob"
    (listed,) = say("token", "list", "bob", "--json").json
    assert listed["id"] == made["id"]
    assert "token" not in listed


def test_revoke(say, folder):
    """A revoked token is refused from then on; by a name, all of a person are."""
    first, second = (say("token", "create", "alice", "--json").json for _ in range(2))
    assert say("token", "revoke", first["id"]).out == f"revoked: {first['id']} of alice\n"
    assert find(folder, first["token"]) is None
    assert find(folder, second["token"])
    say("token", "revoke", "alice")
    assert find(folder, second["token"]) is None
    assert "foreword token create" in say("token", "list").out


def test_refused(say):
    """Nobody unknown gets a token, and every mistake says what to do."""
    for words, told in (
        (("create", "alic"), "did you mean 'alice'"),
        (("create",), "whom it is about"),
        (("create", "alice", "--days", "0"), "days"),
        (("revoke", "nothing"), "no token"),
        (("list", "alic"), "unknown user 'alic'; did you mean 'alice'?"),
        (("mint", "alice"), "create"),
    ):
        answer = say("token", *words)
        assert answer.code == 2
        assert told in answer.err


def test_list_of_one(say, folder):
    """Who has no token is told so by name, and the tokens of who is not in foreword.yaml any more are listed."""
    assert say("token", "list", "bob").out == "bob has no token; make one with: foreword token create bob\n"
    made = say("token", "create", "bob", "--json").json
    (folder / "foreword.yaml").write_text((folder / "foreword.yaml").read_text().replace("  bob:", "  bo:"))
    assert made["id"] in say("token", "list", "bob").out
