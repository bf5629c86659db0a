"""`foreword forget` and `foreword export --user`."""

import json
import os
import stat

import pytest

from event_rows import make_event, record_events
from foreword.storage.agents import replace_instructions
from foreword.storage.database import use_state
from foreword.testing import write_files
from foreword.types import Trust


@pytest.fixture(autouse=True)
def kept(folder):
    """Data of two users."""
    record_events(str(folder / ".foreword"), *(make_event(user=user) for user in ("alice", "bob")))
    with use_state(str(folder / ".foreword")) as state:
        for user in ("alice", "bob"):
            replace_instructions(state, user, "reid", f"Call me {user}token.")
    write_files(folder, {"users/bob/USER.md": "A gardener.\n"})


def has(folder, token):
    """Return whether a token is in a file of the state."""
    return any(token.encode() in path.read_bytes() for path in (folder / ".foreword").iterdir())


def test_forget(say, folder):
    """A user is erased, with a table of removed and retained data, and a second scan finds nothing."""
    answer = say("forget", "bob", "--yes")
    assert (answer.code, answer.err) == (0, "")
    assert "instructions" in answer.out
    assert "foreword.yaml:6: users.bob names them" in answer.out
    assert answer.out.endswith("bob is forgotten: verification found nothing left\n")
    assert not has(folder, "bobtoken")
    assert has(folder, "alicetoken")
    assert not (folder / "users" / "bob").exists()


def test_dry_run(say, folder):
    """--dry-run lists the data and removes nothing, with or without --yes."""
    answer = say("forget", "bob", "--dry-run", "--yes")
    assert answer.code == 0
    assert answer.out.endswith("of bob would be removed\n")
    assert has(folder, "bobtoken")


def test_json(say):
    """--json has the whole report."""
    report = say("forget", "bob", "--yes", "--json").json
    assert report["done"] is True
    assert report["user"] == "bob"
    assert {"name": "own files", "where": "users/bob/", "found": 1, "removed": 1, "left": 0} in report["lines"]


def test_nobody_is_asked_where_nobody_types(say, folder):
    """Without --yes and without a terminal nothing is removed, and the answer gives the remedy."""
    answer = say("forget", "bob")
    assert answer.code == 2
    assert "--dry-run" in answer.err
    assert "foreword export --user bob, or confirm with --yes" in answer.err
    assert has(folder, "bobtoken")


@pytest.mark.parametrize(("typed", "gone"), [("bob\n", True), ("yes\n", False), ("\n", False), ("", False)])
def test_asking(start, folder, typed, gone):
    """In a terminal only the full name confirms."""
    answer = start("forget", "bob", typed=typed)
    assert answer.code == 0
    assert has(folder, "bobtoken") is not gone
    assert ("nothing was removed" in answer.out) is not gone


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("forget",), "the following arguments are required: USER"),
        (("forget", "bobb", "--yes"), "unknown user 'bobb'; did you mean 'bob'?"),
        (("forget", "alice", "--yes"), "alice owns this workspace"),
        (("forget", " ", "--yes"), "is not a valid user name"),
        (("forget", "../bob", "--yes"), "unknown user '../bob'"),
        (("forget", "bob", "--yes", "--patience", "-1"), "--patience must be from 0 to 86,400 seconds"),
        (("forget", "bob", "--yes", "--patience", "nan"), "--patience must be from 0 to 86,400 seconds"),
        (("forget", "bob", "--everything"), "unknown option --everything"),
        (("export", "--user", "bobb"), "unknown user 'bobb'; did you mean 'bob'?"),
        (("export", "--user", "bob", "--prune"), "takes no --prune"),
        (("export", "--user", "bob", "--since", "1h", "--room", "family"), "takes no --since and no --room"),
        (("export", "--user", "bob", "--trust", "all"), "unknown value 'all' for --trust"),
        (("export", "--trust", "full"), "needs --user"),
        (("export", "--user", ""), "is not a valid user name"),
    ],
)
def test_bad_input(say, folder, words, shown):
    """Invalid options are refused with code 2, and nothing is removed."""
    answer = say(*words)
    assert answer.code == 2
    assert shown in answer.err
    assert has(folder, "bobtoken")


def test_somebody_who_has_left_the_configuration(say, folder):
    """The data of a user who is no longer configured can be exported and erased."""
    text = (folder / "foreword.yaml").read_text()
    (folder / "foreword.yaml").write_text(text.replace("  bob: {trust: familiar}\n", ""))
    assert "bobtoken" in say("export", "--user", "bob", "--trust", "full").out
    assert say("forget", "bob", "--yes").code == 0
    assert not has(folder, "bobtoken")
    assert say("forget", "bob", "--yes").code == 2


def test_export(say, folder):
    """The file is written atomically, with one line per item and no data of other users."""
    answer = say("export", "bob.jsonl", "--user", "bob")
    assert os.name != "posix" or stat.S_IMODE(os.stat("bob.jsonl").st_mode) == 0o600
    assert answer.out.startswith("exported: ")
    first, *rest = [json.loads(line) for line in (folder / "bob.jsonl").read_text().splitlines()]
    assert first["user"] == "bob"
    assert {line["holding"] for line in rest} >= {"instructions", "own files", "events"}
    assert "alicetoken" not in (folder / "bob.jsonl").read_text()
    assert say("export", "bob.jsonl", "--user", "bob").code == 2


def test_what_is_above_is_told_to_the_owner_alone(say, folder):
    """Items above the user's clearance are left out; the owner is warned on stderr and can include them."""
    record_events(str(folder / ".foreword"), make_event(user="bob", trust=Trust.FULL, session="highsession"))
    answer = say("export", "--user", "bob")
    assert "highsession" not in answer.out
    assert "--trust full" in answer.err
    assert "highsession" in say("export", "--user", "bob", "--trust", "full").out


def test_a_damaged_state(say, folder):
    """A damaged state is refused with an error message and left unchanged."""
    place = folder / ".foreword" / "state.sqlite"
    for ending in ("-wal", "-shm"):
        if os.path.exists(f"{place}{ending}"):
            os.unlink(f"{place}{ending}")
    place.write_bytes(b"no database at all, and longer than a page header would be" * 40)
    answer = say("forget", "bob", "--yes")
    assert answer.code == 2
    assert "state.sqlite is damaged" in answer.err
