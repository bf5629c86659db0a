"""The price of an edit: the quote of each session matches the cost of its next call."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from house import CONFIG, read_log, say

from foreword.cli.main import main
from foreword.testing import NOON, ManualClock, write_files

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
    """A manual clock."""
    return ManualClock(NOON)


@pytest.fixture
def ask(tmp_path, clock, capsys, monkeypatch):
    """Run `foreword price` in a wide terminal, at the time of the clock."""
    monkeypatch.setenv("COLUMNS", "200")

    def ask(*words, code=0):
        capsys.readouterr()
        assert main(["price", "-w", str(tmp_path), "--now", clock().isoformat(), *words]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if "--json" in words else said.out + said.err

    return ask


async def talk_a_while(gateway):
    """Run turns of two users and a room."""
    for number in range(3):
        await say(gateway, f"Message {number}")
    await say(gateway, "Hello", user="bob")
    await say(gateway, "Hello all", user="bob", room="family", situation="group", channel="telegram")


def find_offers(one):
    """Map the offers of a quote by policy."""
    return {offer["policy"]: offer for offer in one["offers"]}


def test_each_session_has_a_price(tmp_path, run, ask):
    """An edit of SOUL.md is priced for every session that contains it, under four policies, with a total."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    output = ask("SOUL.md", "--json")
    assert {(one["user"], one["room"], one["channel"]) for one in output["sessions"]} == {
        ("bob", "family", "telegram"), ("bob", None, "terminal"), ("alice", None, "terminal"),
    }  # fmt: skip
    for one in output["sessions"]:
        offers = find_offers(one)
        assert list(offers) == ["now", "append", "cold", "next-session"]
        assert one["sections"] == ["soul"]
        assert one["warm"] > offers["now"]["again"] > 1_000
        assert offers["now"]["total"] > offers["append"]["total"] > offers["cold"]["total"] >= 0
        assert (one["best"], one["deed"]) == ("append", "append")
    whole = find_offers(output["all"])
    assert whole["now"]["once"] == pytest.approx(sum(find_offers(one)["now"]["once"] for one in output["sessions"]))
    assert output["all"]["best"] == "append"
    shown = ask("SOUL.md")
    assert "cheapest allowed policy: append" in shown
    assert "all 3" in shown
    assert "bob in family" in shown


def test_the_price_of_now_is_what_is_billed(tmp_path, stand_in, run, ask):
    """The tokens that `now` quotes are those that the provider no longer reads from the cache."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    (mine,) = (one for one in ask("SOUL.md", "--json")["sessions"] if one["user"] == "alice")
    shown = ask("SOUL.md", "--apply", "now")
    assert "gets a rebuilt prompt with its next message: the edit of soul applies now" in shown

    async def talk(gateway):
        await say(gateway, "And now?")

    before = len(stand_in.requests)
    run(talk, {**FILES, "SOUL.md": EDITED})
    request = stand_in.requests[before]
    assert "40. Say more" in request.body["system"][0]["text"]
    again = find_offers(mine)["now"]["again"]
    assert mine["warm"] - again == pytest.approx(request.counted.read, rel=0.02, abs=20)
    *_, output = [facts["ledger"] for kind, _, _, facts in read_log(tmp_path) if "ledger" in facts]
    assert output["rebase"]["tokens"] == again
    assert output["rebase"]["usd"] == pytest.approx(find_offers(mine)["now"]["once"], rel=0.01)


def test_a_text_that_nobody_has_saved(tmp_path, run, ask):
    """An unsaved text is priced as if it were saved, and neither file nor state changes."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"draft.md": EDITED})
    assert ask("SOUL.md", "--json")["spared"]["same"] == 3
    output = ask("SOUL.md", "--with", str(tmp_path / "draft.md"), "--json")
    assert len(output["sessions"]) == 3
    assert not output["saved"]
    assert (tmp_path / "SOUL.md").read_text() == SOUL
    write_files(tmp_path, {"SOUL.md": EDITED})
    saved = ask("SOUL.md", "--json")
    assert saved["sessions"] == output["sessions"]
    assert saved["sha256"] == output["sha256"]


def test_a_cold_cache_has_nothing_to_lose(tmp_path, clock, run, ask):
    """Hours later no token is billed again; a day later the sessions count as idle."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    clock.move(3 * 3600)
    for one in ask("SOUL.md", "--json")["sessions"]:
        offers = find_offers(one)
        assert one["warm"] == offers["now"]["again"] == 0
        assert offers["now"]["total"] == offers["append"]["total"] == offers["cold"]["total"]
        assert one["deed"] == "rebase"
    clock.move(24 * 3600)
    output = ask("SOUL.md", "--json")
    assert (output["sessions"], output["idle"]) == ([], 3)
    assert "no running session" in ask("SOUL.md")


def test_a_file_of_one_person(tmp_path, run, ask):
    """A user's file is priced only in the user's private sessions."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"USER.md": "Alice binds books, and boats.\n", "draft.md": EDITED})
    output = ask("USER.md", "--json")
    assert [one["user"] for one in output["sessions"]] == ["alice"]
    assert output["spared"]["apart"] == 2
    soul = ask("SOUL.md", "--with", str(tmp_path / "draft.md"), "--session", output["sessions"][0]["session"], "--json")
    again, all_of_it = (find_offers(one["sessions"][0])["now"]["again"] for one in (output, soul))
    assert 0 < again < all_of_it  # the text before it remains cached


def test_a_file_that_is_gone(tmp_path, run, ask):
    """A deleted file is an edit that cannot be deferred; a file that never existed is refused."""
    run(talk_a_while, FILES)
    (tmp_path / "USER.md").unlink()
    (one,) = ask("USER.md", "--json")["sessions"]
    assert (one["user"], one["best"], one["deed"]) == ("alice", "now", "rebase")
    assert [offer["allowed"] for offer in one["offers"]] == [True, False, False, False]
    assert "append (not allowed)" in ask("USER.md")
    assert "is deleted" in ask("USER.md", "--apply", "cold", code=2)
    assert "no NOTHING.md in" in ask("NOTHING.md", code=2)


def test_what_has_no_price(tmp_path, run, ask):
    """A file in no prompt, a folder, a binary file, an outside path and the configuration each have a message."""
    run(talk_a_while, FILES)
    (tmp_path / "binary.md").write_bytes(b"\x00\x01")
    assert "no prompt of a running or new session contains notes.txt" in ask("notes.txt")
    assert "nothing to decide" in ask("notes.txt", "--apply", "now", code=2)
    assert "is a folder" in ask("users", code=2)
    for root in (".", "./", str(tmp_path)):
        assert f"{root} is the workspace folder; name a file in it" in ask(root, code=2)
    assert "is no text" in ask("binary.md", code=2)
    assert "is refused" in ask("../elsewhere.md", code=2)
    assert "is not part of any prompt" in ask("foreword.yaml", code=2)
    assert "give either FILE or --decided" in ask(code=2)


def test_without_a_session(tmp_path, ask):
    """Without sessions the price of a new session is shown, and no state is created."""
    write_files(tmp_path, FILES)
    output = ask("SOUL.md", "--json")
    assert output["sessions"] == []
    assert output["fresh"]["own"] > 500
    assert output["fresh"]["cold_usd"] > output["fresh"]["warm_usd"] > 0
    assert "a session that starts now (reid with alice)" in ask("SOUL.md")
    assert not (tmp_path / ".foreword" / "state.sqlite").exists()


def test_one_session(tmp_path, run, ask):
    """A session is selected by the prefix of its id; an unknown one is named in the error."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    first = ask("SOUL.md", "--json")["sessions"][0]["session"]
    assert [one["session"] for one in ask("SOUL.md", "--json", "--session", first[:8])["sessions"]] == [first]
    assert "'zzz'" in ask("SOUL.md", "--session", "zzz", code=2)


def test_a_file_that_stands_for_a_longer_text(tmp_path, ask):
    """A file that is shorter than the built-in text it replaces is reported as saving tokens."""
    write_files(tmp_path, {**FILES, "SOUL.md": "Be calm.\n"})
    own = ask("SOUL.md", "--json")["fresh"]["own"]
    assert own < 0
    assert f" tokens, {-own:,} fewer than without SOUL.md: $" in ask("SOUL.md")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("now", "running sessions get a rebuilt prompt with their next message"),
        ("append", "running sessions get the change appended after their prompt with their next message"),
        ("cold", "running sessions keep the old text until their cache is cold"),
        ("next-session", "running sessions keep the old text; new sessions get the new one"),
    ],
)
def test_a_decision_is_said_in_a_sentence(tmp_path, run, ask, policy, said):
    """A decision is confirmed by its effect, also for an unsaved text."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED, "draft.md": SOUL.replace("41. Say", "41. Do not say")})
    assert f"decided for this edit of SOUL.md: {said}\n" in ask("SOUL.md", "--apply", policy)
    draft = ask("SOUL.md", "--with", str(tmp_path / "draft.md"), "--apply", policy)
    assert f"decided for this edit of SOUL.md, once it is saved with this text: {said}\n" in draft


def test_nothing_to_decide(tmp_path, run, ask):
    """If no session is affected, this is reported, and no decision is stored."""
    write_files(tmp_path, {**FILES, "same.md": SOUL})
    nothing = "SOUL.md changes no running session, so nothing was decided"
    assert nothing in ask("SOUL.md", "--apply", "next-session")
    run(talk_a_while, FILES)
    for words in (["--apply", "cold"], ["--apply", "now", "--with", str(tmp_path / "same.md")]):
        answer = ask("SOUL.md", *words)
        assert nothing in answer
        assert "3 sessions: already with this text" in answer
        output = ask("SOUL.md", *words, "--json")
        assert (output["policy"], output["spared"]["same"]) == (None, 3)
    assert ask("--decided", "--json") == []


def test_one_session_of_many(tmp_path, run, ask):
    """One session can be priced, but a decision applies to all sessions and is refused for one."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"USER.md": "Alice binds books, and boats.\n", "draft.md": EDITED})
    draft = str(tmp_path / "draft.md")
    sessions = ask("SOUL.md", "--with", draft, "--json")["sessions"]
    other = next(one["session"] for one in sessions if one["user"] == "bob")
    assert ask("USER.md", "--session", other, "--json")["sessions"] == []
    assert "for all sessions" in ask("USER.md", "--apply", "cold", "--session", other, code=2)
    assert ask("--decided", "--json") == []


def test_a_session_that_was_not_used_lately(tmp_path, clock, run, ask):
    """An idle session has no cache to lose, so only `next-session` is stored for it."""
    run(talk_a_while, FILES)
    write_files(tmp_path, {"SOUL.md": EDITED})
    clock.move(40 * 3600)
    assert "nothing was decided" in ask("SOUL.md", "--apply", "now")
    assert "decided for this edit of SOUL.md" in ask("SOUL.md", "--apply", "next-session")


def test_decisions_have_times_of_the_reader(tmp_path, ask):
    """The table of decisions shows times in the owner's zone, and JSON in UTC."""
    config = FILES["foreword.yaml"].replace("timezone: UTC", "timezone: Asia/Tokyo")
    write_files(tmp_path, {**FILES, "foreword.yaml": config, "draft.md": EDITED})
    ask("SOUL.md", "--apply", "cold", "--with", str(tmp_path / "draft.md"))
    (one,) = ask("--decided", "--json")
    local = datetime.fromisoformat(one["decided"]).astimezone(ZoneInfo("Asia/Tokyo"))
    assert f"{local:%Y-%m-%d %H:%M:%S}" in ask("--decided")
