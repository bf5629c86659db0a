"""`foreword memory`."""

import re

import pytest

from foreword.testing import write_files


@pytest.fixture(autouse=True)
def people(folder):
    """Add a memory that friends may see."""
    write_files(folder, {"memory/social/PEOPLE.md": "# People\n\nCarol's birthday is on 14 March.\n"})


def test_search(say):
    """The owner finds memories in every store, a friend in the permitted ones."""
    assert "14 March" in say("memory", "search", "Carol's birthday").out
    assert "A secret." in say("memory", "search", "secret").out
    assert say("memory", "search", "secret", "--user", "bob").out == "Nothing in memory answers that.\n"
    assert say("memory", "search", "secret", "--room", "family").out == "Nothing in memory answers that.\n"


def test_search_json(say):
    """As JSON a result has its place and its score."""
    (hit,) = say("memory", "search", "birthday", "--json").json
    assert (hit["path"], hit["first"], hit["text"]) == ("social/PEOPLE.md", 3, "Carol's birthday is on 14 March.")


def test_get(say):
    """A memory is read by its path, and one above the clearance is like a missing one."""
    assert say("memory", "get", "social/PEOPLE.md", "--from", "3").out == "Carol's birthday is on 14 March.\n"
    above, absent = (say("memory", "get", path, "--user", "bob") for path in ("private/NOTES.md", "private/NO.md"))
    assert above.code == absent.code == 2
    assert above.err.replace("NOTES", "NO") == absent.err


def test_list(say):
    """The list has the memories that the clearance allows."""
    assert "private/NOTES.md" in say("memory", "list").out
    assert "private" not in say("memory", "list", "--user", "bob").out


def test_save_review_promote_forget(say):
    """An entry is saved, reviewed, promoted and removed."""
    save = ("memory", "save", "Bob likes rye", "--user", "bob", "--store", "social")
    path = say(*save).out.removeprefix("saved: ").strip()
    assert path.startswith("social/inbox/bob/")
    assert say(*save).out == f"known already: {path}\n"
    assert "author: bob, at familiar\nplace: terminal\ndate: " in say("memory", "review").out
    promoted = say("memory", "review", path, "--promote", "social/BREAD.md").out
    assert promoted.startswith("promoted: social/BREAD.md\n\n--- /dev/null\n+++ memory/social/BREAD.md\n")
    assert "\n+Bob likes rye\n" in promoted
    assert say("memory", "review").out == "nothing waits for review\n"
    assert (
        say("memory", "forget", "social/BREAD.md").out
        == "Forgotten: social/BREAD.md. Recorded prompts no longer show it.\n"
    )
    assert say("memory", "search", "rye").out == "Nothing in memory answers that.\n"


def test_own_memory(say):
    """A save without a store is personal: found in the user's private conversations, and not reviewed."""
    path = say("memory", "save", "Bob likes rye", "--user", "bob").out.removeprefix("saved: ").strip()
    assert path.startswith("own/familiar/")
    assert "Bob likes rye" in say("memory", "search", "rye", "--user", "bob").out
    assert "Bob likes rye" in say("memory", "get", path, "--user", "bob").out
    assert "own/familiar" in say("memory", "list", "--user", "bob").out
    assert say("memory", "search", "rye", "--user", "bob", "--situation", "group").out.startswith("Nothing")
    assert say("memory", "search", "rye", "--user", "bob", "--situation", "group", "--store", "own").code == 2
    for words in (("search", "rye"), ("list",), ("list", "--store", "own"), ("review",)):
        out = say("memory", *words).out
        assert "rye" not in out
        assert "bob" not in out
    for words in (("get", path), ("forget", path), ("review", path), ("review", path, "--promote", "social/X.md")):
        assert say("memory", *words).code == 2
    assert '"store": "own"' not in say("status", "--json").out
    assert '"store": "own"' in say("status", "--json", "--reader", "bob").out
    assert say("memory", "reindex").out.startswith("indexed: 2 documents, 2 passages in ")
    assert "Bob likes rye" in say("memory", "search", "rye", "--user", "bob").out
    assert say("memory", "forget", path, "--user", "bob").out.startswith(f"Forgotten: {path}.")


def test_review_has_a_clearance(say, folder):
    """A user who may not see an entry can neither review nor promote it."""
    write_files(folder, {"memory/private/inbox/alice/x.md": "The ring is hidden.\n"})
    path = "private/inbox/alice/x.md"
    assert path in say("memory", "review").out
    assert say("memory", "review", "--user", "bob").out == "nothing waits for review\n"
    assert say("memory", "review", path, "--promote", "social/RING.md", "--user", "bob").code == 2
    assert say("memory", "save", "x", "--store", "private", "--user", "bob").code == 2


def test_owner_needs_no_review(say):
    """An owner's save in private is a note at once; a save in a room waits for review."""
    path = say("memory", "save", "The ring is hidden").out.removeprefix("saved: ").strip()
    assert path.startswith("own/full/")
    assert say("memory", "save", "The key too", "--store", "private").out.startswith("saved: private/notes/")
    assert say("memory", "review").out == "nothing waits for review\n"
    assert "The ring is hidden" in say("memory", "search", "ring").out
    assert say("memory", "save", "Rye on Friday", "--store", "social").out.startswith("saved: social/notes/")
    assert "Rye on Friday" in say("memory", "search", "rye", "--user", "bob").out
    assert say("memory", "save", "Cake", "--room", "family").out.startswith("saved: social/inbox/alice/")


def test_review_shows_the_change(say, folder):
    """A review shows author, place, date and the change; --promote without a place makes exactly this change."""
    entry = '---\nchannel: telegram\nsession: s1\ntime: "2026-11-15T12:00:00+00:00"\nclearance: familiar\n---\nRye.\n'
    write_files(folder, {"memory/social/inbox/bob/x.md": entry})
    shown = say("memory", "review").out
    assert shown.startswith(
        "social/inbox/bob/x.md\nauthor: bob, at familiar\nplace: telegram, session s1\ndate: 2026-11-15 13:00\n\n"
        "--- /dev/null\n+++ memory/social/notes/x.md\n"
    )
    assert "\n+Rye.\n\nto make this change: foreword memory review social/inbox/bob/x.md --promote\n" in shown
    (as_json,) = say("memory", "review", "--json").json
    assert as_json["provenance"]["session"] == "s1"
    assert (as_json["target"], as_json["problem"]) == ("social/notes/x.md", None)
    assert "+Rye." in as_json["diff"]
    assert say("memory", "review", "social/inbox/bob/x.md", "--promote").out.startswith("promoted: social/notes/x.md\n")
    assert (folder / "memory/social/notes/x.md").read_text().endswith("---\nRye.\n")


@pytest.mark.parametrize(("wanted", "target"), [("social", "social/notes/x.md"), ("gone", "private/notes/x.md")])
def test_review_shows_the_wish(say, folder, wanted, target):
    """An entry of an older version that was meant for another store says so and is offered for that store."""
    write_files(folder, {"memory/private/inbox/bob/x.md": f'---\nwanted: "{wanted}"\n---\nRye.\n'})
    shown = say("memory", "review").out
    assert f"\ndate: unknown\nmeant for: {wanted}\n\n--- /dev/null\n+++ memory/{target}\n" in shown
    assert say("memory", "review", "--json").json[0]["target"] == target
    assert say("memory", "review", "private/inbox/bob/x.md", "--promote").out.startswith(f"promoted: {target}\n")
    assert (folder / "memory" / target).read_text().endswith("---\nRye.\n")


def test_review_of_somebody_else(say, folder):
    """A user who cannot promote an entry sees its text and who can, but no note of the owner's."""
    write_files(folder, {"memory/social/inbox/bob/x.md": "Rye.\n", "memory/social/notes/x.md": "Known.\n"})
    shown = say("memory", "review", "--user", "bob").out
    assert "\nRye.\n" in shown
    assert "cannot be promoted: only the owner can promote it" in shown
    assert say("memory", "review", "--user", "bob", "--json").json[0]["diff"] is None
    assert (
        "cannot be promoted: memory/social/notes/x.md is there already; add to it with" in say("memory", "review").out
    )


def test_promoted_under_a_heading(say, folder):
    """An entry is added to a note under a heading; --dry-run only shows the change."""
    path = (
        say("memory", "save", "Bob likes rye", "--user", "bob", "--store", "social").out.removeprefix("saved: ").strip()
    )
    words = ["memory", "review", path, "--promote", "social/PEOPLE.md", "--heading", "Bread"]
    before = (folder / "memory/social/PEOPLE.md").read_text()
    planned = say(*words, "--dry-run").out
    assert planned.startswith("would be promoted: social/PEOPLE.md\n\n--- memory/social/PEOPLE.md\n")
    assert "+## Bread\n+\n+Bob likes rye\n" in planned
    assert (folder / "memory/social/PEOPLE.md").read_text() == before
    done = say(*words, "--json").json
    assert (done["target"], done["dry_run"]) == ("social/PEOPLE.md", False)
    assert "+## Bread\n+\n+Bob likes rye" in done["diff"]
    after = (folder / "memory/social/PEOPLE.md").read_text()
    assert after.endswith(before + "\n## Bread\n\nBob likes rye\n")
    assert after.startswith('<!-- promoted: author="bob"')
    assert say("memory", "review").out == "nothing waits for review\n"
    assert "promoted:" not in say("memory", "get", "social/PEOPLE.md").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["review", "--heading", "x"], "need --promote, as in: foreword memory review PATH --promote PLACE"),
        (["review", "--dry-run"], "need --promote, as in: foreword memory review PATH --promote PLACE"),
        (["review", "--promote"], "needs a path"),
        (["review", "none.md", "--promote"], "foreword memory review lists them"),
        (["review", "social/inbox/bob/x.md", "--promote", "--heading", " "], "--heading is empty"),
        (["review", "social/inbox/bob/x.md", "--promote", "social/PEOPLE.md"], "add to it with --heading TEXT"),
        (["review", "social/inbox/bob/x.md", "--promote", "memories.json", "--heading", "x"], "omit --heading"),
        (["review", "social/inbox/bob/x.md", "--promote", "PEOPLE.md"], "write STORE/NAME.md"),
    ],
)
def test_bad_review(say, folder, words, said):
    """An impossible promotion is refused with the remedy, and the entry stays."""
    write_files(folder, {"memory/social/inbox/bob/x.md": "Rye.\n"})
    answer = say("memory", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert (folder / "memory/social/inbox/bob/x.md").exists()


def test_reindex(say):
    """Reindexing reports the number of documents and the duration; progress is for a terminal only."""
    answer = say("memory", "reindex")
    assert re.fullmatch(r"indexed: 2 documents, 2 passages in \d+\.\d s\n", answer.out)
    assert answer.err == ""


def test_progress_within_a_document(say, folder, monkeypatch):
    """A terminal shows progress while one long chat export is indexed."""
    lines = "\n".join(f"[2026-03-14 10:{at % 60:02}] {'Ann' if at % 2 else 'Ben'}: message {at}" for at in range(2_500))
    write_files(folder, {"memory/social/CHAT.md": f"{lines}\n"})
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for answer in (say("memory", "search", "message 2222"), say("memory", "reindex")):
        assert "indexing social: 0 of 2 documents, 1,000 passages" in answer.err
        assert "indexing social: 0 of 2 documents, 2,000 passages" in answer.err
    assert "2,502 passages in " in answer.out
    assert say("memory", "search", "message 2222").err == ""


def test_damaged(say, folder):
    """A damaged index is rebuilt with a warning."""
    say("memory", "search", "birthday")
    (folder / ".foreword" / "memory.sqlite").write_bytes(b"nonsense" * 1_000)
    answer = say("memory", "search", "birthday")
    assert "14 March" in answer.out
    assert "damaged" in answer.err


@pytest.mark.parametrize("line", ["search", "get", "save", "forget", "search x --limit 0", "search x --json --limit 0"])
def test_bad_input(say, line):
    """Invalid input is refused with code 2 and no traceback."""
    answer = say("memory", *line.split())
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err


def test_forget_by_hand(say, folder):
    """A hand-written file is removed only with --yes."""
    write_files(folder, {"memory/social/FRIENDS.md": "Ann\nBen\n"})
    answer = say("memory", "forget", "social/FRIENDS.md")
    assert (answer.code, answer.out) == (2, "")
    assert "social/FRIENDS.md was written by hand (2 lines); to remove the file, add --yes" in answer.err
    assert (folder / "memory/social/FRIENDS.md").exists()
    assert say("memory", "forget", "social/FRIENDS.md", "--yes").out.startswith("Forgotten: social/FRIENDS.md.")
    assert not (folder / "memory/social/FRIENDS.md").exists()


def test_own_files_are_private(say, folder):
    """A file of personal memory has private file permissions."""
    path = say("memory", "save", "A wish.", "--user", "bob").out.removeprefix("saved: own/").strip()
    assert (folder / "users/bob/memory" / path).stat().st_mode & 0o777 == 0o600


def test_entry_without_text_is_not_promoted(say, folder):
    """An entry without text cannot be promoted; the message says how to remove it."""
    write_files(folder, {"memory/social/inbox/bob/x.md": "---\nauthor: bob\n---\n"})
    answer = say("memory", "review", "social/inbox/bob/x.md", "--promote", "memories.json")
    assert answer.code == 2
    assert "has no text to promote; remove it with: foreword memory forget social/inbox/bob/x.md" in answer.err


def test_only_the_owner_promotes(say, folder):
    """The message to another user who sees an entry says that only the owner promotes it."""
    write_files(folder, {"memory/social/inbox/bob/x.md": "Rye.\n"})
    answer = say("memory", "review", "social/inbox/bob/x.md", "--promote", "--user", "bob")
    assert answer.code == 2
    assert "only the owner promotes an entry" in answer.err


@pytest.mark.parametrize(
    ("arguments", "option", "action"),
    [
        (["forget", "social/PEOPLE.md", "--dry-run"], "--dry-run", "review"),
        (["list", "--promote", "x"], "--promote", "review"),
        (["search", "boiler", "--yes"], "--yes", "forget"),
        (["list", "--limit", "3"], "--limit", "search"),
        (["search", "boiler", "--from", "2"], "--from", "get"),
    ],
)
def test_option_of_another_action(say, arguments, option, action):
    """An option that belongs to another action is refused, and nothing is changed."""
    refused = say("memory", *arguments)
    assert refused.code == 2
    assert f"{option} goes with memory {action}, not with memory {arguments[0]}" in refused.err


def test_unlisted_room(say):
    """A room that the configuration does not list causes a warning."""
    assert "room 'attic' is not listed under `rooms`" in say("memory", "list", "--room", "attic").err
