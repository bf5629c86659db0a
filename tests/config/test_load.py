"""Claims about `foreword.yaml`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.load import load_config
from foreword.config.schema import (
    DEFAULT_SITUATIONS,
    DEFAULT_STORES,
    Agent,
    Config,
    Identity,
    Room,
    Situation,
    Store,
    User,
)
from foreword.engine.sources.memory_sections import FACT_STORE
from foreword.errors import ConfigError
from foreword.types import Trust

HEAD = "owner: alice\nusers: {alice: {trust: full}}\n"

WHOLE = """\
owner: alice
agents:
  sol:
    model: anthropic:claude
    identity: {name: Sol, emoji: "☀"}
  luna:
    identity: I am Luna.
users:
  alice: {trust: full, timezone: Mars/Olympus}
situations:
  group: {prompt_overlay: ./prompts/group-rules.md}
  stage: {ceiling: inner}
rooms:
  "telegram:+49@x": {ceiling: public, situation: stage}
prompt:
  files:
    - {path: ./notes//today.md, trust: inner}
    - {path: ABOUT.md, per_user: true}
stores:
  private: {trust: inner}
models:
  anthropic:claude: {window: 200000, input_usd: 3}
"""


def list_faults(text: str) -> list[str]:
    """List the faults of a configuration that has some."""
    with pytest.raises(ConfigError) as caught:
        load_config(text)
    return [str(fault) for fault in caught.value.faults]


def test_smallest() -> None:
    """The smallest valid configuration is an owner among the users."""
    assert load_config(HEAD) == Config(owner="alice", users={"alice": User(trust=Trust.FULL)})


def test_whole() -> None:
    """A whole configuration is read, in order, and its paths are plain."""
    config = load_config(WHOLE)
    assert list(config.agents) == ["sol", "luna"]
    assert config.agents["sol"].identity == Identity(name="Sol", emoji="☀")
    assert config.agents["luna"] == Agent(identity="I am Luna.")
    assert config.rooms["telegram:+49@x"] == Room(ceiling=Trust.PUBLIC, situation="stage")
    assert [file.path for file in config.prompt.files] == ["notes/today.md", "ABOUT.md"]
    assert config.models["anthropic:claude"].input_usd == 3.0


def test_situations() -> None:
    """Configured situations add to the defaults, and a default situation keeps its ceiling if none is given."""
    overlay = Situation(ceiling=Trust.FAMILIAR, prompt_overlay="prompts/group-rules.md")
    assert load_config(WHOLE).situations == {
        **DEFAULT_SITUATIONS,
        "group": overlay,
        "stage": Situation(ceiling=Trust.INNER),
    }


def test_public_ceiling() -> None:
    """An explicit ceiling of public is respected, although it equals the value of an omitted one."""
    assert load_config(HEAD + "situations: {dm: {ceiling: public}}").situations["dm"].ceiling is Trust.PUBLIC


def test_stores() -> None:
    """A given store replaces the default of its name and leaves the others."""
    assert load_config(WHOLE).stores == {**DEFAULT_STORES, "private": Store(trust=Trust.INNER)}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("agents: {}", "agents must list at least one agent"),
        (
            "rooms: {r: {situation: gruop}}",
            "rooms.r.situation is 'gruop', which is not a situation; did you mean 'group'?",
        ),
        (
            "prompt: {files: [{path: /etc/passwd}]}",
            "prompt.files[0].path must be relative to the workspace, not '/etc/passwd'",
        ),
        (
            "prompt: {files: [{path: 'C:/a'}]}",
            "prompt.files[0].path must be relative to the workspace, not 'C:/a'",
        ),
        ("prompt: {files: [{path: a/../b}]}", "prompt.files[0].path must not contain '..': 'a/../b'"),
        (
            "prompt: {files: [{path: rules/.env}]}",
            "prompt.files[0].path must not be the configuration or a hidden file such as .env: 'rules/.env'",
        ),
        (
            "prompt: {files: [{path: ../b, per_user: true}]}",
            "prompt.files[0].path must not contain '..': '../b'",
        ),
        ("prompt: {files: [{path: ./}]}", "prompt.files[0].path must name a file, not './'"),
        ("prompt: {files: [{path: ''}]}", "prompt.files[0].path must name a file, not ''"),
        ("prompt: {files: [{path: a}, {path: ./a}]}", "prompt.files[1].path repeats 'a' from line 3"),
        (
            "situations: {dm: {prompt_overlay: ../a}}",
            "situations.dm.prompt_overlay must not contain '..': '../a'",
        ),
        ("bulletin: {hours: 0.5}", "bulletin.hours must be 0, or between 1 and 876,000 hours, not 0.5"),
        ("bulletin: {hours: -1}", "bulletin.hours must be 0, or between 1 and 876,000 hours, not -1.0"),
        ("events: {retention_days: 0}", "events.retention_days must be between 1 and 36,500 days, not 0"),
        ("events: {otlp: collector}", "events.otlp must be an address that begins with http:// or https://"),
    ],
)
def test_semantic_fault(text: str, fault: str) -> None:
    """Semantic faults that the schema cannot express are also checked and have their line."""
    assert list_faults(HEAD + text) == [f"foreword.yaml:3: {fault}"]


def test_unlisted_owner() -> None:
    """The owner must be listed under users."""
    (fault,) = list_faults("users: {alice: {}}\nowner: alcie")
    assert fault == ("foreword.yaml:2: owner is 'alcie', who is not listed under users; did you mean 'alice'?")


def test_users_that_differ_in_case() -> None:
    """Two users whose names differ only in case are refused: their folder may be the same."""
    (fault,) = list_faults("owner: mia\nusers:\n  mia: {}\n  Mia: {}\n  mio: {}\n")
    assert fault == (
        "foreword.yaml:4: users.Mia differs from 'mia' on line 3 only in case; "
        "on some disks the two would share the folder users/NAME/; rename one of them"
    )


@pytest.mark.parametrize("kind", ["agents", "users", "situations", "stores", "rooms"])
@pytest.mark.parametrize("name", ["../up", "a..b", ".hidden", "a/b", "a\\b", "a b", "", "ä\u200d", "-a", "a\n"])
def test_unusable_name(kind: str, name: str) -> None:
    """A name that could leave its folder, or is no folder name, is refused."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n")
    text = (
        f'owner: alice\nusers:\n  alice: {{}}\n  "{escaped}": {{}}'
        if kind == "users"
        else (f'{HEAD}{kind}:\n  "{escaped}": {{}}')
    )
    (fault,) = list_faults(text)
    assert fault.startswith("foreword.yaml:4: ")
    assert "is not a usable name" in fault


def test_the_store_of_facts() -> None:
    """No store may have the name of the facts, which have a separate trust.

    Seen to fail while such a store showed memories.json to everybody who may see the store.
    """
    (fault,) = list_faults(f"{HEAD}stores:\n  {FACT_STORE}: {{trust: familiar}}")
    assert fault == "foreword.yaml:4: stores.facts is reserved for memories.json; rename the store"


@pytest.mark.parametrize("kind", ["agents", "situations", "stores"])
def test_room_signs(kind: str) -> None:
    """Only rooms may have the signs of addresses in their names."""
    assert len(list_faults(f"{HEAD}{kind}: {{'a:+@b': {{}}}}")) == 1
    assert "a:+@b" in load_config(f"{HEAD}rooms: {{'a:+@b': {{}}}}").rooms


def test_group_folder() -> None:
    """The folder name of a room obeys the rules for the names of rooms."""
    assert len(list_faults(HEAD + "rooms: {r: {group: ../../etc}}")) == 1
    assert load_config(HEAD + "rooms: {r: {group: ''}}").rooms["r"].group == ""


def test_all_kinds_at_once() -> None:
    """Faults of shape and of meaning are reported together, in the order of the file."""
    faults = list_faults(
        "agents: {}\nusers: {bob: {trust: 3}}\n"
        "rooms: {r: {situation: nowhere, celing: full}}\nprompt: {files: [{path: /a}]}"
    )
    assert [fault.split(":")[1] for fault in faults] == ["1", "1", "2", "3", "3", "4"]


def test_faulty_user_is_listed() -> None:
    """An owner whose entry is faulty is not also reported as unlisted."""
    (fault,) = list_faults("owner: alice\nusers: {alice: {trust: total}}")
    assert "users.alice.trust must be one of" in fault


def test_false_is_no_number() -> None:
    """A model may be configured to take no tool schemas; nonsensical numbers are refused."""
    assert load_config(f"{HEAD}models: {{x: {{native_tools: false}}}}").models["x"].native_tools is False
    (fault,) = list_faults(f"{HEAD}models: {{x: {{window: 0, native_tools: false}}}}")
    assert "models.x.window must be above 0" in fault


def test_quick() -> None:
    """A file of a hundred lines loads in a few milliseconds."""
    text = HEAD + "rooms:\n" + "".join(f"  room{n}:\n    ceiling: inner\n    situation: group\n" for n in range(35))
    load_config(text)
    spans = []
    for _ in range(10):
        start = time.thread_time()
        load_config(text)
        spans.append(time.thread_time() - start)
    assert min(spans) < 0.05


@given(st.text() | st.text(alphabet="./\\: ab[]{}'\"\n-", max_size=40).map(lambda tail: HEAD + "prompt: " + tail))
def test_arbitrary_text(text: str) -> None:
    """Any text either loads or raises ConfigError with at least one fault."""
    try:
        load_config(text)
    except ConfigError as error:
        assert error.faults  # noqa: PT017


@given(st.text(alphabet="./\\ab:"))
def test_paths_stay_inside(path: str) -> None:
    """A path that loads is relative and never leaves the workspace."""
    try:
        config = load_config(f"{HEAD}prompt: {{files: [{{path: '{path}'}}]}}")
    except ConfigError:
        return
    plain = config.prompt.files[0].path
    assert not plain.startswith(("/", "./"))
    assert ".." not in plain.split("/")
    assert plain not in ("", ".")
