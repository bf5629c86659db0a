"""Claims about the commands inside a chat, each run alone; at a terminal they act on the same session."""

import re

from foreword.testing import Called, Refuses, Says


def list_said(provider) -> list[str]:
    """List who spoke in the newest request."""
    return [message["role"] for message in provider.body["messages"]]


def test_context(once, provider):
    """/context shows the next turn as a table, and the last one as it was sent."""
    run = once("/context")
    assert run.out.startswith("clearance: full, because alice is full and a dm allows full")
    assert re.search(r"^ soul +static +familiar", run.out, re.MULTILINE)
    assert once("/context last").code == 2
    once("Hello.")
    assert "window 1,000,000" in once("/context last").out
    assert "write /context" in once("/context next").err
    assert len(provider.requests) == 1


def test_context_is_what_is_sent(once):
    """/context counts every tool of the next turn, so that the turn weighs what was foreseen."""
    once("Hello.")
    foreseen, _, sent = (
        re.search(r"tool schemas ([\d,]+)", run.out)
        for run in (once("/context"), once("Again."), once("/context last"))
    )
    assert foreseen[1] == sent[1]


def test_context_of_a_small_prompt(once, folder):
    """Slots that a prompt mode leaves out are one line of /context."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    small = 'models: {"anthropic:claude-sonnet-5": {window: 15900, tools: false}}\n'
    (folder / "foreword.yaml").write_text(config + small, encoding="utf-8")
    run = once("/context")
    assert "leaves it out" not in run.out
    assert re.search(r"^ \d+ slots absent: prompt mode minimal leaves them out$", run.out, re.MULTILINE)


def test_why(once, provider):
    """/why says why a slot is as it is, and what the last turn did, also where it failed."""
    assert "nothing was said yet" in once("/why").err
    assert "soul: kept" in once("/why soul").out
    assert once("/why sool").err == "foreword: unknown slot 'sool'; did you mean 'soul'?\n"
    assert once("/why xyzzy").err == "foreword: unknown slot 'xyzzy'; /context lists them\n"
    provider.follow(Refuses(status=400, message="no"))
    once("Hello.")
    run = once("/why")
    assert "[provider] api_error" in run.out
    assert "1 error" in run.out


def test_why_the_cache_missed(once, folder):
    """/why says first what the ledger did with the prompt and why, then what each call read and what broke."""
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
    """/cost tells what the session cost, and today."""
    assert "this session: nothing was said yet" in once("/cost").out
    once("Hello.")
    run = once("/cost")
    assert re.match(r"this session: \$0\.\d+, 1 turn, 1 call", run.out)
    once("--new", "Hello.")
    both = once("/cost").out.splitlines()
    assert "1 turn," in both[0]
    assert "2 turns," in both[1]


def test_clearance(once, provider):
    """What the commands show is what the clearance of the conversation may know: of more they give no hint."""
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
    assert "this session: nothing was said yet" in shown
    assert "there is no session yet" in shown
    stranger = once("--user", "mallory", "/memory")
    assert (stranger.code, stranger.out) == (2, "")
    assert len(provider.requests) == 1


def test_model(once, provider):
    """/model shows the model, and switches to another one for this session alone."""
    assert once("/model").out == "anthropic:claude-sonnet-5\n"
    assert once("/model anthropic:claude-haiku-4-5").out == "anthropic:claude-haiku-4-5\n"
    once("Hello.")
    assert provider.body["model"] == "claude-haiku-4-5"
    assert "names no model" in once("/model nonsense").err
    assert "needs a key" in once("/model openai:gpt-5").err
    assert once("/model").out == "anthropic:claude-haiku-4-5\n"
    once("--new", "Hello.")
    assert provider.body["model"] == "claude-sonnet-5"


def test_sessions(once, provider):
    """/sessions lists what could go on, and /resume goes on with it and shows its last exchange."""
    provider.follow(Says(text="First."))
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
    assert "no session 'ffff0000' to go on with here; /sessions lists them" in once("/resume ffff0000").err
    assert "digits or more of it; /sessions lists them" in once("/resume zz").err
    assert f"there is no session '{named}' to go on with here" in once("--user", "bob", f"/resume {named}").err


def test_reload(once):
    """/reload has nothing to say where nothing changed."""
    assert once("/reload").out == "nothing has changed\n"


def test_plan(once, provider):
    """/plan on turns plan mode on, /plan shows the stored plan, and /plan accept leaves it and has the plan done."""
    assert "plan mode is on" in once("/plan on").out
    provider.follow(Says(text="Goal: tea."), Says(text="Done."))
    once("Make tea.")
    assert "Plan mode is on" in provider.requests[0].raw.decode()
    shown = once("/plan").out
    assert "plan 1, proposed" in shown
    assert "Goal: tea." in shown
    run = once("/plan accept")
    assert run.out == "plan 1 is accepted, and plan mode is off\nDone.\n"
    assert "I accept the plan." in provider.requests[1].raw.decode()
    assert '"text":"Plan mode is on' not in provider.requests[1].raw.decode().rpartition('"role"')[2]
    over = once("/plan off").out
    assert over.startswith("plan mode is off")
    assert "plan 1, accepted\n" in over
    assert "write /plan" in once("/plan b").err


def test_plan_mode_is_told(once):
    """A session in plan mode does not begin, whether anything was said in it or not."""
    once("/plan on")
    session = once("/sessions").out.splitlines()[1].split()[0]
    assert f"going on with {session} (no turn yet), plan mode is on; /new" in once(f"/resume {session}").out


def test_plan_without_one(once):
    """Without a plan there is nothing to accept."""
    assert "has no plan yet" in once("/plan accept").err


def test_tasks(once, provider):
    """/tasks shows what the session has set out to do."""
    assert once("/tasks").out == "this session has no tasks\n"
    steps = [{"text": "Boil water", "status": "done"}, {"text": "Pour\x1b[2J", "status": "active"}]
    task = {"id": "tea", "title": "Make tea", "status": "active", "steps": steps}
    provider.follow(Says(calls=(Called(name="task_write", arguments={"tasks": [task]}),)), Says(text="Done."))
    once("Make tea.")
    assert once("/tasks").out == "→ Make tea (active)\n    ✓ Boil water\n    → Pour�[2J\n"
