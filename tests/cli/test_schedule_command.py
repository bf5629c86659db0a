"""`foreword schedule`: adds, lists and cancels, and refuses invalid schedules with a message."""

import pytest

from foreword.storage.database import use_state
from foreword.testing import ScriptedReply, run_fake_provider
from foreword.testing import write_files as write

YAML = 'schedule: [{name: brief, cron: "0 8 * * *", user: alice, say: "Morning check."}]\n'


def extend(folder, more):
    """Append to the configuration."""
    write(folder, {"foreword.yaml": (folder / "foreword.yaml").read_text() + more})


def test_add_and_cancel(say):
    """An added schedule is listed with its next time in the user's zone, until it is cancelled."""
    assert "no schedules" in say("schedule", "list").out
    made = say("schedule", "add", "--cron", "0  8 * * 1-5", "--say", "What is on?", "--name", "brief", "--json").json
    assert (made["user"], made["zone"], made["delivery"], made["origin"]) == (
        "alice",
        "Europe/Paris",
        "always",
        "person",
    )
    listed = say("schedule", "list", "--json").json
    assert [one["schedule"] for one in listed] == [made["schedule"]]
    (run,) = say("status", "--json").json["next_runs"]
    assert [run[name] == made[name] for name in ("schedule", "name", "user", "due")] == [True] * 4
    assert say("schedule", "list", "--user", "bob", "--json").json == []
    assert "08:00" in say("schedule", "list").out
    assert say("schedule", "cancel", "brief").out == "cancelled: brief\n"
    assert say("schedule", "list", "--json").json == []


def test_the_configuration_is_listed(say, folder):
    """Schedules of foreword.yaml are listed, and can be ended only there."""
    extend(folder, YAML)
    assert [one["schedule"] for one in say("schedule", "list", "--json").json] == ["brief"]
    refused = say("schedule", "cancel", "brief")
    assert refused.code == 2
    assert "foreword.yaml" in refused.err


def test_a_name_is_taken_once(say, folder):
    """A duplicate name for the same user is refused, in the configuration or not; another user may have it."""
    extend(folder, YAML)
    for name, user, code in (("brief", "alice", 2), ("tea", "alice", 0), ("tea", "alice", 2), ("tea", "bob", 0)):
        answer = say("schedule", "add", "--at", "2199-01-01T08:00", "--say", "x", "--name", name, "--user", user)
        assert (answer.code, "another name" in answer.err) == (code, code == 2)


def test_what_has_no_name_is_known_by_what_it_says(say, monkeypatch):
    """An unnamed schedule is listed with the start of its text and a derived name that other actions accept."""
    monkeypatch.setenv("COLUMNS", "300")
    words = "What is on today, and who is coming to see us in the evening?"
    made = say("schedule", "add", "--cron", "0 8 * * *", "--say", words, "--json").json
    assert made["name"] == "what-is-on-today-and-who"
    shown = say("schedule", "list").out
    assert "what-is-on-today-and-who" in shown
    assert "What is on today, and who is coming to…" in shown
    assert "waits for foreword serve" not in shown
    assert say("schedule", "cancel", "what-is-on-today-and-who").out == "cancelled: what-is-on-today-and-who\n"


def test_an_unknown_zone(say, folder):
    """An unknown zone is refused in an option, and is a warning in the configuration."""
    refused = say("schedule", "add", "--at", "18:00", "--zone", "Mars/Phobos", "--say", "hi")
    assert refused.code == 2
    assert "zone is 'Mars/Phobos', which is no time zone" in refused.err
    config = (folder / "foreword.yaml").read_text().replace("Europe/Paris", "Berlin")
    write(folder, {"foreword.yaml": config})
    for when in (("--at", "2199-01-01T18:00"), ("--cron", "0 8 * * *")):
        planned = say("schedule", "add", *when, "--say", "hi")
        assert planned.code == 0
        assert "warning: time zone 'Berlin' is not known, so UTC is used" in planned.err


def test_what_was_planned_is_said_once(say):
    """The confirmation gives the time once, in the user's zone, and the destination of replies."""
    made = say("schedule", "add", "--at", "2199-01-01T18:00", "--say", "hi", "--name", "tea").out
    assert "(tea), once on 2199-01-01 18:00 (Europe/Paris); replies go to the private address that alice used" in made
    assert "2199-01-01T" not in made
    never = say("schedule", "add", "--cron", "0 8 * * *", "--say", "hi", "--delivery", "never").out
    assert "cron 0 8 * * *, next 20" in never
    assert "; replies are not sent: hi" in never


def test_what_is_overdue_waits_for_serve(say, folder, monkeypatch):
    """If no server runs, the list says what an overdue schedule waits for."""
    monkeypatch.setenv("COLUMNS", "300")
    say("schedule", "add", "--cron", "0 8 * * *", "--say", "What is on?")
    with use_state(str(folder / ".foreword")) as state:
        state.execute("UPDATE schedules SET due = due - 86400 * 2")
    assert "overdue; start foreword serve to run it" in say("schedule", "list").out


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("add", "--say", "x"), "one of cron, at and heartbeat"),
        (("add", "--cron", "* * * * * *", "--say", "x"), "seconds"),
        (("add", "--at", "2026-02-30T10:00", "--say", "x"), "at is '2026-02-30T10:00', and 2026-02 has no day 30"),
        (("add", "--cron", "61 * * * *", "--say", "x"), "minute cannot be read: it goes from 0 to 59"),
        (("add", "--cron", "0 8 32 2 *", "--say", "x"), "day-of-month cannot be read: it goes from 1 to 31"),
        (("add", "--cron", "0 8 31 2 *", "--say", "x"), "a day that never comes"),
        (("add", "--cron", "0 8 * * *"), "under `say`"),
        (("add", "--at", "2020-01-01T08:00", "--say", "x"), "is in the past"),
        (("add", "--cron", "0 8 * * *", "--say", "x", "--user", "alcie"), "did you mean 'alice'"),
        (("add", "--cron", "0 8 * * *", "--say", "x", "--to", "famly"), "did you mean 'family'"),
        (("add", "--cron", "0 8 * * *", "--say", "x", "--to", "telegram:5"), "not an address of alice"),
        (("cancel",), "needs the id of a schedule"),
        (("cancel", "nothing"), "there is no schedule 'nothing'"),
        (("run", "nothing"), "there is no schedule 'nothing'"),
    ],
)
def test_what_is_refused(say, words, output):
    """An invalid schedule is refused with a message and the exit code for bad input."""
    answer = say("schedule", *words)
    assert answer.code == 2
    assert output in answer.err


def test_run_now(say, folder, monkeypatch):
    """A manual run prints the reply."""
    extend(folder, YAML)
    with run_fake_provider(ScriptedReply(text="Good morning.")) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        answer = say("schedule", "run", "brief")
    assert (answer.code, answer.out) == (0, "Good morning.\n")
    assert "Morning check." in str(provider.requests[0].body)


def test_list_of_an_unknown_person(say, folder):
    """An unknown user is an error, unless schedules remain for that user."""
    answer = say("schedule", "list", "--user", "bobb")
    assert (answer.code, answer.out) == (2, "")
    assert "unknown user 'bobb'; did you mean 'bob'?" in answer.err
    answer = say("schedule", "list", "--user", "bob")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "no schedules for bob; add one with: foreword schedule add\n"
    say("schedule", "add", "--cron", "0 8 * * *", "--say", "What is on?", "--name", "brief", "--user", "bob")
    (folder / "foreword.yaml").write_text((folder / "foreword.yaml").read_text().replace("  bob:", "  bo:"))
    assert "brief" in say("schedule", "list", "--user", "bob").out


def test_next_runs_in_the_status(say):
    """The status shows the next runs: the reader's, and all of them at full trust."""
    assert "next run" not in say("status").out
    say("schedule", "add", "--cron", "0 8 * * *", "--say", "What is on?", "--name", "brief", "--user", "bob")
    say("schedule", "add", "--cron", "0 9 * * *", "--say", "And now?", "--name", "later")
    assert "brief" in say("status").out
    assert {one["name"] for one in say("status", "--json").json["next_runs"]} == {"brief", "later"}
    assert [one["name"] for one in say("status", "--json", "--reader", "bob").json["next_runs"]] == ["brief"]
