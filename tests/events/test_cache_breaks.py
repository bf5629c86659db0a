"""Cache breaks in the log: tokens read and predicted, the cost of each cause, and the ledger's decisions."""

from dataclasses import replace
from datetime import timedelta

import pytest

from event_rows import ALICE, BOB, NOON, make_event, put, record_events
from foreword.errors import InputError
from foreword.events.cache_breaks import (
    MAX_BREAKS,
    find_breaks,
    find_repeated,
    parse_cache_filter,
    report_to_json,
    show_breaks,
    show_causes,
)
from foreword.events.event import EventType, TracePosition, Usage
from foreword.events.lines import (
    LedgerDecision,
    explain_cache,
    read_break,
    read_decision,
    show_break,
    show_decision,
    show_label,
)
from foreword.events.query import Filter, NotRecorded, complete_session, find_events, query_log
from foreword.events.sent_prompts import find_recorded_turn
from foreword.host import load_zone
from foreword.promptcache.cache_usage import Blame, CacheAccount, Cause, redact_blame
from foreword.promptcache.decision import PRIVATE_REASON
from foreword.promptcache.ledger_json import account_to_json
from foreword.promptcache.rules import CacheUsage
from foreword.types import Trust

UTC, _ = load_zone("")
ALL = Filter()
TRACE = "3f2a9c01" + "0" * 24


def blame(cause="section", **more):
    """Make the facts of a call with a cache break."""
    known = Blame(**{"cause": Cause(cause), "reason": "soul is not what it was", "tokens": 500, "usd": 0.01, **more})
    predicted = CacheUsage(read=500, write=500, hour=0, fresh=0)
    return {"cache": account_to_json(CacheAccount(predicted=predicted, reported=predicted, blame=known))}


WHOLE = {"cache": {"predicted": {"read": 900, "write": 100, "hour": 0, "fresh": 0}, "blame": None}}
REBASED = {
    "ledger": {
        "deed": "rebase",
        "reason": "the edit of soul applies now",
        "rebase": {
            "ground": "ordered",
            "reason": "the edit of soul applies now",
            "section": "soul",
            "byte": 12,
            "tokens": 900,
            "usd": 0.002,
        },
        "decisions": [
            {
                "section": "soul",
                "what": "changed",
                "deed": "rebase",
                "reason": "the edit of soul applies now",
                "policy": "now",
                "tokens": 0,
            },
            {"section": "user", "what": "changed", "deed": "hold", "reason": "waits", "policy": "cold", "tokens": 0},
        ],
    }
}


def call(minutes=0, facts=WHOLE, read=900, **more):
    """Make a call of a thousand tokens."""
    usage = Usage(tokens_in=1_000, tokens_out=5, cache_read=read)
    return make_event(EventType.API_CALL, minutes, usage=usage, facts=facts, **{"session": "s1", **more})


def look(folder, reader=ALICE, wanted=ALL):
    """Find the cache breaks of a log."""
    return query_log(folder, lambda log: find_breaks(log, reader, wanted))[0]


@pytest.fixture
def folder(tmp_path):
    """The folder of a log."""
    return str(tmp_path / ".foreword")


def test_sums(folder):
    """The read share and the predicted share cover the same calls, and each cause has a separate sum."""
    record_events(
        folder,
        call(0),
        call(1, blame(where="soul", byte=12), read=500),
        call(2, blame(where="soul", byte=12, usd=None), read=500),
        call(3, blame("expired", tokens=900, usd=0.05), read=0),
        call(4, {}),
        make_event(EventType.TOOL_CALL, 5, facts=blame()),
    )
    found = look(folder)
    assert (found.calls, found.tokens_in, found.read, found.predicted) == (4, 4_000, 1_900, 2_400)
    sums = [(one.cause, one.breaks, one.tokens, one.usd, one.unpriced) for one in found.losses]
    assert sums == [("expired", 1, 900, 0.05, 0), ("section", 2, 1_000, 0.01, 1)]
    assert (found.whole.breaks, found.whole.tokens, found.whole.usd) == (3, 1_900, pytest.approx(0.06))
    assert [one.time - NOON for one in found.breaks] == [timedelta(minutes=at) for at in (3, 2, 1)]
    line = "47.5 % of 4,000 input tokens were read from the cache; 60.0 % were predicted, with counts off by 0.0 %"
    assert line in next(show_breaks(found, UTC))
    assert list(show_breaks(found, UTC))[1] == "3 breaks: 1,900 tokens billed again, $0.0600 lost"


def test_more_than_was_predicted(folder):
    """Tokens read beyond the prediction are one line of the sums and one line under the call, with the reason."""
    more = {"surplus": {"tokens": 400, "reason": "another request may have written it"}}
    record_events(
        folder, call(0, {"cache": {**WHOLE["cache"], **more}}), call(1, {"cache": {**WHOLE["cache"], **more}}), call(2)
    )
    found = look(folder)
    lines = list(show_breaks(found, UTC))
    assert lines[1].startswith("2 calls read 800 tokens more than predicted: other requests with the same beginning")
    assert lines[2] == "no break: every cached prefix was read"
    assert report_to_json(found)["surplus"] == {"calls": 2, "tokens": 800}
    assert "- 2 calls read 800 tokens more than predicted" in "\n".join(show_causes(found))
    records = query_log(folder, lambda log: find_events(log, ALICE))[0].records
    why = "400 tokens more were read than predicted: another request may have written it"
    assert list(explain_cache(records)).count(f"  {why}") == 2
    assert f'surplus="{why}"' in show_label(records[-1])


def test_the_error_of_counts(folder):
    """The count error is summed per call: errors above and below do not cancel out."""
    few, many = ({"cache": {"predicted": {"read": 0, "write": size}, "blame": None}} for size in (900, 1_100))
    record_events(folder, call(0, few), call(1, many))
    found = look(folder)
    assert (found.tokens_in, found.off) == (2_000, 200)
    assert report_to_json(found)["error"] == 0.1
    assert next(show_breaks(found, UTC)).endswith("0.0 % were predicted, with counts off by 10.0 %")


@pytest.mark.parametrize("cause", list(map(str, Cause)))
def test_every_cause_is_told(folder, cause):
    """Each cause of the closed list survives a round trip through the log."""
    record_events(folder, call(0, blame(cause, confirmed=True)))
    found = look(folder)
    assert [one.cause for one in found.losses] == [cause]
    assert found.breaks[0].confirmed is True


def test_the_newest_of_many(folder):
    """If there are very many breaks, the newest are shown and all are counted."""
    record_events(folder, *(call(at, blame()) for at in range(MAX_BREAKS + 5)))
    found = look(folder)
    assert (len(found.breaks), found.whole.breaks) == (MAX_BREAKS, MAX_BREAKS + 5)
    assert found.breaks[0].time > found.breaks[-1].time


def test_what_the_ledger_did(folder):
    """A changed prompt is reported with the action for each section."""
    record_events(
        folder, make_event(EventType.PROMPT_BUILT, facts=REBASED, session="s1"), make_event(EventType.PROMPT_BUILT)
    )
    (moved,) = look(folder).moves
    assert (moved.deed, moved.ground, moved.section, moved.byte) == ("rebase", "ordered", "soul", 12)
    assert [(one["section"], one["deed"]) for one in moved.decisions] == [("soul", "rebase"), ("user", "hold")]
    assert look(folder).deeds == {"rebase": 1}
    shown = "rebase from soul at byte 12, 900 tokens again for $0.0020 (ordered): the edit of soul applies now"
    assert show_decision(moved) == shown
    placeless = replace(moved, section="", tokens=0, ground="model")
    assert show_decision(placeless) == "rebase at byte 12, free (model): the edit of soul applies now"


def test_nothing_yet(folder):
    """Without a log nothing was read or lost, and the report says so."""
    found = look(folder)
    assert (found.calls, found.tokens_in, found.losses, found.whole.usd) == (0, 0, (), None)
    assert "no call with ledger data is recorded" in next(show_breaks(found, UTC))
    assert list(show_causes(found)) == []
    assert report_to_json(found)["lost"] == {"breaks": 0, "tokens": 0, "usd": None, "causes": []}


def test_no_break(folder):
    """A report without breaks says so."""
    record_events(folder, call())
    assert list(show_breaks(look(folder), UTC))[1] == "no break: every cached prefix was read"


@pytest.mark.parametrize(
    "metadata",
    [
        "no JSON",
        "[]",
        "3",
        '{"cache": 3, "ledger": "x"}',
        '{"cache": "{", "ledger": []}',
        '{"cache": {"blame": 3, "predicted": []}, "ledger": {}}',
        '{"cache": {"blame": {"cause": 3, "tokens": "x", "usd": []}}, "ledger": {"rebase": 1, "decisions": [1]}}',
    ],
)
def test_rows_of_another_kind(log, metadata):
    """Rows with unexpected metadata do not break the report."""
    put(log, metadata=metadata, tokens_in=10)
    put(log, metadata=metadata, event_type="prompt_built")
    found = find_breaks(log, ALICE, ALL)
    assert found.calls <= 1
    assert not any(one.tokens or one.usd for one in found.breaks)
    for record in find_events(log, ALICE).records:
        assert show_label(record)
    assert list(explain_cache(find_events(log, ALICE).records)) is not None


def test_a_loss_without_a_price(folder):
    """A loss without a known price is reported as such, without an amount."""
    record_events(folder, call(0, blame(usd=None)))
    found = look(folder)
    assert "tokens billed again, at an unknown price" in list(show_breaks(found, UTC))[1]
    assert any(line.endswith("at an unknown price") for line in show_causes(found))


def test_filters(folder):
    """Breaks can be filtered by time, user and session, including a prefix of the session id."""
    record_events(
        folder,
        call(0, blame(), session="aa11ffff"),
        call(60, blame(), session="aa22ffff", user="bob"),
        call(61, blame(), session="aa22"),
    )
    late = NOON + timedelta(hours=2)

    def count(session="", **asked):
        named = query_log(folder, lambda log: complete_session(log, ALICE, session))[0] if session else ""
        return look(folder, ALICE, parse_cache_filter({**asked, "session": named}, ALICE, late)).calls

    assert (count(), count(since="90m"), count(user="bob"), count(session="aa11")) == (3, 2, 1, 1)
    assert (count(session="aa22"), count(session="aa22f")) == (1, 1)
    with pytest.raises(NotRecorded, match="no session 'bb' is recorded"):
        count(session="bb")
    with pytest.raises(InputError, match="several sessions match"):
        count(session="aa")
    with pytest.raises(InputError, match="is not a time"):
        count(since="sometime")


def test_a_reader_below_sees_nothing(folder):
    """A reader below the clearance of a turn sees neither its breaks nor its ledger decisions."""
    record_events(
        folder,
        call(0, blame(where="files:vault.md", byte=5), user="bob", trust=Trust.FULL),
        make_event(
            EventType.PROMPT_BUILT, facts=REBASED, user="bob", trust=Trust.INNER, position=TracePosition(trace=TRACE)
        ),
        call(1, blame(where="alices"), session="hers"),
    )
    assert look(folder, BOB) == look(folder + "-none", BOB)
    for named in ("he", "his"):
        with pytest.raises(NotRecorded, match=f"^no session '{named}' is recorded$"):
            query_log(folder, lambda log, named=named: complete_session(log, BOB, named))
    assert look(folder, BOB, parse_cache_filter({"session": "hers", "since": "1d"}, BOB, NOON)).calls == 0
    assert query_log(folder, lambda log: find_recorded_turn(log, BOB, TRACE))[0] is None
    assert (
        query_log(folder, lambda log: find_repeated(log, BOB, NOON - timedelta(days=1), list(map(str, Cause))))[0] == []
    )


def test_lines_of_a_turn(log):
    """The line of an event shows the cache break and the ledger decision."""
    put(log, event_type="prompt_built", metadata=REBASED)
    put(log, metadata=blame(where="soul", byte=1_234), tokens_in=1_000, cache_read=400)
    broken, built = (find_events(log, ALICE, Filter(type=kind)).records[0] for kind in ("api_call", "prompt_built"))
    assert 'cache="40.0 % read, 50.0 % predicted"' in show_label(broken)
    assert 'break="section soul at byte 1,234, 500 tokens again for $0.0100: soul is not' in show_label(broken)
    assert 'ledger="rebase from soul at byte 12, 900 tokens again' in show_label(built)


def test_a_cost_that_nobody_knows():
    """The cost of a damaged ledger is shown as unknown, not as free."""
    rebase = {"ground": "damaged", "reason": "could not be read", "section": None, "byte": 0, "tokens": 0, "usd": None}
    event = make_event(EventType.PROMPT_BUILT, 0)
    moved = LedgerDecision(
        time=event.time, session="s1", user="alice", turn=TRACE, deed="rebase", decisions=(), **rebase
    )
    assert show_decision(moved) == "rebase, at an unknown cost (damaged): could not be read"


def test_why(log):
    """A turn is explained by the ledger decision first, then call by call."""
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
    """An unchanged prompt is explained as unchanged; a turn without a ledger has no explanation."""
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
    """The provider's diagnosis is shown next to ours."""
    put(log, metadata=blame(confirmed=confirmed))
    assert show_break(read_break(find_events(log, ALICE).records[0])).endswith(said)


def test_again_and_again(folder):
    """A session that breaks three times for the same cause at the same place is found, others are not."""
    record_events(
        folder,
        *(call(at, blame(where="soul"), position=TracePosition(trace=f"{at:032x}")) for at in range(3)),
        *(call(at, blame(where="soul"), session="s2") for at in range(2)),
        *(call(at, blame(where=f"part{at}"), session="s3") for at in range(3)),
        *(call(at, blame("history", where=f"{at}"), session="s4") for at in range(4)),
        *(call(at, blame("expired"), session="s5") for at in range(3)),
        *(call(at - 60, blame("tools", where="x"), session="s6") for at in range(3)),
    )
    since = NOON - timedelta(minutes=30)
    found, _ = query_log(folder, lambda log: find_repeated(log, ALICE, since, ("section", "history", "tools")))
    assert [(one.newest.session, one.loss.cause, one.newest.where, one.loss.breaks) for one in found] == [
        ("s4", "history", None, 4),
        ("s1", "section", "soul", 3),
    ]
    assert (found[1].loss.tokens, found[1].loss.usd, found[1].newest.turn) == (1_500, pytest.approx(0.03), f"{2:032x}")


@pytest.mark.parametrize("cause", list(Cause))
def test_concealed(cause):
    """If removed text is private, a break names neither the section nor the byte."""
    counted = CacheUsage(read=0, write=0, hour=0, fresh=9)
    known = Blame(cause=cause, reason="vault is not what it was", where="vault", byte=7, tokens=9)
    made = redact_blame(CacheAccount(predicted=counted, reported=counted, blame=known)).blame
    if cause in (Cause.SECTION, Cause.HISTORY):
        assert (made.reason, made.where, made.byte, made.tokens) == (PRIVATE_REASON, "", None, 9)
    else:
        assert made == known


def test_read_moved_of_a_hidden_rebase(log):
    """A private rebase is shown without a section or byte."""
    hidden = {
        "deed": "rebase",
        "reason": PRIVATE_REASON,
        "decisions": [],
        "rebase": {
            "ground": "private",
            "reason": PRIVATE_REASON,
            "section": None,
            "byte": None,
            "tokens": 5,
            "usd": None,
        },
    }
    put(log, event_type="prompt_built", metadata={"ledger": hidden})
    moved = read_decision(find_events(log, ALICE).records[0])
    assert show_decision(moved) == f"rebase, 5 tokens again (private): {PRIVATE_REASON}"
