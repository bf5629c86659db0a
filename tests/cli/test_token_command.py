"""`foreword token`: creates, lists and revokes tokens, and shows a token once."""

from foreword.storage.api_tokens import ApiTokens

USERS = ("alice", "bob")


def find(folder, secret):
    """Look up a token like the API does."""
    with ApiTokens(str(folder / ".foreword")) as tokens:
        return tokens.find(secret, USERS)


def test_create(say, folder):
    """Only the token is on stdout, for use in scripts; the rest is on stderr."""
    made = say("token", "create", "alice", "--name", "phone", "--days", "30")
    assert made.code == 0
    assert "cannot be shown again" in made.err
    assert find(folder, made.out.strip()).user == "alice"
    listed = say("token", "list")
    assert "phone" in listed.out
    assert made.out.strip() not in listed.out


def test_json(say, folder):
    """With --json a token comes with its metadata."""
    made = say("token", "create", "bob", "--json").json
    assert find(folder, made["token"]).user == "bob"
    (listed,) = say("token", "list", "bob", "--json").json
    assert listed["id"] == made["id"]
    assert "token" not in listed


def test_revoke(say, folder):
    """A revoked token is refused at once; a user name revokes all tokens of that user."""
    first, second = (say("token", "create", "alice", "--json").json for _ in range(2))
    assert say("token", "revoke", first["id"]).out == f"revoked: {first['id']} of alice\n"
    assert find(folder, first["token"]) is None
    assert find(folder, second["token"])
    say("token", "revoke", "alice")
    assert find(folder, second["token"]) is None
    assert "foreword token create" in say("token", "list").out


def test_refused(say):
    """An unknown user gets no token, and every error gives a remedy."""
    for words, shown in (
        (("create", "alic"), "did you mean 'alice'"),
        (("create",), "needs a user"),
        (("create", "alice", "--days", "0"), "days"),
        (("revoke", "nothing"), "neither the id of a token"),
        (("list", "alic"), "unknown user 'alic'; did you mean 'alice'?"),
        (("mint", "alice"), "create"),
    ):
        answer = say("token", *words)
        assert answer.code == 2
        assert shown in answer.err


def test_list_of_one(say, folder):
    """A user without tokens is named in the answer; tokens of a user who is no longer configured are listed."""
    assert say("token", "list", "bob").out == "bob has no tokens; create one with: foreword token create bob\n"
    made = say("token", "create", "bob", "--json").json
    (folder / "foreword.yaml").write_text((folder / "foreword.yaml").read_text().replace("  bob:", "  bo:"))
    assert made["id"] in say("token", "list", "bob").out
