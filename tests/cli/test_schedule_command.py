"""Claims about `foreword schedule`: it plans, lists and cancels, and refuses what cannot be in words."""

import pytest

from foreword.testing import Says, listen
from foreword.testing import write_files as write

YAML = 'schedule: [{name: brief, cron: "0 8 * * *", user: alice, say: "Morning check."}]\n'


def extend(folder, more):
    """Add to the configuration."""
    write(folder, {"foreword.yaml": (folder / "foreword.yaml").read_text() + more})


def test_add_and_cancel(say):
    """What is added is listed with its next time in the person's zone, until it is cancelled."""
    assert "nothing is planned" in say("schedule", "list").out
    made = say("schedule", "add", "--cron", "0  8 * * 1-5", "--say", "What is on?", "--name", "brief", "--json").json
    assert (made["user"], made["zone"], made["delivery"], made["origin"]) == (
        "alice",
        "Europe/Paris",
        "always",
        "person",
    )
    listed = say("schedule", "list", "--json").json
    assert [one["id"] for one in listed] == [made["id"]]
    assert say("schedule", "list", "--user", "bob", "--json").json == []
    assert "08:00" in say("schedule", "list").out
    assert say("schedule", "cancel", "brief").out == "cancelled: brief\n"
    assert say("schedule", "list", "--json").json == []


def test_the_configuration_is_listed(say, folder):
    """What stands in foreword.yaml is listed, too, and is ended there alone."""
    extend(folder, YAML)
    assert [one["id"] for one in say("schedule", "list", "--json").json] == ["brief"]
    refused = say("schedule", "cancel", "brief")
    assert refused.code == 2
    assert "foreword.yaml" in refused.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "--say", "x"), "one of cron, at and heartbeat"),
        (("add", "--cron", "* * * * * *", "--say", "x"), "seconds"),
        (("add", "--cron", "0 8 * * *"), "under say"),
        (("add", "--at", "2020-01-01T08:00", "--say", "x"), "is past"),
        (("add", "--cron", "0 8 * * *", "--say", "x", "--user", "alcie"), "did you mean 'alice'"),
        (("add", "--cron", "0 8 * * *", "--say", "x", "--to", "famly"), "did you mean 'family'"),
        (("add", "--cron", "0 8 * * *", "--say", "x", "--to", "telegram:5"), "no address of alice"),
        (("cancel",), "needs to know which"),
        (("cancel", "nothing"), "there is no schedule 'nothing'"),
        (("run", "nothing"), "there is no schedule 'nothing'"),
    ],
)
def test_what_is_refused(say, words, told):
    """What cannot be is refused in words, with the exit code of bad input."""
    answer = say("schedule", *words)
    assert answer.code == 2
    assert told in answer.err


def test_run_now(say, folder, monkeypatch):
    """A run beside its times prints the reply."""
    extend(folder, YAML)
    with listen(Says(text="Good morning.")) as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        answer = say("schedule", "run", "brief")
    assert (answer.code, answer.out) == (0, "Good morning.\n")
    assert "Morning check." in str(provider.requests[0].body)
