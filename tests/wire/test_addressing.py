"""Claims about finished requests: breakpoints are data, and the bill is as the ledger predicts."""

import json
from datetime import timedelta

import pytest
from letters import FILES, LAMPS

from foreword.envelope import RequestTarget, mark_request
from foreword.promptcache.cache_usage import AnsweredRequest, account_for_call
from foreword.promptcache.decision import CacheContext, SessionLedger
from foreword.promptcache.ledger import advance_ledger
from foreword.promptcache.ledger_json import account_to_json, decision_to_json
from foreword.promptcache.rules import PrefixCache, list_blocks
from foreword.testing import NOON, make_workspace, write_files
from foreword.testing.request_rules import check_anthropic, check_chat, check_gemini, check_responses
from foreword.turn import Toolset, Turn

SHAPES = [
    ("anthropic", "anthropic:claude-sonnet-5", check_anthropic),
    ("openai", "openai:gpt-5.6", check_chat),
    ("responses", "openai-responses:gpt-5.4", check_responses),
    ("responses", "openai-responses:gpt-5.6", check_responses),
    ("gemini", "google:gemini-2.5-pro", check_gemini),
]


FIELDS = {"anthropic": "messages", "openai": "messages", "responses": "input", "gemini": "contents"}
YES = {
    "anthropic": {"role": "assistant", "content": "Yes."},
    "openai": {"role": "assistant", "content": "Yes."},
    "responses": {"role": "assistant", "content": "Yes."},
    "gemini": {"role": "model", "parts": [{"text": "Yes."}]},
}


def go_on(request, shape, said):
    """Put the history, part by part as sent, before the newest message."""
    field = FIELDS[shape]
    opening = [item for item in request[field][:1] if item["role"] == "system"]
    newest = request[field][-1]
    return {**request, field: [*opening, *said, newest]}, [*said, newest, YES[shape]]


@pytest.mark.parametrize(("shape", "model", "judge"), SHAPES)
def test_what_is_predicted_is_what_a_provider_counts(tmp_path, shape, model, judge):
    """Over a session with an edit, every request is accepted, and the provider's counts equal the prediction."""
    workspace = make_workspace(tmp_path, FILES | {"AGENTS.md": FILES["AGENTS.md"] * 3})
    state, said, clock, provider = None, [], [NOON], None
    for number in range(6):
        if number == 3:
            write_files(tmp_path, {"AGENTS.md": (FILES["AGENTS.md"] * 3).replace("7. Ask", "7. Always ask", 1)})
            workspace.refresh(now=True)
        now = clock[0] = NOON + timedelta(seconds=50 * number)
        turn = Turn(user="alice", situation="dm", model=model, tools=Toolset([LAMPS]), now=now, message=f"{number}?")
        facts = workspace.assemble(turn).meter.facts.cache
        assembly = workspace.assemble(turn, SessionLedger(state=state, moment=CacheContext(now=now, facts=facts)))
        count, prefix = assembly.meter.count, assembly.prefix_decision.prefix
        provider = provider or PrefixCache(lambda: clock[0], count)
        to = RequestTarget(model=model, facts=facts, count=count, at=now, stable=len(prefix.blocks), turn=str(number))
        request, said = go_on(assembly.envelope(shape).request, shape, said)
        marked = mark_request(shape, request, state, to)
        assert not list(judge({**marked.request, "max_tokens": 100}))
        counted = provider.use(model, list_blocks(shape, marked.request), facts)
        shown = account_for_call(state, AnsweredRequest(prefix=prefix, sent=marked.sent, reported=counted), facts)
        assert shown.predicted == counted
        assert shown.blame is None
        assert json.dumps([account_to_json(shown), decision_to_json(assembly.prefix_decision)])
        assert counted.read > 0 or number == 0
        assert str(assembly.prefix_decision.action) == ("append" if number == 3 else "reuse")
        state = advance_ledger(state, assembly.prefix_decision, marked.sent, facts)
