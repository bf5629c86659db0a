"""Calibration: token counts reported by a provider correct later predictions."""

import asyncio
import json

import pytest
from house import CONFIG, open_house, open_rows, read_log, say

from foreword.cli.main import main
from foreword.promptcache.rules import Calibration
from foreword.storage.ledgers import read_calibrations, write_calibration
from foreword.testing import NOON, ManualClock, run_fake_provider, write_files

MODEL = "anthropic:claude-sonnet-5"
WORDS = "The tide was low and the boats lay on their sides in the mud of the old harbour. "
FILES = {"foreword.yaml": CONFIG, "SOUL.md": WORDS * 60}
SMALL = CONFIG + f'models: {{"{MODEL}": {{window: 40000}}}}\n'


@pytest.fixture
def run(tmp_path):
    """Run a coroutine with a gateway; return the provider's requests."""

    def run(talk, files=FILES):
        clock = ManualClock(NOON)
        with run_fake_provider(clock=clock) as stand_in:

            async def work():
                async with open_house(tmp_path, stand_in, files, clock=clock) as gateway:
                    await talk(gateway)

            asyncio.run(work())
            return stand_in.requests

    return run


def test_the_error_falls(tmp_path, run, capsys):
    """After some calls the corrected counts have a far smaller error than the plain ones."""

    async def talk(gateway):
        for number in range(12):
            await say(gateway, f"{number}: {WORDS * (number % 4)}")

    run(talk)
    with open_rows(tmp_path) as state:
        known = read_calibrations(state)[MODEL]
    assert known.calls == 12
    assert known.raw > 0.05
    # The first call is uncorrected and has a weight of one twelfth.
    assert known.error < known.raw / 3
    capsys.readouterr()
    assert main(["explain", "-w", str(tmp_path), "--model", MODEL]) == 0
    assert f"counts × {known.ratio:.2f}, off by {known.error:.1%} on average (12 calls)" in capsys.readouterr().out


def test_predictions_are_in_tokens_as_billed(tmp_path, run, capsys):
    """Predictions are corrected by earlier calls, and their error is shown."""

    async def talk(gateway):
        for number in range(12):
            await say(gateway, f"{number}: {WORDS * (number % 4)}")

    requests = run(talk)
    shown = [facts["cache"]["predicted"] for kind, _, _, facts in read_log(tmp_path) if kind == "api_call"]
    errors = [
        abs(sum(one[name] for name in ("read", "write", "fresh")) / request.counted.total - 1)
        for one, request in zip(shown, requests, strict=True)
    ]
    assert errors[0] > 0.05  # no calibration before the first call
    assert max(errors[1:]) < 0.03
    reads = [(one["read"], request.counted.read) for one, request in zip(shown, requests, strict=True)]
    assert all(ours == pytest.approx(theirs, rel=0.03) for ours, theirs in reads)
    capsys.readouterr()
    assert main(["cache", "-w", str(tmp_path), "--since", NOON.isoformat(), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["error"] == pytest.approx(
        sum(error * request.counted.total for error, request in zip(errors, requests, strict=True))
        / sum(request.counted.total for request in requests)
    )


def test_a_learned_ratio_moves_no_byte_of_a_prompt(tmp_path, run):
    """Calibration corrects predictions and does not change the prompt, since budgets use the plain count."""

    async def learn(gateway):
        await say(gateway, "One")
        known = Calibration(model=MODEL, calls=50, ratio=1.9, raw=0.5, error=0.01)
        with open_rows(tmp_path) as state:
            write_calibration(state, known)
        await say(gateway, "Two")

    first, second = run(learn)
    texts = [[part["text"] for part in one.body["system"]] for one in (first, second)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_what_others_taught_is_told_where_all_may_be_seen(tmp_path, user):
    """Below full trust no recorded value depends on the calls of others."""

    def describe(ratio):
        folder, clock = tmp_path / str(ratio), ManualClock(NOON)
        folder.mkdir()

        async def work(stand_in):
            async with open_house(folder, stand_in, FILES, clock=clock) as gateway:
                await say(gateway, "One", user=user)
                with open_rows(folder) as state:
                    write_calibration(state, Calibration(model=MODEL, calls=50, ratio=ratio, raw=0.5, error=0.01))
                write_files(folder, {"SOUL.md": WORDS * 59 + "The tide came in."})
                gateway.workspace.refresh(now=True)
                await say(gateway, "Two", user=user)

        with run_fake_provider(clock=clock) as stand_in:
            asyncio.run(work(stand_in))
        log = read_log(folder)
        (moved,) = [facts["ledger"] for kind, *_, facts in log if kind == "prompt_built" and "ledger" in facts]
        return moved, [facts["cache"] for kind, *_, facts in log if kind == "api_call"][-1]

    (moved, cache), (more, other) = describe(1.2), describe(1.7)
    assert (moved == more) is (user == "bob")
    assert (cache["factor"], other["factor"]) == ((1.0, 1.0) if user == "bob" else (1.2, 1.7))
    assert (cache["predicted"] == other["predicted"]) is (user == "bob")


def test_a_window_that_is_smaller_than_it_looks(tmp_path, run):
    """A model that reports more tokens than counted is compacted earlier, before the provider refuses."""
    counts = []

    def count_folds(ratio):
        async def talk(gateway):
            with open_rows(tmp_path) as state:
                write_calibration(state, Calibration(model=MODEL, calls=5_000, ratio=ratio, raw=0.5, error=0.01))
            for number in range(4):
                await say(gateway, f"{number}: {WORDS * 200}", channel=f"at{ratio}")

        run(talk, {**FILES, "foreword.yaml": SMALL})
        counts.append(sum(event[0] == "session_compacted" for event in read_log(tmp_path)))

    count_folds(1.0)
    count_folds(1.4)
    assert counts[0] == 0
    assert counts[1] > 0
