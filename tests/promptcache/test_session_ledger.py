"""Claims about the ledger as a stage of the flow, with a workspace on the disk."""

import json
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest
from bookkeeping import list_held

from foreword.envelope import set_breakpoints
from foreword.promptcache.cache_usage import choose_breakpoints
from foreword.promptcache.decision import CacheContext, SessionLedger
from foreword.promptcache.ledger import Action, Reason, SentRequest, advance_ledger, make_sent_blocks
from foreword.promptcache.rules import list_blocks
from foreword.testing import NOON, make_workspace, write_files
from foreword.testing.request_rules import check_anthropic
from foreword.tokens.models import find_prices
from foreword.turn import Message, Tool, Toolset, Turn
from foreword.types import EditPolicy, Trust

SONNET, OPUS = "anthropic:claude-sonnet-5", "anthropic:claude-opus-5"
YAML = "owner: alice\nusers: {alice: {trust: full}}\nprompt: {files: [%s]}\n"
FILES = {
    "SOUL.md": "".join(f"{number}. Be dry, kind and exact in all that you say.\n" for number in range(120)),
    "USER.md": "".join(f"{number}. She keeps bees, and knows each by name.\n" for number in range(60)),
    "rules/a.md": "Ask before you buy anything.\n",
    "rules/b.md": "Keep the receipts.\n",
}
TOOLS = Toolset([Tool(name="lamps", description="Turns lamps on and off.", trust=Trust.PUBLIC)])


class Sitting:
    """A session with a workspace, whose requests are accepted one after the other."""

    def __init__(self, folder, model=SONNET, listed=""):
        self.folder, self.model, self.now = folder, model, NOON
        self.workspace = make_workspace(folder, {**FILES, "foreword.yaml": YAML % listed})
        self.facts = self.workspace.assemble(Turn(model=model)).meter.facts.cache
        self.state, self.history, self.edits = None, [], {}

    def assemble(self, said="What is on?"):
        """Assemble the next turn."""
        turn = Turn(
            user="alice",
            situation="dm",
            model=self.model,
            tools=TOOLS,
            now=self.now,
            message=said,
            history=tuple(self.history),
        )
        moment = CacheContext(now=self.now, facts=self.facts, prices=find_prices(self.model, {}))
        return self.workspace.assemble(turn, SessionLedger(state=self.state, moment=moment, edits=self.edits))

    def send(self, said="What is on?"):
        """Run a turn."""
        assembly = self.assemble(said)
        request = assembly.envelope("anthropic").request
        blocks = list_blocks("anthropic", set_breakpoints("anthropic", request, ()))
        sent = SentRequest(
            model=self.model,
            pieces=make_sent_blocks(blocks, self.facts, assembly.meter.count),
            at=self.now,
            turn=str(len(self.history)),
        )
        stable = [at for at, piece in enumerate(sent.pieces) if piece.part == "system"]
        self.marked = set_breakpoints("anthropic", request, choose_breakpoints(self.state, sent, self.facts, stable))
        pieces = make_sent_blocks(list_blocks("anthropic", self.marked), self.facts, assembly.meter.count)
        self.state = advance_ledger(self.state, assembly.prefix_decision, replace(sent, pieces=pieces), self.facts)
        newest = "".join(part["text"] for part in request["messages"][-1]["content"])
        self.history += [Message(role="user", text=newest), Message(role="assistant", text="Nothing much.")]
        self.now += timedelta(seconds=40)
        return assembly

    def write(self, **files):
        """Write files, named with - for / and without their ending."""
        write_files(self.folder, {f"{name.replace('_', '/')}.md": text for name, text in files.items()})
        self.workspace.refresh(now=True)


@pytest.fixture
def sitting(tmp_path):
    """A session of two turns."""
    sitting = Sitting(tmp_path)
    sitting.send()
    sitting.send()
    return sitting


def test_an_edit_moves_no_byte(sitting):
    """After an edit of SOUL.md the system part is sent unchanged, and the change is in the tail."""
    before = sitting.assemble().envelope().request["system"]
    sitting.write(SOUL=FILES["SOUL.md"].replace("7. Be dry", "7. Be warm"))
    assembly = sitting.send()
    assert assembly.envelope().request["system"] == before
    assert assembly.prefix_decision.action is Action.APPEND
    assert "+7. Be warm" in assembly.prompt.text
    assert assembly.prompt.blocks[-1].spans[-1].id == "updates"
    assert sitting.send().prefix_decision.action is Action.REUSE


def test_once_it_is_cold_the_prompt_is_as_if_it_were_new(sitting):
    """When the cache is cold the same bytes are sent as a new session would send."""
    sitting.write(SOUL=FILES["SOUL.md"].replace("7. Be dry", "7. Be warm"))
    sitting.send()
    sitting.now += timedelta(hours=2)
    assembly = sitting.send()
    fresh = sitting.workspace.assemble(replace(assembly.turn))
    assert assembly.prefix_decision.rebase.code is Reason.COLD
    assert assembly.envelope().request["system"] == fresh.envelope().request["system"]


def test_a_file_says_when_its_edits_apply(tmp_path):
    """`edits` of a file in foreword.yaml applies to every edit of it, and a decision about one edit wins."""
    sitting = Sitting(tmp_path, listed="{path: SOUL.md, trust: familiar, edits: next-session}")
    sitting.send()
    sitting.write(SOUL=FILES["SOUL.md"].replace("7. Be dry", "7. Be warm"))
    assert list_held(sitting.assemble().prefix_decision) == ("soul",)
    sitting.edits = {("SOUL.md", sha256((tmp_path / "SOUL.md").read_bytes()).hexdigest()): EditPolicy.NOW}
    assert sitting.assemble().prefix_decision.rebase.code is Reason.ORDERED


def test_a_file_that_is_closed_to_this_clearance(tmp_path):
    """A file whose trust is raised above the session's leaves the prompt at once, and no text mentions it."""
    sitting = Sitting(tmp_path, listed="{path: rules/a.md, trust: public}")
    config = (tmp_path / "foreword.yaml").read_text()
    write_files(tmp_path, {"foreword.yaml": config.replace("alice: {trust: full}", "alice: {trust: inner}")})
    sitting.workspace.refresh(now=True)
    sitting.send()
    assert "before you buy" in sitting.state.prefix.text
    closed = config.replace("trust: public", "trust: full").replace("alice: {trust: full}", "alice: {trust: inner}")
    write_files(tmp_path, {"foreword.yaml": closed})
    sitting.workspace.refresh(now=True)
    decision = sitting.assemble().prefix_decision
    assert "before you buy" not in decision.prompt.text
    assert "no longer applies" not in decision.prompt.text
    assert decision.rebase.code is Reason.PRIVATE


def test_a_shared_heading_is_no_change(sitting):
    """When the first of several rules is removed, the others are unchanged, though a heading moved to the next one."""
    (sitting.folder / "rules" / "a.md").unlink()
    sitting.workspace.refresh(now=True)
    decision = sitting.assemble().prefix_decision
    assert [one.section for one in decision.decisions] == ["rules:a.md"]


def test_the_requests_are_taken(sitting):
    """Every request has at most four breakpoints in an order that the provider accepts, one at its newest block."""
    for _ in range(5):
        sitting.send()
        assert not list(check_anthropic({**sitting.marked, "max_tokens": 100}))
        marks = json.dumps(sitting.marked).count("cache_control")
        assert marks <= 4
        assert "cache_control" in sitting.marked["messages"][-1]["content"][-1]


def test_a_system_message_is_a_message_of_its_own(tmp_path):
    """Where the model takes it, a safety-relevant change is sent as a separate system message after the newest one."""
    listed = "{path: prompts/dm.md, trust: public}"
    sitting = Sitting(tmp_path, OPUS, listed)
    config = YAML % listed + "situations: {dm: {ceiling: full, prompt_overlay: prompts/dm.md}}\n"
    write_files(tmp_path, {"foreword.yaml": config, "prompts/dm.md": "Speak softly.\n" * 30})
    sitting.workspace.refresh(now=True)
    sitting.send()
    write_files(tmp_path, {"prompts/dm.md": "Speak softly.\n" * 30 + "And slowly.\n"})
    sitting.workspace.refresh(now=True)
    assembly = sitting.assemble()
    newest = assembly.envelope().request["messages"]
    assert [message["role"] for message in newest[-2:]] == ["user", "system"]
    assert "slowly" in newest[-1]["content"][0]["text"]
    assert "slowly" not in json.dumps(newest[-2])
    assert not list(check_anthropic({**assembly.envelope().request, "max_tokens": 100}))
