"""`foreword instructions`."""

import pytest


def test_show_set_clear(say, folder):
    """Instructions are set, shown whole, used in the next prompt, and cleared; showing creates no state."""
    assert say("instructions", "show").out == "(none)\n"
    assert not (folder / ".foreword" / "state.sqlite").exists()
    assert say("instructions", "set", "Answer in", "bullet points.").out == (
        "reid now has 24 characters of instructions from alice, from the next message on\n"
    )
    assert say("instructions", "show").out == "Answer in bullet points.\n"
    assert "Answer in bullet points." in say("build").out
    assert "Answer in bullet points." in say("build", "--blueprint", "spec010").out
    assert say("instructions", "clear").out == "reid now has no instructions from alice, from the next message on\n"
    assert say("instructions", "show").out == "(none)\n"
    assert "bullet points" not in say("build").out


def test_somebody_elses(say):
    """Each user has separate instructions, and a room has none."""
    say("instructions", "set", "Be brief.", "--user", "bob")
    assert say("instructions", "show", "--user", "bob", "--json").json == {
        "user": "bob",
        "agent": "reid",
        "instructions": "Be brief.",
        "characters": 9,
    }
    assert say("instructions", "show").out == "(none)\n"
    assert "Be brief." in say("build", "--user", "bob").out
    assert "Be brief." not in say("build", "--user", "bob", "--room", "family").out


def test_from_a_file_and_stdin(say, start, folder):
    """The text may come from a file or from stdin."""
    (folder / "wishes.md").write_text("Größe.\n\nZwei.\n")
    say("instructions", "set", "--file", "wishes.md")
    assert say("instructions", "show").out == "Größe.\n\nZwei.\n"
    start("instructions", "set", piped=b"Of stdin.")
    assert say("instructions", "show").out == "Of stdin.\n"


@pytest.mark.parametrize("words", [(), ("--file", "-"), ("--file", "empty.md"), ("",)])
def test_nothing_is_no_text(say, start, folder, words):
    """An empty text clears nothing: it may come from a failed pipe."""
    say("instructions", "set", "Be brief.")
    (folder / "empty.md").write_text("\n")
    answer = start("instructions", "set", *words)
    assert answer.code == 2
    assert "foreword instructions clear" in answer.err
    assert say("instructions", "show").out == "Be brief.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set"], "as TEXT, with --file FILE, or on stdin"),
        (["set", "x", "--file", "y"], "not both"),
        (["set", "x" * 20_001], "20,001 characters, but may have at most 20,000"),
        (["set", "--file", "none.md"], "none.md cannot be read"),
        (["show", "x"], "show takes no text"),
        (["clear", "x"], "clear takes no text"),
        (["show", "--agent", "ried"], "did you mean 'reid'"),
        (["show", "--user", ""], "no person given"),
        (["shwo"], "did you mean 'show'"),
    ],
)
def test_bad_input(start, words, said):
    """An impossible action is refused with a remedy and exit code 2."""
    answer = start("instructions", *words, typed="")
    assert answer.code == 2
    assert said in answer.err


def test_unknown_person(say, folder):
    """An unknown user is an error; the instructions of a former user can be shown and removed."""
    say("instructions", "set", "Be kind.", "--user", "bob")
    for words in (("set", "x"), ("show",), ("clear",)):
        answer = say("instructions", *words, "--user", "bobb")
        assert (answer.code, answer.out) == (2, "")
        assert "unknown user 'bobb'; did you mean 'bob'?" in answer.err
    (folder / "foreword.yaml").write_text((folder / "foreword.yaml").read_text().replace("  bob:", "  bo:"))
    for action, shown in (("show", "Be kind.\n"), ("clear", "reid now has no instructions from bob, from the next")):
        answer = say("instructions", action, "--user", "bob")
        assert answer.code == 0
        assert "'bob' is not a user in foreword.yaml" in answer.err
        assert answer.out.startswith(shown)
    assert say("instructions", "show", "--user", "bob").code == 2


def test_told(say):
    """A change is recorded in the log, without its text."""
    say("instructions", "set", "Secret wish.")
    (event,) = say("logs", "--event-type", "memory_write", "--json").json
    assert event["metadata"]["store"] == "instructions"
    assert "Secret" not in str(event)


def test_damaged(say, folder):
    """A damaged state is an error that names the file and the remedy, and is left unchanged."""
    say("instructions", "set", "x")
    path = folder / ".foreword" / "state.sqlite"
    path.write_text("no database at all, and long enough to be taken for one" * 20)
    before = path.read_bytes()
    for words in (("instructions", "show"), ("instructions", "set", "y"), ("build",), ("agent", "show")):
        answer = say(*words)
        assert answer.code == 2, words
        assert "restore it from a backup" in answer.err
    assert path.read_bytes() == before
