"""Goldens of `osa`: its document, its dynamic blocks, and their tiers."""

from dataclasses import replace

from golden_case import CONFIG, Case, alice, fill, number_lines
from golden_sections import EVERY, OWNED, RULES, TASK

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.engine.signal import classify
from foreword.turn import Bulletin, Communication, Git, Host, State, Task, Turn
from foreword.types import Mode, Trust

DOCUMENT = {"SYSTEM.md": "You are Reid. Work calmly.\n"}  # short, so that a golden shows mainly the tested block
ABOUT = {"IDENTITY.md": "You are Wren, who keeps the harbour's books.\n", "SOUL.md": "Quiet, exact, fond of tides.\n"}
VARIABLES = """\
# House book

{{ TOOL_DEFINITIONS }}

Rules of the house:

{{ RULES }}

Written for:

{{ USER_PROFILE }}

{{ FORGOTTEN }}
The end.
"""
MEMORY = """\
# Memory

Written by hand.

## Boiler
Serviced in May, by Mr Olsen.

## Garden
The roses are from Anna.

## Car
The next inspection is in March.
"""
PLACES = {"os/linux.md": "Programs come from apt.\n", "machines/attic.md": "The fan is loud; build at night.\n"}
ATTIC = Host(host="attic", os="linux")
TASKS = (TASK, Task(id="13", title="Sell the piano", status="waiting"))
MANNER = Communication(formality="casual", length="two lines", topics=("bees", "boats"))
BULLETINS = (
    Bulletin(text="FULL: the contract is signed."),
    Bulletin(text="INNER: the boiler was serviced.", trust=Trust.INNER),
    Bulletin(text="FAMILIAR: the fair is in June.", trust=Trust.FAMILIAR),
)
HOUSE = {"foreword.yaml": CONFIG, "USER.md": OWNED["USER.md"], **RULES, **PLACES, "MEMORY.md": MEMORY}
BUSY = alice(
    tools=EVERY,
    message="Run the boiler check now.",
    session="s1",
    plan=True,
    host=ATTIC,
    project="~/house",
    git=Git(branch="main", changed=3, commit="1a2b3c4 Plan the attic"),
    state=State(workflow="Moving house: step 2 of 5", tasks=TASKS, communication=MANNER, bulletins=BULLETINS),
)
# Of 3,000 tokens, tier 2 has 1,200 and tier 3 has 900.
SMALL = {"window": 3000, "reserve": 0}
SMALL_KEPT = {"budget": SMALL, "verdicts": {"workflow": "kept"}}
END = "\n\n---\n\n"
SORT = "Sort what is in the boxes, and label each of them."


def weigh(weight: float) -> Turn:
    """Make a turn whose signal has this weight."""
    return alice(message="x", signal=replace(classify("update the docs"), weight=weight))


def work(tokens: int) -> Turn:
    """Make a turn whose workflow has this token count."""
    return alice(state=State(workflow=fill(tokens, "Workflow", SORT, END)))


def osa(name: str, proves: str, **rest: object) -> Case:
    """Make a case; by default its document is short."""
    return Case(**{"name": f"osa-{name}", "proves": proves, "base": "osa", "files": DOCUMENT, **rest})


CASES = (
    osa(
        "everything",
        "the bundled document with tools, rules and profile, then eleven dynamic blocks in their order, a rule between",
        files=HOUSE,
        turn=BUSY,
        verdicts={"system": "kept", "user": "kept", "memory": "kept", "machine": "kept"},
        silent=("roses", "INNER:", "FAMILIAR:"),
    ),
    osa(
        "bare",
        "an empty workspace: the ten sections of the bundled document, no profile, then environment and runtime",
        files={},
        verdicts={"signal": "absent", "plan": "absent", "memory": "absent", "tools": "absent", "user": "absent"},
        says={"system": "built-in osa/system"},
        silent=("## User Profile", "These tools", "These rules hold"),
    ),
    osa(
        "legacy-identity",
        "an old IDENTITY.md replaces section 2 of the bundled document and nothing else",
        files={"IDENTITY.md": ABOUT["IDENTITY.md"]},
        verdicts={"identity": "kept", "soul": "absent"},
        says={"identity": "consider moving it into SYSTEM.md"},
        silent=("You are Reid",),
    ),
    osa(
        "legacy-soul",
        "an old SOUL.md replaces section 4 and nothing else; a blank IDENTITY.md counts as absent",
        files={"SOUL.md": ABOUT["SOUL.md"], "IDENTITY.md": "\n"},
        verdicts={"identity": "absent", "soul": "kept"},
        silent=("- Style:",),
    ),
    osa(
        "legacy-both",
        "both old files replace their sections, and the other eight stay",
        files=ABOUT,
        verdicts={"identity": "kept", "soul": "kept"},
        silent=("You are Reid", "- Style:"),
    ),
    osa(
        "own-system",
        "a SYSTEM.md of one's own is the whole document: no bundled section, no old file",
        files={**DOCUMENT, **ABOUT, **RULES},
        verdicts={"system": "kept", "identity": "absent", "soul": "absent", "rules:privacy.md": "absent"},
        silent=("SECURITY", "Wren", "tides", "children"),
    ),
    osa(
        "own-variables",
        "a SYSTEM.md of one's own has tools, rules and profile where it names them; an unknown name leaves no trace",
        files={"SYSTEM.md": VARIABLES, "USER.md": OWNED["USER.md"], **RULES},
        turn=alice(tools=READING_TOOLS),
        says={"system": "unknown variables are left out: FORGOTTEN"},
        silent=("{{", "FORGOTTEN"),
    ),
    osa(
        "own-literal",
        "only the document is a template: braces in rules and in a profile are text",
        files={"SYSTEM.md": "{{ RULES }}\n", "rules/a.md": "Write {{ name }} as it is.\n"},
    ),
    osa(
        "own-broken",
        "a SYSTEM.md that is no usable template makes room for the bundled document",
        files={"SYSTEM.md": "BROKEN {% set x = 1 %}\n"},
        verdicts={"system": "kept"},
        says={"system": "SYSTEM.md uses assign"},
        silent=("BROKEN",),
    ),
    osa(
        "profile",
        "the profile that ends the document is the speaking person's own",
        files={"USER.md": "OWNER ONLY\n", "users/carol/USER.md": "---\nname: Carol\n---\nShe sails.\n"},
        turn=alice(user="carol"),
        silent=("OWNER ONLY",),
    ),
    osa(
        "stranger",
        "a stranger's agent has the bundled document, security first, and nothing of the workspace",
        files={**HOUSE, **ABOUT, **DOCUMENT},
        turn=replace(BUSY, user="mallory"),
        verdicts={"system": "kept", "identity": "withheld", "rules": "withheld", "environment": "withheld"},
        silent=("calmly", "Wren", "tides", "children", "Alice", "~/house", "bash", "FAMILIAR:", "piano"),
    ),
    osa(
        "familiar",
        "somebody familiar has the rules, their own manner and the bulletin made for them; no place, task or memory",
        files={**HOUSE, **DOCUMENT, "SYSTEM.md": VARIABLES},
        turn=replace(BUSY, user="bob"),
        verdicts={"user": "withheld", "tasks": "withheld", "memory": "withheld", "communication": "kept"},
        silent=("Alice", "~/house", "bash", "INNER:", "piano", "Olsen"),
    ),
    osa(
        "inner",
        "somebody inner has all but the memory and the bulletin that are for full",
        files={**HOUSE, **DOCUMENT},
        turn=replace(BUSY, user="carol"),
        verdicts={"memory": "withheld", "environment": "kept", "bulletin": "kept"},
        silent=("Olsen", "FULL:", "FAMILIAR:"),
    ),
    osa(
        "room",
        "in a room there is nobody's own profile and nobody's manner",
        files={**HOUSE, **DOCUMENT},
        turn=replace(BUSY, situation="group", room="family"),
        verdicts={"user": "withheld", "communication": "absent"},
        silent=("bees", "INNER:"),
    ),
    osa("plan", "plan mode is a block of its own while it is on", turn=alice(plan=True)),
    osa("signal", "the overlay tells the active mode and genre alone", turn=alice(message="create a dashboard for us")),
    osa("weight-below", "a weight just below 0.3 brings a third line, that asks for brevity", turn=weigh(0.29)),
    osa("weight-low", "a weight of exactly 0.3 brings no third line", turn=weigh(0.3)),
    osa("weight-high", "a weight of exactly 0.8 brings no third line either", turn=weigh(0.8)),
    osa("weight-above", "a weight just above 0.8 brings a third line, that asks for full attention", turn=weigh(0.81)),
    osa(
        "git",
        "the environment has directory, date, system, provider, model and the state of the repository",
        turn=alice(project="~/house", host=ATTIC, git=Git(branch="main", changed=1, commit="1a2b3c4 Plan the attic")),
        verdicts={"os": "absent", "machine": "absent"},
    ),
    osa(
        "git-clean",
        "a repository without changes is clean; what is not known of the environment has no line",
        turn=alice(git=Git(branch="main"), model="gpt-5"),
        silent=("Provider", "Working directory", "Operating system"),
    ),
    osa(
        "places",
        "os/NAME.md and machines/NAME.md close the prompt",
        files={**DOCUMENT, **PLACES},
        turn=alice(host=ATTIC),
    ),
    osa(
        "places-other",
        "another system and another machine have none of their words",
        files={**DOCUMENT, **PLACES},
        turn=alice(host=Host(host="cellar", os="macos")),
        verdicts={"os": "absent", "machine": "absent"},
        silent=("apt", "fan"),
    ),
    osa(
        "memory",
        "the parts of MEMORY.md that share a word with the message, in the order of the file",
        files={**DOCUMENT, "MEMORY.md": MEMORY},
        turn=alice(message="When is the inspection, and who saw to the boiler?"),
        silent=("roses", "Written by hand"),
    ),
    osa(
        "memory-none",
        "a message that no part of MEMORY.md is about recalls nothing at all",
        files={**DOCUMENT, "MEMORY.md": MEMORY},
        turn=alice(message="And what do you say to it all?"),
        verdicts={"memory": "absent"},
        silent=("Relevant Memory", "Olsen"),
    ),
    osa(
        "tasks",
        "the active tasks are told with their statuses, without their steps",
        turn=alice(state=State(tasks=TASKS)),
    ),
    osa(
        "workflow",
        "an active workflow is told as it stands",
        turn=alice(state=State(workflow="Move: step 2\nVan: open")),
    ),
    osa("manner", "how the person writes: formality, length and topics", turn=alice(state=State(communication=MANNER))),
    osa(
        "bulletin",
        "of the bulletins made for several clearances, only the one for this clearance is there",
        turn=alice(user="carol", state=State(bulletins=BULLETINS)),
        silent=("FULL:", "FAMILIAR:"),
    ),
    osa("tier-below", "a block one token short of the 40 % of its tier is whole", turn=work(1199), **SMALL_KEPT),
    osa("tier-exact", "a block that fills the 40 % of its tier exactly is whole", turn=work(1200), **SMALL_KEPT),
    osa(
        "tier-above",
        "a block one token beyond the 40 % of its tier ends in OSA's marker",
        turn=work(1201),
        budget=SMALL,
        verdicts={"workflow": "shortened"},
        says={"workflow": "tier high has 1,200 of 3,000 tokens; wants 1,201"},
    ),
    osa(
        "tier-order",
        "inside a tier the blocks are served in their order, and the last one gets what is left",
        files={**DOCUMENT, "MEMORY.md": "## Boiler\n" + number_lines(1, 90, "The boiler was looked at.")},
        turn=replace(work(1100), message="boiler"),
        budget=SMALL,
        verdicts={"memory": "kept", "workflow": "shortened"},
    ),
    osa(
        "tier-medium",
        "the third tier has 30 %, however little the second one used",
        turn=alice(state=State(bulletins=(Bulletin(text=fill(901, "Bulletin", SORT, END)),))),
        budget=SMALL,
        says={"bulletin": "tier medium has 900 of 3,000 tokens; wants 901"},
    ),
    osa(
        "tier-low",
        "the last tier has what the others left, and tier 1 stays whole",
        files={**DOCUMENT, "os/linux.md": number_lines(1, 100, SORT)},
        turn=replace(work(1200), host=ATTIC, plan=True),
        budget={**SMALL, "window": 2000},
        verdicts={"plan": "kept", "runtime": "kept", "environment": "kept", "workflow": "shortened", "os": "shortened"},
    ),
    osa(
        "minimal",
        "a subagent's part: the document and its tools, tier 1 and the active tasks",
        files={**HOUSE, **ABOUT, "SYSTEM.md": VARIABLES},
        turn=replace(BUSY, mode=Mode.MINIMAL),
        verdicts={"plan": "kept", "tasks": "kept", "memory": "absent", "user": "absent", "rules": "absent"},
    ),
)
