"""OSA over its public interfaces: requests of a gateway, the budget, and command output."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from served import QUICK, serve_workspace

from foreword.cli.main import main
from foreword.errors import BudgetError
from foreword.host import find_host
from foreword.testing import NOON, ScriptedCall, ScriptedReply, make_workspace, run_fake_provider
from foreword.turn import Bulletin, Message, State, Tool, Toolset, Turn
from foreword.types import Trust
from waiting import wait

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: osa, directories: [DIRECTORY]}}
users: {alice: {trust: full, timezone: UTC}}
bulletin: {hours: 1, by: rule}
"""
HOST = find_host()
TASKS = [{"title": "Plant the hedge", "status": "active"}]
LEGACY = "consider moving it into SYSTEM.md"
END = "\n\n---\n\n"


@pytest.fixture
def place(tmp_path):
    """Make a repository as the agent's working directory."""
    folder = tmp_path / "boat"
    folder.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-C", str(folder)]
    for words in (["init", "-q", "-b", "spring"], ["commit", "-q", "--allow-empty", "-m", "Plane the keel"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return folder


@pytest.fixture
def files(place):
    """Return a workspace with content for every block."""
    return {
        "foreword.yaml": CONFIG.replace("DIRECTORY", str(place)),
        "MEMORY.md": "## Boiler\nServiced in May.\n",
        "memory/private/keys.md": "The keys hang in the shed.\n",
        f"os/{HOST.os}.md": "Programs come from apt.\n",
        f"machines/{HOST.host}.md": "The fan is loud.\n",
    }


def call(name, **arguments):
    """Make a reply that calls a tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


def read_blocks(request):
    """Return the document and the blocks of a request, keyed by their first lines."""
    text = "".join(part["text"] for part in request.body["system"])
    document, *blocks = text.split(END)
    return document, {block.partition("\n")[0]: block.partition("\n")[2] for block in blocks}


def find_signal(request):
    """Return the heading of the signal in a request."""
    return next(head for head in read_blocks(request)[1] if head.startswith("## Active Signal: "))


def test_every_block_over_http(tmp_path, place, files):
    """A gateway fills every OSA block, and sends the same document in every call."""
    script = (call("task_write", tasks=TASKS), call("workflow_write", text="Stage 2."), ScriptedReply(text="Noted."))
    options = replace(QUICK, bulletin=0.02)
    with serve_workspace(tmp_path / "ws", *script, files=files, options=options) as served, served.ask_as() as client:

        def say(text):
            """Send a message, and return the last request."""
            assert client.post("/api/turns", json={"text": text}).status_code == 200
            return served.provider.requests[-1]

        first = say("Could you please run the greenhouse check?")
        for _ in range(4):
            question = say("Why is the greenhouse so cold?")
        wait(lambda: "## Bulletin" in read_blocks(say("The greenhouse boiler, please."))[1])
        requests = served.provider.requests
        last, again = requests[-1], say("The greenhouse boiler, please.")
        session = client.get("/api/sessions").json()["sessions"][0]["session"]
    assert {request.body["system"][0]["text"] for request in requests} == {last.body["system"][0]["text"]}
    assert last.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in last.body["system"][-1]
    assert find_signal(first).startswith("## Active Signal: EXECUTE × DIRECT")
    assert find_signal(question).startswith("## Active Signal: ASSIST × INFORM")
    blocks = read_blocks(last)[1]
    assert blocks["## Environment"].splitlines() == [
        f"Working directory: {place}",
        re.search(r"Date: \d{4}-\d\d-\d\d", blocks["## Environment"])[0],
        f"Operating system: {HOST.os}",
        "Provider: anthropic",
        "Model: claude-sonnet-5",
        re.search(r"Git: branch spring, clean, last commit \w+ Plane the keel", blocks["## Environment"])[0],
    ]
    assert re.fullmatch(rf"Timestamp: [-\d]+T[\d:+]+\nChannel: web\nSession: {session}", blocks["## Runtime"])
    assert blocks["## Relevant Memory"] == "### Boiler\nServiced in May."
    assert blocks["## Active Tasks"] == "- #1 Plant the hedge (active)"
    assert blocks["## Workflow"] == "Stage 2."
    assert re.match(r"Formality: \w+\nUsual length: .+\nTopics: .*greenhouse", blocks["## Communication Profile"])
    assert "keys.md" in blocks["## Bulletin"]
    assert blocks["## Operating System"] == "Programs come from apt."
    assert blocks["## Machine"] == "The fan is loud."
    assert read_blocks(again)[1]["## Bulletin"] == blocks["## Bulletin"]


def test_routing_names_offered_tools(tmp_path, files):
    """Each tool that section 5 names is offered in the same request."""
    with serve_workspace(tmp_path / "ws", files=files) as served, served.ask_as() as client:
        client.post("/api/turns", json={"text": "Read the log."})
        body = served.provider.body
    routing = next(line for line in body["system"][0]["text"].splitlines() if line.startswith("- Routing:"))
    named = set(re.findall(r"`(\w+)`", routing))
    assert named >= {"read_file", "write_file", "search_files", "list_files"}
    assert named <= {tool["name"] for tool in body["tools"]}


def test_dedicated_tools_before_the_shell(tmp_path):
    """Section 5 lists the dedicated tools before the turn's shell."""
    tools = [Tool(name="read_file", trust=Trust.PUBLIC), Tool(name="bash", kind="shell", trust=Trust.PUBLIC)]
    text = make_workspace(tmp_path, {}).assemble(Turn(blueprint="osa", tools=Toolset(tools))).prompt.text
    assert "- Routing: dedicated tools go before `bash`: `read_file` for cat.\n" in text


def test_plan_mode_over_http(tmp_path, files):
    """In plan mode the prompt has the plan block, read-only tools run, and write tools are refused."""
    script = (
        call("memory_search", query="keys"),
        call("update_instructions", instructions="Be brief."),
        ScriptedReply(text="Goal: brevity."),
    )
    with serve_workspace(tmp_path / "ws", *script, files=files) as served, served.ask_as() as client:
        reply = client.post("/api/turns", json={"text": "Be brief from now on.", "plan": True}).json()["reply"]
        planned = served.provider.requests[-1]
        client.post("/api/sessions", json={})
        client.post("/api/turns", json={"text": "And now?"})
        plain = served.provider.requests[-1]
        held = client.get("/api/held").json()["held"]
    assert reply == "Goal: brevity."
    assert "## Plan Mode" in read_blocks(planned)[1]
    assert "## Plan Mode" not in read_blocks(plain)[1]
    searched, refused = (str(planned.body["messages"][at]) for at in (-3, -1))
    assert "The keys hang in the shed." in searched
    assert "update_instructions was not called: plan mode is on" in refused
    assert held == []


def edit_in_a_session(folder, files, path):
    """Send a message, edit a file, reload and send two more, the last in a new session; return all requests."""
    with serve_workspace(folder, files=files) as served, served.ask_as() as client:
        client.post("/api/turns", json={"text": "Is the boat ready?"})
        (folder / path).write_text("Knot every rope.", encoding="utf-8")
        assert client.post("/api/reload").json()["faults"] == []
        client.post("/api/turns", json={"text": "And now?"})
        client.post("/api/sessions", json={})
        client.post("/api/turns", json={"text": "Is the boat ready?"})
        return [request.body for request in served.provider.requests]


def test_rule_in_a_session(tmp_path, files):
    """A running session gets a new rule as an update to its unchanged document; a new session has it in the prefix."""
    given = {**files, "rules/old.md": "Coil every rope.\n"}
    first, second, third = edit_in_a_session(tmp_path / "ws", given, "rules/new.md")
    assert second["system"][0]["text"] == first["system"][0]["text"]
    update, message = (part["text"] for part in second["messages"][-1]["content"])
    assert update.startswith("## Prompt Updates")
    assert "Knot every rope." in update
    assert message == "And now?"
    assert "Knot every rope." in third["system"][0]["text"]
    assert "Prompt Updates" not in str(third["messages"])


def test_document_in_a_session(tmp_path, files):
    """A SYSTEM.md that is created during a session is used from its next message on."""
    _, second, third = edit_in_a_session(tmp_path / "ws", files, "SYSTEM.md")
    assert [body["system"][0]["text"].strip("\n-") for body in (second, third)] == ["Knot every rope."] * 2


def test_model_without_tools(tmp_path, files):
    """A model with `tools: false` receives no tools, and no text lists any."""
    config = files["foreword.yaml"] + 'models: {"anthropic:claude-sonnet-5": {tools: false}}\n'
    with (
        serve_workspace(tmp_path / "ws", files={**files, "foreword.yaml": config}) as served,
        served.ask_as() as client,
    ):
        client.post("/api/turns", json={"text": "Is the boat ready?"})
        body = served.provider.body
    assert "tools" not in body
    assert "These tools are available" not in str(body)


def test_full_blocks_make_room(tmp_path, files):
    """Blocks that fill the window are cut for each message and named in `prompt_built`; nothing is compacted."""
    config = files["foreword.yaml"] + 'models: {"anthropic:claude-sonnet-5": {window: 32000}}\n'
    given = {**files, f"os/{HOST.os}.md": "Programs come from apt.\n" * 9_000, "foreword.yaml": config}
    with serve_workspace(tmp_path / "ws", files=given) as served, served.ask_as() as client:
        answers = [client.post("/api/turns", json={"text": "Is the boat ready? " * 200}) for _ in range(3)]
        built = [event["metadata"] for event in served.list_events(type="prompt_built")]
        compacted = served.list_events(type="session_compacted")
        sizes = [len(read_blocks(request)[1]["## Operating System"]) for request in served.provider.requests]
        ends = {
            read_blocks(request)[1]["## Operating System"].rpartition("\n")[2] for request in served.provider.requests
        }
    assert [answer.status_code for answer in answers] == [200] * 3
    assert sizes == sorted(sizes, reverse=True)
    assert ends == {"[...truncated...]"}
    assert [(one["shortened"], one["dropped"], one["lost"]) for one in built] == [(1, 1, ["os", "machine"])] * 3
    assert compacted == []


def assemble(folder, window, said=0, **facts):
    """Assemble a turn whose content exceeds tiers 2, 3 and 4, after a conversation of the given number of words."""
    config = f'owner: alice\nusers: {{alice: {{trust: full}}}}\nmodels: {{"openai:x": {{window: {window}}}}}\n'
    long = "The crane lifts another crate.\n" * (window // 4)
    files = {"foreword.yaml": config, "SYSTEM.md": "Work calmly.\n", f"os/{HOST.os}.md": long}
    state = State(workflow=long, bulletins=(Bulletin(text=long),))
    turn = {
        "tools": Toolset(),
        "mode": "full",
        "message": "Go on.",
        "plan": True,
        "state": state,
        "host": HOST,
        **facts,
    }
    history = (Message(role="user", text="word " * said),) if said else ()
    turn |= {"history": history, "model": "openai:x", "now": NOON}
    return make_workspace(folder, files).assemble(Turn(user="alice", situation="dm", blueprint="osa", **turn))


@pytest.mark.parametrize(
    ("window", "said", "bound", "reserve"),
    [
        (200_000, 0, 128_000, 4_096),
        (200_000, 100_000, 128_000, 4_096),
        (200_000, 130_000, 128_000, 4_096),
        (128_000, 0, 128_000, 4_096),
        (20_000, 0, 20_000, 4_096),
        (20_000, 9_000, 20_000, 4_096),
        (12_000, 0, 12_000, 3_000),
    ],
)
def test_budget(tmp_path, window, said, bound, reserve):
    """The budget is 128,000 less reserve and conversation, at least 2,000; tiers 2 to 4 get 40 %, 30 % and the rest."""
    assembly = assemble(tmp_path, window, said)
    rows = {row.id: row for row in assembly.rows()}
    assert assembly.conversation >= said
    whole = max(bound - reserve - assembly.conversation, 2_000)
    fixed = sum(
        row.tokens for name, row in rows.items() if name in ("system", "signal", "environment", "runtime", "plan")
    )
    shares = {"workflow": ("high", int(0.4 * whole)), "bulletin": ("medium", int(0.3 * whole))}
    shares["os"] = ("low", whole - fixed - rows["workflow"].tokens - rows["bulletin"].tokens)
    for name, (tier, share) in shares.items():
        assert rows[name].reason.startswith(f"tier {tier} has {share:,} of {whole:,} tokens; wants ")
        assert share - 12 <= rows[name].tokens <= share
    assert {str(rows[name].verdict) for name in ("signal", "environment", "runtime", "plan")} == {"kept"}
    assert assembly.prompt.text.count("\n[...truncated...]") == 3
    assert whole - 12 <= assembly.used <= whole


def test_the_sum_can_be_checked(tmp_path):
    """If the document does not fit, the error shows how the budget follows from the window."""
    config = 'owner: alice\nusers: {alice: {trust: full}}\nmodels: {"openai:x": {window: 1600}}\n'
    turn = Turn(user="alice", situation="dm", blueprint="osa", model="openai:x", mode="full", tools=Toolset())
    with pytest.raises(BudgetError) as caught:
        make_workspace(tmp_path, {"foreword.yaml": config}).assemble(turn)
    text = str(caught.value)
    assert "1,600 of a window of 1,600 less 400 for the answer and 400 for the turn, has 800; " in text


def test_explain_has_the_static_part_apart(tmp_path, capsys):
    """`foreword explain` counts the document and its tool schemas separately from the blocks of the turn."""
    make_workspace(
        tmp_path, {"foreword.yaml": "owner: alice\nusers: {alice: {trust: full}}\nagents: {reid: {blueprint: osa}}\n"}
    )
    assert main(["-w", str(tmp_path), "explain", "--model", "anthropic:claude-sonnet-5", "--message", "Run it."]) == 0
    line = " ".join(capsys.readouterr().out.split())
    system, limit, schemas, turn = re.search(
        r"system ([\d,]+) of ([\d,]+) tokens \(tool schemas ([\d,]+)\) .* turn ([\d,]+) · window", line
    ).groups()
    assert limit == "121,904"
    assert int(system.replace(",", "")) > int(schemas.replace(",", "")) > int(turn.replace(",", "")) > 50


def test_conversation_follows_the_system_message(tmp_path):
    """A request has the system message, the history and the new message, in this order."""
    history = (Message(role="user", text="Hi"), Message(role="assistant", text="Hello"))
    turn = Turn(blueprint="osa", model="openai:gpt-5", history=history, message="Go on.")
    messages = make_workspace(tmp_path, {}).assemble(turn).envelope().request["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]


def test_signatures(tmp_path):
    """The tool list has each parameter with its type, and a question mark after an optional one."""
    properties = {"path": {"type": "string"}, "from": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    tool = Tool(name="peek", description="Read a part.", parameters=schema, trust=Trust.PUBLIC)
    text = make_workspace(tmp_path, {}).assemble(Turn(blueprint="osa", tools=Toolset([tool]))).prompt.text
    assert "\n- peek(path: string, from?: integer): Read a part.\n" in text


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_legacy_hint_at_the_start(tmp_path, command):
    """`serve` and `chat` warn once of legacy files, and do not change them."""
    config = CONFIG.replace("DIRECTORY", "")
    make_workspace(tmp_path, {"foreword.yaml": config, "SOUL.md": "Old.\n", "IDENTITY.md": "Old.\n"})
    rest = ["serve", "--port", "0"] if command == "serve" else ["chat", "Hello."]
    with run_fake_provider() as provider:
        environ = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider.url}
        environ |= {"PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, "-m", "foreword", "-w", str(tmp_path), *rest]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, env=environ, text=True, **pipes) as process:
            if command == "serve":
                assert "listening" in process.stdout.readline()
                process.terminate()
            _, shown = process.communicate(timeout=120)
    assert shown.count(LEGACY) == 1
    assert {(tmp_path / name).read_text() for name in ("SOUL.md", "IDENTITY.md")} == {"Old.\n"}
