"""The slash commands, each run alone; in a terminal they act on the same session."""

import re

from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply


def list_said(provider) -> list[str]:
    """List the roles of the newest request."""
    return [message["role"] for message in provider.body["messages"]]


def test_context(once, provider):
    """/context shows the next turn as a table, and the last turn as sent."""
    run = once("/context")
    assert run.out.startswith("clearance: full, because alice is full and a dm allows full")
    assert re.search(r"^ soul +static +familiar", run.out, re.MULTILINE)
    assert once("/context last").code == 2
    once("Hello.")
    assert "window 1,000,000" in once("/context last").out
    assert "use /context" in once("/context next").err
    assert len(provider.requests) == 1


def test_context_is_what_is_sent(once):
    """/context counts every tool of the next turn and gives its exact token count."""
    once("Hello.")
    foreseen, _, sent = (
        re.search(r"tool schemas ([\d,]+)", run.out)
        for run in (once("/context"), once("Again."), once("/context last"))
    )
    assert foreseen[1] == sent[1]


def test_context_of_a_small_prompt(once, folder):
    """/context shows the slots that a prompt mode leaves out as one line."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    small = 'models: {"anthropic:claude-sonnet-5": {window: 15900, tools: false}}\n'
    (folder / "foreword.yaml").write_text(config + small, encoding="utf-8")
    run = once("/context")
    assert "leaves it out" not in run.out
    absent = int(re.fullmatch(r" (\d+) slots absent; /context all shows them", run.out.splitlines()[-1])[1])
    everything = once("/context all").out
    assert len(re.findall(r" absent\b", everything)) == absent
    assert "prompt mode minimal leaves it out" in everything


def test_context_keeps_to_the_clearance(once):
    """In a group, /context all neither shows nor counts slots above the clearance of the conversation."""
    shown, everything = once("/context", "--situation", "group").out, once("/context all", "--situation", "group").out
    assert shown.startswith("clearance: familiar")
    assert "withheld" not in shown + everything


def test_why(once, provider):
    """/why explains the verdict of a slot and the last turn, including a failed one."""
    assert "no turns yet" in once("/why").err
    assert "soul: kept" in once("/why soul").out
    assert once("/why sool").err == "foreword: unknown slot 'sool'; did you mean 'soul'?\n"
    assert once("/why xyzzy").err == "foreword: unknown slot 'xyzzy'; /context all lists them\n"
    provider.follow(ScriptedError(status=400, message="no"))
    once("Hello.")
    run = once("/why")
    assert "[provider] api_error" in run.out
    assert "1 error" in run.out


def test_why_the_cache_missed(once, folder):
    """/why shows the ledger decision with its reason first, then the cache reads and breaks of each call."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    ruled = f"{config}prompt: {{files: [{{path: SOUL.md, edits: now}}]}}\n"
    (folder / "foreword.yaml").write_text(ruled, encoding="utf-8")
    once("Hello.")
    first = once("/why").out.splitlines()
    assert first[0] == "ledger: the session begins with this prompt"
    assert re.match(r"call 1: 0 of [\d,]+ input tokens read from the cache: 0.0 % read, 0.0 % predicted", first[1])
    (folder / "SOUL.md").write_text("You are calm, and exact.\n", encoding="utf-8")
    once("Again.")
    ledger, soul, call, broken, *rest = once("/why").out.splitlines()
    assert re.match(r"ledger: rebase from soul at byte [\d,]+, [\d,]+ tokens again .*\(ordered\)", ledger)
    assert soul == "  soul changed, rebase"
    assert call.startswith("call 1: ")
    assert re.match(r"  break by section soul at byte [\d,]+, [\d,]+ tokens again for \$0\.", broken)
    assert "[provider] api_call" in "\n".join(rest)
    once("Once more.")
    assert once("/why").out.startswith("ledger: no section differs from what the session was sent")


def test_cost(once):
    """/cost shows the cost of the session and of today."""
    assert "this session: no turns yet" in once("/cost").out
    once("Hello.")
    run = once("/cost")
    assert re.match(r"this session: \$0\.\d+, 1 turn, 1 call", run.out)
    once("--new", "Hello.")
    both = once("/cost").out.splitlines()
    assert "1 turn," in both[0]
    assert "2 turns," in both[1]


def test_clearance(once, provider):
    """The commands show only data within the clearance of the conversation, and no hint of more."""
    once("Remember this.")
    shown = ""
    for command in (
        "/context",
        "/why menu",
        "/why private",
        "/memory",
        "/memory secret",
        "/cost",
        "/sessions",
        "/tasks",
    ):
        run = once("--situation", "group", "--user", "bob", command)
        shown += run.out + run.err
    assert not {"NOTES", "NOTES.md", "withheld", "inner", "full", "alice"} & set(re.findall(r"[\w.]+", shown))
    assert "Nothing in memory answers that." in shown
    assert "this session: no turns yet" in shown
    assert "no sessions yet" in shown
    stranger = once("--user", "mallory", "/memory")
    assert (stranger.code, stranger.out) == (2, "")
    assert len(provider.requests) == 1


def test_model(once, provider):
    """/model shows the model, and switches to another one for this session only."""
    assert once("/model").out == "anthropic:claude-sonnet-5\n"
    assert once("/model anthropic:claude-haiku-4-5").out == "anthropic:claude-haiku-4-5\n"
    once("Hello.")
    assert provider.body["model"] == "claude-haiku-4-5"
    assert "is not a model name" in once("/model nonsense").err
    assert "needs an API key" in once("/model openai:gpt-5").err
    assert once("/model").out == "anthropic:claude-haiku-4-5\n"
    once("--new", "Hello.")
    assert provider.body["model"] == "claude-sonnet-5"


def test_sessions(once, provider):
    """/sessions lists the open sessions; /resume continues one and shows its last exchange."""
    provider.follow(ScriptedReply(text="First."))
    once("One.")
    once("/new")
    once("Two.")
    assert list_said(provider) == ["user"]
    listed = once("/sessions").out.splitlines()[1:]
    assert ["this one" in line for line in listed] == [True, False]
    resumed = once(f"/resume {listed[1].split()[0]}").out
    assert "(1 turn" in resumed
    assert [line.strip() for line in resumed.splitlines()[1:]] == ["> One.", "First."]
    once("And now?")
    assert list_said(provider) == ["user", "assistant", "user"]
    named = listed[0].split()[0]
    assert "no session 'ffff0000' can be resumed here; /sessions lists them" in once("/resume ffff0000").err
    assert "give the id of a session, or at least its first 4 digits; /sessions lists them" in once("/resume zz").err
    assert f"no session '{named}' can be resumed here" in once("--user", "bob", f"/resume {named}").err


def test_reload(once):
    """/reload reports no change if nothing changed."""
    assert once("/reload").out == "no changes\n"


def test_plan(once, provider):
    """/plan on turns plan mode on, /plan shows the stored plan, and /plan accept leaves plan mode and runs the plan."""
    assert "plan mode is on" in once("/plan on").out
    provider.follow(ScriptedReply(text="Goal: tea."), ScriptedReply(text="Done."))
    once("Make tea.")
    assert "Plan mode is on" in provider.requests[0].raw.decode()
    shown = once("/plan").out
    assert "plan 1, proposed" in shown
    assert "Goal: tea." in shown
    run = once("/plan accept")
    assert run.out == "plan 1 accepted; plan mode is off\nDone.\n"
    assert "I accept the plan." in provider.requests[1].raw.decode()
    assert '"text":"Plan mode is on' not in provider.requests[1].raw.decode().rpartition('"role"')[2]
    over = once("/plan off").out
    assert over.startswith("plan mode is off")
    assert "plan 1, accepted\n" in over
    assert "use /plan" in once("/plan b").err


def test_plan_mode_is_told(once):
    """A resumed session says that it is in plan mode, even without earlier messages."""
    once("/plan on")
    session = once("/sessions").out.splitlines()[1].split()[0]
    assert f"resuming {session} (no turns yet), plan mode is on; /new" in once(f"/resume {session}").out


def test_plan_without_one(once):
    """/plan accept is refused without a plan."""
    assert "has no plan yet" in once("/plan accept").err


def test_tasks(once, provider):
    """/tasks shows the tasks of the session."""
    assert once("/tasks").out == "this session has no tasks\n"
    steps = [{"text": "Boil water", "status": "done"}, {"text": "Pour\x1b[2J", "status": "active"}]
    task = {"id": "tea", "title": "Make tea", "status": "active", "steps": steps}
    provider.follow(
        ScriptedReply(calls=(ScriptedCall(name="task_write", arguments={"tasks": [task]}),)),
        ScriptedReply(text="Done."),
    )
    once("Make tea.")
    assert once("/tasks").out == "→ Make tea (active)\n    ✓ Boil water\n    → Pour�[2J\n"
