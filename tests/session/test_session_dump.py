"""Claims about sessions as JSON: `dump`, and `workspace.session(load=…)`."""

import json

import pytest
from session_talk import MODELS, edit, find_train, make_ask, make_house, talk

import foreword
from foreword.testing import EventStream, FakeRecorder, ScriptedCall, ScriptedReply, run_fake_provider

TRAIN = ScriptedReply(calls=(ScriptedCall(name="find_train", arguments={"start": "Ulm", "end": "Bonn"}),))
TWO = ScriptedReply(calls=(*TRAIN.calls, ScriptedCall(name="memory_list", arguments={})))


@pytest.mark.parametrize("kind", MODELS)
def test_loaded_session_sends_the_same(tmp_path, kind):
    """A loaded session sends exactly what the dumped one would have sent."""
    with run_fake_provider(TRAIN) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", model=MODELS[kind], tools=[find_train])
        talk(session, make_ask(kind, provider.url), "A train?")
        edit(workspace, "SOUL.md", "Warm and exact.\n")
        loaded = workspace.session(load=session.dump(), tools=[find_train])
        assert (loaded.id, loaded.reply) == (session.id, session.reply)
        assert loaded.say("And back?").request == session.say("And back?").request


def test_turn_under_way(tmp_path):
    """A session that is dumped between a reply and its tools continues after them, with the results it has."""
    with run_fake_provider(TWO) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        ask = make_ask("anthropic", provider.url)
        first = session.say("A train?")
        waiting = workspace.session(load=session.dump(), tools=[find_train])
        assert waiting.step.request == first.request
        step = first.answered(ask(first.request))
        step.tool_results({step.tool_calls[0].id: "At 9:04."})
        edit(workspace, "SOUL.md", "Warm and exact.\n")
        loaded = workspace.session(load=session.dump(), tools=[find_train])
        assert [call.name for call in loaded.step.tool_calls] == ["memory_list"]
        assert loaded.step.run_tools().answered(ask(loaded.step.request)) is None
        assert provider.requests[-1].refused == ""
        assert provider.requests[-1].counted.read >= 0.95 * provider.requests[0].counted.total
        assert talk(loaded, ask, "Thanks") == "Yes."
        assert "Warm and exact." in provider.requests[-1].raw.decode()


def test_trace_continues(tmp_path):
    """The events of a turn that a dump interrupts are one turn."""
    recorder = FakeRecorder()
    with run_fake_provider(TRAIN) as provider, make_house(tmp_path) as workspace:
        given = {"tools": [find_train], "events": EventStream(recorder=recorder)}
        session, ask = workspace.session(user="alice", situation="dm", **given), make_ask("anthropic", provider.url)
        session.answered(ask(session.say("A train?").request))
        loaded = workspace.session(load=session.dump(), **given)
        assert loaded.answered(ask(loaded.step.run_tools().request)) is None
    assert len({event.position.trace for event in recorder.events}) == 1
    assert [recorder.types.count(kind) for kind in ("message_received", "api_call", "turn_completed")] == [1, 2, 1]


def test_who_and_what(tmp_path):
    """A dump belongs to its user and place, and needs the tools that the session was given."""
    with make_house(tmp_path) as workspace:
        dumped = workspace.session(user="alice", situation="dm", tools=[find_train], directories=("notes",)).dump()
        with pytest.raises(foreword.InputError, match="this session has user 'alice', not 'bob'"):
            workspace.session(load=dumped, user="bob", tools=[find_train])
        with pytest.raises(foreword.InputError, match="this session has room '', not 'kitchen'"):
            workspace.session(load=dumped, room="kitchen", tools=[find_train])
        with pytest.raises(foreword.InputError, match="opened with the tools find_train; give them again"):
            workspace.session(load=dumped)
        again = workspace.session(load=dumped, user="alice", tools=[find_train])
        assert again.dump() == dumped


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda dumped: {**dumped, "foreword_session": 2}, "dumped in version 2; this release reads 1"),
        (lambda dumped: {**dumped, "history": [[{"role": "king"}]]}, "is damaged: DamagedHistory"),
        (lambda dumped: {**dumped, "ledger": ["{}", "[]"]}, "ledger of this session has version None"),
        (lambda dumped: {**dumped, "clearance": "royal"}, "is damaged: KeyError"),
        (lambda dumped: {name: value for name, value in dumped.items() if name != "open"}, "is damaged: KeyError"),
    ],
)
def test_wrong_dumps(tmp_path, change, words):
    """A dump of another version and a damaged one are refused, as text and as bytes."""
    with run_fake_provider() as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm")
        talk(session, make_ask("anthropic", provider.url), "Hello")
        given = json.dumps(change(json.loads(session.dump())))
        with pytest.raises(foreword.InputError, match=words):
            workspace.session(load=given)
        with pytest.raises(foreword.InputError, match=words):
            workspace.session(load=given.encode())


def test_no_dump(tmp_path):
    """Other text is refused, and an empty one opens a new session."""
    with make_house(tmp_path) as workspace:
        for text in ("{", "[]", "{}", "null", "Hello", b"\xff"):
            with pytest.raises(foreword.InputError, match="this is no dump of a session"):
                workspace.session(load=text)
        first, second = (workspace.session(load="", user="alice", situation="dm") for _ in range(2))
        assert first.id != second.id


def list_damaged(value):
    """Yield copies of a JSON value, each with one part of another type or left out."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value[:2])
        for key, inner in pairs:
            less = {name: one for name, one in value.items() if name != key} if isinstance(value, dict) else None
            yield from [less] if less is not None else []
            for changed in (None, 7, "x", [], {"a": 1}, *list_damaged(inner)):
                copy = value.copy()
                copy[key] = changed
                yield copy


def test_damaged_dumps(tmp_path):
    """A dump with any damaged part loads and continues, or is refused with an InputError."""
    with run_fake_provider(TWO) as provider, make_house(tmp_path) as workspace:
        ask = make_ask("anthropic", provider.url)
        session = workspace.session(user="alice", situation="dm", tools=[find_train], events=False)
        talk(session, ask, "Hello")
        session.answered(ask(session.say("A train?").request))
        loaded = refused = 0
        for damaged in list_damaged(json.loads(session.dump())):
            try:
                step = workspace.session(load=json.dumps(damaged), tools=[find_train], events=False).step
                loaded += step is None or bool(step.run_tools().request)
            except foreword.InputError:
                refused += 1
        assert loaded > 20
        assert refused > 100
