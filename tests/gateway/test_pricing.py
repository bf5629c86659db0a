"""Claims about the price of an edit: what is quoted for each session is what its next call then costs."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from house import CONFIG, read_log, say

from foreword.cli import main
from foreword.testing import NOON, MovedClock, write_files

RULE = "Say less than you know, and never more than you were asked.\n"
SOUL = "".join(f"{number}. {RULE}" for number in range(1, 90))
EDITED = SOUL.replace("40. Say less", "40. Say more")
FILES = {
    "foreword.yaml": CONFIG + "rooms: {family: {situation: group}}\n",
    "SOUL.md": SOUL,
    "USER.md": "Alice binds books.\n",
    "users/bob/USER.md": "Bob fishes.\n",
    "notes.txt": "Nothing of this is told.\n",
}


@pytest.fixture
def clock():
    """A clock that only moves when it is told to."""
    return MovedClock(NOON)


@pytest.fixture
def ask(tmp_path, clock, capsys, monkeypatch):
    """Type `foreword price` in a wide terminal, at the time of the clock."""
    monkeypatch.setenv("COLUMNS", "200")

    def ask(*words, code=0):
        capsys.readouterr()
        assert main(["price", "-w", str(tmp_path), "--now", clock().isoformat(), *words]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if "--json" in words else said.out + said.err

    return ask


async def talk_a_while(gateway):
    """Have two people talk, and a room."""
    for number in range(3):
        await say(gateway, f"Message {number}")
    await say(gateway, "Hello", user="bob")
    await say(gateway, "Hello all", user="bob", room="family", situation="group", channel="telegram")


def find_offers(one):
    """Find the offers of a quote by their policies."""
    return {offer["policy"]: offer for offer in one["offers"]}


def test_each_session_has_a_price(tmp_path, run, ask):
    """An edit of SOUL.md is priced for everybody who was told it, under four policies, and summed up."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    told = ask("SOUL.md", "--json")
    assert {(one["user"], one["room"], one["channel"]) for one in told["sessions"]} == {
        ("bob", "family", "telegram"), ("bob", None, "terminal"), ("alice", None, "terminal"),
    }  # fmt: skip
    for one in told["sessions"]:
        offers = find_offers(one)
        assert list(offers) == ["now", "append", "cold", "next-session"]
        assert one["sections"] == ["soul"]
        assert one["warm"] > offers["now"]["again"] > 1_000
        assert offers["now"]["total"] > offers["append"]["total"] > offers["cold"]["total"] >= 0
        assert (one["best"], one["deed"]) == ("append", "append")
    whole = find_offers(told["all"])
    assert whole["now"]["once"] == pytest.approx(sum(find_offers(one)["now"]["once"] for one in told["sessions"]))
    assert told["all"]["best"] == "append"
    shown = ask("SOUL.md")
    assert "the cheapest that takes effect is append" in shown
    assert "all 3" in shown
    assert "bob in family" in shown


def test_the_price_of_now_is_what_is_billed(tmp_path, stand_in, run, ask):
    """What `now` says is billed again is what the provider then reads less than it would have."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    (mine,) = (one for one in ask("SOUL.md", "--json")["sessions"] if one["user"] == "alice")
    shown = ask("SOUL.md", "--apply", "now")
    assert "is sent the prompt anew with its next message: an edit of soul is to apply now" in shown

    async def talk(gateway):
        await say(gateway, "And now?")

    before = len(stand_in.requests)
    run(talk, {**FILES, "SOUL.md": EDITED})
    request = stand_in.requests[before]
    assert "40. Say more" in request.body["system"][0]["text"]
    again = find_offers(mine)["now"]["again"]
    assert mine["warm"] - again == pytest.approx(request.counted.read, rel=0.02, abs=20)
    *_, told = [facts["ledger"] for kind, _, _, facts in read_log(tmp_path) if "ledger" in facts]
    assert told["rebase"]["tokens"] == again
    assert told["rebase"]["usd"] == pytest.approx(find_offers(mine)["now"]["once"], rel=0.01)


def test_a_text_that_nobody_has_saved(tmp_path, run, ask):
    """A text is priced as if the file had it, and neither the file nor the state is touched."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"draft.md": EDITED})
    assert ask("SOUL.md", "--json")["spared"]["same"] == 3
    told = ask("SOUL.md", "--with", str(tmp_path / "draft.md"), "--json")
    assert len(told["sessions"]) == 3
    assert not told["saved"]
    assert (tmp_path / "SOUL.md").read_text() == SOUL
    write_files(tmp_path, {"SOUL.md": EDITED})
    saved = ask("SOUL.md", "--json")
    assert saved["sessions"] == told["sessions"]
    assert saved["sha256"] == told["sha256"]


def test_a_cold_cache_has_nothing_to_lose(tmp_path, clock, run, ask):
    """Hours later nothing is billed again, and a day later nobody is expected to go on."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    clock.move(3 * 3600)
    for one in ask("SOUL.md", "--json")["sessions"]:
        offers = find_offers(one)
        assert one["warm"] == offers["now"]["again"] == 0
        assert offers["now"]["total"] == offers["append"]["total"] == offers["cold"]["total"]
        assert one["deed"] == "rebase"
    clock.move(24 * 3600)
    told = ask("SOUL.md", "--json")
    assert (told["sessions"], told["idle"]) == ([], 3)
    assert "no session is going on" in ask("SOUL.md")


def test_a_file_of_one_person(tmp_path, run, ask):
    """A file of one person is priced where that person speaks alone, and nowhere else."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"USER.md": "Alice binds books, and boats.\n", "draft.md": EDITED})
    told = ask("USER.md", "--json")
    assert [one["user"] for one in told["sessions"]] == ["alice"]
    assert told["spared"]["apart"] == 2
    soul = ask("SOUL.md", "--with", str(tmp_path / "draft.md"), "--session", told["sessions"][0]["session"], "--json")
    again, all_of_it = (find_offers(one["sessions"][0])["now"]["again"] for one in (told, soul))
    assert 0 < again < all_of_it  # what stands before it stays in the cache


def test_a_file_that_is_gone(tmp_path, run, ask):
    """A file that was deleted is an edit, too, that cannot wait; one that never was is refused."""
    run(talk_a_while, FILES)
    (tmp_path / "USER.md").unlink()
    (one,) = ask("USER.md", "--json")["sessions"]
    assert (one["user"], one["best"], one["deed"]) == ("alice", "now", "rebase")
    assert [offer["allowed"] for offer in one["offers"]] == [True, False, False, False]
    assert "append (not allowed)" in ask("USER.md")
    assert "gone" in ask("USER.md", "--apply", "cold", code=2)
    assert "there is no NOTHING.md" in ask("NOTHING.md", code=2)


def test_what_has_no_price(tmp_path, run, ask):
    """A file in no prompt, a folder, a binary file, one outside, and the configuration are each told in words."""
    run(talk_a_while, FILES)
    (tmp_path / "binary.md").write_bytes(b"\x00\x01")
    assert "notes.txt is in no prompt" in ask("notes.txt")
    assert "nothing to decide" in ask("notes.txt", "--apply", "now", code=2)
    assert "is a folder" in ask("users", code=2)
    for root in (".", "./", str(tmp_path)):
        assert f"{root} is the folder of the workspace; name a file in it" in ask(root, code=2)
    assert "is no text" in ask("binary.md", code=2)
    assert "is refused" in ask("../elsewhere.md", code=2)
    assert "is in no prompt" in ask("foreword.yaml", code=2)
    assert "which file?" in ask(code=2)


def test_without_a_session(tmp_path, ask):
    """Where nobody has talked yet, a session that begins is priced, and no state is made."""
    write_files(tmp_path, FILES)
    told = ask("SOUL.md", "--json")
    assert told["sessions"] == []
    assert told["fresh"]["own"] > 500
    assert told["fresh"]["cold_usd"] > told["fresh"]["warm_usd"] > 0
    assert "a session that begins now (reid with alice)" in ask("SOUL.md")
    assert not (tmp_path / ".foreword" / "state.sqlite").exists()


def test_one_session(tmp_path, run, ask):
    """One session is asked by the beginning of its id; one that is not there is named."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    first = ask("SOUL.md", "--json")["sessions"][0]["session"]
    assert [one["session"] for one in ask("SOUL.md", "--json", "--session", first[:8])["sessions"]] == [first]
    assert "'zzz'" in ask("SOUL.md", "--session", "zzz", code=2)


def test_a_file_that_stands_for_a_longer_text(tmp_path, ask):
    """A short file in the place of a longer text that is built in is said to save tokens, in words."""
    write_files(tmp_path, {**FILES, "SOUL.md": "Be calm.\n"})
    own = ask("SOUL.md", "--json")["fresh"]["own"]
    assert own < 0
    assert f" tokens, {-own:,} fewer than without SOUL.md: $" in ask("SOUL.md")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("now", "sessions that go on are sent the prompt anew, with their next message"),
        ("append", "sessions that go on are told it behind their prompt, with their next message"),
        ("cold", "sessions that go on keep what they were told until their cache is cold, and have it then"),
        ("next-session", "sessions that go on keep what they were told; the next ones have it"),
    ],
)
def test_a_decision_is_said_in_a_sentence(tmp_path, run, ask, policy, said):
    """What was decided is said by what it does, also about a text that is not saved yet."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED, "draft.md": SOUL.replace("41. Say", "41. Do not say")})
    assert f"decided about this edit of SOUL.md: {said}\n" in ask("SOUL.md", "--apply", policy)
    draft = ask("SOUL.md", "--with", str(tmp_path / "draft.md"), "--apply", policy)
    assert f"decided about this edit of SOUL.md, as soon as it is saved with this text: {said}\n" in draft


def test_nothing_to_decide(tmp_path, run, ask):
    """Where every session had the text already, or nobody talks, that is said, and nothing is decided."""
    write_files(tmp_path, {**FILES, "same.md": SOUL})
    nothing = "nothing differs by SOUL.md for a session that goes on, so nothing is decided"
    assert nothing in ask("SOUL.md", "--apply", "next-session")
    run(talk_a_while, FILES)
    for words in (["--apply", "cold"], ["--apply", "now", "--with", str(tmp_path / "same.md")]):
        answer = ask("SOUL.md", *words)
        assert nothing in answer
        assert "3 sessions had this text already" in answer
        told = ask("SOUL.md", *words, "--json")
        assert (told["policy"], told["spared"]["same"]) == (None, 3)
    assert ask("--decided", "--json") == []


def test_one_session_of_many(tmp_path, run, ask):
    """One session can be asked about; a decision is about all of them, and is not made as if it were about one."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"USER.md": "Alice binds books, and boats.\n", "draft.md": EDITED})
    draft = str(tmp_path / "draft.md")
    sessions = ask("SOUL.md", "--with", draft, "--json")["sessions"]
    other = next(one["session"] for one in sessions if one["user"] == "bob")
    assert ask("USER.md", "--session", other, "--json")["sessions"] == []
    assert "in all sessions" in ask("USER.md", "--apply", "cold", "--session", other, code=2)
    assert ask("--decided", "--json") == []


def test_a_session_that_was_not_used_lately(tmp_path, clock, run, ask):
    """An old session has no cache to lose, so that only an edit that waits for the next one is decided for it."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    clock.move(40 * 3600)
    assert "nothing is decided" in ask("SOUL.md", "--apply", "now")
    assert "decided about this edit of SOUL.md" in ask("SOUL.md", "--apply", "next-session")


def test_decisions_have_times_of_the_reader(tmp_path, ask):
    """The table of what was decided has times in the zone of the owner, and JSON has them in UTC."""
    config = FILES["foreword.yaml"].replace("timezone: UTC", "timezone: Asia/Tokyo")
    write_files(tmp_path, {**FILES, "foreword.yaml": config, "draft.md": EDITED})
    ask("SOUL.md", "--apply", "cold", "--with", str(tmp_path / "draft.md"))
    (one,) = ask("--decided", "--json")
    local = datetime.fromisoformat(one["decided"]).astimezone(ZoneInfo("Asia/Tokyo"))
    assert f"{local:%Y-%m-%d %H:%M:%S}" in ask("--decided")
