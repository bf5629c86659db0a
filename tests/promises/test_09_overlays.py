"""Item 9: the overlay of a situation and the guidance of a channel are whole in every prompt, or there is none."""

import asyncio
from pathlib import Path

import pytest
from budget_house import BLUEPRINTS, assemble, describe, find_verdicts, open_clockwork, open_house, read_system, say

from foreword import BudgetError
from foreword.testing import Called, Says, listen, make_workspace
from foreword.turn import Turn

GROUP = {"situation": "group", "channel": "telegram"}
OVERLAY, CHANNEL = "Speak to all of them.", "Two lines at most."
BEAT = "schedule: [{name: beat, heartbeat: 30m, user: alice}]\n"


@pytest.mark.parametrize("mode", ["full", "minimal", "brief", "none"])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_every_mode_has_the_rules(tmp_path: Path, blueprint: str, mode: str) -> None:
    """The overlay and the owner's channel file are in the prompt of every mode of every shipped blueprint."""
    text = assemble(tmp_path, blueprint, mode=mode, **GROUP).prompt.text
    assert OVERLAY in text
    assert CHANNEL in text


@pytest.mark.parametrize("window", [15_000, 20_000, 30_000, 40_000])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_no_file_pushes_the_rules_out(tmp_path: Path, blueprint: str, window: int) -> None:
    """A long AGENTS.md in a small window is shortened, and the overlay and the channel stay whole."""
    assembly = assemble(tmp_path, blueprint, f"window: {window}", long=True, **GROUP)
    assert OVERLAY in assembly.prompt.text
    assert CHANNEL in assembly.prompt.text
    assert find_verdicts(assembly)["overlay"] == "kept"


@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_rules_that_do_not_fit_are_an_error(tmp_path: Path, blueprint: str) -> None:
    """An overlay that is larger than the budget fails the assembly with the sum, and is never dropped or cut."""
    files = {**describe(blueprint, "window: 16000"), "prompts/group.md": "Speak to all of them.\n" * 3_000}
    with pytest.raises(BudgetError, match=r"the prompt does not fit: .*\boverlay 21,\d{3}\b.* are missing"):
        make_workspace(tmp_path, files).assemble(Turn(user="alice", situation="group"))


@pytest.mark.parametrize("blueprint", ["default", "coop"])
def test_a_heartbeat_has_rules_and_the_date(tmp_path: Path, blueprint: str) -> None:
    """A heartbeat of the gateway has the overlay of `system` in its system part, and knows the date."""
    config = describe(blueprint)["foreword.yaml"]
    rules = {"prompts/heartbeat.md": "Report due items only.\n", "HEARTBEAT.md": "- put the bins out\n"}

    async def run(stand_in) -> None:
        async with open_clockwork(tmp_path, stand_in, BEAT, config=config, **rules) as house:
            assert len(await house.at(8)) == 1

    with listen() as stand_in:
        stand_in.follow(Says(text="The bins go out."))
        asyncio.run(run(stand_in))
        body = stand_in.requests[0].body
    assert "Report due items only." in read_system(body)
    assert "2026" in str(body)


def test_a_subagent_has_the_rules(tmp_path: Path) -> None:
    """A subagent works under the overlay and the channel's guidance of the conversation that asked for it."""
    asks = Says(calls=(Called(name="delegate", arguments={"task": "Count the bees."}),))

    async def run(stand_in) -> None:
        async with open_house(tmp_path, stand_in, files=describe("coop")) as gateway:
            await say(gateway, "How many bees?", channel="telegram", room="den", situation="group")

    with listen() as stand_in:
        stand_in.follow(asks, Says(text="Forty."), Says(text="There are forty."))
        asyncio.run(run(stand_in))
        helper = read_system(stand_in.requests[1].body)
    assert OVERLAY in helper
    assert CHANNEL in helper
