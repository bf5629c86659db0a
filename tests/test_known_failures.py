"""Claims about known failures of similar systems, and about the documented behaviour of Coop.

This file does not cover lessons about recall, stored prompts, costs and channels.
"""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.engine.sources.documents import read_builtin
from foreword.errors import BudgetError, InputError
from foreword.resources import read_blueprint
from foreword.testing import NOON, make_workspace, write_files
from foreword.turn import Git, Step, Task, Tool, Toolset, Turn
from foreword.types import Mode, Trust

CONFIG = "owner: alice\nusers: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}\n"
MODEL = "openai:gpt-5"
DM = Turn(user="alice", situation="dm", model=MODEL, message="Hi")
COOP = replace(DM, blueprint="coop")
LINE = "Ask before you buy anything, and keep the receipt.\n"
SKILLS = {f"skills/s{number}/SKILL.md": f"---\ndescription: Skill {number}\n---\n" for number in range(3)}
MEMORIES = {f"memory/{store}/{name}.md": f"# {name}\n" for store in ("private", "shared", "social") for name in "cab"}


def build(folder: Path, files: dict[str, str], turn: Turn = DM) -> Assembly:
    """Assemble one turn."""
    return make_workspace(folder, {"foreword.yaml": CONFIG, **files}).assemble(turn)


def shrink(base: str, **budget: object) -> str:
    """Write a shipped blueprint with another budget."""
    text = read_blueprint(base) or ""
    for key, value in budget.items():
        text, changed = re.subn(rf"(?m)^  {key}: .*$", f"  {key}: {value}", text)
        assert changed == 1
    return text


def stable(assembly: Assembly) -> str:
    """Return the text that a provider can cache."""
    return "".join(block.text for block in assembly.prompt.blocks if str(block.pace) != "turn")


def list_reasons(assembly: Assembly) -> dict[str, str]:
    """Return the verdict of every slot."""
    return {row.id: str(row.verdict) for row in assembly.rows()}


# Section 2: prompt caches


def test_clock(tmp_path: Path) -> None:
    """Lesson: a clock in the system prompt breaks the prefix every minute. Here the time is sent with the message."""
    ws = make_workspace(tmp_path, {"SOUL.md": LINE})
    one, two = (ws.assemble(replace(DM, now=NOON + timedelta(minutes=minute))) for minute in (0, 1))
    assert one.envelope().request["messages"][0] == two.envelope().request["messages"][0]
    assert "12:01" in two.envelope().request["messages"][-1]["content"][0]["text"]


def test_clock_does_not_move_position(tmp_path: Path) -> None:
    """Lesson: a trailing system message breaks the prefix by its position. Here the clock is in the user message."""
    messages = build(tmp_path, {}).envelope().request["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]


@pytest.mark.parametrize(
    "facts",
    [
        {"message": "word " * 5_000},
        {"plan": True},
        {"task": Task(id="1", title="Move", steps=(Step(text="Pack"),))},
        {"git": Git(branch="main", changed=9)},
        {"now": NOON + timedelta(days=400)},
    ],
)
def test_movers(tmp_path: Path, facts: dict) -> None:
    """Lesson: token usage, mode, git state and tasks changed the prefix elsewhere. Here none of them does."""
    ws = make_workspace(tmp_path, {"SOUL.md": LINE, **SKILLS, **MEMORIES})
    turn = replace(DM, project="~/house")
    assert stable(ws.assemble(turn)) == stable(ws.assemble(replace(turn, **facts)))


def test_tool_order(tmp_path: Path) -> None:
    """Lesson: another order of tools misses the cache. Here the request does not depend on their order."""
    tools = [Tool(name=name, trust=Trust.PUBLIC, kind="web") for name in "cab"]
    one, two = (build(tmp_path, {}, replace(DM, tools=Toolset(order))) for order in (tools, tools[::-1]))
    assert one.envelope("anthropic").json() == two.envelope("anthropic").json()


def test_edits_apply_at_once(tmp_path: Path) -> None:
    """Lesson: edits of SOUL.md must apply at once. Here they do while there is no prefix, and the reason says so."""
    ws = make_workspace(tmp_path, {"SOUL.md": "Be kind.\n"})
    ws.assemble(DM)
    write_files(tmp_path, {"SOUL.md": "Be exact.\n"})
    ws.refresh(now=True)
    assembly = ws.assemble(DM)
    assert "Be exact." in assembly.prompt.text
    assert assembly.prefix_decision.prefix.blocks == ()
    assert "no prefix yet" in assembly.prefix_decision.reason


# Section 2: budgets


@pytest.mark.parametrize("base", ["default", "coop"])
def test_no_silent_truncation(tmp_path: Path, base: str) -> None:
    """Lesson: rules were silently lost for days. Here the report and the prompt both name the missing text."""
    files = {"SOUL.md": LINE * 200, "blueprints/small.yaml": shrink(base, system=1800)}
    assembly = build(tmp_path, files, replace(DM, blueprint="small"))
    row = next(row for row in assembly.rows() if row.id == "soul")
    assert (str(row.verdict), row.wanted > row.tokens) == ("shortened", True)
    assert re.search(r'\[(shortened|truncated)[^\n]*memory_get\("SOUL.md", from=\d+\)', assembly.prompt.text)


def test_every_loss_is_reported(tmp_path: Path) -> None:
    """Lesson: losses need a report. Here every lost section has its verdict, its reason and its token counts."""
    files = {"AGENTS.md": LINE * 300, **{f"rules/{n}.md": LINE * 40 for n in range(9)}, **SKILLS}
    files["blueprints/small.yaml"] = shrink("default", system=2000)
    lost = [row for row in build(tmp_path, files, replace(DM, blueprint="small")).rows() if row.tokens < row.wanted]
    assert len(lost) > 5
    assert all(row.reason and str(row.verdict) in ("shortened", "indexed", "dropped") for row in lost)


@pytest.mark.parametrize("tools", [Toolset(), READING_TOOLS], ids=["bare", "tools"])
def test_the_model_is_told(tmp_path: Path, tools: Toolset) -> None:
    """Lesson: eviction was silent. Here the prompt names every dropped or shortened section."""
    files = {f"rules/{name}.md": LINE * 200 for name in "abcdefghi"}
    files |= {"MEMORY.md": LINE * 30, "USER.md": LINE * 200, "BOOT.md": LINE * 200}
    files["blueprints/small.yaml"] = shrink("default", system=1500)
    turn = replace(DM, blueprint="small", tools=tools, directories=(LINE,) * 40)
    assembly = build(tmp_path, files, turn)
    lost = [row for row in assembly.rows() if str(row.verdict) in ("dropped", "shortened")]
    assert {str(row.verdict) for row in lost} == {"dropped", "shortened"}
    for row in lost:
        start, end = row.span
        shown = assembly.prompt.text[start:end]
        assert f"# {row.title}\n" in shown
        assert "[left out here: " in shown if str(row.verdict) == "dropped" else "[shortened: " in shown
    listed = [row.source for row in assembly.rows() if str(row.verdict) == "indexed"]
    assert all(
        f"- {path} (" in assembly.prompt.text or 'read_section("menu"' in assembly.prompt.text for path in listed
    )


def test_plan_mode_survives(tmp_path: Path) -> None:
    """Lesson: plan mode was lost to silent eviction. Here a long task does not displace it."""
    task = Task(id="1", title="Move", steps=tuple(Step(text=f"Box {number}") for number in range(200)))
    assembly = build(tmp_path, {}, replace(DM, plan=True, task=task))
    assert (list_reasons(assembly)["plan"], list_reasons(assembly)["task"]) == ("kept", "shortened")


def test_arithmetic(tmp_path: Path) -> None:
    """Lesson: the error for a prompt that does not fit shows the calculation and the slots."""
    sums = r"does not fit: tool schemas \d+ \+ core \d+ \+ naming omitted sections .*\d+ = \d+ tokens, and the system"
    with pytest.raises(BudgetError, match=sums):
        build(tmp_path, {"blueprints/small.yaml": shrink("default", system=300)}, replace(DM, blueprint="small"))


def test_fair(tmp_path: Path) -> None:
    """Lesson: with sequential limits the first file displaces the last. Here `default` cuts both to the same size."""
    files = {
        "rules/a.md": LINE * 500,
        "rules/z.md": LINE * 500,
        "blueprints/small.yaml": shrink("default", system=3000),
    }
    rows = {row.id: row for row in build(tmp_path, files, replace(DM, blueprint="small")).rows()}
    assert abs(rows["rules:a.md"].tokens - rows["rules:z.md"].tokens) < 15


def test_tool_schemas(tmp_path: Path) -> None:
    """Lesson: 15,496 tokens of tool schemas were not counted. Here they count against the budget."""
    tool = Tool(name="big", trust=Trust.PUBLIC, parameters={"type": "object", "description": "word " * 3_000})
    bare, loaded = (build(tmp_path, {}, replace(DM, tools=Toolset(tools))) for tools in ([], [tool]))
    assert loaded.system_tokens - bare.system_tokens > 3_000
    assert loaded.used - bare.used > 3_000
    assert "tool schemas 3,0" in loaded.summary


def test_measured_again(tmp_path: Path) -> None:
    """Lesson: an estimated ratio overshot by 13 %. Here every cut is counted as rendered, with the model's factor."""
    text = "".join(f"| {number} | {'✓' * (number % 7)} | naïve “quotes” |\n" for number in range(400))
    files = {"AGENTS.md": text, "blueprints/small.yaml": shrink("default", system=2500)}
    for model in (MODEL, "anthropic:claude-sonnet-5", "openai:gpt-4-turbo"):
        assembly = build(tmp_path, files, replace(DM, blueprint="small", model=model))
        assert assembly.meter.count(stable(assembly)) + assembly.fit.tool_tokens <= 2500


def test_unknown_model(tmp_path: Path) -> None:
    """Lesson: an unknown model silently fell back to 32 k. Here the summary names the assumed window."""
    summary = build(tmp_path, {}, replace(DM, model="openai:nova-9")).summary
    assert "nothing is known about model 'openai:nova-9'; a window of 128,000 is assumed" in summary


def test_heartbeat_is_light(tmp_path: Path) -> None:
    """Lesson: a heartbeat without work took 68 k tokens. Here a minimal run is less than half of a full one."""
    files = {"SOUL.md": LINE * 50, "USER.md": LINE * 50, "rules/a.md": LINE * 50, "AGENTS.md": LINE, **SKILLS}
    full, minimal = (build(tmp_path, files, replace(DM, mode=mode)) for mode in (Mode.FULL, Mode.MINIMAL))
    assert minimal.used < full.used / 2
    assert list_reasons(minimal)["agents"] == "kept"


# Section 2: faults of Coop


def test_menu_is_redeemed(tmp_path: Path) -> None:
    """Lesson: the menu listed paths, but memory_get took only ids. Here every path of the menu can be loaded."""
    ws = make_workspace(tmp_path, {**MEMORIES, "MEMORY.md": "Facts.\n"})
    assembly = ws.assemble(COOP)
    paths = re.findall(r"^- (\S+) \(\d+ tok\)", assembly.prompt.text, re.MULTILINE)
    assert len(paths) == 10
    assert all(ws.call(assembly, "memory_get", {"path": path, "from": 1}).text for path in paths)


@pytest.mark.parametrize("base", ["default", "coop"])
def test_menu_order(tmp_path: Path, base: str) -> None:
    """Lesson: the menu had the order of a hash map. Here it is sorted by name, independent of the disk."""
    turn = replace(DM, blueprint=base)
    one = build(tmp_path / "one", MEMORIES, turn)
    two = build(tmp_path / "two", dict(reversed(MEMORIES.items())), turn)
    assert one.prompt.text == two.prompt.text
    paths = re.findall(r"^- (\S+) \(", one.prompt.text, re.MULTILINE)
    assert [path for path in paths if "/" in path] == sorted(path.removeprefix("memory/") for path in MEMORIES)


@pytest.mark.parametrize("base", ["default", "coop"])
def test_flat_text_is_the_blocks(tmp_path: Path, base: str) -> None:
    """Lesson: flat text and cache blocks differed once skills existed. Here they are equal."""
    assembly = build(tmp_path, {**SKILLS, **MEMORIES, "SOUL.md": LINE}, replace(DM, blueprint=base))
    blocks = [block["text"] for block in assembly.envelope("anthropic").request["system"]]
    assert "".join(blocks) == assembly.envelope("openai").request["messages"][0]["content"]
    assert assembly.prompt.text.startswith("".join(blocks))


def test_headings_are_counted(tmp_path: Path) -> None:
    """Lesson: headings were not counted. Here the tokens of a section include its heading and separator."""
    assembly = build(tmp_path, {"SOUL.md": "Be kind.\n"})
    row = next(row for row in assembly.rows() if row.id == "soul")
    assert row.tokens == assembly.meter.count("## Soul\nBe kind.\n\n")


def test_defaults_survive_a_refresh(tmp_path: Path) -> None:
    """Lesson: refresh() lost built-in default texts. Here they remain."""
    ws = make_workspace(tmp_path, {"AGENTS.md": "One.\n"})
    before = ws.assemble(COOP).prompt.text
    write_files(tmp_path, {"AGENTS.md": "Two.\n"})
    ws.refresh(now=True)
    after = ws.assemble(COOP).prompt.text
    assert after == before.replace("One.", "Two.")
    assert "steady company" in after


@pytest.mark.parametrize(
    "config",
    [
        "prompt: {files: [{path: ../secret.md, trust: public}]}\n",
        "situations: {dm: {prompt_overlay: ../secret.md}}\n",
        "prompt: {files: [{path: /etc/passwd, trust: public}]}\n",
    ],
)
def test_contained(tmp_path: Path, config: str) -> None:
    """Lesson: one path could leave the workspace. Here every path of the configuration is checked."""
    from foreword.errors import ConfigError

    (tmp_path / "secret.md").write_text("SECRET")
    with pytest.raises(ConfigError, match=r"foreword.yaml:3"):
        build(tmp_path / "home", {"foreword.yaml": CONFIG + config})


def test_linked_overlay_is_contained(tmp_path: Path) -> None:
    """Lesson: one path could leave the workspace. Here a symlink out of it is refused for every file."""
    (tmp_path / "secret.md").write_text("SECRET")
    (tmp_path / "home").mkdir()
    for name in ("SOUL.md", "RULES.md", "USER.md", "MEMORY.md"):
        (tmp_path / "home" / name).symlink_to(tmp_path / "secret.md")
    assembly = build(tmp_path / "home", {"foreword.yaml": CONFIG})
    assert "SECRET" not in assembly.prompt.text
    reasons = {row.id: row.reason for row in assembly.rows()}
    assert all("leads out of its workspace" in reasons[name] for name in ("soul", "user", "memory"))
    config = CONFIG + "situations: {dm: {prompt_overlay: RULES.md}}\n"
    with pytest.raises(InputError, match=r"RULES\.md leads out of its workspace"):
        build(tmp_path / "home", {"foreword.yaml": config})


# Section 2: memory and trust


def test_menu_and_search_belong_together(tmp_path: Path) -> None:
    """Lesson: on-demand memory alone failed. Here the prompt has the menu, which names any search tool."""
    search = Tool(name="memory_search", trust=Trust.FAMILIAR, kind="memory")
    with_search = build(tmp_path, MEMORIES, replace(DM, tools=Toolset([search, *READING_TOOLS.tools]))).prompt.text
    assert (
        "Use memory_search to find specific facts,\nor memory_get(path, from, lines) to load sections." in with_search
    )
    assert "memory_search" not in build(tmp_path, MEMORIES, replace(DM, tools=READING_TOOLS)).prompt.text


def test_guidance_per_class(tmp_path: Path) -> None:
    """Lesson: tool names without guidance were useless. Here each class of tools has one line of guidance."""
    tools = Toolset([Tool(name=name, trust=Trust.PUBLIC, kind="web") for name in ("fetch", "search")])
    text = build(tmp_path, {}, replace(DM, tools=tools)).prompt.text
    assert len(re.findall(r"^- fetch, search: \S.+", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("base", ["default", "coop"])
@pytest.mark.parametrize("room", ["", "family"])
def test_no_memory_in_groups(tmp_path: Path, base: str, room: str) -> None:
    """Lesson: MEMORY.md in a group chat leaked a birth date. Here a group prompt contains no private memory."""
    files = {"MEMORY.md": "BORN ON\n", "memory/private/x.md": "BORN ON\n", "USER.md": "BORN ON\n"}
    ws = make_workspace(tmp_path, {"foreword.yaml": CONFIG, **files})
    assembly = ws.assemble(replace(DM, blueprint=base, situation="group", room=room, message="", history=()))
    assert "BORN ON" not in assembly.prompt.text
    assert "MEMORY.md" not in assembly.prompt.text
    assert "private/" not in assembly.prompt.text


@pytest.mark.parametrize("base", ["default", "coop"])
def test_no_memory_of_others(tmp_path: Path, base: str) -> None:
    """Lesson: recall crossed users. Here USER.md is in its user's prompts only, and the root file is the owner's."""
    files = {f"users/{name}/USER.md": f"OWN {name}\n" for name in ("alice", "carol")} | {"USER.md": "OWN root\n"}
    ws = make_workspace(tmp_path, {"foreword.yaml": CONFIG, **files})
    for name in ("alice", "carol"):
        text = ws.assemble(replace(DM, user=name, blueprint=base)).prompt.text
        assert re.findall(r"OWN \w+", text) == [f"OWN {name}"]


@pytest.mark.parametrize(
    "turn", [Turn(), Turn(user="unknown", situation="dm"), Turn(user="alice", situation="unknown")]
)
@pytest.mark.parametrize("base", ["default", "coop"])
def test_unknown_fails_closed(tmp_path: Path, base: str, turn: Turn) -> None:
    """Lesson: the value for an unidentified user once unlocked the owner's memory. Here it has public clearance."""
    names = ("SOUL.md", "AGENTS.md", "IDENTITY.md", "TOOLS.md", "USER.md", "MEMORY.md", "BOOT.md", "HEARTBEAT.md")
    files = dict.fromkeys((*names, "rules/a.md", "memory/social/x.md", "channels/terminal.md"), "PRIVATE\n")
    assembly = build(tmp_path, files, replace(turn, blueprint=base))
    assert assembly.clearance.level is Trust.PUBLIC
    assert "PRIVATE" not in assembly.prompt.text
    assert "social" not in assembly.prompt.text


def test_user_named_like_a_path(tmp_path: Path) -> None:
    """Lesson: one path could leave the workspace. Here a user whose name is a path is unknown."""
    assembly = build(tmp_path, {"USER.md": "OWN\n"}, replace(DM, user="../alice"))
    assert assembly.clearance.level is Trust.PUBLIC
    assert "OWN" not in assembly.prompt.text


def test_comments_are_stripped(tmp_path: Path) -> None:
    """Lesson: HTML comments are for editors. Here leading comments are not sent; the linter checks them."""
    assert "editors" not in build(tmp_path, {"SOUL.md": "<!-- for editors -->\nBe kind.\n"}).prompt.text


@pytest.mark.parametrize("base", ["default", "coop"])
def test_no_clean_up(tmp_path: Path, base: str) -> None:
    """Lesson: a clean-up of the rendered text deleted a heading and its section. Here rendered text is not changed."""
    body = "# Odd\n\n\n\n## Empty\n\n## {{ variable }}\n\n{# comment #}   \n\n\ttext %s {0} $name\n\n***"
    assert f"\n{body}\n\n" in build(tmp_path, {"AGENTS.md": body}, replace(DM, blueprint=base)).prompt.text


# Section 3: Coop


def test_coop_budget(tmp_path: Path) -> None:
    """Coop: the budget is 30,000 tokens, 500 of which are reserved for runtime."""
    assembly = build(tmp_path, {}, COOP)
    budget = assembly.plan.blueprint.budget
    assert (budget.system + budget.turn, budget.turn, assembly.fit.limit) == (30_000, 500, 29_500)


def test_coop_static_share(tmp_path: Path) -> None:
    """Coop: SOUL.md and AGENTS.md share four fifths of the budget, minus the tools."""
    assembly = build(tmp_path, {"AGENTS.md": LINE * 4_000}, COOP)
    reason = next(row.reason for row in assembly.rows() if row.id == "agents")
    assert reason.startswith(f"static slots have {23_600 - assembly.fit.tool_tokens:,} of 29,500 tokens; wants ")


def test_coop_inline(tmp_path: Path) -> None:
    """Coop: a file that fits is inlined."""
    assert f"## AGENTS.md\n{LINE * 20}\n" in build(tmp_path, {"AGENTS.md": LINE * 20}, COOP).prompt.text


def coop(folder: Path, left: int) -> Assembly:
    """Assemble Coop's blueprint with this many tokens for AGENTS.md, which needs more."""
    files = {"SOUL.md": "Be kind.\n", "AGENTS.md": "# The handbook\n\n" + LINE * 100}
    whole = build(folder / "whole", files, COOP)
    soul = next(row.tokens for row in whole.rows() if row.id == "soul")
    needed = whole.fit.tool_tokens + soul + left
    limit = next(limit for limit in range(needed, 2 * needed) if limit - limit // 5 == needed)
    files["blueprints/small.yaml"] = shrink("coop", system=limit, texts=0, menu_share=0.9)
    assembly = build(folder / "small", files, replace(COOP, blueprint="small"))
    reason = next(row.reason for row in assembly.rows() if row.id == "agents")
    assert reason.startswith(f"static slots have {left + soul} of {limit:,} tokens; wants ")
    return assembly


@pytest.mark.parametrize(("left", "verdict"), [(199, "indexed"), (200, "shortened"), (201, "shortened")])
def test_coop_two_hundred(tmp_path: Path, left: int, verdict: str) -> None:
    """Coop: a file that does not fit is truncated if at least 200 tokens remain, and otherwise listed in the menu."""
    assembly = coop(tmp_path, left)
    assert list_reasons(assembly)["agents"] == verdict
    assert ("- AGENTS.md (" in assembly.prompt.text) == (verdict == "indexed")


def test_coop_marker(tmp_path: Path) -> None:
    """Coop: the truncation marker is exactly that of Coop's code, and names the first missing line."""
    assembly = coop(tmp_path, 300)
    text = next(
        assembly.prompt.text[span.start : span.end] for span in assembly.prompt.spans if span.id == "agents"
    ).removeprefix("## AGENTS.md\n")
    kept, marker = text.rstrip("\n").rsplit("\n", 1)
    count = assembly.meter.count
    total = count("# The handbook\n\n" + (LINE * 100).rstrip())
    line = len(kept.split("\n")) + 1
    assert marker == (
        f'[truncated at {count(kept)}/{total:,} tokens — use memory_get("AGENTS.md", from={line}) for remainder]'
    )


def test_coop_whole_lines(tmp_path: Path) -> None:
    """Coop: files are truncated at whole lines."""
    text = coop(tmp_path, 300).prompt.text
    assert set(re.findall(r"Ask .*\n", text)) == {LINE}


def test_coop_menu_line(tmp_path: Path) -> None:
    """Coop: a menu line has path, token count with thousands separator, and description."""
    files = {"MEMORY.md": "---\ndescription: Long-term curated memory\n---\n" + "word " * 3_846 + "word\n"}
    assert "\n- MEMORY.md (3,847 tok) — Long-term curated memory\n" in build(tmp_path, files, COOP).prompt.text


def test_coop_menu_frame(tmp_path: Path) -> None:
    """Coop: the heading of the menu names the trust, and its last lines name the remaining budget and both tools."""
    search = Tool(name="memory_search", trust=Trust.FAMILIAR, kind="memory")
    text = build(tmp_path, MEMORIES, replace(COOP, tools=Toolset([search, *READING_TOOLS.tools]))).prompt.text
    assert "\n## Available Memory (trust: full)\n- private/a.md (" in text
    assert re.search(
        r"\n\nRemaining budget: ~\d+k tokens. Use memory_search to find specific facts,\n"
        r"or memory_get\(path, from, lines\) to load sections.\n",
        text,
    )


@pytest.mark.parametrize(
    ("user", "stores"),
    [("alice", ["private", "shared", "social"]), ("carol", ["shared", "social"]), ("bob", ["social"]), ("x", [])],
)
def test_coop_stores(tmp_path: Path, user: str, stores: list[str]) -> None:
    """Coop: a familiar session sees social stores only, and a public one sees no menu."""
    text = build(tmp_path, MEMORIES, replace(COOP, user=user)).prompt.text
    assert sorted(set(re.findall(r"^- (\w+)/", text, re.MULTILINE))) == stores
    assert ("Available Memory" in text) == bool(stores)


@pytest.mark.parametrize("base", ["default", "coop"])
@pytest.mark.parametrize("channel", ["telegram", "telegram:42", "telegram:42:7"])
def test_coop_channel_family(tmp_path: Path, base: str, channel: str) -> None:
    """Coop: the family of a channel is the part before the first colon."""
    text = build(tmp_path, {}, replace(DM, blueprint=base, channel=channel)).prompt.text
    assert f"Channel: {channel}.\nA message holds 4,096 characters" in text


@pytest.mark.parametrize("base", ["default", "coop"])
@pytest.mark.parametrize(("text", "own"), [("Bold only.\n", True), ("\n \n", False), ("<!-- x -->\n", False)])
def test_coop_channel_file(tmp_path: Path, base: str, text: str, own: bool) -> None:
    """Coop: channels/FAMILY.md overrides the built-in text unless it is blank."""
    files = {"channels/telegram.md": text}
    prompt = build(tmp_path, files, replace(DM, blueprint=base, channel="telegram:42")).prompt.text
    assert ("Bold only." in prompt, "4,096" in prompt) == (own, not own)


def test_coop_subagents(tmp_path: Path) -> None:
    """Coop: mode minimal has AGENTS.md, TOOLS.md, channel and runtime; mode none has the channel only."""
    files = dict.fromkeys(("SOUL.md", "AGENTS.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md"), "Text.\n")
    channel = f"## Channel\nChannel: terminal.\n{read_builtin('channels/terminal').strip()}\n\n"
    assert stable(build(tmp_path, files, replace(COOP, mode=Mode.MINIMAL))) == (
        f"## AGENTS.md\nText.\n\n## TOOLS.md\nText.\n\n{channel}"
    )
    minimal = build(tmp_path, files, replace(COOP, mode=Mode.MINIMAL)).prompt.text
    assert re.findall(r"^## (.+)$", minimal, re.MULTILINE) == ["AGENTS.md", "TOOLS.md", "Channel", "Runtime"]
    assert build(tmp_path, files, replace(COOP, mode=Mode.NONE)).prompt.text == channel


@pytest.mark.parametrize(
    ("name", "trust"),
    [
        *((name, Trust.FAMILIAR) for name in ("SOUL.md", "AGENTS.md", "TOOLS.md", "IDENTITY.md")),
        ("USER.md", Trust.INNER),
        *((name, Trust.FULL) for name in ("MEMORY.md", "HEARTBEAT.md")),
    ],
)
def test_coop_files(tmp_path: Path, name: str, trust: Trust) -> None:
    """Coop: seven file names have a meaning, each with a default trust."""
    slots = {slot.file: slot for slot in build(tmp_path, {}, COOP).plan.blueprint.slots if slot.file}
    assert slots[name].trust is trust


def test_coop_example(tmp_path: Path) -> None:
    """Coop: in a group Alice, who has full trust, sees TOOLS.md and IDENTITY.md but not MEMORY.md."""
    files = {"TOOLS.md": "Tools.\n", "IDENTITY.md": "Identity.\n", "MEMORY.md": "Memory.\n"}
    text = build(tmp_path, files, replace(COOP, situation="group")).prompt.text
    assert ("Tools." in text, "Identity." in text, "MEMORY" in text) == (True, True, False)


def test_coop_runtime_is_last(tmp_path: Path) -> None:
    """Coop: the volatile runtime block is last, and all blocks before it are stable."""
    blocks = build(tmp_path, {"SOUL.md": LINE, **MEMORIES}, COOP).prompt.blocks
    assert [str(block.pace) for block in blocks] == ["static", "session", "turn"]
    assert blocks[-1].text.startswith("## Runtime\n")
