"""Claims about a session whose requests the caller sends."""

import asyncio
import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from session_talk import CONFIG, MODELS, edit, find_train, make_ask, make_house, talk

import foreword
from foreword.testing import EventStream, FakeRecorder, ScriptedCall, ScriptedReply, run_fake_provider

TRAIN = ScriptedReply(
    text="Let me see.",
    calls=(
        ScriptedCall(name="find_train", arguments={"start": "Ulm", "end": "Bonn"}),
        ScriptedCall(name="memory_search", arguments={"query": "plum tree"}),
    ),
)
YES = ScriptedReply(text="Yes.")


@pytest.mark.parametrize("kind", MODELS)
def test_conversation(tmp_path, kind):
    """Every provider accepts each request, also after tools and an edit, and reads what it was sent before."""
    with run_fake_provider(TRAIN, ScriptedReply(text="At 9:04.")) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", model=MODELS[kind], tools=[find_train])
        ask = make_ask(kind, provider.url)
        assert talk(session, ask, "A train to Bonn?") == "At 9:04."
        edit(workspace, "SOUL.md", "Warm and exact.\n")
        assert talk(session, ask, "And back?") == "Yes."
        assert [request.refused for request in provider.requests] == ["", "", ""]
        first, second, third = (request.counted for request in provider.requests)
        assert second.read >= 0.95 * first.total
        assert third.read >= 0.95 * second.total
        assert "Ulm to Bonn: 9:04" in provider.requests[1].raw.decode()
        assert "east wall" in provider.requests[1].raw.decode()
        assert "Warm and exact." in provider.requests[2].raw.decode()


def test_reply_is_accounted(tmp_path):
    """The usage of each reply is added up, priced, and recorded as events without any text."""
    recorder = FakeRecorder()
    with run_fake_provider(TRAIN, YES) as provider, make_house(tmp_path) as workspace:
        events = EventStream(recorder=recorder)
        session = workspace.session(user="alice", situation="dm", tools=[find_train], events=events)
        talk(session, make_ask("anthropic", provider.url), "A train to Bonn?")
        assert session.usage.tokens_in == sum(request.counted.total for request in provider.requests)
        assert session.usage.cache_read == sum(request.counted.read for request in provider.requests)
        assert session.cost_usd > 0
    begin, end = ["message_received", "trust_resolved", "prompt_built", "turn_started"], "turn_completed"
    used = ["api_call", "tool_call", "memory_search", "tool_call", "api_call"]
    assert sorted(recorder.types) == sorted([*begin, *used, end])
    assert "Bonn" not in repr(recorder.events)


def test_workspace_records(tmp_path):
    """Without another event stream the events are in the workspace, where `foreword cost` finds them."""
    with run_fake_provider() as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm")
        talk(session, make_ask("anthropic", provider.url), "Hello")
    command = [sys.executable, "-m", "foreword", "-w", tmp_path, "cost", "--json", "--since", "2026-11-01"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(shown)["whole"]["calls"] == 1


def test_edit_between(tmp_path):
    """An edit between `say` and `answered` changes nothing for that turn, and the next one has an update."""
    with run_fake_provider() as provider, make_house(tmp_path) as workspace:
        session, ask = workspace.session(user="alice", situation="dm"), make_ask("anthropic", provider.url)
        step = session.say("Hello")
        before = step.request
        edit(workspace, "SOUL.md", "Warm and exact.\n")
        assert step.request == before
        assert step.answered(ask(step.request)) is None
        after = session.say("And now?")
        assert after.system == step.system
        assert "Warm and exact." in after.tail


def test_tools_change(tmp_path):
    """Other tools in a later turn move the prefix with a reason, and earlier calls stay in the history."""
    with run_fake_provider(TRAIN, YES) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        ask = make_ask("anthropic", provider.url)
        talk(session, ask, "A train to Bonn?")
        talk(session, ask, "And now?", tools=foreword.Toolset())
        assert "tools" not in provider.body
        assert session.say("Again").assembly.prefix_decision.reason.startswith("the tools changed")
        assert {request.refused for request in provider.requests} == {""}


def test_unanswered(tmp_path):
    """A message that got no reply stays in the history, and the next one can follow."""
    with run_fake_provider() as provider, make_house(tmp_path) as workspace:
        session, ask = workspace.session(user="alice", situation="dm"), make_ask("anthropic", provider.url)
        lost = session.say("Is anybody there?")
        assert talk(session, ask, "Hello?") == "Yes."
        said = json.dumps(provider.body["messages"])
        assert "Is anybody there?" in said
        assert "(no reply came)" in said
        with pytest.raises(foreword.InputError, match="this step is over"):
            lost.answered({"content": []})
        with pytest.raises(foreword.InputError, match="this step is over"):
            assert lost.request


def test_unanswered_after_tools(tmp_path):
    """A turn that stops between its tools keeps the results it has, and the rest is marked as not run."""
    with run_fake_provider(TRAIN) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        ask = make_ask("anthropic", provider.url)
        first = session.say("A train to Bonn?")
        step = first.answered(ask(first.request))
        step.tool_results({step.tool_calls[0].id: "At 9:04."})
        talk(session, ask, "Never mind.")
        said = json.dumps(provider.body["messages"])
        assert "At 9:04." in said
        assert "(not run: no reply came)" in said
        assert provider.requests[-1].refused == ""


def test_wrong_replies(tmp_path):
    """A reply twice, for no step, or that is no whole reply is refused, and the step still takes the right one."""
    with run_fake_provider(TRAIN, YES) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        ask = make_ask("anthropic", provider.url)
        with pytest.raises(foreword.InputError, match="no step waits for a reply"):
            session.answered({"content": []})
        first = session.say("A train to Bonn?")
        reply = ask(first.request)
        second = first.answered(reply)
        second.run_tools()
        with pytest.raises(foreword.InputError, match="was given before"):
            second.answered(reply)
        with pytest.raises(foreword.InputError, match="this step is over"):
            first.answered(reply)
        for wrong, words in (
            ({"error": {"message": "overloaded"}}, "no reply of a model"),
            ({"content": [{"type": "text"}], "stop_reason": None}, "has no end"),
            ({"content": None}, "cannot be read"),
            (iter([]), "is no reply; give the whole reply"),
            ("Yes.", "is no reply; give the whole reply"),
        ):
            with pytest.raises(foreword.InputError, match=words):
                second.answered(wrong)
        assert second.answered(ask(second.request)) is None
        assert session.reply == "Yes."


def test_wrong_results(tmp_path):
    """A request needs the result of each call once, as a text or an exception."""
    with run_fake_provider(TRAIN, YES) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        ask = make_ask("anthropic", provider.url)
        first = session.say("A train to Bonn?")
        step = first.answered(ask(first.request))
        train, memory = step.tool_calls
        assert (train.name, train.arguments) == ("find_train", {"start": "Ulm", "end": "Bonn"})
        with pytest.raises(foreword.InputError, match="no result for find_train"):
            assert step.request
        with pytest.raises(foreword.InputError, match="no tool call 'other'"):
            step.tool_results({"other": "x"})
        with pytest.raises(foreword.InputError, match="must be a text or an exception, not 3"):
            step.tool_results({train.id: 3})
        step.tool_results({train.id: OSError("no timetable")})
        with pytest.raises(foreword.InputError, match="has a result already"):
            step.tool_results({train.id: "At 9:04."})
        step.tool_results({memory.id: "nothing"})
        assert step.answered(ask(step.request)) is None
        failed, found = provider.body["messages"][-1]["content"]
        assert (failed["is_error"], failed["content"][0]["text"]) == (True, "no timetable")
        assert (found["is_error"], found["content"][0]["text"]) == (False, "nothing")


def test_own_tools(tmp_path):
    """Coroutine functions run, sync and async; a tool without a function and an unknown one need no function."""

    @foreword.tool(trust="familiar")
    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    @foreword.tool(trust="familiar", changes=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    calls = [("wait", {"seconds": 0}), ("pay", {"amount": 3}), ("lamps", {}), ("fly", {}), ("wait", "{")]
    script = ScriptedReply(calls=tuple(ScriptedCall(name=name, arguments=given) for name, given in calls))
    tools = [wait, pay, foreword.Tool(name="lamps", trust=foreword.Trust.FAMILIAR)]
    for asks in (None, lambda call: call.arguments["amount"] < 5):
        folder = tmp_path / str(bool(asks))
        with run_fake_provider(script) as provider, make_house(folder) as workspace:
            session = workspace.session(user="alice", situation="dm", model="openai:gpt-5", tools=tools)
            ask = make_ask("chat", provider.url)
            first = session.say("Do it.")
            step = first.answered(ask(first.request))
            if asks:
                asyncio.run(step.run_tools_async(asks))
            else:
                step.run_tools()
            assert [call.name for call in step.tool_calls] == ["lamps"]
            assert step.tool_results({step.tool_calls[0].id: "on"}).answered(ask(step.request)) is None
            texts = [message["content"] for message in provider.body["messages"] if message["role"] == "tool"]
            assert texts[0] == "waited"
            assert texts[1] == "paid 3" if asks else "it needs approval" in texts[1]
            assert texts[2] == "on"
            assert "There is no tool 'fly' here" in texts[3]
            assert "no JSON" in texts[4]


def test_running_loop(tmp_path):
    """In an event loop `run_tools` names the method to await."""

    async def use(step):
        step.run_tools()

    with run_fake_provider(TRAIN) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        step = session.answered(make_ask("anthropic", provider.url)(session.say("A train?").request))
        with pytest.raises(foreword.InputError, match="use await step"):
            asyncio.run(use(step))


def test_fenced_calls(tmp_path):
    """A model without native tool calls writes them into its text, and gets the results as text."""
    block = '```tool_call\n{"tool": "find_train", "arguments": {"start": "Ulm", "end": "Bonn"}}\n```\n'
    with run_fake_provider(ScriptedReply(text=block), YES) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", model="ollama:tiny", tools=[find_train])
        step = session.say("A train?")
        assert step.tools == ()
        assert "tools" not in step.request
        assert talk(session, make_ask("chat", provider.url), "A train?") == "Yes."
        assert provider.body["messages"][-1]["content"][0]["text"] == "Result of find_train:\nUlm to Bonn: 9:04"


def test_history_is_weighed(tmp_path):
    """Tool calls and their results count as part of the conversation."""
    long = "A long report about trains. " * 400

    @foreword.tool(trust="familiar")
    def report() -> str:
        """Report."""
        return long

    script = ScriptedReply(calls=(ScriptedCall(name="report"),))
    with run_fake_provider(script, YES) as provider, make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[report])
        before = session.say("Report.").assembly.remaining
        talk(session, make_ask("anthropic", provider.url), "Report.")
        assert before - session.say("Thanks.").assembly.remaining >= 2_000


def test_budget(tmp_path):
    """A budget refuses a turn before it is sent; nothing of it stays, and a later turn is not affected."""
    limits = "budgets: {per_turn_usd: 0.000001}\n"
    with run_fake_provider() as provider, make_house(tmp_path, {"foreword.yaml": CONFIG + limits}) as workspace:
        session = workspace.session(user="alice", situation="dm")
        with pytest.raises(foreword.ForewordError, match="the budget of one turn"):
            session.say("Hello")
        assert session.step is None
        edit(workspace, "foreword.yaml", CONFIG)
        assert talk(session, make_ask("anthropic", provider.url), "Hello again") == "Yes."
        assert len(provider.body["messages"]) == 1


def test_budget_is_settled(tmp_path):
    """A reply takes its cost from the budget, and a message without a reply takes nothing."""
    limits = "budgets: {daily_usd: 0.07}\n"  # room for the maximum of one call, and not of two
    with run_fake_provider() as provider, make_house(tmp_path, {"foreword.yaml": CONFIG + limits}) as workspace:
        session = workspace.session(user="alice", situation="dm", max_tokens=3_000)
        ask = make_ask("anthropic", provider.url)
        for message in ("One", "Two", "Three"):
            session.say(message)
        replies = itertools.starmap(talk, itertools.repeat((session, ask, "Hello"), 20))
        with pytest.raises(foreword.ForewordError, match="the daily budget is used up"):
            list(replies)
        assert 0.01 < session.cost_usd < 0.07


def test_frameworks_reply(tmp_path):
    """A framework's reply is taken without the provider's own object, and advances the ledger."""
    with make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm", tools=[find_train])
        step = session.say("A train?")
        calls = {"c1": ("find_train", {"start": "Ulm", "end": "Bonn"})}
        step = step.answered(foreword.Reply(calls=calls, tokens_in=5_000, cache_write=5_000))
        assert step.run_tools().answered(foreword.Reply(text="At 9:04.", tokens_in=5_100, cache_read=5_000)) is None
        assert session.reply == "At 9:04."
        edit(workspace, "SOUL.md", "Warm and exact.\n")
        assert str(session.say("And now?").assembly.prefix_decision.action) == "append"


def test_own_requests(tmp_path):
    """The parts of a step are those of its request, for loops that build requests themselves."""
    with make_house(tmp_path) as workspace:
        step = workspace.session(user="alice", situation="dm", tools=[find_train]).say("Hello")
        body = step.request
        assert "".join(part["text"] for part in body["system"]) == step.system
        assert [part["text"] for part in body["messages"][-1]["content"]] == [step.tail, step.message]
        assert [tool["name"] for tool in body["tools"]] == [tool.name for tool in step.tools]
        assert step.inserted == ""
        other = workspace.session(user="alice", situation="dm", model="openai:gpt-5", tools=[find_train]).say("Hello")
        assert other.system.replace("(17 tok)", "(21 tok)") == step.system  # models count differently


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"usr": "alice"}, "unknown field of a turn 'usr'; did you mean 'user'"),
        ({"message": "Hello"}, r"message comes from say\(\)"),
        ({"agent": "nobody"}, "unknown agent 'nobody'"),
        ({"model": "antropic:claude-sonnet-5"}, "unknown provider 'antropic'"),
        ({"tools": [print]}, "is no tool; declare a function with @foreword.tool"),
    ],
)
def test_wrong_fields(tmp_path, fields, words):
    """A wrong field of a session is refused with its name."""
    with make_house(tmp_path) as workspace, pytest.raises(foreword.InputError, match=words):
        workspace.session(**{"user": "alice", "situation": "dm", **fields}).say("Hello")


def test_wrong_message(tmp_path):
    """A message needs a text, and a turn cannot change whom the session belongs to."""
    with make_house(tmp_path) as workspace:
        session = workspace.session(user="alice", situation="dm")
        for message in ("", "  \n", None, b"Hello"):
            with pytest.raises(foreword.InputError, match="a message must be a text with content"):
                session.say(message)
        with pytest.raises(foreword.InputError, match="user cannot change within a session"):
            session.say("Hello", user="bob")


def test_clearance_is_kept(tmp_path):
    """A session keeps its clearance: after a change of trust its next turn is refused, even before any reply."""
    for answers in (True, False):
        folder = tmp_path / str(answers)
        with run_fake_provider() as provider, make_house(folder) as workspace:
            session = workspace.session(user="alice", situation="dm")
            step = session.say("Hello")
            if answers:
                step.answered(make_ask("anthropic", provider.url)(step.request))
            edit(workspace, "foreword.yaml", CONFIG.replace("alice: {trust: full", "alice: {trust: inner"))
            with pytest.raises(foreword.InputError, match="a session's clearance cannot change"):
                session.say("Hello?")


def test_no_situation(tmp_path):
    """A session of a trusted user without a situation warns that it is public."""
    with make_house(tmp_path) as workspace, pytest.warns(UserWarning, match="so alice sees public content only"):
        workspace.session(user="alice").say("Hello")


def test_withheld_text_leaves_no_trace(tmp_path):
    """A file that needs more trust now is removed from the prompt and from the updates in the history."""
    with run_fake_provider() as provider, make_house(tmp_path, {"users/bob/USER.md": "Bob keeps bees.\n"}) as workspace:
        session, ask = workspace.session(user="bob", situation="dm"), make_ask("anthropic", provider.url)
        files = "prompt: {files: [{path: USER.md, per_user: true, trust: %s}]}\n"
        edit(workspace, "foreword.yaml", CONFIG + files % "familiar")
        talk(session, ask, "Hello")
        edit(workspace, "users/bob/USER.md", "Bob keeps wasps.\n")
        talk(session, ask, "And now?")
        assert "keeps wasps" in provider.requests[-1].raw.decode()
        edit(workspace, "foreword.yaml", CONFIG + files % "full")
        talk(session, ask, "And now?")
        assert "keeps bees" not in provider.requests[-1].raw.decode()
        assert "keeps wasps" not in provider.requests[-1].raw.decode()


def test_threads(tmp_path):
    """Eight threads, each with a session, work with one workspace while a file changes."""
    reply = {"content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn", "usage": {"input_tokens": 9}}

    def work(number):
        session = workspace.session(user="alice", situation="dm", events=False)
        for turn in range(6):
            edit(workspace, "SOUL.md", f"Calm, {number} and {turn}.\n")
            assert talk(session, lambda _: reply, f"{turn}") == "Yes."
        return len(json.loads(session.dump())["history"])

    with make_house(tmp_path) as workspace, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [6] * 8


def test_no_client_is_imported(tmp_path):
    """A session imports no HTTP client of ours, no SDK and no framework."""
    script = (
        "import sys\n"
        "from foreword.testing import make_workspace\n"
        "workspace = make_workspace(sys.argv[1], {})\n"
        "session = workspace.session(user='alice', situation='dm', model='anthropic:claude-opus-5')\n"
        "session.say('Hello').request\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    assert loaded.isdisjoint({"anthropic", "openai", "pydantic_ai", "fastapi", "uvicorn", "cronsim", "prompt_toolkit"})
    assert "foreword.agent.providers.http_provider" not in loaded
