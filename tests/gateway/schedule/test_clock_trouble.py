"""Clock jumps, downtimes and two processes: each run happens once, or a reason is recorded."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from clockwork import CONFIG, MORNING, open_clockwork
from house import open_rows, read_log

from foreword.testing import ManualClock, ScriptedReply

DAILY = 'schedule: [{name: brief, cron: "0 8 * * *", user: alice, say: "Morning check.", delivery: never%s}]\n'
BOTH = """\
schedule:
- {name: brief, cron: "0 8 * * *", user: alice, say: "Morning check.", delivery: never}
- {name: news, cron: "0 8 * * *", user: bob, say: "What is new?", delivery: never}
- {name: beat, heartbeat: 1h, user: alice, delivery: never}
"""


def read_due(folder, name="brief"):
    """Read the next due time of a schedule."""
    with open_rows(folder) as state:
        (due,) = state.execute("SELECT due FROM schedules WHERE id = ?", (name,)).fetchone()
    return due and datetime.fromtimestamp(due, UTC)


@pytest.mark.parametrize(("missed", "runs"), [("once", 1), ("skip", 0)])
def test_a_downtime(tmp_path, stand_in, missed, runs):
    """Runs missed in a downtime are replaced by one run, or skipped with a record; then the schedule continues."""
    stand_in.follow(ScriptedReply(text="Here again."), ScriptedReply(text="As always."))
    schedule = DAILY % f", missed: {missed}"

    async def run():
        clock = ManualClock(MORNING)
        async with open_clockwork(tmp_path, stand_in, schedule, clock=clock):
            pass
        clock.move(3 * 24 * 3_600)
        async with open_clockwork(tmp_path, stand_in, schedule, clock=clock) as house:
            assert await house.look() == []  # opening already fired due schedules
            return await house.at(8, day=19)

    assert len(asyncio.run(run())) == 1
    assert len(stand_in.requests) == runs + 1
    log = read_log(tmp_path)
    late = [facts.get("late") for kind, _, _, facts in log if kind == "schedule_fired"]
    assert late == ([2, None] if runs else [None])
    reported = [error for kind, level, error, _ in log if kind == "channel_error" and level == "warn"]
    assert reported == ([] if runs else ["skipped after a downtime: 3 runs"])


def test_a_little_late_is_not_missed(tmp_path, stand_in):
    """A run that is a few minutes late is not missed."""
    stand_in.follow(ScriptedReply(text="Here."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ", missed: skip") as house:
            return await house.at(8, 4)

    assert len(asyncio.run(run())) == 1


def test_back_in_time(tmp_path, stand_in):
    """`missed: skip` does not skip a run that is due now."""
    stand_in.follow(ScriptedReply(text="Here."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % ", missed: skip") as house:
            return await house.at(8, 1, day=18)

    assert len(asyncio.run(run())) == 1
    assert "skipped after a downtime: 2 runs" in [error for _, _, error, _ in read_log(tmp_path)]


def test_a_clock_that_goes_back(tmp_path, stand_in):
    """A run does not repeat when the clock goes back, and the next run is not lost."""
    stand_in.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."))

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % "") as house:
            assert len(await house.at(8)) == 1
            assert await house.at(7, 30) == []
            assert await house.at(8) == []
            assert await house.at(8, 1) == []
            return await house.at(8, day=17)

    assert len(asyncio.run(run())) == 1


def test_a_clock_from_the_future(tmp_path, stand_in):
    """A clock that was years ahead blocks nothing once it is correct again, in this process and the next."""
    stand_in.follow(*[ScriptedReply(text="Here.")] * 4)

    async def run():
        clock = ManualClock(MORNING)
        async with open_clockwork(tmp_path, stand_in, DAILY % "", clock=clock) as house:
            assert len(await house.at(9, year=2030)) == 1
            assert await house.at(7, 59) == []
            assert read_due(tmp_path) == datetime(2026, 11, 16, 8, tzinfo=UTC)
            assert await house.at(8) == []  # already replaced by the later run
            assert len(await house.at(9, year=2031)) == 1
        clock.now = MORNING + timedelta(days=2)
        async with open_clockwork(tmp_path, stand_in, DAILY % "", clock=clock) as house:
            return await house.at(8, day=18)

    assert len(asyncio.run(run())) == 1


def test_several_at_once(tmp_path, stand_in):
    """Schedules due at one moment run concurrently, each in its own session and as its own user."""
    stand_in.follow(*[ScriptedReply(text="Here.")] * 3)

    async def run():
        async with open_clockwork(tmp_path, stand_in, BOTH, HEARTBEAT_md="- look around\n") as house:
            return await house.at(8)

    replies = asyncio.run(run())
    assert sorted(reply.user for reply in replies) == ["alice", "alice", "bob"]
    assert len({reply.session for reply in replies}) == 3


def test_two_processes(tmp_path, stand_in):
    """Two gateways on one state fire a run once and record it once."""
    stand_in.follow(*[ScriptedReply(text="Here.")] * 4)

    async def run():
        clock = ManualClock(MORNING)
        async with (
            open_clockwork(tmp_path, stand_in, DAILY % "", clock=clock) as one,
            open_clockwork(tmp_path, stand_in, DAILY % "", clock=clock) as other,
        ):
            for day in (16, 17, 18):
                clock.now = datetime(2026, 11, day, 8, tzinfo=UTC)
                first, second = await asyncio.gather(one.look(), other.look())
                assert len(first) + len(second) == 1

    asyncio.run(run())
    assert [kind for kind, *_ in read_log(tmp_path)].count("schedule_fired") == 3
    assert len(stand_in.requests) == 3


def test_edits_are_followed(tmp_path, stand_in):
    """A changed time applies at once, other changes keep the due time, and a removed schedule does not run."""
    stand_in.follow(*[ScriptedReply(text="Here.")] * 4)

    async def run():
        async with open_clockwork(tmp_path, stand_in, DAILY % "") as house:
            house.edit(CONFIG + (DAILY % "").replace("0 8", "30 8"))
            assert await house.at(8) == []
            assert len(await house.at(8, 30)) == 1
            house.edit(CONFIG + (DAILY % "").replace("0 8", "30 8").replace("Morning check", "What is new"))
            assert await house.at(8, 40) == []
            assert len(await house.at(8, 30, day=17)) == 1
            house.edit(CONFIG)
            assert await house.at(8, 30, day=18) == []
            house.edit(CONFIG + 'schedule: [{at: "2026-11-17T08:00", user: alice, say: "Too late."}]\n')
            assert await house.at(9, day=18) == []
        return "What is new" in str(stand_in.requests[1].body)

    assert asyncio.run(run())
    with open_rows(tmp_path) as state:
        ((standing, note),) = state.execute("SELECT state, note FROM schedules").fetchall()
    assert standing == "over"
    assert "already passed" in note


def test_a_single_run(tmp_path, stand_in):
    """A single run happens once, and its row remains as over."""
    stand_in.follow(*[ScriptedReply(text="Here.")] * 2)
    once = 'schedule: [{name: once, at: "2026-11-16T08:00", user: alice, say: "Now.", delivery: never}]\n'

    async def run():
        async with open_clockwork(tmp_path, stand_in, once) as house:
            assert len(await house.at(8)) == 1
            assert await house.at(8, day=17) == []

    asyncio.run(run())
    assert len(stand_in.requests) == 1
    assert read_due(tmp_path, "once") is None


def test_silence_leaves_nothing(tmp_path, stand_in):
    """A suppressed reply is neither delivered nor in the history of the next run; other replies are."""
    stand_in.follow(
        ScriptedReply(text="**NO_ACTION_NEEDED**"),
        ScriptedReply(text="The post is here."),
        ScriptedReply(text="NO_ACTION_NEEDED"),
    )
    schedule = 'schedule: [{name: brief, cron: "0 8 * * *", user: alice, say: Look., delivery: as_needed}]\n'

    async def run():
        async with open_clockwork(tmp_path, stand_in, schedule) as house:
            for day in (16, 17, 18):
                await house.at(8, day=day)
        return house.kept.letters

    assert asyncio.run(run()) == [("1001", "The post is here.")]
    assert [len(request.body["messages"]) for request in stand_in.requests] == [1, 1, 3]
