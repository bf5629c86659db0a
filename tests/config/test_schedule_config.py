"""Schedules in foreword.yaml: each fault has its line and says what to write instead."""

import pytest

from foreword.config.load import load_config
from foreword.config.schedule_settings import MissedRuns
from foreword.errors import ConfigError
from foreword.types import Delivery

START = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {alice: {trust: full}, bob: {trust: familiar, identities: ["telegram:2"]}}
rooms: {kitchen: {}}
schedule:
"""
GOOD = '- {cron: "0 8 * * *", user: alice, say: Hello}\n'


def find_faults(*entries):
    """Find the faults of some entries."""
    with pytest.raises(ConfigError) as raised:
        load_config(START + "".join(entries))
    return [(fault.line, fault.message) for fault in raised.value.faults]


def test_what_is_left_out():
    """The example of the design has its defaults: its reply is delivered, and missed runs are made up for once."""
    (entry,) = load_config(START + GOOD).schedule
    assert (entry.kind, entry.delivered, entry.missed) == ("cron", Delivery.ALWAYS, MissedRuns.ONCE)
    (beat,) = load_config(START + "- {heartbeat: 30m, user: alice}\n").schedule
    assert (beat.kind, beat.delivered) == ("heartbeat", Delivery.AS_NEEDED)


def test_a_name_of_its_own():
    """Without a name an entry is identified by its content: equal content is the same entry, other content another."""
    (one,), (same,) = load_config(START + GOOD).schedule, load_config(START + "\n" + GOOD).schedule
    (other,) = load_config(START + GOOD.replace("Hello", "Goodbye")).schedule
    assert one.known_as == same.known_as != other.known_as
    assert load_config(START + GOOD.replace("user", "name: brief, user")).schedule[0].known_as == "brief"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('{cron: "61 8 * * *", user: alice, say: x}', ["schedule[1].cron", "minute", '"0 8 * * 1-5"']),
        ('{cron: "* 8 * *", user: alice, say: x}', ["4 fields instead of 5"]),
        ('{cron: "@daily", user: alice, say: x}', ["1 fields instead of 5"]),
        ('{cron: "* * * * * *", user: alice, say: x}', ["seconds", "once a minute at most"]),
        ('{cron: "0 0 30 2 *", user: alice, say: x}', ["a day that never comes"]),
        ("{heartbeat: 10s, user: alice}", ["schedule[1].heartbeat", "once a minute at most"]),
        ("{heartbeat: soon, user: alice}", ["no length of time", "30m"]),
        ("{at: tomorrow, user: alice, say: x}", ["schedule[1].at", "2026-12-24T18:00"]),
        ('{at: "2027-02-30T10:00", user: alice, say: x}', ["2027-02 has no day 30"]),
        ('{at: "2026-12-24", user: alice, say: x}', ["no date and time"]),
        ('{cron: "0 8 * * *", at: "2026-12-24T18:00", user: alice, say: x}', ["one of", "not cron and at"]),
        ("{user: alice, say: x}", ["one of cron, at and heartbeat"]),
        ('{cron: "0 8 * * *", user: alice}', ["under `say`"]),
        ('{cron: "0 8 * * *", user: alcie, say: x}', ["schedule[1].user", "did you mean 'alice'"]),
        ('{cron: "0 8 * * *", agent: ried, user: alice, say: x}', ["schedule[1].agent", "did you mean 'reid'"]),
        ('{cron: "0 8 * * *", user: alice, say: x, zone: Europe/Pariss}', ["schedule[1].zone", "Europe/Paris"]),
        ('{cron: "0 8 * * *", user: alice, say: x, to: kitchn}', ["schedule[1].to", "did you mean 'kitchen'"]),
        ('{cron: "0 8 * * *", user: alice, say: x, to: "telegram:2"}', ["schedule[1].to", "an address of bob"]),
        ('{cron: "0 8 * * *", user: alice, say: x, name: "../x"}', ["schedule[1].name", "not a usable name"]),
        ('{cron: "0 8 * * *", user: alice, say: x, delivery: sometimes}', ["schedule[1].delivery", "as_needed"]),
        ('{cron: "0 8 * * *", user: alice, say: Hello}', ["repeats the schedule", "from line 6"]),
    ],
)
def test_what_is_wrong(entry, words):
    """A fault names the entry, its line, the problem, and what to write."""
    ((line, message),) = find_faults(GOOD, f"- {entry}\n")
    assert line == 7
    for word in words:
        assert word in message


def test_all_at_once():
    """One error reports every fault of every entry."""
    assert len(find_faults('- {cron: "x", user: nobody, zone: nowhere}\n', "- {heartbeat: 1s, user: bob}\n")) == 5
