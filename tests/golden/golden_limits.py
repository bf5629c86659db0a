"""Goldens of `default`: every rule of size at its limit, one below and one above."""

from golden_case import Case, alice, fill, number_lines

from foreword import Step, Task
from foreword.tools import READING

SOUL = {"SOUL.md": "You are dry, kind and exact.\n"}  # 11 tokens under its heading
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
CROWD = {"system": 1400, "tiers": "{critical: 1.0, high: 1.0, medium: 1.0, low: 1.0}"}


def work(words: int) -> Task:
    """Make a task whose description has so many words."""
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
        turn=alice(tools=READING),
        says={"rules:house.md": 'rest: memory_get("rules/house.md", from='},
    ),
    Case(
        name="cut-at-heading",
        proves="a cut moves up to a heading that is near, and no heading is left without its text",
        files={**SOUL, "rules/house.md": PARTS},
        budget={**TIER, "system": 2500},
        turn=alice(tools=READING),
        verdicts={"rules:house.md": "shortened"},
        silent=("## Garden",),
    ),
    Case(
        name="system-exact",
        proves="a system budget that the prompt fills exactly loses nothing",
        files={**SOUL, "AGENTS.md": fill(400, "Instructions", ASK)},
        budget={"tiers": "{critical: 1.0, high: 1.0, medium: 1.0, low: 1.0}", "session_share": 0.05},
        spare=0,
        verdicts={"agents": "kept", "channel": "kept"},
    ),
    Case(
        name="system-below",
        proves="with one token less than the whole prompt needs, the longest text is shortened and all others stay",
        files={**SOUL, "AGENTS.md": fill(400, "Instructions", ASK)},
        budget={"tiers": "{critical: 1.0, high: 1.0, medium: 1.0, low: 1.0}", "session_share": 0.1},
        spare=-1,
        verdicts={"agents": "shortened", "channel": "kept", "guidelines": "kept", "soul": "kept"},
    ),
    Case(
        name="floor",
        proves="a file within its floor stays whole though an earlier tier would take everything",
        files={**SOUL, "AGENTS.md": number_lines(1, 200, ASK), "TOOLS.md": fill(100, "Tool Notes", "Otto prints.")},
        budget=CROWD,
        verdicts={"agents": "shortened", "tools": "kept"},
    ),
    Case(
        name="floor-above",
        proves="a file beyond its floor is shortened to about its floor, not left out",
        files={**SOUL, "AGENTS.md": number_lines(1, 200, ASK), "TOOLS.md": fill(160, "Tool Notes", "Otto prints.")},
        budget=CROWD,
        verdicts={"agents": "shortened", "tools": "shortened"},
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
        budget={"system": 1500, "tiers": "{critical: 1.0, high: 0.4, medium: 0.2, low: 0.2}"},
        turn=alice(tools=READING),
        verdicts={"rules:a-long.md": "shortened", "rules:b-short.md": "kept", "rules:c-long.md": "shortened"},
    ),
    Case(
        name="head-tail",
        proves="standing instructions keep their head and their tail, and the marker names the lines between",
        files=SOUL,
        budget=TIER,
        turn=alice(instructions=number_lines(1, 40, "Prefer trains over planes on this route."), tools=READING),
        verdicts={"instructions": "shortened"},
        says={"instructions": 'rest: read_section("instructions", from='},
    ),
    Case(
        name="least-exact",
        proves="a file with just as much room as a useful rest needs is shortened",
        files={**SOUL, **LOG},
        budget=LEAST,
        turn=alice(tools=READING),
        verdicts={"files:LOG.md": "shortened"},
        says={"files:LOG.md": "tier low ends at 4 % of 2,000"},
    ),
    Case(
        name="least-above",
        proves="a file with one token more room than a useful rest needs is shortened too",
        files={**SOUL, **LOG},
        budget={**LEAST, "least": 79},
        turn=alice(tools=READING),
        verdicts={"files:LOG.md": "shortened"},
    ),
    Case(
        name="least-below",
        proves="a file with one token less room than a useful rest needs is listed on the menu with its price",
        files={**SOUL, **LOG},
        budget={**LEAST, "least": 81},
        turn=alice(tools=READING),
        verdicts={"files:LOG.md": "indexed"},
        says={"files:LOG.md": "tier low ends at 4 % of 2,000; wants"},
    ),
    Case(
        name="least-below-no-menu",
        proves="without a menu such a file is left out, and the report says so",
        files={**SOUL, **LOG},
        budget={**LEAST, "least": 81},
        verdicts={"files:LOG.md": "dropped"},
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
        verdicts={"time": "kept", "plan": "kept", "remaining": "kept", "soul": "kept"},
    ),
)
