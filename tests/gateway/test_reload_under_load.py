"""Edits under load: no turn fails, a valid edit applies soon, and an invalid one is reported."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from house import open_house, say, until

from foreword.events.event import EventType, Level, Notice
from foreword.resources import read_blueprint
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedReply

SOAK = bool(os.environ.get("FOREWORD_SOAK"))
EDITS = 60 if SOAK else 6
EVERY = 1.0 if SOAK else 0.0  # seconds between two edits
SERVER = str(Path(__file__).parent.parent / "agent" / "tool_server.py")
PATIENT = 120.0  # seconds; generous for a busy machine


class Board:
    """Records the owner's notices."""

    def __init__(self):
        self.heard = []

    def notify(self, notice: Notice):
        """Record a notice."""
        self.heard.append(notice.text)


class Editor:
    """Edits all files in turn, as editors save them; every fifth edit is broken."""

    def __init__(self, folder):
        self.folder = folder
        self.said, self.served = "quietly", "first"
        self.files = {"foreword.yaml": self.write_config(), **self.write_rest("begun", "begun")}

    def write_config(self):
        """Return the current configuration."""
        server = {"name": self.served, "command": [sys.executable, SERVER], "trust": "familiar"}
        agent = {"model": "anthropic:claude-sonnet-5", "blueprint": "mine", "instructions": f"Work {self.said}."}
        config = {
            "owner": "alice",
            "agents": {"reid": {**agent, "mcp": [server]}},
            "users": {"alice": {"trust": "full"}, "bob": {"trust": "familiar"}},
        }
        return json.dumps(config, indent=1)

    def write_rest(self, kind, mark):
        """Return the other files, one of them with a mark."""
        marks = dict.fromkeys(("soul", "rule", "skill", "blueprint"), "plain") | {kind: mark}
        blueprint = read_blueprint("default").replace("name: default", "name: mine")
        return {
            "SOUL.md": f"Calm and {marks['soul']}.\n",
            "rules/manners.md": f"Be {marks['rule']}.\n",
            "skills/tea/SKILL.md": f"---\nname: tea\ndescription: Makes {marks['skill']} tea.\n---\nBoil.\n",
            "blueprints/mine.yaml": blueprint.replace("title: Soul", f"title: Heart {marks['blueprint']}"),
        }

    def edit(self, number):
        """Make an edit; return the text expected in a prompt, or nothing if it is broken."""
        mark = f"mark{number}x"
        if number % 5 == 4:
            self.spoil(number // 5 % 4)
            return ""
        kind = ("soul", "config", "server", "blueprint", "rule", "skill")[number * 5 // 4 % 6]
        names = {"soul": "SOUL.md", "rule": "rules/manners.md", "skill": "skills/tea/SKILL.md"}
        if kind in ("config", "server"):
            self.said, self.served = (mark, self.served) if kind == "config" else (self.said, mark)
            self.save("foreword.yaml", self.write_config(), rename=number % 2)
        else:
            name = names.get(kind, "blueprints/mine.yaml")
            self.save(name, self.write_rest(kind, mark)[name], rename=number % 2)
        return mark

    def spoil(self, how):
        """Break a file, in one of several ways."""
        path = self.folder / "foreword.yaml"
        if how == 0:
            path.write_text("owner: [\n")
        elif how == 1:
            path.write_text(self.write_config()[:-40])
        elif how == 2:
            (self.folder / "blueprints/mine.yaml").write_text("name: mine\nslots: 3\n")
        else:
            path.unlink()

    def save(self, name, text, *, rename):
        """Save in place or by rename, as editors do."""
        path = self.folder / name
        if rename:
            path.with_suffix(".tmp").write_text(text)
            path.with_suffix(".tmp").replace(path)
        else:
            path.write_text(text)


def test_under_load(tmp_path, stand_in, record_property):
    """Every turn is answered, every valid edit is in a prompt soon, and the owner is notified of every invalid one."""
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")
    editor, board = Editor(tmp_path), Board()
    states, took, shown = [], [], []

    async def talk(gateway, user, ended):
        number = 0
        while not ended.is_set():
            number += 1
            room = f"{user}{number // 10}"  # new sessions now and then, so that they stay short
            reply = await say(gateway, f"{number}?", user=user, channel="web", room=room, situation="group")
            states.append(reply.state)
            await asyncio.sleep(0.02)

    async def see(mark, since):
        await until(lambda: any(mark.encode() in one.raw for one in stand_in.requests[since:]))

    async def run():
        async with open_house(tmp_path, stand_in, editor.files, notices=(board,)) as gateway:
            log = gateway.listeners.recorder
            record, log.record = log.record, lambda event: (shown.append(event), record(event))
            await say(gateway, "First.")  # warm up
            ended = asyncio.Event()
            talking = [asyncio.create_task(talk(gateway, user, ended)) for user in ("alice", "bob", "carol")]
            for number in range(EDITS):
                began, heard, since = time.monotonic(), len(board.heard), len(stand_in.requests)
                mark = editor.edit(number)
                async with asyncio.timeout(PATIENT):
                    if mark:
                        await see(mark, since)
                        took.append(time.monotonic() - began)
                    else:
                        await until(lambda heard=heard: len(board.heard) > heard)
                await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - began)))
            ended.set()
            await asyncio.gather(*talking)

    asyncio.run(run())
    assert set(states) == {TurnState.ANSWERED}
    faults = [event for event in shown if event.type is EventType.CONFIG_RELOADED and event.level is Level.ERROR]
    broken = EDITS // 5
    assert len(faults) == len(board.heard) == broken, board.heard
    assert len(took) == EDITS - broken
    took.sort()
    record_property("median_s", took[len(took) // 2])
    record_property("slowest_s", took[-1])
    # Wall-clock time on a possibly busy machine; alone the slowest is below a second.
    assert took[len(took) // 2] < 10, f"{len(states)} turns; an edit was in force after {took} s"
    if SOAK:
        sys.stderr.write(
            f"{len(states)} turns; in force after {took[len(took) // 2]:.2f} s, at most {took[-1]:.2f} s\n"
        )
