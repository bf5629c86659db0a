"""The ledger in a running gateway: requests, costs and recorded decisions."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from house import CONFIG, end, open_rows, read_log, say, until

from foreword.agent.conversation import Answer
from foreword.agent.model_call import TurnLedger
from foreword.agent.providers.model_clients import OpenModel
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.gateway.messages import RoutedMessage, ScheduledRun
from foreword.storage.ledgers import find_sessions_with_text
from foreword.testing import NOON, ManualClock, ScriptedCall, ScriptedError, ScriptedReply, make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Delivery, Trust

RULE = "Say less than you know, and never more than you were asked.\n"
SOUL = "".join(f"{number}. {RULE}" for number in range(1, 90))
RULED = CONFIG + "situations: {dm: {prompt_overlay: situations/dm.md}}\n"
FILES = {"foreword.yaml": CONFIG, "SOUL.md": SOUL}
GOVERNED = {"foreword.yaml": RULED, "SOUL.md": SOUL, "situations/dm.md": "Be kind."}
EDITED = SOUL.replace("40. Say less", "40. Say more")


def strip(value):
    """Remove the cache breakpoints from a request."""
    if isinstance(value, list):
        return [strip(one) for one in value]
    if isinstance(value, dict):
        return {name: strip(one) for name, one in value.items() if name != "cache_control"}
    return value


def read_system(request):
    """Read the system part of a request."""
    return "".join(part["text"] for part in request.body["system"])


def extends(one, other):
    """Return whether a request extends another, cache breakpoints aside."""
    before, after = strip(one.body), strip(other.body)
    shown = all(before[name] == after[name] for name in ("system", "tools"))
    return shown and after["messages"][: len(before["messages"])] == before["messages"]


def list_facts(folder, kind, name):
    """List one fact of all events of a type."""
    return [facts[name] for type_, _, _, facts in read_log(folder) if type_ == kind and name in facts]


@pytest.fixture
def clock():
    """A manual clock."""
    return ManualClock(NOON)


def edit(gateway, folder, **files):
    """Edit files and refresh the workspace."""
    write_files(folder, {name.replace("__", "/") + ".md": text for name, text in files.items()})
    gateway.workspace.refresh(now=True)


def test_an_edit_is_said_once_and_moves_nothing(tmp_path, stand_in, clock, run):
    """An edit of SOUL.md in a warm session is appended to the next message; every request extends the previous one."""

    async def talk(gateway):
        for number in range(5):
            if number == 2:
                edit(gateway, tmp_path, SOUL=EDITED)
            assert (await say(gateway, f"Message {number}")).text == "Yes."
            clock.move(30)

    run(talk, FILES)
    requests = stand_in.requests
    assert all(extends(one, other) for one, other in pairwise(requests))
    assert ["40. Say more" in json.dumps(one.body["messages"][-1]) for one in requests] == [
        False, False, True, False, False,
    ]  # fmt: skip
    (shown,) = list_facts(tmp_path, "prompt_built", "ledger")
    assert (shown["deed"], [one["section"] for one in shown["decisions"]]) == ("append", ["soul"])


def test_a_restart_changes_nothing(tmp_path, stand_in, clock, run):
    """A restart keeps the ledger: the prompt is unchanged, and an edit is appended once."""

    async def first(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        await say(gateway, "Two")

    async def second(gateway):
        clock.move(60)
        await say(gateway, "Three")

    run(first, FILES)
    run(second, {**FILES, "SOUL.md": EDITED})
    assert all(extends(one, other) for one, other in pairwise(stand_in.requests))
    assert "40. Say more" not in json.dumps(stand_in.requests[2].body["messages"][-1])


def test_a_cold_cache_takes_up_what_was_said(tmp_path, stand_in, clock, run):
    """After a long pause the prompt contains the edit, and one line says that the earlier update no longer applies."""

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        await say(gateway, "Two")
        clock.move(3 * 3600)
        await say(gateway, "Three")

    run(talk, FILES)
    one, two, three = stand_in.requests
    assert read_system(one) == read_system(two)
    assert "40. Say more" in read_system(three)
    assert "40. Say less" not in read_system(three)
    newest = json.dumps(three.body["messages"][-1])
    assert "Soul" in newest or "soul" in newest
    assert "40. Say more" not in newest
    shown = list_facts(tmp_path, "prompt_built", "ledger")[-1]
    assert shown["rebase"]["ground"] == "cold"


def test_what_waits_for_the_next_session(tmp_path, stand_in, clock, run):
    """With `edits: next-session` a running session keeps the old text, and the next session has the new one."""
    files = {**FILES, "foreword.yaml": CONFIG + "prompt: {files: [{path: SOUL.md, edits: next-session}]}\n"}

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        await say(gateway, "Two")
        clock.move(3 * 3600)
        await say(gateway, "Three")
        await say(gateway, "Four", channel="web")

    run(talk, files)
    assert ["40. Say more" in one.raw.decode() for one in stand_in.requests] == [False, False, False, True]
    assert {shown["decisions"][0]["deed"] for shown in list_facts(tmp_path, "prompt_built", "ledger")} == {"hold"}


def test_what_is_predicted_is_what_is_reported(tmp_path, stand_in, clock, run):
    """Over edits, pauses and tool calls the tokens read from the cache match the ledger's prediction."""

    async def talk(gateway):
        for number in range(12):
            if number in (3, 7):
                edit(gateway, tmp_path, SOUL=SOUL.replace(f"{number}. Say", f"{number}. Do not say"))
            if number % 4 == 1:
                stand_in.follow(
                    ScriptedReply(calls=(ScriptedCall(name="system_status", arguments={}),)), ScriptedReply(text="Yes.")
                )
            await say(gateway, f"Message {number}")
            clock.move(1200 if number == 8 else 45)

    run(talk, FILES)
    calls = [event for event in read_log(tmp_path) if event[0] == "api_call"]
    assert len(calls) == len(stand_in.requests) == 15
    scale = [one.counted.total for one in stand_in.requests]
    for (_, _, _, facts), request, total in zip(calls, stand_in.requests, scale, strict=True):
        predicted = facts["cache"]["predicted"]
        ours = sum(predicted[name] for name in ("read", "write", "fresh"))
        assert predicted["read"] / ours == pytest.approx(request.counted.read / total, abs=0.02)
        assert (predicted["read"] == 0) == (request.counted.read == 0)


def test_what_governs_never_travels_in_a_message(tmp_path, stand_in, run):
    """An edit of a situation's rules goes into the system part at once if the model takes no other system message."""

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, situations__dm="Never name a price.")
        await say(gateway, "Two")

    run(talk, GOVERNED)
    two = stand_in.requests[1]
    assert "Never name a price." in read_system(two)
    assert "Never name a price." not in json.dumps(two.body["messages"])
    (shown,) = list_facts(tmp_path, "prompt_built", "ledger")
    assert shown["rebase"]["ground"] == "governing"
    assert shown["rebase"]["tokens"] > 0


def test_a_system_message_in_mid_conversation(tmp_path, stand_in, run):
    """If the model allows it, governing text is appended as a system message after the newest message, permanently."""
    files = {**GOVERNED, "foreword.yaml": RULED.replace("claude-sonnet-5", "claude-opus-5")}

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, situations__dm="Never name a price.")
        stand_in.follow(
            ScriptedReply(calls=(ScriptedCall(name="system_status", arguments={}),)), ScriptedReply(text="Yes.")
        )
        await say(gateway, "Two")
        await say(gateway, "Three")

    run(talk, files)
    assert all(extends(one, other) for one, other in pairwise(stand_in.requests))
    assert [one.refused for one in stand_in.requests] == [""] * 4
    roles = [message["role"] for message in stand_in.requests[-1].body["messages"]]
    assert roles == ["user", "assistant", "user", "system", "assistant", "user", "assistant", "user"]
    assert "Never name a price." in json.dumps(stand_in.requests[-1].body["messages"][3])


@pytest.mark.parametrize("other", ["anthropic:claude-sonnet-5", "openai:gpt-5.4"])
def test_another_model_takes_no_system_message(tmp_path, stand_in, run, other):
    """After a switch to a model without system messages the update is in the prompt, and the old message is omitted."""
    files = {**GOVERNED, "foreword.yaml": RULED.replace("claude-sonnet-5", "claude-opus-5")}

    async def talk(gateway):
        first = await say(gateway, "One")
        edit(gateway, tmp_path, situations__dm="Never name a price.")
        await say(gateway, "Two")
        await gateway.sessions.set_model(first.session, other)
        assert (await say(gateway, "Three")).text == "Yes."
        await gateway.sessions.set_model(first.session, "")
        assert (await say(gateway, "Four")).text == "Yes."

    run(talk, files)
    assert [request.refused for request in stand_in.requests] == [""] * 4
    system = stand_in.requests[2].body.get("system") or stand_in.requests[2].body["messages"][0]
    assert "Never name a price." in json.dumps(system)
    assert "Never name a price." in read_system(stand_in.requests[3])


def test_text_that_may_not_be_seen_any_more(tmp_path, stand_in, run):
    """A file whose trust is raised disappears from prompt, history and ledger at once, without a notice."""
    listed = CONFIG + "prompt: {files: [{path: notes.md, trust: familiar}]}\n"
    files = {**FILES, "foreword.yaml": listed, "notes.md": "The gate code is 4711.\n"}

    async def talk(gateway):
        await say(gateway, "One", user="bob")
        edit(gateway, tmp_path, notes="The gate code is 4712 now.\n")
        await say(gateway, "Two", user="bob")
        write_files(
            tmp_path,
            {"foreword.yaml": listed.replace("path: notes.md, trust: familiar", "path: notes.md, trust: full")},
        )
        gateway.workspace.refresh(now=True)
        await say(gateway, "Three", user="bob")

    run(talk, files)
    one, two, three = (request.raw.decode() for request in stand_in.requests)
    assert "4711" in one
    assert "4712" in two
    assert "gate code" not in three
    assert "notes" not in json.dumps(stand_in.requests[2].body["messages"])
    with open_rows(tmp_path) as state:
        kept = [
            str(row) for table in ("history", "ledgers", "bases") for row in state.execute(f"SELECT * FROM {table}")
        ]
    assert not any("gate code" in row for row in kept)  # its digits could be in any hash


def test_a_fork_knows_what_it_was_told(tmp_path, stand_in, run):
    """A fork has the prompt of its session; a fork from before an edit gets the edit in its prompt."""

    async def talk(gateway):
        first = await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        await say(gateway, "Two")
        late = await gateway.sessions.fork(first.session)
        await say(gateway, "Three", session=late.id)
        early = await gateway.sessions.fork(first.session, 1)
        await say(gateway, "Four", session=early.id)

    run(talk, FILES)
    two, three, four = stand_in.requests[1:]
    assert extends(two, three)
    assert "40. Say more" in read_system(four)
    assert "40. Say less" not in four.raw.decode()


def test_a_turn_that_says_nothing_has_told_nothing(tmp_path, stand_in, run):
    """If a failed turn leaves nothing in the history, its update is appended again."""

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        stand_in.follow(ScriptedError(status=400, message="no"), ScriptedReply(text="Yes."))
        await say(gateway, "Two")
        await say(gateway, "Three")

    run(talk, FILES)
    refused, newest = stand_in.requests[1:]
    assert "40. Say more" in json.dumps(refused.body["messages"][-1])
    assert newest.raw.decode().count("40. Say more") == 1


def test_a_turn_that_goes_on_says_nothing_new(tmp_path, stand_in, run):
    """A turn that resumes after a tool call keeps its prompt, and a later edit waits for the next turn."""

    async def talk(gateway):
        await say(gateway, "One")
        called = ScriptedReply(calls=(ScriptedCall(name="system_status", arguments={}),))
        stand_in.follow(
            called,
            *[ScriptedError(status=529, message="busy")] * 4,
            ScriptedReply(text="Yes."),
            ScriptedReply(text="Yes."),
        )
        accepted = await gateway.accept(RoutedMessage(text="Two", user="alice"))
        await until(lambda: len(stand_in.requests) >= 4)
        edit(gateway, tmp_path, SOUL=EDITED)
        await end(gateway, accepted.turn)
        await say(gateway, "Three")

    run(talk, FILES)
    *before, newest = stand_in.requests
    assert not any("40. Say more" in request.raw.decode() for request in before)
    assert "40. Say more" in json.dumps(newest.body["messages"][-1])
    assert all(extends(one, other) for one, other in pairwise(before) if not one.refused)


@pytest.mark.parametrize("asked", [False, True])
def test_the_provider_is_asked_too(tmp_path, stand_in, run, asked):
    """With `diagnostics` the provider reports the cause of a cache miss, which is recorded as confirmation."""
    config = RULED + ("providers: {anthropic: {diagnostics: true}}\n" if asked else "")

    async def talk(gateway):
        await say(gateway, "One")
        await say(gateway, "Two")
        edit(gateway, tmp_path, situations__dm="Never name a price.")
        await say(gateway, "Three")

    run(talk, {**GOVERNED, "foreword.yaml": config})
    sent = [request.body.get("diagnostics") for request in stand_in.requests]
    assert sent == ([{"previous_message_id": each} for each in (None, "msg_1", "msg_2")] if asked else [None] * 3)
    blames = [facts["blame"] for facts in list_facts(tmp_path, "api_call", "cache")]
    assert blames[:2] == [None, None]
    assert (blames[2]["cause"], blames[2]["where"]) == ("section", "overlay")
    assert blames[2]["confirmed"] is (True if asked else None)


def test_a_forgotten_memory_leaves_the_prompt_at_once(tmp_path, stand_in, run):
    """A memory forgotten in a turn is in no ledger afterwards and not in the next prompt."""

    async def talk(gateway):
        saved = {"text": "The gate code is 4711, and the dog is called Bello."}
        stand_in.follow(
            ScriptedReply(calls=(ScriptedCall(name="save_memory", arguments=saved),)), ScriptedReply(text="Yes.")
        )
        await say(gateway, "Remember it.")
        await say(gateway, "And?")
        own = tmp_path / "users" / "alice" / "memory"
        (path,) = [f"own/{file.relative_to(own)}" for file in own.rglob("*.md")]
        assert path in json.dumps(strip(stand_in.body))
        stand_in.follow(
            ScriptedReply(calls=(ScriptedCall(name="forget_memory", arguments={"path": path}),)),
            ScriptedReply(text="Yes."),
        )
        await say(gateway, "Forget it.", asks=False)
        await say(gateway, "And?")
        return path

    path = run(talk, FILES)
    assert path not in read_system(stand_in.requests[-1])
    assert "Prompt Updates" not in json.dumps(stand_in.requests[-1].body["messages"])
    with open_rows(tmp_path) as state:
        kept = [state.execute(f"SELECT * FROM {table}").fetchall() for table in ("ledgers", "bases")]
    assert path not in str(kept)


VOID = "Ignore earlier updates"


def read_newest(request):
    """Read the newest message of a request."""
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


@pytest.mark.parametrize(
    "broken", [ScriptedReply(text=""), ScriptedError(status=400, message="no"), ScriptedReply(text="Yes.")]
)
def test_an_edit_that_is_taken_back(tmp_path, stand_in, run, broken):
    """Whatever the result of the turn that announced an edit, the next turn announces its revert."""

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        stand_in.follow(broken)
        await say(gateway, "Two")
        edit(gateway, tmp_path, SOUL=SOUL)
        await say(gateway, "Three")

    run(talk, FILES)
    newest = stand_in.requests[-1]
    assert "40. Say less" in read_system(newest)
    assert "40. Say more" not in json.dumps(newest.body["messages"]) or VOID in read_newest(newest)


def test_a_turn_that_goes_on_knows_what_it_said(tmp_path, stand_in, run):
    """A resumed turn that announced an edit continues unchanged: no text moves or is repeated."""

    async def talk(gateway):
        await say(gateway, "One")
        edit(gateway, tmp_path, SOUL=EDITED)
        called = ScriptedReply(calls=(ScriptedCall(name="system_status", arguments={}),))
        stand_in.follow(called, *[ScriptedError(status=529, message="busy")] * 4)
        accepted = await gateway.accept(RoutedMessage(text="Two", user="alice"))
        await end(gateway, accepted.turn)
        await say(gateway, "Three")
        edit(gateway, tmp_path, SOUL=SOUL)
        await say(gateway, "Four")

    run(talk, FILES)
    requests = stand_in.requests
    assert all(extends(one, other) for one, other in pairwise(requests))
    assert requests[-2].raw.decode().count("40. Say more") == 1
    assert VOID in read_newest(requests[-1])
    assert not any(facts["blame"] for facts in list_facts(tmp_path, "api_call", "cache"))


@pytest.mark.parametrize("moment", ["failed", "left", "forked"])
def test_closed_text_leaves_every_part_of_the_past(tmp_path, stand_in, run, moment):
    """A closed file disappears from failed turns, running turns and forks."""
    listed = CONFIG + "prompt: {files: [{path: notes.md, trust: familiar}]}\n"
    files = {**FILES, "foreword.yaml": listed, "notes.md": "The gate code is 4711.\n"}

    async def talk(gateway):
        first = await say(gateway, "One", user="bob")
        edit(gateway, tmp_path, notes="The gate code is 4712 now.\n")
        if moment == "failed":
            stand_in.follow(ScriptedError(status=400, message="no"))
        elif moment == "left":
            called = ScriptedReply(calls=(ScriptedCall(name="system_status", arguments={}),))
            stand_in.follow(called, *[ScriptedError(status=529, message="busy")] * 4)
        accepted = await gateway.accept(RoutedMessage(text="Two", user="bob"))
        if moment == "left":
            await until(lambda: len(stand_in.requests) >= 4)
        else:
            await end(gateway, accepted.turn)
        write_files(tmp_path, {"foreword.yaml": listed.replace("notes.md, trust: familiar", "notes.md, trust: full")})
        gateway.workspace.refresh(now=True)
        await end(gateway, accepted.turn)
        await say(gateway, "Three", user="bob")
        if moment == "forked":
            fork = await gateway.sessions.fork(first.session, 2)
            await say(gateway, "Four", user="bob", session=fork.id)

    run(talk, files)
    assert "gate code" not in stand_in.requests[-1].raw.decode()
    with open_rows(tmp_path) as state:
        kept = [state.execute(f"SELECT * FROM {table}").fetchall() for table in ("history", "ledgers", "bases")]
    assert "gate code" not in str(kept)


def test_a_memory_that_was_moved_away(tmp_path, stand_in, run):
    """An entry that leaves the memory menu leaves the prompt at once, since it may have been closed."""
    files = {**FILES, "memory/social/gate.md": "# Gate\nThe gate code is 4711.\n"}

    async def talk(gateway):
        await say(gateway, "One", user="bob")
        (tmp_path / "memory" / "private").mkdir()
        (tmp_path / "memory" / "social" / "gate.md").rename(tmp_path / "memory" / "private" / "gate.md")
        gateway.workspace.refresh(now=True)
        await say(gateway, "Two", user="bob")

    run(talk, files)
    assert ["gate.md" in request.raw.decode() for request in stand_in.requests] == [True, False]


def test_idle_runs_keep_the_cache_known(tmp_path, stand_in, clock, run):
    """A run with a suppressed reply was sent all the same, so the ledger knows the warm prefix."""
    scheduled = ScheduledRun(schedule="look", delivery=Delivery.AS_NEEDED, ceiling=Trust.FULL)

    async def talk(gateway):
        for _ in range(6):
            stand_in.follow(ScriptedReply(text="NO_ACTION_NEEDED"))
            await say(gateway, "Look.", scheduled_run=scheduled, channel="schedule")
            clock.move(240)

    run(talk, FILES)
    calls = list_facts(tmp_path, "api_call", "cache")
    assert [facts["predicted"]["read"] > 0 for facts in calls] == [False, *[True] * 5]
    # The messages of suppressed runs are not sent again.
    assert {facts["blame"] and facts["blame"]["cause"] for facts in calls} == {None, "history"}


@pytest.mark.parametrize("damage", ["[]", "{}", "not json", '{"version": 2}'])
def test_a_damaged_ledger_begins_anew(tmp_path, run, damage):
    """A session with an unreadable ledger starts a new one, and erasure still works."""

    async def talk(gateway):
        await say(gateway, "One")
        with open_rows(tmp_path) as state:
            state.execute("UPDATE ledgers SET frozen = ?", (damage,))
        return await say(gateway, "Two")

    assert run(talk, FILES).text == "Yes."
    with open_rows(tmp_path) as state:
        state.execute("UPDATE ledgers SET frozen = ?", (damage,))
        assert len(list(find_sessions_with_text(state, lambda _: False))) == 1


def test_a_light_run_leaves_the_ledger_alone(tmp_path, run):
    """A light run has another prompt and history, so the session's ledger is unchanged by it."""
    scheduled = ScheduledRun(schedule="look", delivery=Delivery.AS_NEEDED, ceiling=Trust.FULL)

    def read_ledgers():
        with open_rows(tmp_path) as state:
            return state.execute("SELECT * FROM ledgers").fetchall()

    async def talk(gateway):
        await say(gateway, "Look.", scheduled_run=scheduled, channel="schedule")
        before = read_ledgers()
        await say(gateway, "Look.", scheduled_run=replace(scheduled, light=True), channel="schedule")
        return before, read_ledgers()

    before, after = run(talk, FILES)
    assert len(before) == 1
    assert after == before


def test_a_provider_that_does_not_say_what_it_used(tmp_path):
    """A call without usage counts as sent in the ledger, and has no accounting."""
    workspace = make_workspace(tmp_path, FILES)
    assembly = workspace.assemble(Turn(user="alice", situation="dm", message="Hello", now=NOON))
    accounting = TurnLedger(
        assembly, OpenModel(provider=None, wire=WIRE_SHAPES["anthropic"], family="anthropic"), None, "t1"
    )
    accounting.mark(assembly.envelope("anthropic").request, (), NOON)
    settled = accounting.settle(AnswerDone(answer=Answer(), usage=None), {})
    assert settled.account is None
    assert settled.ledger_state.calls == 1
