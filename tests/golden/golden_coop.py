"""Goldens of `coop`: layers, trust, and the rule that a file is inlined, truncated or listed."""

from golden_case import CONFIG, Case, alice, number_lines
from golden_sections import EVERY, MEMORIES, OWNED, SEARCH, SOUL

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Mode, Trust

OVERLAYS = """\
situations:
  group: {ceiling: familiar, prompt_overlay: ./prompts/group-rules.md}
  system: {ceiling: full, prompt_overlay: ./prompts/heartbeat-rules.md}
prompt:
  files:
    - {path: MEMORY.md, trust: full}
    - {path: TOOLS.md, trust: familiar}
    - {path: IDENTITY.md, trust: familiar}
    - {path: USER.md, per_user: true, trust: inner}
"""
HOUSE = {
    "foreword.yaml": CONFIG + OVERLAYS,
    **{name: OWNED[name] for name in ("SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "USER.md", "HEARTBEAT.md")},
    **MEMORIES,
    "prompts/group-rules.md": "Everyone reads this. Keep it short.\n",
    "prompts/heartbeat-rules.md": "Say only what changed.\n",
}
TOOLS = Toolset([SEARCH, *READING_TOOLS.tools])
NOTES = "# The handbook\n\n" + number_lines(1, 32, "Otto prints on both sides of the paper.")
HANDBOOK = {"SOUL.md": SOUL, "TOOLS.md": NOTES}
RULES = number_lines(1, 20, "In the group, answer only when somebody asks you.")
CROWD = {"SOUL.md": SOUL, "TOOLS.md": NOTES, "foreword.yaml": CONFIG + OVERLAYS, "prompts/group-rules.md": RULES}
ROOMY = {"menu_share": 0.5, "texts": 0}
PEOPLE = {
    f"memory/social/{name}.md": f"---\ndescription: what {name} likes, and when not to call\n---\nText.\n"
    for name in ("ANNA", "BERT", "CLEO", "DORA", "EMIL", "FAYE", "GREG", "HUGO", "IDA", "JOHN", "KIM", "LEA", "MAX")
}
SHARE = {"system": 2000, "menu_share": 0.154}  # 308 tokens, the size of the menu of PEOPLE


def remember(more: int) -> dict[str, str]:
    """Make memories whose menu has 307, 308 or 309 tokens."""
    end = {-1: "when to call", 0: "when not to call", 1: "when not to call again"}[more]
    return {**PEOPLE, "memory/social/MAX.md": f"---\ndescription: what MAX likes, and {end}\n---\nText.\n"}


def describe(length: int) -> Tool:
    """Make a tool whose description has this length."""
    text = ("Turns the lamps of the house on and off, dims them, and tells which of them are on; " * 3)[:length]
    return Tool(name=f"lamps_{length}", description=text.replace(" ", "_"), trust=Trust.PUBLIC)


CASES = (
    Case(
        name="coop-full",
        proves="all layers of an owner's private turn, runtime last; MEMORY.md is on the menu, priced, not dumped",
        base="coop",
        files=HOUSE,
        turn=alice(tools=EVERY, channel="signal:alice-uuid"),
        verdicts={"memory": "indexed", "heartbeat": "kept"},
        silent=("Born on",),
    ),
    Case(
        name="coop-bare",
        proves="missing files are skipped without a marker; soul and conduct fall back to the built-in ones",
        base="coop",
        verdicts={"soul": "kept", "agents": "kept", "menu": "absent", "tool-list": "absent"},
        says={"soul": "built-in soul", "agents": "built-in coop/agents"},
        silent=("MISSING",),
    ),
    Case(
        name="coop-group",
        proves="the owner in a group: TOOLS.md and IDENTITY.md, not MEMORY.md; the overlay; social memory only",
        base="coop",
        files=HOUSE,
        turn=alice(tools=EVERY, situation="group", channel="signal"),
        verdicts={"memory": "withheld", "user": "withheld", "overlay": "kept"},
        silent=("MEMORY", "bees", "boiler", "FINANCE", "RECENT"),
    ),
    Case(
        name="coop-system",
        proves="a scheduled run has the overlay of its situation",
        base="coop",
        files=HOUSE,
        turn=alice(tools=TOOLS, situation="system", channel="scheduled"),
    ),
    Case(
        name="coop-public",
        proves="a stranger sees no file, no menu and no private tool",
        base="coop",
        files=HOUSE,
        turn=Turn(user="mallory", situation="dm", channel="telegram", tools=EVERY),
        verdicts={"menu": "withheld"},
        silent=("dry, kind", "heron", "Available Memory", "memory_search", "bash", "bees"),
    ),
    Case(
        name="coop-minimal",
        proves="a subagent gets AGENTS.md and TOOLS.md",
        base="coop",
        files=HOUSE,
        turn=alice(tools=TOOLS, mode=Mode.MINIMAL),
        verdicts={"soul": "absent", "agents": "kept", "tools": "kept", "runtime": "kept"},
    ),
    Case(
        name="coop-descriptions",
        proves="a tool's description of 160 characters stays; of 161 it is cut at 160 and ends in three dots",
        base="coop",
        files={"SOUL.md": SOUL},
        turn=alice(tools=Toolset([describe(159), describe(160), describe(161)])),
    ),
    Case(
        name="coop-fits",
        proves="a file that fits to the last token is inlined",
        base="coop",
        files=HANDBOOK,
        turn=alice(tools=READING_TOOLS),
        spare=0,
        verdicts={"tools": "kept", "menu": "absent"},
    ),
    Case(
        name="coop-fits-spare",
        proves="one token to spare changes nothing",
        base="coop",
        files=HANDBOOK,
        turn=alice(tools=READING_TOOLS),
        spare=1,
        verdicts={"tools": "kept", "menu": "absent"},
    ),
    Case(
        name="coop-truncated",
        proves="a file that is one token too long is truncated at a whole line, with Coop's marker",
        base="coop",
        files=HANDBOOK,
        turn=alice(tools=READING_TOOLS),
        spare=-1,
        verdicts={"tools": "shortened", "menu": "absent"},
        says={"tools": 'rest: memory_get("TOOLS.md", from='},
    ),
    Case(
        name="coop-truncated-no-tools",
        proves="the marker of a turn without tools offers no call",
        base="coop",
        files=HANDBOOK,
        spare=-1,
        verdicts={"tools": "shortened"},
        silent=("memory_get",),
    ),
    Case(
        name="coop-place",
        proves="a long file cannot push out the tools, the channel or the situation's rules, which are served first",
        base="coop",
        files=CROWD,
        turn=alice(situation="group", channel="signal", tools=READING_TOOLS),
        budget={"system": 884},
        verdicts={"tool-list": "kept", "channel": "kept", "overlay": "kept", "tools": "shortened"},
    ),
    Case(
        name="coop-200-left",
        proves="with 200 tokens left a file is truncated",
        base="coop",
        files=HANDBOOK,
        turn=alice(tools=READING_TOOLS),
        budget=ROOMY,
        edge="tools",
        spare=0,
        verdicts={"tools": "shortened"},
        says={"tools": "session slots have 242 of 589 tokens"},
    ),
    Case(
        name="coop-199-left",
        proves="with 199 tokens left the file is listed on the menu instead",
        base="coop",
        files=HANDBOOK,
        turn=alice(tools=READING_TOOLS),
        budget=ROOMY,
        edge="tools",
        spare=-1,
        verdicts={"tools": "indexed", "channel": "kept", "tool-list": "kept", "menu": "kept"},
        says={"tools": "of 588 tokens; wants 361, and its part is 141; on the menu"},
    ),
    Case(
        name="coop-201-left",
        proves="with 201 tokens left the file is truncated as well",
        base="coop",
        files=HANDBOOK,
        turn=alice(tools=READING_TOOLS),
        budget=ROOMY,
        edge="tools",
        spare=1,
        verdicts={"tools": "shortened"},
        says={"tools": "session slots have 243 of 590 tokens"},
    ),
    Case(
        name="coop-menu-whole",
        proves="a menu that fills its share exactly is whole",
        base="coop",
        files={"SOUL.md": SOUL, **remember(0)},
        turn=alice(tools=READING_TOOLS),
        budget=SHARE,
        verdicts={"menu": "kept"},
    ),
    Case(
        name="coop-menu-spare",
        proves="a menu one token below its share is whole",
        base="coop",
        files={"SOUL.md": SOUL, **remember(-1)},
        turn=alice(tools=READING_TOOLS),
        budget=SHARE,
        verdicts={"menu": "kept"},
    ),
    Case(
        name="coop-menu-cut",
        proves="a menu one token beyond its share is truncated at a whole line; its marker and its closing lines stay",
        base="coop",
        files={"SOUL.md": SOUL, **remember(1)},
        turn=alice(tools=READING_TOOLS),
        budget=SHARE,
        verdicts={"menu": "shortened"},
    ),
)
