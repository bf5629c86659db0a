"""`foreword diff`: changed sections, the first change of the cached prefix, and its cost."""

import json

import pytest

from foreword.testing import write_files


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """A key, so that the configured model is used."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-tests")


NOW = ("--now", "2026-11-15T08:30")


@pytest.fixture
def record(say, folder):
    """Record an assembly under a name, after changing some files."""

    def make(name, files=None, *words):
        write_files(folder, files or {})
        (folder / name).write_text(say("build", "--json", *NOW, *words).out)
        return name

    return make


def load(name):
    """Load a recorded assembly."""
    with open(name, encoding="utf-8") as file:
        return json.load(file)


def compare(say, before="a.json", after="b.json"):
    """Compare two recorded assemblies, and return the JSON."""
    answer = say("diff", before, after, "--json")
    assert answer.code == 0, answer
    return answer.json


def test_same(say, record):
    """Two equal assemblies have no difference, and the prefix is unchanged."""
    record("a.json")
    answer = say("diff", "a.json", "a.json")
    assert answer.code == 0
    assert "the cached prefix is the same, byte for byte" in answer.out
    assert {change["what"] for change in compare(say, "a.json", "a.json")["changes"]} == {"same"}


def test_tail_moves_nothing(say, record):
    """Another time and another message change a section but not the cached prefix."""
    record("a.json")
    record("b.json", None, "--now", "2026-11-16T09:00")
    result = compare(say)
    assert {change["id"]: change["what"] for change in result["changes"]}["time"] == "changed"
    assert result["move"] is None


def test_first_mover(say, record):
    """Of several changes the first in the text moves the prefix, at the byte where it differs."""
    record("a.json", {"SOUL.md": "You are calm, é.\n", "USER.md": "Old.\n"})
    record("b.json", {"SOUL.md": "You are calm, è.\n", "USER.md": "New.\n"})
    result = compare(say)
    what = {change["id"]: change["what"] for change in result["changes"]}
    assert (what["soul"], what["user"], what["agents"]) == ("changed", "changed", "same")
    before, after = (load(name) for name in ("a.json", "b.json"))
    text = "".join(block["text"] for block in after["blocks"] if block["placement"] == "system")
    # é and è share their first byte in UTF-8.
    assert result["move"]["byte"] == len(text[: text.index("è")].encode()) + 1
    assert (result["move"]["section"], result["move"]["what"]) == ("soul", "changed")
    assert result["tokens"] == {"before": before["budget"]["used"], "after": after["budget"]["used"]}


def test_static_block_is_read_when_the_session_moves(say, record):
    """If only the session block changes, only its tokens are billed again."""
    record("a.json", {"USER.md": "Old.\n"})
    record("b.json", {"USER.md": "New.\n"})
    move = compare(say)["move"]
    session = [block for block in load("b.json")["blocks"] if block["pace"] == "session"]
    assert (move["section"], move["tokens"]) == ("user", session[0]["tokens"])
    assert move["write_usd"] > move["read_usd"] > 0


@pytest.mark.parametrize("description", ["Switch a lamp", "Switch a lamp of the house on or off. " * 400])
def test_long_tools_are_read_when_the_text_moves(say, record, folder, description):
    """Unchanged tools are read from the cache if they are long enough to be cached alone, else billed again."""
    write_files(folder, {"tools.json": json.dumps([{"name": "lamp", "description": description}])})
    tools = ("--tools", "tools.json", "--model", "anthropic:claude-opus-4-5")  # its minimum is 4,096
    record("a.json", {"SOUL.md": "One.\n", "AGENTS.md": "Answer first.\n" * 2000}, *tools)
    record("b.json", {"SOUL.md": "Two.\n"}, *tools)
    move, after = compare(say)["move"], load("b.json")
    text = sum(one["tokens"] for one in after["blocks"] if one["pace"] != "turn" and one["placement"] == "system")
    schemas = after["budget"]["used"] - sum(one["tokens"] for one in after["blocks"])
    assert move["section"] == "soul"
    assert move["tokens"] == (text if schemas > 4096 else text + schemas)


def test_any_prefix_elsewhere(say, record):
    """If a provider caches any equal prefix, only the text after the change is billed again."""
    model = ("--model", "openai:gpt-5.4")
    record("a.json", {"AGENTS.md": "Answer first.\n" * 400 + "Old.\n"}, *model)
    record("b.json", {"AGENTS.md": "Answer first.\n" * 400 + "New.\n"}, *model)
    move = compare(say)["move"]
    rows = load("b.json")["sections"]
    ids = [row["id"] for row in rows]
    behind = [row for row in rows[ids.index("agents") :] if row["pace"] != "turn"]
    assert (move["section"], move["tokens"]) == ("agents", sum(row["tokens"] for row in behind))


@pytest.mark.parametrize(("files", "what", "cause"), [({"TOOLS.md": "Notes.\n"}, "added", "tools")])
def test_added_and_removed(say, record, files, what, cause):
    """An added or removed section moves the prefix at its position."""
    record("a.json")
    record("b.json", files)
    assert (compare(say)["move"]["section"], compare(say)["move"]["what"]) == (cause, what)
    # The section named tools is not the tool schemas.
    assert f"changed first in {cause} ({what})" in say("diff", "a.json", "b.json").out
    back = compare(say, "b.json", "a.json")["move"]
    assert (back["section"], back["what"]) == (cause, "removed")


def test_tools_stand_first(say, record, folder):
    """Changed tools invalidate the whole prefix, because they come first."""
    record("a.json")
    write_files(folder, {"tools.json": '[{"name": "lamp", "description": "Switch a lamp"}]'})
    record("b.json", None, "--tools", "tools.json")
    move = compare(say)["move"]
    assert (move["cause"], move["byte"]) == ("tools", 0)
    assert "the tool schemas changed" in say("diff", "a.json", "b.json").out


def test_another_model(say, record):
    """Another model has a separate cache."""
    record("a.json")
    record("b.json", None, "--model", "anthropic:claude-opus-5")
    assert compare(say)["move"]["cause"] == "model"


def test_too_short_to_be_cached(say, record):
    """A prefix below the provider's minimum was never cached, so nothing is lost."""
    record("a.json", {"AGENTS.md": "Short.\n"}, "--model", "anthropic:claude-haiku-4-5")
    record("b.json", {"AGENTS.md": "Other.\n"}, "--model", "anthropic:claude-haiku-4-5")
    assert compare(say)["move"] is None
    assert "too short to be cached" in say("diff", "a.json", "b.json").out


def test_unknown_price(say, record):
    """Without a known price, tokens are counted and no price is shown."""
    record("a.json", {"SOUL.md": "One.\n"}, "--model", "acme:zeta")
    record("b.json", {"SOUL.md": "Two.\n"}, "--model", "acme:zeta")
    assert compare(say)["move"]["write_usd"] is None
    assert "$" not in say("diff", "a.json", "b.json").out


def test_words(say, record):
    """The text output shows the changed sections, the first change and the price."""
    record("a.json", {"SOUL.md": "One.\n"})
    record("b.json", {"SOUL.md": "Two, three.\n"})
    out = say("diff", "a.json", "b.json").out
    assert " soul" in out
    assert "the cached prefix changed first in soul (changed), at byte " in out
    assert "must be billed again: $" in out


def test_outside_a_workspace(say, record, folder, monkeypatch):
    """Two files can be compared outside a workspace."""
    record("a.json")
    monkeypatch.chdir("/")
    assert say("diff", folder / "a.json", folder / "a.json").code == 0


def test_stdin(start, record, folder):
    """Only one of the two can come from stdin."""
    record("a.json")
    whole = (folder / "a.json").read_bytes()
    assert start("diff", "a.json", "-", piped=whole).code == 0
    assert "only one" in start("diff", "-", "-", piped=whole).err


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda _: "[", "not valid JSON"),
        (lambda _: [], "it has no `schema`"),
        (lambda _: {}, "it has no `schema`"),
        (lambda value: {**value, "schema": "foreword/9"}, "'foreword/9', expected 'foreword/1'"),
        (lambda value: {**value, "text": "other"}, "its blocks differ from its text"),
        (lambda value: {**value, "blocks": 3}, "'blocks' is int, expected list"),
        (lambda value: {**value, "sections": [{"id": "x"}]}, "'span' is missing"),
        (lambda value: {**value, "sections": [{"id": "x", "span": [0, 10**9]}]}, "outside the text"),
        (lambda value: {**value, "sections": [{"id": "x", "span": [1]}]}, "not a complete assembly"),
        (lambda value: {**value, "sections": [None]}, "not a complete assembly"),
        (lambda value: {key: item for key, item in value.items() if key != "budget"}, "'budget' is missing"),
    ],
)
def test_invalid_files(say, record, folder, change, hint):
    """A file that is not an assembly is bad input, with the reason."""
    record("a.json")
    broken = change(json.loads((folder / "a.json").read_text()))
    (folder / "b.json").write_text(broken if isinstance(broken, str) else json.dumps(broken))
    answer = say("diff", "a.json", "b.json")
    assert (answer.code, answer.out) == (2, "")
    assert "b.json" in answer.err
    assert hint in answer.err


def test_other_tools_of_the_same_weight(say, record, folder):
    """Changed tools with the same token count count as changed."""
    for name, what in (("a.json", "on"), ("b.json", "in")):
        write_files(folder, {"tools.json": json.dumps([{"name": "lamp", "description": f"Switch it {what}"}])})
        record(name, None, "--tools", "tools.json")
    before, after = load("a.json"), load("b.json")
    assert before["budget"]["used"] == after["budget"]["used"]
    assert before["tools"] != after["tools"]
    assert compare(say)["move"]["cause"] == "tools"
    assert "the tool schemas changed" in say("diff", "a.json", "b.json").out


def test_other_tools_of_a_short_prompt(say, record, folder):
    """Changed tools are reported even if nothing was cached."""
    model = ("--model", "anthropic:claude-haiku-4-5")
    record("a.json", {"AGENTS.md": "Short.\n"}, *model)
    write_files(folder, {"tools.json": '[{"name": "lamp", "description": "Switch a lamp"}]'})
    record("b.json", None, *model, "--tools", "tools.json")
    assert "tool schemas changed" in say("diff", "a.json", "b.json").out


def test_other_tools_for_another_model(say, record, folder):
    """Changed tools are reported even if the model changed."""
    record("a.json")
    write_files(folder, {"tools.json": '[{"name": "lamp", "description": "Switch a lamp"}]'})
    record("b.json", None, "--model", "anthropic:claude-opus-5", "--tools", "tools.json")
    assert "tool schemas changed" in say("diff", "a.json", "b.json").out
