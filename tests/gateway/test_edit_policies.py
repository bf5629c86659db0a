"""Edit policies: when an edit reaches a running session, per file and per edit."""

import asyncio
import json

import pytest
from house import CONFIG, open_house, read_log, say

from foreword.cli.main import main
from foreword.testing import NOON, ManualClock, run_fake_provider, write_files

RULE = "Say less than you know, and never more than you were asked.\n"
LONG = "".join(f"{number}. {RULE}" for number in range(1, 60))
SOUL = f"You are calm.\n{LONG}"
FILES = {
    "SOUL.md": SOUL,
    "IDENTITY.md": "---\nname: Reid\nvibe: quiet\n---\nA clerk of old stock.\n",
    "AGENTS.md": "Old rules of the house.\n",
    "TOOLS.md": "Old notes on tools.\n",
    "USER.md": "---\nname: Alice\n---\nAlice likes old books.\n",
    "users/bob/USER.md": "Bob likes old boats.\n",
    "agents/ada/SOUL.md": "Ada is old school.\n",
    "MEMORY.md": "The old harbour is closed.\n",
    "channels/terminal.md": "Old manners for the terminal.\n",
    "rules/one.md": "An old rule.\n",
}
PLACES = {"users/bob/USER.md": {"user": "bob"}, "agents/ada/SOUL.md": {"agent": "ada"}}


class House:
    """A workspace whose files are edited while its gateway runs."""

    def __init__(self, folder, stand_in, clock):
        self.folder, self.stand_in, self.clock = folder, stand_in, clock

    def run(self, talk, config=CONFIG):
        """Run a coroutine with the gateway."""

        async def work():
            files = {**FILES, "foreword.yaml": config}
            async with open_house(self.folder, self.stand_in, files, clock=self.clock) as gateway:
                return await talk(gateway)

        return asyncio.run(work())

    def save(self, gateway, path, text):
        """Save a file and refresh the workspace."""
        write_files(self.folder, {path: text})
        gateway.workspace.refresh(now=True)

    def edit(self, gateway, path):
        """Edit a file: replace its old words."""
        text = FILES[path].replace("old", "brand-new").replace("Old", "Brand-new").replace("calm", "brand-new")
        self.save(gateway, path, text)

    def decide(self, path, policy, *more):
        """Decide about an edit on the command line, while the gateway runs."""
        now = self.clock().isoformat()
        assert main(["price", "-w", str(self.folder), "--now", now, path, "--apply", policy, *more]) == 0

    @property
    def places(self):
        """Where each request contains the edit."""
        return [find_where(one) for one in self.stand_in.requests]


@pytest.fixture
def house(tmp_path):
    """A workspace with a fake provider on the same clock."""
    clock = ManualClock(NOON)
    with run_fake_provider(clock=clock) as stand_in:
        yield House(tmp_path, stand_in, clock)


def find_where(request):
    """Find where a request contains the edit: in its system part, in its newest message, or nowhere."""
    body = request.body
    system = body.get("system") or [one for one in body["messages"] if one["role"] in ("system", "developer")]
    newest = [one for one in body["messages"] if one["role"] == "user"][-1]
    places = {"system": json.dumps(system), "message": json.dumps(newest)}
    return next((name for name, text in places.items() if "rand-new" in text), "nowhere")


NOW, APPEND = ("now", "system", "system"), ("append", "message", "system")
COLD, LATER = ("cold", "nowhere", "system"), ("next-session", "nowhere", "nowhere")


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize(("policy", "warm", "cold"), [NOW, COLD, LATER])
def test_a_policy_of_a_file(house, path, policy, warm, cold):
    """The `edits` policy in `prompt.files` applies to every known file, also to those per user or agent."""
    place = PLACES.get(path, {})
    name = path.rpartition("/")[2] if place else path
    own = "per_user: true, " if path.startswith("users/") else ""

    async def talk(gateway):
        await say(gateway, "One", **place)
        house.edit(gateway, path)
        await say(gateway, "Two", **place)
        house.clock.move(3 * 3600)
        await say(gateway, "Three", **place)

    house.run(talk, f"{CONFIG}prompt: {{files: [{{path: {name}, {own}trust: public, edits: {policy}}}]}}\n")
    assert house.places == ["nowhere", warm, cold]


@pytest.mark.parametrize("path", ["SOUL.md", "IDENTITY.md", "USER.md", "rules/one.md"])
@pytest.mark.parametrize(("policy", "warm", "cold"), [NOW, APPEND, COLD, LATER])
def test_a_decision_about_one_edit(house, path, policy, warm, cold):
    """A decision about an edit overrides the policy of its file, while the gateway runs."""
    other = "now" if policy == "next-session" else "next-session"

    async def talk(gateway):
        await say(gateway, "One")
        house.edit(gateway, path)
        house.decide(path, policy)
        await say(gateway, "Two")
        house.clock.move(3 * 3600)
        await say(gateway, "Three")

    house.run(talk, f"{CONFIG}prompt: {{files: [{{path: {path}, trust: familiar, edits: {other}}}]}}\n")
    assert house.places == ["nowhere", warm, cold]


def test_a_decision_is_about_one_text(house, capsys):
    """A decision applies to one text only; the next edit has none, and `auto` removes a decision."""

    async def talk(gateway):
        await say(gateway, "One")
        house.edit(gateway, "SOUL.md")
        house.decide("SOUL.md", "next-session")
        await say(gateway, "Two")
        house.save(gateway, "SOUL.md", SOUL.replace("calm", "brand-new and tall"))
        await say(gateway, "Three")

    house.run(talk)
    assert house.places == ["nowhere", "nowhere", "message"]
    capsys.readouterr()
    assert main(["price", "-w", str(house.folder), "--decided", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["path"], one["policy"], one["in_force"]) == ("SOUL.md", "next-session", False)
    house.decide("SOUL.md", "auto")
    assert "decision about SOUL.md removed" in capsys.readouterr().out
    assert main(["price", "-w", str(house.folder), "--decided"]) == 0
    assert "there are no decisions" in capsys.readouterr().out


def test_a_section_of_several_files(house, capsys):
    """No decision is possible about MEMORY.md, because the menu contains all memories."""

    async def talk(gateway):
        await say(gateway, "One")
        house.edit(gateway, "MEMORY.md")
        house.decide("MEMORY.md", "next-session")
        await say(gateway, "Two")

    house.run(talk)
    assert house.places == ["nowhere", "message"]
    assert "the decision does not apply to menu, which contains more than MEMORY.md" in capsys.readouterr().err


WAITING = f"{CONFIG}prompt: {{files: [{{path: MEMORY.md, trust: full, edits: next-session}}]}}\n"


def test_a_line_of_the_menu_waits_alone(house):
    """Only the menu line of the file with a waiting edit is held; other lines change, and a reason is recorded."""

    async def talk(gateway):
        await say(gateway, "One")
        house.edit(gateway, "MEMORY.md")
        await say(gateway, "Two")
        house.save(gateway, "memory/social/tide.md", "# Tide\nThe tide is low.\n")
        await say(gateway, "Three")
        house.clock.move(3 * 3600)
        await say(gateway, "Four")

    house.run(talk, WAITING)
    assert house.places == ["nowhere"] * 4
    shown = [request.raw.decode() for request in house.stand_in.requests]
    assert ["social/tide.md" in one for one in shown] == [False, False, True, True]
    assert all("The old harbour is closed" in one for one in shown)
    moves = [facts["ledger"] for *_, facts in read_log(house.folder) if "ledger" in facts]
    assert [one["deed"] for one in moves] == ["hold", "append", "rebase"]
    held = {(one["section"], one["reason"]) for move in moves for one in move["decisions"] if one["deed"] == "hold"}
    assert held == {("menu", "MEMORY.md waits for the next session (policy)")}


def test_what_leaves_the_menu_does_not_wait(house):
    """A deleted memory leaves the menu at once, whatever its policy, since it may have been closed."""

    async def talk(gateway):
        await say(gateway, "One")
        (house.folder / "MEMORY.md").unlink()
        gateway.workspace.refresh(now=True)
        await say(gateway, "Two")

    house.run(talk, WAITING)
    assert ["- MEMORY.md" in request.raw.decode() for request in house.stand_in.requests] == [True, False]


def test_names_with_brackets(house):
    """Memories whose names differ only in parentheses are distinct, and a deleted one leaves the menu."""

    async def talk(gateway):
        house.save(gateway, "memory/private/trip (2023).md", "Lisbon.\n")
        house.save(gateway, "memory/private/trip (2024).md", "Porto.\n")
        await say(gateway, "One")
        (house.folder / "memory/private/trip (2023).md").unlink()
        gateway.workspace.refresh(now=True)
        await say(gateway, "Two")

    house.run(talk)
    shown = [request.raw.decode() for request in house.stand_in.requests]
    assert [[f"trip ({year})" in text for year in (2023, 2024)] for text in shown] == [[True, True], [False, True]]
    (gone,) = (facts["ledger"] for *_, facts in read_log(house.folder) if "ledger" in facts)
    assert gone["rebase"]["ground"] == "private"


def test_a_decision_before_the_edit(house):
    """A decision about an unsaved text applies once it is saved."""
    write_files(house.folder, {"draft/SOUL.md": SOUL.replace("calm", "brand-new")})

    async def talk(gateway):
        await say(gateway, "One")
        house.decide("SOUL.md", "cold", "--with", str(house.folder / "draft" / "SOUL.md"))
        house.edit(gateway, "SOUL.md")
        await say(gateway, "Two")

    house.run(talk)
    assert house.places == ["nowhere", "nowhere"]
