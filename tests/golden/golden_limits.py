"""Goldens of `default`: each size limit exactly, one below and one above."""

from golden_case import Case, alice, fill, number_lines

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.turn import Step, Task

SOUL = {"SOUL.md": "You are dry, kind and exact.\n"}  # 11 tokens with its heading
ASK = "Ask before you buy anything, and keep the receipt."
TIER = {"system": 2000, "tiers": "{critical: 1.0, high: 0.1, medium: 0.1, low: 0.2}"}  # high and medium end at 200
RULES = "Rules\n### house.md"
LEAST = {"system": 2000, "tiers": "{critical: 1.0, high: 0.4, medium: 0.3, low: 0.04}"}  # low ends at 80
LISTED = "owner: alice\nusers: {alice: {trust: full}}\nprompt: {files: [{path: LOG.md, trust: inner}]}\n"
LOG = {"foreword.yaml": LISTED, "LOG.md": "# Boiler log\n" + number_lines(1, 40, "Checked, nothing was wrong.")}
PARTS = (
    "# House\n\n" + number_lines(1, 12, "Close the gate behind you, also in the rain.") + "\n## Garden\n\n"
    "The hose is in the shed.\n\n" + number_lines(13, 30, "Water before eight in the morning.")
)
NO_CAPS = {"tiers": "{critical: 1.0, high: 1.0, medium: 1.0, low: 1.0}"}
CROWD = {"system": 1271, **NO_CAPS}  # with a floor of 100, the share of AGENTS.md ends with a whole line
# The session's share is 278; of the other 650 tokens, core, soul and guidelines leave 328.
SHARED = {"system": 928, **NO_CAPS}
NOTES = {"USER.md": fill(720, "The Person You Are Speaking With", "She likes to be asked before anything is moved.")}
ROOMS = ("~/attic", "~/cellar", "~/garden", "~/garage", "~/kitchen", "~/library", "~/office", "~/studio", "~/workshop")
SHELVES = tuple(f"{room}/{shelf}" for room in ROOMS for shelf in ("left", "right"))
PEOPLE = {
    f"memory/social/{name}.md": f"---\ndescription: what {name} likes, and when not to call\n---\nText.\n"
    for name in ("ANNA", "BERT", "CLEO", "DORA", "EMIL", "FAYE", "GREG", "HUGO", "IDA", "JOHN")
}
SHELF = {"system": 2000, "tiers": "{critical: 1.0, high: 0.4, medium: 0.061, low: 0.2}"}  # 122: guidance has 42


def work(words: int) -> Task:
    """Make a task whose description has this number of words."""
    return Task(id="12", title="Plan the move", description=" ".join(["box"] * words), steps=(Step(text="Book it"),))


CASES = (
    Case(
        name="tier-below",
        proves="a tier that its files fill to one token below its cap loses nothing",
        files={**SOUL, "rules/house.md": fill(199, RULES, ASK)},
        budget=TIER,
        verdicts={"rules:house.md": "kept"},
    ),
    Case(
        name="tier-exact",
        proves="a tier that its files fill exactly to its cap loses nothing",
        files={**SOUL, "rules/house.md": fill(200, RULES, ASK)},
        budget=TIER,
        verdicts={"rules:house.md": "kept"},
    ),
    Case(
        name="tier-above",
        proves="one token above the cap of its tier a file is cut at a whole line, and the marker says so",
        files={**SOUL, "rules/house.md": fill(201, RULES, ASK)},
        budget=TIER,
        verdicts={"rules:house.md": "shortened"},
        says={"rules:house.md": "tier medium ends at 10 % of 2,000; wants 201"},
    ),
    Case(
        name="tier-above-tools",
        proves="a turn that can read the rest is told the call that does it",
        files={**SOUL, "rules/house.md": fill(201, RULES, ASK)},
        budget=TIER,
        turn=alice(tools=READING_TOOLS),
        says={"rules:house.md": 'rest: memory_get("rules/house.md", from='},
    ),
    Case(
        name="cut-at-heading",
        proves="a cut moves up to a heading that is near, and no heading is left without its text",
        files={**SOUL, "rules/house.md": PARTS},
        budget={**TIER, "system": 2500},
        turn=alice(tools=READING_TOOLS),
        verdicts={"rules:house.md": "shortened"},
        silent=("## Garden",),
    ),
    Case(
        name="system-spare",
        proves="a system budget of one token more than the prompt needs loses nothing",
        files={**SOUL, **NOTES, "AGENTS.md": fill(300, "Instructions", ASK)},
        budget=NO_CAPS,
        spare=1,
        verdicts={"agents": "kept", "user": "kept", "channel": "kept"},
    ),
    Case(
        name="system-exact",
        proves="a system budget that the prompt fills exactly loses nothing",
        files={**SOUL, **NOTES, "AGENTS.md": fill(300, "Instructions", ASK)},
        budget=NO_CAPS,
        spare=0,
        verdicts={"agents": "kept", "user": "kept", "channel": "kept"},
    ),
    Case(
        name="system-below",
        proves="with one token less than the whole prompt needs, the longest text is shortened and all others stay",
        files={**SOUL, **NOTES, "AGENTS.md": fill(300, "Instructions", ASK)},
        budget=NO_CAPS,
        spare=-1,
        verdicts={"agents": "kept", "user": "shortened", "channel": "kept", "guidelines": "kept", "soul": "kept"},
    ),
    Case(
        name="static-below",
        proves="static slots one token short of what they leave to the session lose nothing",
        files={**SOUL, "AGENTS.md": fill(341, "Instructions", ASK)},
        budget=SHARED,
        verdicts={"agents": "kept", "guidelines": "kept"},
    ),
    Case(
        name="static-exact",
        proves="static slots that end exactly where the session's part begins lose nothing",
        files={**SOUL, "AGENTS.md": fill(342, "Instructions", ASK)},
        budget=SHARED,
        verdicts={"agents": "kept", "guidelines": "kept"},
    ),
    Case(
        name="static-above",
        proves="one token more is cut though the session leaves its part unused: static bytes follow no session",
        files={**SOUL, "AGENTS.md": fill(343, "Instructions", ASK)},
        budget=SHARED,
        verdicts={"agents": "shortened", "soul": "kept", "guidelines": "kept"},
        says={"agents": "static slots have 464 of 928 tokens; wants 343"},
    ),
    Case(
        name="floor-below",
        proves="a file one token short of its floor stays whole though an earlier tier would take everything",
        files={**SOUL, "AGENTS.md": number_lines(1, 200, ASK), "TOOLS.md": fill(99, "Tool Notes", "Otto prints.")},
        budget=CROWD,
        verdicts={"agents": "shortened", "tools": "kept", "guidelines": "kept"},
    ),
    Case(
        name="floor",
        proves="a file that fills its floor exactly stays whole too",
        files={**SOUL, "AGENTS.md": number_lines(1, 200, ASK), "TOOLS.md": fill(100, "Tool Notes", "Otto prints.")},
        budget=CROWD,
        verdicts={"agents": "shortened", "tools": "kept", "guidelines": "kept"},
    ),
    Case(
        name="floor-above",
        proves="a file one token beyond its floor is shortened to its floor, not left out",
        files={**SOUL, "AGENTS.md": number_lines(1, 200, ASK), "TOOLS.md": fill(101, "Tool Notes", "Otto prints.")},
        budget=CROWD,
        verdicts={"agents": "shortened", "tools": "shortened", "guidelines": "kept"},
    ),
    Case(
        name="fair-share",
        proves="files of a tier are cut to one level: the small one stays whole, the large ones lose alike",
        files={
            **SOUL,
            "rules/a-long.md": number_lines(1, 60, "Keep the receipts of the house."),
            "rules/b-short.md": "Keep the warranty cards.\n",
            "rules/c-long.md": number_lines(1, 90, "Keep the receipts of the car."),
        },
        budget={"system": 2400, "tiers": "{critical: 1.0, high: 0.4, medium: 0.15, low: 0.2}"},
        turn=alice(tools=READING_TOOLS),
        verdicts={"rules:a-long.md": "shortened", "rules:b-short.md": "kept", "rules:c-long.md": "shortened"},
        says={"rules:a-long.md": "tier medium ends at 15 % of 2,400; wants"},
    ),
    Case(
        name="head-tail",
        proves="standing instructions keep their head and their tail, and the marker names the lines between",
        files=SOUL,
        budget=TIER,
        turn=alice(instructions=number_lines(1, 40, "Prefer trains over planes on this route."), tools=READING_TOOLS),
        verdicts={"instructions": "shortened"},
        says={"instructions": 'rest: read_section("instructions", from='},
    ),
    Case(
        name="least-exact",
        proves="a file with just as much room as a useful rest needs is shortened",
        files={**SOUL, **LOG},
        budget=LEAST,
        turn=alice(tools=READING_TOOLS),
        verdicts={"files:LOG.md": "shortened"},
        says={"files:LOG.md": "tier low ends at 4 % of 2,000"},
    ),
    Case(
        name="least-above",
        proves="a file with one token more room than a useful rest needs is shortened too",
        files={**SOUL, **LOG},
        budget={**LEAST, "least": 79},
        turn=alice(tools=READING_TOOLS),
        verdicts={"files:LOG.md": "shortened"},
    ),
    Case(
        name="least-below",
        proves="a file with one token less room than a useful rest needs is listed on the menu with its price",
        files={**SOUL, **LOG},
        budget={**LEAST, "least": 81},
        turn=alice(tools=READING_TOOLS),
        verdicts={"files:LOG.md": "indexed"},
        says={"files:LOG.md": "tier low ends at 4 % of 2,000; wants 328, and its part is 80; on the menu"},
    ),
    Case(
        name="least-below-no-menu",
        proves="without a menu such a file leaves a line in its place that says what is missing",
        files={**SOUL, **LOG},
        budget={**LEAST, "least": 81},
        verdicts={"files:LOG.md": "dropped"},
        says={"files:LOG.md": "tier low ends at 4 % of 2,000; wants 328, and its part is 80"},
    ),
    Case(
        name="stub-exact",
        proves="a section that may not be on the menu is shortened while its room is just enough for a useful rest",
        files=SOUL,
        budget=SHELF,
        turn=alice(directories=SHELVES, tools=READING_TOOLS),
        verdicts={"directories": "shortened"},
    ),
    Case(
        name="stub",
        proves="with one token less than a useful rest needs, a line in its place names the call that reads it",
        files=SOUL,
        budget={**SHELF, "least": 81},
        turn=alice(directories=SHELVES, tools=READING_TOOLS),
        verdicts={"directories": "dropped"},
        says={"directories": "its part is 80"},
        silent=("attic",),
    ),
    Case(
        name="stub-no-tools",
        proves="the line of a turn that cannot read it says so, and offers no call",
        files=SOUL,
        budget={**SHELF, "least": 81, "tiers": "{critical: 1.0, high: 0.4, medium: 0.04, low: 0.2}"},
        turn=alice(directories=SHELVES),
        verdicts={"directories": "dropped"},
        says={"directories": "tier medium ends at 4 % of 2,000; wants"},
        silent=("attic", "read_section"),
    ),
    Case(
        name="stub-longer",
        proves="a text no longer than the line that would stand for it is never left out",
        files={**SOUL, "rules/house.md": number_lines(1, 20, ASK), "rules/tea.md": "Boil the water first.\n"},
        budget={**SHELF, "tiers": "{critical: 1.0, high: 0.4, medium: 0.01, low: 0.2}"},
        verdicts={"rules:house.md": "dropped", "rules:tea.md": "kept"},
    ),
    Case(
        name="menu-cut",
        proves="a menu beyond its share is cut at a whole line, and how to load still stands at its end",
        files={**SOUL, **PEOPLE},
        budget={"system": 2400},
        turn=alice(tools=READING_TOOLS),
        verdicts={"menu": "shortened"},
    ),
    Case(
        name="menu-stub",
        proves="a menu whose share is too small for a useful list leaves the call that reads it",
        files={**SOUL, **PEOPLE},
        budget={"system": 1400},
        turn=alice(tools=READING_TOOLS),
        verdicts={"menu": "dropped"},
        silent=("ANNA",),
    ),
    Case(
        name="turn-spare",
        proves="the slots of a turn that leave one token of their room all stay",
        files=SOUL,
        turn=alice(plan=True, task=work(100)),
        spare_turn=1,
        verdicts={"time": "kept", "plan": "kept", "task": "kept", "remaining": "kept"},
    ),
    Case(
        name="turn-exact",
        proves="the slots of a turn that fill their room exactly all stay",
        files=SOUL,
        turn=alice(plan=True, task=work(100)),
        spare_turn=0,
        verdicts={"time": "kept", "plan": "kept", "task": "kept", "remaining": "kept"},
    ),
    Case(
        name="turn-above",
        proves="one token beyond the room of a turn, its largest slot gives way, and the cached part does not move",
        files=SOUL,
        turn=alice(plan=True, task=work(100)),
        spare_turn=-1,
        verdicts={"time": "kept", "plan": "kept", "task": "shortened", "remaining": "kept", "soul": "kept"},
    ),
    Case(
        name="turn-stub",
        proves="a slot of the turn without room for a useful rest leaves a line as well, and the call that reads it",
        files=SOUL,
        budget={"turn": 113},
        turn=alice(task=work(100), tools=READING_TOOLS),
        verdicts={"time": "kept", "task": "dropped", "remaining": "kept", "soul": "kept"},
        says={"task": "the slots of a turn have 113 tokens together; wants 138"},
        silent=("Plan the move",),
    ),
)
