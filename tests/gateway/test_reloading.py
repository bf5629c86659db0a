"""An edited configuration is told when the gateway takes it up, without a message that makes it look."""

import asyncio

from house import CONFIG, open_house, say

from foreword.events.event import EventType
from foreword.gateway.message import State
from foreword.testing import Heard, Says, listen


def test_told(tmp_path, stand_in):
    """While nobody writes, an edit is seen and told; the next turn has it."""
    heard = Heard()

    async def run():
        stand_in.choose = lambda _: Says(text="Yes.")
        async with open_house(tmp_path, stand_in) as gateway:
            log = gateway.listeners.recorder
            record, log.record = log.record, lambda event: (heard.record(event), record(event))
            await say(gateway, "before")
            (tmp_path / "foreword.yaml").write_text(CONFIG.replace("bob: {trust: familiar}", "eve: {trust: inner}"))
            while EventType.CONFIG_RELOADED not in {event.type for event in heard.events}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return await say(gateway, "after", user="eve")

    reply = asyncio.run(run())
    told = [event for event in heard.events if event.type is EventType.CONFIG_RELOADED]
    assert [event.facts for event in told] == [{"changed": "users"}]
    assert reply.text == "Yes."


def test_an_edited_budget(tmp_path, stand_in):
    """A budget that is written while the gateway runs holds for the next turn."""

    async def run():
        stand_in.choose = lambda _: Says(text="Yes.")
        async with open_house(tmp_path, stand_in) as gateway:
            before = await say(gateway, "before")
            (tmp_path / "foreword.yaml").write_text(f"{CONFIG}budgets: {{daily_usd: 0.000001}}\n")
            while gateway.workspace.config.budgets.daily_usd is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return before, await say(gateway, "after")

    before, after = asyncio.run(run())
    assert (before.state, after.state) == (State.ANSWERED, State.REFUSED)


def test_another_address(tmp_path, stand_in):
    """An edited address of a provider is the one that the next turn speaks to."""
    stand_in.choose = lambda _: Says(text="The first.")

    async def run():
        with listen() as other:
            other.choose = lambda _: Says(text="The second.")
            async with open_house(tmp_path, stand_in) as gateway:
                before = await say(gateway, "Who is there?")
                edited = f"{CONFIG}providers: {{anthropic: {{base_url: '{other.url}'}}}}\n"
                (tmp_path / "foreword.yaml").write_text(edited)
                gateway.workspace.refresh(now=True)
                return before.text, (await say(gateway, "And now?")).text

    assert asyncio.run(run()) == ("The first.", "The second.")
