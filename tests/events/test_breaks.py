"""Claims about breaks in the log: what was read and predicted, what each cause cost, and what the ledger did."""

from dataclasses import replace
from datetime import timedelta

import pytest

from event_rows import ALICE, BOB, NOON, make_event, put, tell
from foreword.caching.cache import Counted
from foreword.errors import InputError
from foreword.events.asking import ask
from foreword.events.blamed import Moved, read_break, read_moved
from foreword.events.breaks import NEWEST, find_breaks, read_asked, show_breaks, show_causes, tell_breaks
from foreword.events.event import EventType, Place, Usage
from foreword.events.filter import Filter
from foreword.events.known import Unrecorded, complete_session
from foreword.events.line import show_label
from foreword.events.question import find_events
from foreword.events.recalled import recall
from foreword.events.repeated import find_repeated
from foreword.events.why import explain_cache, show_break, show_moved
from foreword.ledger.blame import Account, Blame, Cause, conceal
from foreword.ledger.choice import HIDDEN
from foreword.ledger.telling import tell_account
from foreword.sources.clock import find_zone
from foreword.words import Trust

UTC, _ = find_zone("")
ALL = Filter()
TRACE = "3f2a9c01" + "0" * 24


def blame(cause="section", **more):
    """Make the facts of a call that broke."""
    known = Blame(**{"cause": Cause(cause), "reason": "soul is not what it was", "tokens": 500, "usd": 0.01, **more})
    predicted = Counted(read=500, write=500, hour=0, fresh=0)
    return {"cache": tell_account(Account(predicted=predicted, reported=predicted, blame=known))}


WHOLE = {"cache": {"predicted": {"read": 900, "write": 100, "hour": 0, "fresh": 0}, "blame": None}}
REBASED = {
    "ledger": {
        "deed": "rebase",
        "reason": "an edit of soul is to apply now",
        "rebase": {"ground": "ordered", "reason": "an edit of soul is to apply now", "section": "soul", "byte": 12,
                   "tokens": 900, "usd": 0.002},
        "decisions": [
            {"section": "soul", "what": "changed", "deed": "rebase", "reason": "an edit of soul is to apply now",
             "policy": "now", "tokens": 0},
            {"section": "user", "what": "changed", "deed": "hold", "reason": "waits", "policy": "cold", "tokens": 0},
        ],
    }
}  # fmt: skip


def call(minutes=0, facts=WHOLE, read=900, **more):
    """Make a call of a thousand tokens."""
    usage = Usage(tokens_in=1_000, tokens_out=5, cache_read=read)
    return make_event(EventType.API_CALL, minutes, usage=usage, facts=facts, **{"session": "s1", **more})


def look(folder, reader=ALICE, wanted=ALL):
    """Find the breaks of a log."""
    return ask(folder, lambda log: find_breaks(log, reader, wanted))[0]


@pytest.fixture
def folder(tmp_path):
    """The folder of a log."""
    return str(tmp_path / ".foreword")


def test_sums(folder):
    """What was read and what was predicted are shares of the same calls, and each cause has its own sum."""
    tell(
        folder,
        call(0),
        call(1, blame(where="soul", byte=12), read=500),
        call(2, blame(where="soul", byte=12, usd=None), read=500),
        call(3, blame("expired", tokens=900, usd=0.05), read=0),
        call(4, {}),
        make_event(EventType.TOOL_CALL, 5, facts=blame()),
    )
    found = look(folder)
    assert (found.calls, found.reported.part, found.predicted.part) == (4, 1_900 / 4_000, 2_400 / 4_000)
    sums = [(one.cause, one.breaks, one.tokens, one.usd, one.unpriced) for one in found.losses]
    assert sums == [("expired", 1, 900, 0.05, 0), ("section", 2, 1_000, 0.01, 1)]
    assert (found.broken, found.tokens, found.usd) == (3, 1_900, pytest.approx(0.06))
    assert [one.time - NOON for one in found.breaks] == [timedelta(minutes=at) for at in (3, 2, 1)]
    line = "47.5 % of 4,000 input tokens were read from the cache; 60.0 % were predicted, with counts off by 0.0 %"
    assert line in next(show_breaks(found, UTC))
    assert list(show_breaks(found, UTC))[1] == "3 breaks: 1,900 tokens billed again, $0.0600 lost"


def test_more_than_was_predicted(folder):
    """What was read beyond a prediction is one line of the sums, and one under its call, with what is known of why."""
    more = {"surplus": {"tokens": 400, "reason": "another request may have written it"}}
    tell(
        folder, call(0, {"cache": {**WHOLE["cache"], **more}}), call(1, {"cache": {**WHOLE["cache"], **more}}), call(2)
    )
    found = look(folder)
    lines = list(show_breaks(found, UTC))
    assert lines[1].startswith("2 calls read 800 tokens more than predicted: other requests with the same beginning")
    assert lines[2] == "no break: what a provider had was read"
    assert tell_breaks(found)["surplus"] == {"calls": 2, "tokens": 800}
    assert "- 2 calls read 800 tokens more than predicted" in "\n".join(show_causes(found))
    records = ask(folder, lambda log: find_events(log, ALICE))[0].records
    why = "400 tokens more were read than predicted: another request may have written it"
    assert list(explain_cache(records)).count(f"  {why}") == 2
    assert f'surplus="{why}"' in show_label(records[-1])


def test_the_error_of_counts(folder):
    """Counts that were too high and too low do not make up for each other: the error is of each call."""
    few, many = ({"cache": {"predicted": {"read": 0, "write": size}, "blame": None}} for size in (900, 1_100))
    tell(folder, call(0, few), call(1, many))
    found = look(folder)
    assert (found.predicted.tokens, found.off, found.error) == (2_000, 200, 0.1)
    assert tell_breaks(found)["error"] == 0.1
    assert next(show_breaks(found, UTC)).endswith("0.0 % were predicted, with counts off by 10.0 %")


@pytest.mark.parametrize("cause", list(map(str, Cause)))
def test_every_cause_is_told(folder, cause):
    """Each cause of the closed list comes through the log as it was told."""
    tell(folder, call(0, blame(cause, confirmed=True)))
    found = look(folder)
    assert [one.cause for one in found.losses] == [cause]
    assert found.breaks[0].confirmed is True


def test_the_newest_of_many(folder):
    """Of very many breaks the newest are shown, and all are counted."""
    tell(folder, *(call(at, blame()) for at in range(NEWEST + 5)))
    found = look(folder)
    assert (len(found.breaks), found.broken) == (NEWEST, NEWEST + 5)
    assert found.breaks[0].time > found.breaks[-1].time


def test_what_the_ledger_did(folder):
    """A prompt that is not what the session knows is told with what was done about each section."""
    tell(folder, make_event(EventType.PROMPT_BUILT, facts=REBASED, session="s1"), make_event(EventType.PROMPT_BUILT))
    (moved,) = look(folder).moves
    assert (moved.deed, moved.ground, moved.section, moved.byte) == ("rebase", "ordered", "soul", 12)
    assert [(one.section, one.deed) for one in moved.decisions] == [("soul", "rebase"), ("user", "hold")]
    assert look(folder).deeds == {"rebase": 1}
    shown = "rebase from soul at byte 12, 900 tokens again for $0.0020 (ordered): an edit of soul is to apply now"
    assert show_moved(moved) == shown
    placeless = replace(moved, section="", tokens=0, ground="model")
    assert show_moved(placeless) == "rebase at byte 12, free (model): an edit of soul is to apply now"


def test_nothing_yet(folder):
    """Without a log nothing was read, nothing was lost, and the answer says so."""
    found = look(folder)
    assert (found.calls, found.reported.part, found.losses, found.usd) == (0, None, (), None)
    assert "no call is recorded" in next(show_breaks(found, UTC))
    assert list(show_causes(found)) == []
    assert tell_breaks(found)["lost"] == {"breaks": 0, "tokens": 0, "usd": None, "causes": []}


def test_no_break(folder):
    """Where nothing was lost, that is said, too."""
    tell(folder, call())
    assert list(show_breaks(look(folder), UTC))[1] == "no break: what a provider had was read"


@pytest.mark.parametrize(
    "metadata",
    ["no JSON", "[]", "3", '{"cache": 3, "ledger": "x"}', '{"cache": "{", "ledger": []}',
     '{"cache": {"blame": 3, "predicted": []}, "ledger": {}}',
     '{"cache": {"blame": {"cause": 3, "tokens": "x", "usd": []}}, "ledger": {"rebase": 1, "decisions": [1]}}'],
)  # fmt: skip
def test_rows_of_another_kind(log, metadata):
    """Whatever somebody has put into a row, the question is answered."""
    put(log, metadata=metadata, tokens_in=10)
    put(log, metadata=metadata, event_type="prompt_built")
    found = find_breaks(log, ALICE, ALL)
    assert found.calls <= 1
    assert not any(one.tokens or one.usd for one in found.breaks)
    for record in find_events(log, ALICE).records:
        assert show_label(record)
    assert list(explain_cache(find_events(log, ALICE).records)) is not None


def test_a_loss_without_a_price(folder):
    """Where nobody knows a price, that is said, and no amount."""
    tell(folder, call(0, blame(usd=None)))
    found = look(folder)
    assert "tokens billed again, at a price that nobody knows" in list(show_breaks(found, UTC))[1]
    assert any(line.endswith("at a price that nobody knows") for line in show_causes(found))


def test_filters(folder):
    """One can ask about a time, a person and a session, also by the beginning of its id as tables show it."""
    tell(
        folder,
        call(0, blame(), session="aa11ffff"),
        call(60, blame(), session="aa22ffff", user="bob"),
        call(61, blame(), session="aa22"),
    )
    late = NOON + timedelta(hours=2)

    def count(session="", **asked):
        named = ask(folder, lambda log: complete_session(log, ALICE, session))[0] if session else ""
        return look(folder, ALICE, read_asked({**asked, "session": named}, ALICE, late)).calls

    assert (count(), count(since="90m"), count(user="bob"), count(session="aa11")) == (3, 2, 1, 1)
    assert (count(session="aa22"), count(session="aa22f")) == (1, 1)
    with pytest.raises(Unrecorded, match="no session 'bb' is recorded"):
        count(session="bb")
    with pytest.raises(InputError, match="several sessions begin so"):
        count(session="aa")
    with pytest.raises(InputError, match="is no time"):
        count(since="sometime")


def test_a_reader_below_sees_nothing(folder):
    """Who is below the clearance of a turn learns neither of its breaks nor of what the ledger did."""
    tell(
        folder,
        call(0, blame(where="files:vault.md", byte=5), user="bob", trust=Trust.FULL),
        make_event(EventType.PROMPT_BUILT, facts=REBASED, user="bob", trust=Trust.INNER, place=Place(trace=TRACE)),
        call(1, blame(where="alices"), session="hers"),
    )
    assert look(folder, BOB) == look(folder + "-none", BOB)
    for named in ("he", "his"):
        with pytest.raises(Unrecorded, match=f"^no session '{named}' is recorded$"):
            ask(folder, lambda log, named=named: complete_session(log, BOB, named))
    assert look(folder, BOB, read_asked({"session": "hers", "since": "1d"}, BOB, NOON)).calls == 0
    assert ask(folder, lambda log: recall(log, BOB, TRACE))[0] is None
    assert ask(folder, lambda log: find_repeated(log, BOB, NOON - timedelta(days=1), list(map(str, Cause))))[0] == []


def test_lines_of_a_turn(log):
    """On the line of an event stands what broke and what the ledger did, in words."""
    put(log, event_type="prompt_built", metadata=REBASED)
    put(log, metadata=blame(where="soul", byte=1_234), tokens_in=1_000, cache_read=400)
    broken, built = (find_events(log, ALICE, Filter(type=kind)).records[0] for kind in ("api_call", "prompt_built"))
    assert 'cache="40.0 % read, 50.0 % predicted"' in show_label(broken)
    assert 'break="section soul at byte 1,234, 500 tokens again for $0.0100: soul is not' in show_label(broken)
    assert 'ledger="rebase from soul at byte 12, 900 tokens again' in show_label(built)


def test_a_cost_that_nobody_knows():
    """Where a ledger was damaged, nobody knows what was billed again, and it is not called free."""
    rebase = {"ground": "damaged", "reason": "could not be read", "section": None, "byte": 0, "tokens": 0, "usd": None}
    event = make_event(EventType.PROMPT_BUILT, 0)
    moved = Moved(time=event.time, session="s1", user="alice", turn=TRACE, deed="rebase", decisions=(), **rebase)
    assert show_moved(moved) == "rebase, nobody knows at what cost (damaged): could not be read"


def test_why(log):
    """A turn is explained by what the ledger did first, then call by call."""
    put(log, event_type="prompt_built", metadata=REBASED)
    put(log, NOON + timedelta(seconds=1), metadata=blame(where="soul", byte=12), tokens_in=1_000, cache_read=400)
    put(log, NOON + timedelta(seconds=2), metadata=WHOLE, tokens_in=1_000, cache_read=900)
    lines = list(explain_cache(find_events(log, ALICE).records[::-1]))
    assert lines[0].startswith("ledger: rebase from soul at byte 12")
    assert lines[1:3] == ["  soul changed, rebase", "  user changed, hold: waits"]
    assert lines[3].startswith("call 1: 400 of 1,000 input tokens read from the cache: 40.0 % read, 50.0 % predicted")
    assert lines[4].startswith("  break by section soul at byte 12, 500 tokens again")
    assert lines[5:] == [
        "call 2: 900 of 1,000 input tokens read from the cache: 90.0 % read, 90.0 % predicted, counts off by 0.0 %"
    ]


def test_why_nothing_was_decided(log):
    """Where the ledger had nothing to decide, that is said; of a turn without a ledger nothing is."""
    put(log, event_type="prompt_built")
    assert list(explain_cache(find_events(log, ALICE).records)) == []
    put(log, metadata=WHOLE)
    assert "no section differs" in next(explain_cache(find_events(log, ALICE).records))
    put(log, event_type="session_created")
    assert "the session begins" in next(explain_cache(find_events(log, ALICE).records))


@pytest.mark.parametrize(
    ("confirmed", "said"), [(True, "says the same"), (False, "names another cause"), (None, "was")]
)
def test_what_the_provider_says(log, confirmed, said):
    """A provider's own diagnosis stands beside ours."""
    put(log, metadata=blame(confirmed=confirmed))
    assert show_break(read_break(find_events(log, ALICE).records[0])).endswith(said)


def test_again_and_again(folder):
    """A session whose cache breaks three times for the same cause in the same place is found, others are not."""
    tell(
        folder,
        *(call(at, blame(where="soul"), place=Place(trace=f"{at:032x}")) for at in range(3)),
        *(call(at, blame(where="soul"), session="s2") for at in range(2)),
        *(call(at, blame(where=f"part{at}"), session="s3") for at in range(3)),
        *(call(at, blame("history", where=f"{at}"), session="s4") for at in range(4)),
        *(call(at, blame("expired"), session="s5") for at in range(3)),
        *(call(at - 60, blame("tools", where="x"), session="s6") for at in range(3)),
    )
    since = NOON - timedelta(minutes=30)
    found, _ = ask(folder, lambda log: find_repeated(log, ALICE, since, ("section", "history", "tools")))
    assert [(one.session, one.cause, one.where, one.breaks) for one in found] == [
        ("s4", "history", "", 4),
        ("s1", "section", "soul", 3),
    ]
    assert (found[1].tokens, found[1].usd, found[1].turn) == (1_500, pytest.approx(0.03), f"{2:032x}")


@pytest.mark.parametrize("cause", list(Cause))
def test_concealed(cause):
    """Where text has left that may not be seen any more, a break does not say which section or byte it was."""
    counted = Counted(read=0, write=0, hour=0, fresh=9)
    known = Blame(cause=cause, reason="vault is not what it was", where="vault", byte=7, tokens=9)
    made = conceal(Account(predicted=counted, reported=counted, blame=known)).blame
    if cause in (Cause.SECTION, Cause.HISTORY):
        assert (made.reason, made.where, made.byte, made.tokens) == (HIDDEN, "", None, 9)
    else:
        assert made == known


def test_read_moved_of_a_hidden_rebase(log):
    """A rebase that names nothing is shown without a place."""
    hidden = {"deed": "rebase", "reason": HIDDEN, "decisions": [], "rebase": {
        "ground": "private", "reason": HIDDEN, "section": None, "byte": None, "tokens": 5, "usd": None}}  # fmt: skip
    put(log, event_type="prompt_built", metadata={"ledger": hidden})
    moved = read_moved(find_events(log, ALICE).records[0])
    assert show_moved(moved) == f"rebase, 5 tokens again (private): {HIDDEN}"
