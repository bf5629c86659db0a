"""Cache breaks in a running gateway: reported by section and byte, in commands and diffs, within the clearance."""

import json
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from house import CONFIG, read_log, say

from foreword.cli.main import main
from foreword.events.cache_breaks import find_breaks
from foreword.events.event import Reader
from foreword.events.query import Filter
from foreword.storage.database import read_events
from foreword.testing import ManualClock, write_files
from foreword.types import Trust

ALICE = Reader(user="alice", clearance=Trust.FULL)
SOUL = "".join(f"{number}. Say less than you know, and never more than you were asked.\n" for number in range(1, 90))
EDITED = SOUL.replace("40. Say less", "40. Say more")
RULED = CONFIG + "situations: {dm: {prompt_overlay: situations/dm.md}}\n"
FILES = {"foreword.yaml": CONFIG, "SOUL.md": SOUL}
GOVERNED = {"foreword.yaml": RULED, "SOUL.md": SOUL, "situations/dm.md": "Be kind."}


def edit(gateway, folder, name, text):
    """Edit a file and refresh the workspace."""
    write_files(folder, {name: text})
    gateway.workspace.refresh(now=True)


@pytest.fixture
def clock():
    """A clock some hours in the past, since commands report the last day."""
    return ManualClock(datetime.now(UTC) - timedelta(hours=6))


@pytest.fixture
def type_in(tmp_path, capsys, monkeypatch):
    """Run a command in the workspace; return its exit code and output."""
    monkeypatch.setenv("COLUMNS", "200")

    def type_in(*words):
        capsys.readouterr()
        code = main(["-w", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return type_in


def look(folder, reader=ALICE):
    """Find the cache breaks of a workspace."""
    with closing(read_events(os.path.join(folder, ".foreword")).connection) as log:
        return find_breaks(log, reader, Filter())


async def govern(gateway, folder):
    """Send a message, edit a governing file, and send another; return the two turns."""
    one = await say(gateway, "One")
    edit(gateway, folder, "situations/dm.md", "Never name a price.")
    two = await say(gateway, "Two")
    return one.turn, two.turn


def test_the_section_and_the_byte(tmp_path, stand_in, run):
    """A break names the section and the first byte in which the requests differ."""
    _, turn = run(lambda gateway: govern(gateway, tmp_path), GOVERNED)
    (broken,) = look(tmp_path).breaks
    assert (broken.turn, broken.cause, broken.where) == (turn, "section", "overlay")
    before, after = ("".join(part["text"] for part in one.body["system"]).encode() for one in stand_in.requests)
    assert before[: broken.byte] == after[: broken.byte]
    assert before[broken.byte] != after[broken.byte]
    (moved,) = look(tmp_path).moves
    assert (moved.turn, moved.ground, moved.section, moved.byte) == (turn, "governing", "overlay", broken.byte)
    assert broken.tokens > 0
    assert broken.usd > 0


def test_a_pause(tmp_path, clock, run):
    """A break after a pause has the cause `expired`."""

    async def talk(gateway):
        await say(gateway, "One")
        clock.move(2 * 3600)
        await say(gateway, "Two")

    run(talk, FILES)
    assert [(one.cause, one.breaks) for one in look(tmp_path).losses] == [("expired", 1)]


def test_more_than_was_predicted(run, type_in):
    """A session that shares the prefix of another reads more than predicted; this is reported, but not as a break."""

    async def talk(gateway):
        await say(gateway, "One")
        return (await say(gateway, "Two", channel="web")).turn

    turn = run(talk, {**FILES, "channels/web.md": "Be brief.", "channels/terminal.md": "Be brief."})
    _, out, _ = type_in("cache", "--since", "1d")
    assert "1 call read " in out
    assert " tokens more than predicted: other requests with the same beginning had written them, or" in out
    assert "no break" in out
    _, out, _ = type_in("trace", turn)
    assert "tokens more were read than predicted: no earlier request" in " ".join(out.split())
    assert json.loads(type_in("cache", "--since", "1d", "--json")[1])["surplus"]["calls"] == 1


def test_what_may_not_be_seen_is_not_named(tmp_path, run, type_in):
    """For a closed file neither the log nor a command names it in the cache report."""
    listed = CONFIG + "prompt: {files: [{path: vault.md, trust: familiar}]}\n"
    closed = listed.replace("path: vault.md, trust: familiar", "path: vault.md, trust: full")

    async def talk(gateway):
        await say(gateway, "One", user="bob")
        edit(gateway, tmp_path, "foreword.yaml", closed)
        return (await say(gateway, "Two", user="bob")).turn

    turn = run(talk, {**FILES, "foreword.yaml": listed, "vault.md": "The gate code is 4711.\n" * 40})
    shown = [(facts.get("cache"), facts.get("ledger")) for _, _, _, facts in read_log(tmp_path)][-8:]
    grounds = [ledger["rebase"]["ground"] for _, ledger in shown if ledger]
    causes = [cache["blame"]["cause"] for cache, _ in shown if cache]
    assert (grounds, causes) == (["private"], ["section"])
    assert "vault" not in json.dumps(shown)
    for words in (["cache", "--since", "1d"], ["cache", "--since", "1d", "--json"], ["trace", turn]):
        code, out, _ = type_in(*words, "--reader", "bob")
        assert code == 0
        assert "visibility changed" in out
        assert "vault" not in out


def test_two_turns_side_by_side(tmp_path, run, type_in):
    """`foreword diff` compares recorded turns: changes, cost, ledger decisions and breaks."""
    one, two = run(lambda gateway: govern(gateway, tmp_path), GOVERNED)
    code, out, err = type_in("diff", one[:8], two[:8])
    assert (code, err) == (0, "")
    assert "overlay  changed" in out
    assert "the cached prefix changed first in overlay (changed), at byte " in out
    assert "ledger: rebase from overlay at byte " in out
    assert "break by section overlay at byte " in out
    value = json.loads(type_in("diff", one, two, "--json")[1])
    assert value["turns"] == {"before": one, "after": two}
    assert value["move"]["section"] == value["breaks"][0]["where"] == value["moves"][0]["section"] == "overlay"
    assert value["move"]["byte"] == value["breaks"][0]["byte"]
    back = json.loads(type_in("diff", two, one, "--json")[1])
    assert (back["moves"], back["breaks"]) == ([], [])


def test_by_the_hash_of_a_prompt(tmp_path, run, type_in):
    """A prompt is found by its hash or a prefix of it, and a file can be compared with a turn."""
    one, two = run(lambda gateway: govern(gateway, tmp_path), GOVERNED)
    (prompt,) = json.loads(type_in("trace", one, "--prompt", "--json")[1])
    for name in (prompt["hash"], prompt["hash"][:40], prompt["hash"][:12]):
        assert json.loads(type_in("diff", name, two, "--json")[1])["turns"] == {"before": one, "after": two}
    write_files(tmp_path, {"a.json": json.dumps(prompt)})
    value = json.loads(type_in("diff", str(tmp_path / "a.json"), two, "--json")[1])
    assert (value["turns"]["before"], value["move"]["section"]) == (None, "overlay")


def test_what_was_sent_is_compared(tmp_path, run, type_in):
    """An edit appended after the prefix changes no section of it and is shown as an update."""

    async def talk(gateway):
        one = await say(gateway, "One")
        edit(gateway, tmp_path, "SOUL.md", EDITED)
        return one.turn, (await say(gateway, "Two")).turn

    value = json.loads(type_in("diff", *run(talk, FILES), "--json")[1])
    what = {change["id"]: change["what"] for change in value["changes"]}
    assert (what["soul"], what["updates"], value["move"]) == ("same", "added", None)
    assert (value["moves"][0]["deed"], value["breaks"]) == ("append", [])


def test_anothers_turn(tmp_path, run, type_in):
    """Another user's turn or prompt gives the same error as a missing one."""
    one, two = run(lambda gateway: govern(gateway, tmp_path), GOVERNED)
    (prompt,) = json.loads(type_in("trace", one, "--prompt", "--json")[1])
    for name in (two, prompt["hash"], "0123456789"):
        code, out, err = type_in("diff", name, two, "--reader", "bob")
        assert (code, out) == (2, "")
        assert err == f"foreword: {name} is neither a file nor a recorded turn or prompt; foreword logs lists turns\n"


def test_the_command(tmp_path, run, type_in):
    """`foreword cache` shows hit share, causes, breaks, decisions and calibration."""
    _, turn = run(lambda gateway: govern(gateway, tmp_path), GOVERNED)
    code, out, err = type_in("cache", "--since", "1d")
    assert (code, err) == (0, "")
    assert "2 calls, " in out
    assert "1 break: " in out
    assert f"{turn[:8]}  section overlay at byte " in out
    assert "decisions of the ledger (rebase 1):" in out
    assert "anthropic:claude-sonnet-5: counts × " in out
    value = json.loads(type_in("cache", "--since", "1d", "--json")[1])
    assert (value["calls"], value["deeds"], value["lost"]["causes"][0]["cause"]) == (2, {"rebase": 1}, "section")
    assert value["calibrations"][0]["calls"] == 2
    session = value["breaks"][0]["session"]
    assert "2 calls, " in type_in("cache", "--since", "1d", "--session", session[:8])[1]


def test_somebody_else_asks(tmp_path, run, type_in):
    """A user who may not see a turn sees neither its cache report nor the calibration."""
    run(lambda gateway: govern(gateway, tmp_path), GOVERNED)
    code, out, _ = type_in("cache", "--since", "1d", "--reader", "bob")
    assert code == 0
    assert "no call with ledger data is recorded" in out
    assert "overlay" not in out
    assert "claude" not in out
    value = json.loads(type_in("cache", "--since", "1d", "--reader", "bob", "--json")[1])
    assert (value["calls"], value["breaks"], value["moves"], value["calibrations"]) == (0, [], [], [])
