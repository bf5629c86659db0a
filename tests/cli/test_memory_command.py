"""Claims about `foreword memory`."""

import pytest

from foreword.testing import write_files


@pytest.fixture(autouse=True)
def people(folder):
    """Add a memory that friends may know."""
    write_files(folder, {"memory/social/PEOPLE.md": "# People\n\nCarol's birthday is on 14 March.\n"})


def test_search(say):
    """The owner finds what is in every store, a friend in their own."""
    assert "14 March" in say("memory", "search", "Carol's birthday").out
    assert "A secret." in say("memory", "search", "secret").out
    assert say("memory", "search", "secret", "--user", "bob").out == "Nothing in memory answers that.\n"
    assert say("memory", "search", "secret", "--room", "family").out == "Nothing in memory answers that.\n"


def test_search_json(say):
    """As JSON a result has its place and its score."""
    (hit,) = say("memory", "search", "birthday", "--json").json
    assert (hit["path"], hit["first"], hit["text"]) == ("social/PEOPLE.md", 3, "Carol's birthday is on 14 March.")


def test_get(say):
    """A memory is read by its path, and one above the clearance is like one that does not exist."""
    assert say("memory", "get", "social/PEOPLE.md", "--from", "3").out == "Carol's birthday is on 14 March.\n"
    above, absent = (say("memory", "get", path, "--user", "bob") for path in ("private/NOTES.md", "private/NO.md"))
    assert above.code == absent.code == 2
    assert above.err.replace("NOTES", "NO") == absent.err


def test_list(say):
    """The list has what the clearance may load."""
    assert "private/NOTES.md" in say("memory", "list").out
    assert "private" not in say("memory", "list", "--user", "bob").out


def test_save_review_promote_forget(say):
    """An entry is saved, reviewed, promoted and forgotten."""
    save = ("memory", "save", "Bob likes rye", "--user", "bob", "--store", "social")
    path = say(*save).out.removeprefix("saved: ").strip()
    assert path.startswith("social/inbox/bob/")
    assert say(*save).out == f"known already: {path}\n"
    assert "(unreviewed, saved for bob at familiar on terminal" in say("memory", "review").out
    assert say("memory", "review", path, "--promote", "social/BREAD.md").out == "promoted: social/BREAD.md\n"
    assert say("memory", "review").out == "nothing waits for review\n"
    assert (
        say("memory", "forget", "social/BREAD.md").out
        == "Forgotten: social/BREAD.md. Recorded prompts no longer show it.\n"
    )
    assert say("memory", "search", "rye").out == "Nothing in memory answers that.\n"


def test_own_memory(say):
    """A save without a store is the person's own, found in private as that person; nothing waits for review."""
    path = say("memory", "save", "Bob likes rye", "--user", "bob").out.removeprefix("saved: ").strip()
    assert path.startswith("own/familiar/")
    assert "Bob likes rye" in say("memory", "search", "rye", "--user", "bob").out
    assert "Bob likes rye" in say("memory", "get", path, "--user", "bob").out
    assert "own/familiar" in say("memory", "list", "--user", "bob").out
    assert say("memory", "search", "rye", "--user", "bob", "--situation", "group").out.startswith("Nothing")
    assert say("memory", "search", "rye", "--user", "bob", "--situation", "group", "--store", "own").code == 2
    for words in (("search", "rye"), ("list",), ("list", "--store", "own"), ("review",)):
        out = say("memory", *words).out
        assert not [word for word in ("rye", "bob") if word in out]
    for words in (("get", path), ("forget", path), ("review", path), ("review", path, "--promote", "social/X.md")):
        assert say("memory", *words).code == 2
    assert '"store": "own"' not in say("status", "--json").out
    assert '"store": "own"' in say("status", "--json", "--reader", "bob").out
    assert say("memory", "reindex").out == "indexed: 2 documents\n"
    assert "Bob likes rye" in say("memory", "search", "rye", "--user", "bob").out
    assert say("memory", "forget", path, "--user", "bob").out.startswith(f"Forgotten: {path}.")


def test_review_has_a_clearance(say):
    """Who may not see an entry can neither review nor promote it."""
    path = say("memory", "save", "The ring is hidden", "--store", "private").out.removeprefix("saved: ").strip()
    assert say("memory", "review", "--user", "bob").out == "nothing waits for review\n"
    assert say("memory", "review", path, "--promote", "social/RING.md", "--user", "bob").code == 2
    assert say("memory", "save", "x", "--store", "private", "--user", "bob").code == 2


def test_reindex(say):
    """The index is built anew; progress is for a terminal alone."""
    answer = say("memory", "reindex")
    assert (answer.out, answer.err) == ("indexed: 2 documents\n", "")


def test_damaged(say, folder):
    """A damaged index is built anew, with a warning."""
    say("memory", "search", "birthday")
    (folder / ".foreword" / "memory.sqlite").write_bytes(b"nonsense" * 1_000)
    answer = say("memory", "search", "birthday")
    assert "14 March" in answer.out
    assert "damaged" in answer.err


@pytest.mark.parametrize("line", ["search", "get", "save", "forget", "search x --limit 0", "search x --json --limit 0"])
def test_bad_input(say, line):
    """What makes no sense is refused with code 2 and no trace."""
    answer = say("memory", *line.split())
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
