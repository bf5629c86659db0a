"""Unreadable ledgers: the session starts a new one, and no earlier update applies unnoticed."""

import json
from dataclasses import replace

import pytest
from house import CONFIG, open_rows, read_log, say

from foreword.cli.main import main
from foreword.engine.blueprint import Blueprint, Rendering
from foreword.engine.render import Layout
from foreword.promptcache.changes import join_notices, remove_notices, write_settled_notice, write_update
from foreword.promptcache.ledger import SectionSnapshot, UpdateChannel, UpdateKind
from foreword.storage.ledgers import empty_ledger
from foreword.testing import write_files
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import find_model
from foreword.types import Pace, Vocabulary

SOUL = "".join(f"{number}. Say less than you know, and never more than you were asked.\n" for number in range(1, 90))
FIRST = SOUL.replace("40. Say less", "40. Say more")
SECOND = SOUL.replace("40. Say less", "40. Say nothing")
RULED = CONFIG + "situations: {dm: {prompt_overlay: situations/dm.md}}\n"
OPUS = RULED.replace("claude-sonnet-5", "claude-opus-5")  # it takes system messages within the conversation
FILES = {"foreword.yaml": OPUS, "SOUL.md": SOUL, "situations/dm.md": "Be kind."}
DAMAGES = {
    "rows": "UPDATE ledgers SET frozen = '{}'",
    "text": "UPDATE ledgers SET frozen = 'not json'",
    "base": "DELETE FROM bases",
    "lines": "UPDATE bases SET lines = '[[{}]]'",
    "title": 'UPDATE bases SET lines = replace(lines, \'"title":"\', \'"title":"A \')',
    "piece": "UPDATE ledgers SET frozen = json_set(frozen, '$.last.pieces[0]', 'abcdef')",
    "tokens": "UPDATE ledgers SET frozen = json_set(frozen, '$.last.pieces[0][1]', '12')",
    "alive": "UPDATE ledgers SET frozen = json_set(frozen, '$.alive[0][0]', 999)",
    "gaps": "UPDATE ledgers SET frozen = json_set(frozen, '$.gaps', json('[\"x\"]'))",
    "zone": "UPDATE ledgers SET frozen = json_set(frozen, '$.last.at', '2026-11-16T12:00:00')",
    "update": "UPDATE ledgers SET frozen = json_set(frozen, '$.updates[0].said', 7)",
}


def edit(gateway, folder, **files):
    """Edit files and refresh the workspace."""
    write_files(folder, {name.replace("__", "/") + ".md": text for name, text in files.items()})
    gateway.workspace.refresh(now=True)


async def tell_updates(gateway, folder):
    """Create a session with two updates: one in a tail, one in a system message."""
    first = await say(gateway, "One")
    edit(gateway, folder, SOUL=FIRST, situations__dm="Never name a price.")
    await say(gateway, "Two, and a line of mine:\n## Prompt Updates\nof which nobody else knows")
    return first.session


def damage(folder, how="rows"):
    """Damage all ledgers."""
    with open_rows(folder) as state:
        state.execute(DAMAGES[how])


def read_moves(folder):
    """Read the ledger's moves, by turn."""
    return [facts.get("ledger") for kind, _, _, facts in read_log(folder) if kind == "prompt_built"]


@pytest.mark.parametrize("how", DAMAGES)
def test_what_was_said_counts_no_longer(tmp_path, stand_in, run, how):
    """The next turn has a new prefix with a reason; all updates are removed from the history, user messages are not."""

    async def begin(gateway):
        await tell_updates(gateway, tmp_path)

    async def go_on(gateway):
        await say(gateway, "Three")
        await say(gateway, "Four")

    run(begin, FILES)
    damage(tmp_path, how)
    run(go_on, {**FILES, "SOUL.md": SECOND, "situations/dm.md": "Never name a price."})
    _, two, three, four = stand_in.requests
    assert "40. Say more" in json.dumps(two.body["messages"])
    for request in (three, four):
        shown = json.dumps(request.body["messages"])
        assert "40. Say" not in shown
        assert "Never name a price." not in shown
        assert shown.count("Prompt Updates") == 1  # in a user's message
        assert "of which nobody else knows" in shown
        system = json.dumps(request.body["system"])
        assert "40. Say nothing" in system
        assert "Never name a price." in system
    *_, second, after = read_moves(tmp_path)
    assert (second["deed"], second["rebase"]["ground"], after) == ("rebase", "damaged", None)
    assert "history rewritten" in second["reason"]


@pytest.mark.parametrize("how", ["base", "lines"])
def test_a_base_is_mended(tmp_path, run, how):
    """Sending the same prompt again replaces the damaged prefix, and the session is intact again."""

    async def talk(gateway):
        await say(gateway, "One")

    run(talk, FILES)
    damage(tmp_path, how)
    run(talk, FILES)
    run(talk, FILES)
    _, second, after = read_moves(tmp_path)
    assert (second["rebase"]["ground"], after) == ("damaged", None)


@pytest.mark.parametrize("how", DAMAGES)
def test_commands_get_along(tmp_path, run, how, capsys):
    """With a damaged ledger the commands price, doctor and forget work, and updates are removed from the history."""

    async def talk(gateway):
        await tell_updates(gateway, tmp_path)
        await say(gateway, "Hi", user="bob")

    run(talk, FILES)
    damage(tmp_path, how)
    for words in (["price", "SOUL.md"], ["doctor"], ["forget", "bob", "--yes"]):
        assert main(["-w", str(tmp_path), *words]) == 0, capsys.readouterr().err
    with open_rows(tmp_path) as state:
        kept = b"".join(row[0] for row in state.execute("SELECT messages FROM history")).decode()
    assert "40. Say" not in kept
    assert "of which nobody else knows" in kept


def test_a_fork_and_an_emptied_session(tmp_path, run):
    """An earlier fork and an emptied session contain no update of a damaged ledger."""

    async def talk(gateway):
        session = await tell_updates(gateway, tmp_path)
        await say(gateway, "Three")
        damage(tmp_path)
        return session, (await gateway.sessions.fork(session, 2)).id

    before, fork = run(talk, FILES)
    with open_rows(tmp_path) as state:
        asked = "SELECT messages FROM history WHERE session_id = ?"
        empty_ledger(state, before)
        kept = [b"".join(row[0] for row in state.execute(asked, (one,))).decode() for one in (before, fork)]
    assert all("40. Say" not in one and "Never name a price." not in one for one in kept)
    assert all("of which nobody else knows" in one for one in kept)


NEW = "From now on, this replaces “Soul” in your system prompt:\n\n"
ENDED = "“Soul” in your system prompt no longer applies."
QUOTED = "Time\nNoon.\n\nRecall\nbob said:\nPrompt Updates\nof his phone\n\nTask\nBuy bread."
TAGGED = f"Recall\n<PromptUpdates>\n{ENDED}\n</PromptUpdates>\n\nTask\nBuy bread."


@pytest.mark.parametrize(
    ("tail", "left"),
    [
        (f"## Time\nNoon.\n\n## Prompt Updates\n{NEW}## Soul\nCalm.\n\n{ENDED}", "## Time\nNoon."),
        (f"Time\nNoon.\n\nPrompt Updates\n{ENDED}", "Time\nNoon."),
        (f"<Time>\nNoon.\n</Time>\n\n<PromptUpdates>\n{ENDED}\n</PromptUpdates>", "<Time>\nNoon.\n</Time>"),
        (f"## Prompt Updates\n{NEW}## Soul\nCalm.\n\nPrompt Updates\n{ENDED}", ""),
        ("## Time\nNo Prompt Updates today.", "## Time\nNo Prompt Updates today."),
        (QUOTED, QUOTED),
        (f"{QUOTED}\n\nPrompt Updates\n{NEW}Soul\nCalm.", QUOTED),
        (TAGGED, TAGGED),
    ],
)
def test_a_tail_without_its_updates(tail, left):
    """Updates are removed from the end of a tail in every heading style, and the rest is unchanged."""
    assert remove_notices(tail) == left


@pytest.mark.parametrize("rendering", Rendering)
def test_every_update_is_known_again(rendering):
    """Every kind of update is removed from a tail, and nothing else."""
    blueprint = Blueprint(name="any", rendering=rendering, marker="", marker_without_call="", slots=())
    layout = Layout(blueprint, Meter(find_model("openai:gpt-5", {}), Counter(Vocabulary.O200K)))
    old = SectionSnapshot(id="soul", title="Soul", pace=Pace.STATIC, text=SOUL, piece=SOUL, tokens=1)
    new = replace(old, text="Calm.")
    changes = ((old, new), (old, replace(old, text=FIRST)), (None, new), (old, None))
    shown = [write_update(layout, before, after, UpdateChannel.TAIL) for before, after in changes]
    assert {update.kind for update in shown} == set(UpdateKind)
    for said in (*([update] for update in shown), []):
        text = join_notices(layout, said, "" if said else write_settled_notice(layout, shown))
        assert (remove_notices(f"Noon.\n\n{text}"), remove_notices(text)) == ("Noon.", "")
