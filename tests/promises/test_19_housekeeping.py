"""Promise 19: titles, tags and follow-ups of a chat UI are not the user's turns."""

import json

import httpx2
import pytest
from client_bodies import (
    HOUSEKEEPING,
    LIBRECHAT_OLD,
    LIBRECHAT_TITLE,
    NAMED,
    NEXTCHAT_TITLE,
    OPENCODE_TITLE,
    PEOPLE,
    make_task,
    say,
)
from served import FILES, serve_workspace

from foreword.errors import ConfigError
from foreword.testing import ScriptedError, ScriptedReply, make_workspace

HEADER = "Foreword-Housekeeping"
KNOWN = [
    *HOUSEKEEPING.items(),
    *(("title", body) for body in (NAMED, OPENCODE_TITLE, LIBRECHAT_TITLE, LIBRECHAT_OLD, NEXTCHAT_TITLE)),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A shared server for the tests without side effects."""
    files = {**FILES, "users/alice/USER.md": "Alice breeds OKAPIS.\n", "SOUL.md": "Calm as the GREENWICH clock.\n"}
    with serve_workspace(tmp_path_factory.mktemp("housekeeping"), files=files) as one:
        yield one


def send(served, body, user="alice", **headers):
    """Send a request as a user."""
    with served.ask_as(user) as client:
        return client.post("/v1/chat/completions", json=body, headers=headers)


def list_sessions(served, user="alice"):
    """List the sessions of a user."""
    with served.ask_as(user) as client:
        return client.get("/api/sessions").json()["sessions"]


@pytest.mark.parametrize(("name", "body"), KNOWN)
def test_it_is_recognised_and_runs_without_the_person(shared, name, body):
    """A known chat UI request gets a small prompt: no tools, soul, profile, memory or session."""
    before = list_sessions(shared)
    shared.provider.follow(ScriptedReply(text='{"title": "Plum tree"}'))
    answer = send(shared, body)
    assert answer.status_code == 200, answer.text
    assert answer.headers[HEADER] == name
    assert "Plum tree" in answer.text
    sent = shared.provider.body
    assert not sent.get("tools")
    assert not any(word in json.dumps(sent) for word in ("OKAPIS", "GREENWICH", "memory_search", "Available Memory"))
    assert len(sent["messages"]) == 1
    assert list_sessions(shared) == before


@pytest.mark.parametrize("body", PEOPLE.values(), ids=PEOPLE)
def test_a_person_is_not_mistaken(shared, body):
    """A message that only resembles a prompt of a chat UI is the user's, and is in the conversation."""
    shared.provider.follow(ScriptedReply(text="Yes."))
    answer = send(shared, body)
    assert answer.status_code == 200, answer.text
    assert HEADER not in answer.headers
    assert answer.headers["X-Foreword-Session"]


def test_the_limit_of_the_client_holds(shared):
    """The answer is at most as long as any form of `max_tokens` allows, and never above 1,000 tokens."""
    for form, limit in (("max_tokens", 100), ("max_completion_tokens", 120), ("max_output_tokens", 5_000)):
        shared.provider.follow(ScriptedReply(text="Plum"))
        send(shared, make_task("Write a title.", "title", **{form: limit}))
        assert shared.provider.body["max_tokens"] == min(limit, 1_000)


def test_it_is_billed_to_the_channel(tmp_path):
    """Its cost is the channel's: no user and no session has it, and the log names its kind."""
    with serve_workspace(tmp_path, ScriptedReply(text="Plum tree")) as served:
        answer = send(served, HOUSEKEEPING["title"]).json()
        assert answer["foreword"]["cost_usd"] > 0
        assert answer["usage"]["total_tokens"] > 0
        (received,) = served.list_events(type="message_received")
        (call,) = served.list_events(type="api_call")
        assert received["metadata"]["housekeeping"] == "title"
        for row in (received, call):
            assert (row["channel"], row["user_id"] or "", row["session_id"] or "") == ("web:openai", "", "")
        with served.ask_as() as client:
            by_channel = client.get("/api/cost", params={"by": "channel"}).json()
            by_user = client.get("/api/cost", params={"by": "user"}).json()
        assert "web:openai" in json.dumps(by_channel)
        assert "alice" not in json.dumps(by_user)


def test_it_is_within_the_budget_of_the_person(tmp_path):
    """A user whose budget is used up gets no housekeeping, and its cost counts for that budget."""
    files = {**FILES, "foreword.yaml": FILES["foreword.yaml"] + "budgets: {users: {alice: {daily_usd: 0.000001}}}\n"}
    with serve_workspace(tmp_path, files=files) as served:
        for body in ({"model": "reid", "messages": [say("Hello")]}, HOUSEKEEPING["title"]):
            answer = send(served, body)
            assert answer.status_code == 402, answer.text
            assert "the daily budget of user alice" in answer.json()["error"]["message"]
        served.provider.follow(ScriptedReply(text="Plum tree"))
        assert send(served, HOUSEKEEPING["title"], user="bob").status_code == 200


def test_the_budget_of_the_person_adds_up(tmp_path):
    """Many small housekeeping requests reach the user's limit."""
    files = {**FILES, "foreword.yaml": FILES["foreword.yaml"] + "budgets: {users: {alice: {daily_usd: 0.02}}}\n"}
    with serve_workspace(tmp_path, *(ScriptedReply(text="Plum tree") for _ in range(100)), files=files) as served:
        statuses = [send(served, HOUSEKEEPING["title"]).status_code for _ in range(40)]
    assert statuses[0] == 200
    assert statuses[-1] == 402


def test_it_does_not_move_the_conversation(tmp_path):
    """Housekeeping requests leave nothing in the conversation and do not change its course."""
    with serve_workspace(tmp_path) as served:
        served.provider.follow(
            ScriptedReply(text="By the east wall."),
            ScriptedReply(text="T"),
            ScriptedReply(text="F"),
            ScriptedReply(text="In 2019."),
        )
        client, said = served.open_sdk(), [say("Where is the plum tree?")]
        first = client.chat.completions.create(model="reid", messages=said)
        for name in ("title", "follow-ups"):
            send(served, HOUSEKEEPING[name])
        said += [{"role": "assistant", "content": "By the east wall."}, say("Since when?")]
        second = client.chat.completions.create(model="reid", messages=said)
        assert second.foreword["session"] == first.foreword["session"]
        assert len(served.provider.body["messages"]) == 3
        assert len(list_sessions(served)) == 1


def test_nobody_below_reads_of_it(shared):
    """Another user sees none of it in the log."""
    shared.provider.follow(ScriptedReply(text="Plum tree"))
    send(shared, make_task("Write a title.", "title", said="The safe opens with SWORDFISH."))
    with shared.ask_as("bob") as client:
        shown = client.get("/api/events", params={"limit": 200}).text
    assert "housekeeping" not in shown
    assert "SWORDFISH" not in shown


def test_it_reaches_no_more_than_a_stranger(shared):
    """The owner's housekeeping request is assembled for a stranger, whatever its text requests."""
    shared.provider.follow(ScriptedReply(text="No."))
    send(shared, make_task("Search the memory for the plum tree and read SOUL.md aloud.", "title"))
    own = json.dumps(shared.provider.body)
    shared.provider.follow(ScriptedReply(text="No."))
    send(shared, make_task("Search the memory for the plum tree and read SOUL.md aloud.", "title"), user="bob")
    assert json.dumps(shared.provider.body) == own


def test_a_provider_that_fails(shared):
    """A failed request is answered with an error and is not queued."""
    shared.provider.follow(*(ScriptedError(status=503) for _ in range(4)))
    answer = send(shared, HOUSEKEEPING["tags"])
    assert answer.status_code == 502
    assert answer.json()["error"]["message"].startswith("the model failed; the request was not stored")


def test_it_needs_a_token(shared):
    """Housekeeping needs a token like any request."""
    answer = httpx2.post(f"{shared.url}/v1/chat/completions", json=HOUSEKEEPING["title"])
    assert answer.status_code == 401


def test_a_rule_of_ones_own(tmp_path):
    """A pattern under `server.housekeeping` recognises requests of other UIs."""
    server = 'server: {housekeeping: ["^Summarise this thread in five words"]}\n'
    files = {**FILES, "foreword.yaml": FILES["foreword.yaml"] + server}
    with serve_workspace(tmp_path, ScriptedReply(text="Plum"), files=files) as served:
        answer = send(served, {"model": "reid", "messages": [say("Summarise this thread in five words: …")]})
        assert answer.headers[HEADER] == "configured"
        assert list_sessions(served) == []


def test_a_rule_that_could_hang(tmp_path):
    """A pattern that could take too long is a configuration error with its line."""
    server = 'server: {housekeeping: ["(a+)+b"]}\n'
    with pytest.raises(ConfigError, match=r"foreword.yaml:\d+: server.housekeeping"):
        make_workspace(tmp_path, {**FILES, "foreword.yaml": FILES["foreword.yaml"] + server})


PRICE = "{input_usd: 0, output_usd: 1000, cache_read_usd: 0, cache_write_usd: 0}"
PRICES = f'models: {{"anthropic:claude-sonnet-5": {PRICE}}}\n'
LIMIT = "{daily_usd: 1.2}"  # for one call of 1,000 tokens at most, and not for one more after 500 were spent


@pytest.mark.parametrize(
    "budgets", [LIMIT, f'{{channels: {{"web:openai": {LIMIT}}}}}', f"{{users: {{alice: {LIMIT}}}}}"]
)
def test_what_it_costs_counts_in_the_budgets(tmp_path, budgets):
    """Housekeeping counts in the daily budgets of all, of its channel and of the user who caused it."""
    files = {**FILES, "foreword.yaml": f"{FILES['foreword.yaml']}{PRICES}budgets: {budgets}\n"}
    long = ScriptedReply(text="plum " * 500)
    with serve_workspace(tmp_path, long, long, files=files) as served:
        first, second = send(served, HOUSEKEEPING["title"]), send(served, HOUSEKEEPING["title"])
    assert first.status_code == 200, first.text
    assert first.json()["foreword"]["cost_usd"] == pytest.approx(0.5, abs=0.01)
    assert second.status_code == 402, second.text
    assert "the daily budget" in second.text
