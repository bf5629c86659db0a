"""Schedules over HTTP: a user creates and cancels their own, with their own authority."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from served import CONFIG, FILES, QUICK, serve_workspace

from foreword.cli.main import main
from foreword.config.schema import HttpServer
from foreword.testing import ManualClock

MORNING = datetime(2026, 11, 16, 7, 59, tzinfo=UTC)
HOUSE = """\
rooms:
  kitchen: {places: ["telegram:-5"], members: [alice, bob]}
  attic: {places: ["telegram:-6"]}
schedule: [{name: brief, cron: "0 8 * * *", user: bob, say: "What is on?"}]
"""
BOB = "bob: {trust: familiar, timezone: Europe/Paris, identities: ['telegram:1002']}"
LUNCH = {"say": "What is for lunch?", "cron": "0 12 * * *", "name": "lunch"}


@pytest.fixture
def server(tmp_path):
    """A server whose clock is at 07:59."""
    options = replace(QUICK, clock=ManualClock(MORNING))
    files = {**FILES, "foreword.yaml": CONFIG.replace("bob: {trust: familiar}", BOB) + HOUSE}
    with serve_workspace(tmp_path, files=files, options=options, settings=HttpServer(port=0, rate=100_000)) as served:
        yield served


def list_names(client):
    """List the names of a user's schedules."""
    return [one["name"] for one in client.get("/api/schedules").json()["schedules"]]


def test_create_and_cancel(server):
    """A schedule belongs to its user, has their zone and next run, and is gone after cancellation."""
    with server.ask_as("bob") as bob, server.ask_as("alice") as alice:
        made = bob.post("/api/schedules", json={**LUNCH, "to": "telegram:1002"})
        assert made.status_code == 201
        one = made.json()
        assert (one["origin"], one["zone"], one["due"]) == ("person", "Europe/Paris", "2026-11-16T11:00:00Z")
        assert (one["to"], one["delivery"], one["agent"]) == ("telegram:1002", "always", "reid")
        assert list_names(bob) == ["lunch", "brief"]
        assert list_names(alice) == []
        assert alice.delete(f"/api/schedules/{one['schedule']}").status_code == 404
        assert bob.delete(f"/api/schedules/{one['schedule']}").status_code == 204
        assert bob.delete(f"/api/schedules/{one['schedule']}").status_code == 404
        assert list_names(bob) == ["brief"]


def test_same_fields_as_command(server, tmp_path, capsys):
    """HTTP and the command line use the same field names and values."""
    with server.ask_as("bob") as bob:
        bob.post("/api/schedules", json={"say": "What is for lunch?", "cron": "0 12 * * *"})
        schedules = {one["schedule"]: one for one in bob.get("/api/schedules").json()["schedules"]}
    capsys.readouterr()
    assert main(["-w", str(tmp_path), "schedule", "list", "--user", "bob", "--json"]) == 0
    listed = {one["schedule"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed.keys() == schedules.keys()
    for key, one in schedules.items():
        shared = one.keys() & listed[key].keys()
        assert {name: one[name] for name in shared} == {name: listed[key][name] for name in shared} | {
            "due": one["due"]
        }
        assert one.keys() - shared == {"to", "notes"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({**LUNCH, "to": "telegram:1001"}, "not an address of bob"),
        ({**LUNCH, "to": "attic"}, "bob is not listed as a member of room attic"),
        ({**LUNCH, "to": "telegram:-6"}, "bob is not listed as a member of room telegram:-6"),
        ({**LUNCH, "cron": "* * * * *"}, "too often"),
        ({**LUNCH, "cron": "61 * * * *"}, "cron"),
        ({**LUNCH, "cron": ""}, "one of"),
        ({**LUNCH, "at": "2026-12-24T18:00"}, "one of"),
        ({"say": "x", "at": "2020-01-01T08:00"}, "past"),
        ({**LUNCH, "name": "brief"}, "already"),
        ({**LUNCH, "agent": "nobody"}, "nobody"),
        ({**LUNCH, "user": "alice"}, "user"),
    ],
)
def test_refused(server, asked, words):
    """An invalid schedule is refused with a reason, and nothing is stored."""
    with server.ask_as("bob") as bob:
        answer = bob.post("/api/schedules", json=asked)
        assert answer.status_code in (400, 422)
        assert words in answer.text
        assert list_names(bob) == ["brief"]


def test_configured_schedule(server):
    """A schedule defined in foreword.yaml cannot be cancelled over HTTP."""
    with server.ask_as("bob") as bob:
        answer = bob.delete("/api/schedules/brief")
        assert answer.status_code == 422
        assert "is defined in foreword.yaml" in answer.text
        assert list_names(bob) == ["brief"]


def test_rooms(server):
    """The owner can schedule for every room at any frequency; a member can schedule for their room."""
    with server.ask_as("bob") as bob, server.ask_as("alice") as alice:
        assert bob.post("/api/schedules", json={**LUNCH, "to": "kitchen"}).json()["to"] == "kitchen"
        assert alice.post("/api/schedules", json={**LUNCH, "to": "attic", "cron": "* * * * *"}).status_code == 201


def test_lower_clearance(server, tmp_path):
    """A schedule is not visible below the clearance at which it was created."""
    with server.ask_as("carol") as carol:
        made = carol.post("/api/schedules", json=LUNCH).json()
        (tmp_path / "foreword.yaml").write_text(
            CONFIG.replace("carol: {trust: full}", "carol: {trust: familiar}") + HOUSE
        )
        with server.ask_as("alice") as alice:
            alice.post("/api/reload")
        assert list_names(carol) == []
        assert carol.delete(f"/api/schedules/{made['schedule']}").status_code == 404
