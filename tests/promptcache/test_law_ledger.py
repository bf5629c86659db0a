"""The ledger's laws, over generated sessions: the prefix stays, the model has the facts, breakpoints are in order."""

from dataclasses import replace

from bookkeeping import GOVERNING, MODELS, OPUS, SECTIONS, SONNET, House, lines, list_held
from hypothesis import given
from hypothesis import strategies as st

from foreword.promptcache.ledger import Action, Reason, UpdateChannel, apply_updates
from foreword.promptcache.ledger_json import dump_ledger, dump_prefix, hash_prefix, parse_ledger, parse_stored_prefix
from foreword.promptcache.rules import PrefixCache
from foreword.types import EditPolicy, Pace

FREE = [Reason.COLD, Reason.MODEL]
NAMES = [*SECTIONS, "channel", "note", "rules:a.md"]
EXTRA = {"channel": Pace.SESSION, "note": Pace.SESSION, "rules:a.md": Pace.STATIC}

edits = st.tuples(st.just("edit"), st.sampled_from(NAMES), st.integers(0, 3), st.sampled_from([None, *EditPolicy]))
gone = st.tuples(st.just("remove"), st.sampled_from(NAMES), st.sampled_from([None, *EditPolicy]))
hidden = st.tuples(st.just("withhold"), st.sampled_from(["user", "menu", "note"]))
gaps = st.tuples(st.just("wait"), st.sampled_from([1, 20, 90, 299, 301, 900, 1_801, 3_700, 90_000]))
loops = st.tuples(st.just("loop"), st.lists(st.sampled_from([1, 1, 2, 9, 10, 30]), max_size=3))
memories = st.tuples(st.just("remember"), st.integers(1, 3))
channels = st.tuples(st.just("channel"), st.sampled_from(["", "telegram", "web"]))
moments = st.sampled_from([("plan",), ("plan",), ("recall",)])
others = st.sampled_from([("fold",), ("tool",), ("model",), ("lost",)])
turns = st.lists(
    st.one_of(edits, edits, gone, hidden, memories, channels, moments, gaps, gaps, loops, loops, others), max_size=3
)
sessions = st.tuples(st.sampled_from(MODELS), st.lists(turns, min_size=2, max_size=9))
calm = st.lists(st.lists(st.one_of(moments, gaps, loops), max_size=3), min_size=2, max_size=9)
company = st.lists(st.tuples(st.integers(0, 3), turns), min_size=4, max_size=12)


class Watched(House):
    """A session that checks the laws with every request."""

    loops: list | None = None
    moved = False
    alone = True
    """Whether nobody else asks this provider, so that nothing is there but what this session left."""

    def do(self, what, *args):
        """Apply one event before a turn."""
        if what in ("remember", "channel", "plan", "recall"):
            getattr(self, what)(*args)
        elif what == "edit":
            name, kind, policy = args
            pace, text = self.sections.get(name, (EXTRA.get(name), "")) if name in self.sections else find_new(name)
            self.sections[name] = (pace, change(text, kind, self.turn))
            self.order()
            self.decide(name, policy)
        elif what == "remove" and len(self.sections) > 1:
            self.sections.pop(args[0], None)
            self.decide(args[0], args[1])
        elif what == "withhold" and len(self.sections) > 1:
            self.sections.pop(args[0], None)
            self.withheld |= {args[0]}
        elif what == "wait":
            self.wait(args[0])
        elif what == "loop":
            self.loops = args[0]
        elif what == "fold" and len(self.said) > 8:
            self.said, self.compacted = self.said[-6:], True
        elif what == "tool":
            self.tools[f"tool_{len(self.tools)}"] = lines("another tool", 5)
        elif what == "model":
            self.become(SONNET if self.model != SONNET else "anthropic:claude-opus-5")

    def remember(self, count):
        """Write to the memory, which changes its menu."""
        pace, text = self.sections.get("menu", (Pace.SESSION, "Nothing is remembered."))
        more = lines(f"what the menu says of {self.turn}", count)
        self.sections["menu"] = (pace, f"{text}\n{more}")
        self.order()

    def channel(self, name):
        """Speak over another channel, whose note appears, changes or disappears."""
        self.sections.pop("channel", None)
        if name:
            self.sections["channel"] = (Pace.SESSION, lines(f"writing for {name}", 6))
        self.order()

    def plan(self):
        """Enter or leave plan mode."""
        if not self.moment.pop("plan", ""):
            self.moment["plan"] = "Plan mode is on: change nothing, and end with a plan."

    def recall(self):
        """Recall something for one turn only."""
        self.moment["recall"] = lines(f"recalled {self.turn}", 4)

    def order(self):
        """Sort the sections in the order of a blueprint."""
        self.sections = {name: self.sections[name] for name in sorted(self.sections, key=NAMES.index)}
        for name in self.withheld & set(self.sections):
            self.withheld -= {name}

    def decide(self, name, policy):
        """Decide about an edit, or leave it to the file."""
        self.edits = {**self.edits, name: policy} if policy else self.edits
        self.policies = self.edits

    def live(self, things):
        """Run a turn and check the laws."""
        self.loops = []
        for thing in things:
            self.do(*thing)
        before, said = self.state, list(self.said)
        decision = self.begin()
        self.moment.pop("recall", None)
        self.hold_the_truth(decision)
        self.hold_the_history(said, decision)
        if ("lost",) in things:
            self.said = said  # the provider refused: nothing was sent, and nothing has changed
            assert self.state is before
            self.turn -= 1
            return
        for at, calls in enumerate([*self.loops, None]):
            old = self.state
            counted = self.send()
            self.hold_the_prefix(old, decision, first=at == 0)
            self.hold_the_marks()
            # A provider may still have the prefix of an earlier base or another model; no other extra read is allowed.
            assert self.predicted.total == counted.total
            assert self.predicted.read <= counted.read
            assert self.predicted == counted or decision.rebase or old is None or self.moved or not self.alone
            self.moved = self.moved or bool(decision.rebase)
            if calls is not None:
                self.answer(calls)
                self.wait(5)
        self.answer()
        self.hold_the_state()

    def hold_the_truth(self, decision):
        """Check that frozen sections with updates are the wanted ones, less those held."""
        known = {name: line.text for name, line in apply_updates(decision.prefix, decision.updates).items()}
        wanted = {line.id: line.text for line in self.want().prefix.lines}
        held = set(list_held(decision))
        assert {name: text for name, text in known.items() if name not in held} == {
            name: text for name, text in wanted.items() if name not in held
        }
        if self.state:
            shown = apply_updates(self.state.prefix, self.state.updates)
            for name in held:
                assert known.get(name) == (shown[name].text if name in shown else None)
        for name in held:
            assert self.edits.get(name) in (EditPolicy.COLD, EditPolicy.NEXT_SESSION)
        for update in decision.updates:
            assert any(update.said in block.text for block in self.said), "what counts is in the conversation"
        for update in decision.new:
            assert update.channel is UpdateChannel.SYSTEM or update.id not in GOVERNING
        for name in self.withheld:
            assert f"{name} says" not in decision.prompt.text

    def hold_the_history(self, said, decision):
        """Check that sent text stays as sent, unless a reader may not see it any more."""
        if not decision.scrub:
            assert [block.key for block in self.said[: len(said)]] == [block.key for block in said]
        assert (not decision.scrub) or decision.rebase.code is Reason.PRIVATE
        for name in self.withheld:
            assert not any(f"{name} says" in block.text for block in self.said if "user" in block.name)

    def hold_the_prefix(self, old, decision, *, first):
        """Check that each request extends the last one, unless a rebase with a reason was recorded."""
        if old is None:
            return
        last, now = old.last.pieces, self.state.last.pieces
        extends = [piece.key for piece in now[: len(last)]] == [piece.key for piece in last]
        if not (extends and old.last.model == self.state.last.model):
            assert first, "the calls of one turn only append"
            assert decision.rebase, decision.reason
            assert decision.rebase.reason
        if decision.rebase and decision.rebase.code in FREE:
            assert decision.rebase.tokens == 0
        if not decision.rebase and self.account.blame:
            assert str(self.account.blame.cause) in ("expired", "minimum"), self.account

    def hold_the_marks(self):
        """Check the breakpoints: four at most, long before short, none below the minimum."""
        lives = [self.marks[at] for at in sorted(self.marks)]
        assert len(lives) + self.facts.newest <= 4
        assert lives == sorted(lives, key=["1h", "30m", "5m"].index)
        ends = self.state.last.ends
        assert all(ends[at] >= self.facts.minimum for at in self.marks)

    def hold_the_state(self):
        """Check that the state survives a restart."""
        prefix = self.state.prefix
        assert parse_stored_prefix(dump_prefix(prefix), hash_prefix(prefix)) == prefix
        again = parse_ledger(dump_ledger(self.state), prefix)
        assert again == self.state
        assert dump_ledger(again) == dump_ledger(self.state)
        self.state = again


def find_new(name):
    """Return a section that does not exist yet."""
    return (SECTIONS[name][0] if name in SECTIONS else EXTRA[name], "")


def change(text, kind, turn):
    """Change a text in one of four ways."""
    if not text or kind == 0:
        return lines(f"new {turn}", 12)
    if kind == 1:
        return text.replace("line 3", f"line 3 (of turn {turn})", 1)
    if kind == 2:
        return f"{text}\n{lines(f'more {turn}', 3)}"
    return text.replace("always", "never")


@given(sessions)
def test_the_ledger_keeps_its_laws(session):
    """Over generated sessions the prefix extends or a reason is recorded, and the model has the current facts."""
    model, turns = session
    house = Watched(model=model)
    for things in turns:
        house.live(things)


@given(st.sampled_from(MODELS), calm)
def test_the_clock_moves_nothing(model, turns):
    """Time, plan mode, recalled parts, tool calls and pauses never change the prefix."""
    house = Watched(model=model)
    for things in turns:
        house.live(things)
        assert (house.decision.action, house.decision.rebase) == (Action.REUSE, None)
        assert house.decision.prefix.text == "".join(line.text for line in house.want().prefix.lines)


def gather():
    """Four sessions at one provider: two of one agent, one of another agent, and one of an agent with another model."""
    other = {"core": SECTIONS["core"], "soul": SECTIONS["agents"], "menu": SECTIONS["menu"]}
    return [Watched(), Watched(), Watched(sections=other), Watched(model=OPUS)]


@given(company)
def test_several_agents_at_one_provider(turns):
    """Sessions that take turns at one provider obey every law, and each gets the same text as it would alone."""
    houses, twins = gather(), gather()
    provider = PrefixCache(lambda: max(house.now for house in houses), houses[0].meter.count)
    for house in houses:
        house.provider, house.alone = provider, False
    for number, things in turns:
        house, twin = houses[number], twins[number]
        house.now = twin.now = max(one.now for one in houses)
        house.live(things)
        twin.live(things)
        assert house.decision.prompt.text == twin.decision.prompt.text
        assert house.state == twin.state
        house.wait(40)


@given(sessions)
def test_what_is_compared_twice_is_the_same(session):
    """A comparison depends only on its arguments."""
    model, turns = session
    house = Watched(model=model)
    for things in turns:
        house.live([thing for thing in things if thing != ("lost",)])
        again = House(model=model)
        again.__dict__.update({**house.__dict__, "said": list(house.said)})
        first, second = again.begin(), replace_said(again, house).begin()
        assert (first.prompt.text, first.decisions, first.rebase) == (
            second.prompt.text,
            second.decisions,
            second.rebase,
        )
        assert first.action in Action


def replace_said(again, house):
    """Put the conversation back."""
    again.said = list(house.said)
    return again


def test_values_are_frozen():
    """A state is a value: a change makes a new one, and the old one stays."""
    house = House()
    house.talk()
    before = house.state
    copy = replace(before)
    house.talk()
    assert before == copy
    assert house.state != before
