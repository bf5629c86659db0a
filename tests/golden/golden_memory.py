"""Goldens of `default`: memories on the menu and recalled passages in a turn."""

import json

from golden_case import CONFIG, Case, alice

from foreword.agent.tools.registry import BUILT_IN

ENTRY = '---\nclearance: "familiar"\nchannel: "telegram"\ntime: "2026-11-14T09:00:00+00:00"\n---\n'
LONG = "The boiler " + "hums a little in the cellar at night, and " * 14 + "is serviced in October."
FILES = {
    "SOUL.md": "You are dry, kind and exact.\n",
    "foreword.yaml": CONFIG + "memory: {recall: true}\n",
    "memories.json": json.dumps(["Carol takes the early ferry.", "The spare key hangs in the shed."]),
    "memory/shared/HOUSE.md": f"# House\n\n{LONG}\n\nThe valve is behind the stairs.\n",
    "memory/social/PEOPLE.md": "# People\n\nCarol's birthday is on 14 March.\n",
    "memory/social/inbox/bob/20261114T090000-0a1b2c3d.md": f"{ENTRY}Rye bread is always welcome.\n",
    "memory/social/inbox/bob/20261114T091500-4e5f6a7b.md": f"{ENTRY}The bakery closes on Mondays.\n",
    "memory/social/inbox/carol/20261114T101500-8c9d0e1f.md": f"{ENTRY}Peonies, please.\n",
}

CASES = (
    Case(
        name="menu-unreviewed",
        proves="of what nobody has reviewed the menu has author, count and price and no word; facts are one line, too",
        files=FILES,
        turn=alice(tools=BUILT_IN),
        verdicts={"menu": "kept", "recall": "absent"},
        silent=("Rye", "bakery", "Peonies", "early ferry"),
    ),
    Case(
        name="recall",
        proves="a message brings the passage it is about; one that is cut names the call that reads it whole",
        files=FILES,
        turn=alice(tools=BUILT_IN, message="When is the boiler serviced?"),
        verdicts={"recall": "kept"},
        silent=("Carol's birthday",),
    ),
    Case(
        name="recall-unreviewed",
        proves="what a friend said and nobody reviewed comes with their name, the clearance and the day",
        files=FILES,
        turn=alice(tools=BUILT_IN, message="Is rye bread welcome?"),
        verdicts={"recall": "kept"},
    ),
    Case(
        name="recall-room",
        proves="in a room nothing is recalled that its ceiling hides, whoever asks",
        files=FILES,
        turn=alice(tools=BUILT_IN, message="When is the boiler serviced?", situation="group", room="family"),
        verdicts={"recall": "absent"},
        silent=("October", "HOUSE.md", "memories.json"),
    ),
)
