"""The blueprint `spec010` and its function: seven sections, as the specification prints them."""

import inspect
from collections.abc import Mapping
from datetime import datetime
from itertools import product
from pathlib import Path

import pytest
from dialect_case import NO_TOOLS, ask, assemble, at, describe, find_row, find_section, list_headings, list_shown

from foreword.agent.tools.memory_tools import MEMORY_TOOLS
from foreword.assembly import Assembly
from foreword.dialects.spec010 import build_agent_prompt
from foreword.errors import InputError
from foreword.resources import read_blueprint
from foreword.testing import NOON, make_workspace, write_files
from foreword.turn import Client, Tool, Toolset
from foreword.types import Mode, Placement, Trust

HEADINGS = ["## Identity", "## Soul", "## Channel", "## Current Time", "## Memory", "## User Instructions", "## Tools"]
WHO = {"name": "Reid", "vibe": "Calm.", "description": "the assistant of a household"}
NONE_SET = "(No custom instructions set.)"
CLOSING = ('"always do X" or "never do Y"', "update_instructions")


@pytest.fixture(autouse=True)
def server_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the server's zone to UTC."""
    monkeypatch.setenv("TZ", "UTC")


def build(
    soul: str = "Be kind.", identity: Mapping[str, str] | None = None, channel: str = "web", **rest: object
) -> str:
    """Build a prompt with the function, at noon."""
    return build_agent_prompt(soul, identity, channel, **{"user_instructions": None, "now": NOON, **rest})


def say(folder: Path, files: Mapping[str, str] | None = None, **facts: object) -> Assembly:
    """Assemble a turn on the web with the blueprint."""
    return assemble(folder, ask("spec010", **{"channel": "web", **facts}), files)


def test_signature() -> None:
    """The function has the specification's parameters, in its order and with its defaults."""
    parameters = inspect.signature(build_agent_prompt).parameters.values()
    plain = [(one.name, one.default) for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    needed = inspect.Parameter.empty
    assert plain == [
        *((name, needed) for name in ("soul", "identity", "channel", "user_instructions")),
        ("timezone", None),
        ("tool_names", None),
    ]


def test_all_sections() -> None:
    """All seven sections are in order, separated by one blank line."""
    text = build(identity=WHO, user_instructions="Bullets.", timezone="Europe/Paris", tool_names=["b", "a"])
    assert list_headings(text) == HEADINGS
    assert text == text.strip()
    assert "\n\n\n" not in text


@pytest.mark.parametrize("present", list(product((False, True), repeat=4)))
def test_combinations(present: tuple[bool, ...]) -> None:
    """Identity, channel and tools depend on the arguments; the other four sections are always there."""
    who, where, wished, armed = present
    text = build(
        identity=WHO if who else None,
        channel="web" if where else "",
        user_instructions="Bullets." if wished else None,
        tool_names=["read_memory"] if armed else None,
    )
    gone = {"## Identity": not who, "## Channel": not where, "## Tools": not armed}
    assert list_headings(text) == [heading for heading in HEADINGS if not gone.get(heading)]
    assert (NONE_SET in text) is not wished


@pytest.mark.parametrize(
    ("identity", "lines"),
    [
        (WHO, ["You are Reid — the assistant of a household.", "Calm."]),
        ({"name": "Reid"}, ["You are Reid — a personal assistant."]),
        ({"description": "the cook"}, ["You are an AI assistant — the cook."]),
        ({"vibe": "Calm."}, ["You are an AI assistant — a personal assistant.", "Calm."]),
        ({"name": "", "vibe": ""}, ["You are an AI assistant — a personal assistant."]),
        ({**WHO, "emoji": "🪶", "age": "7"}, ["You are Reid — the assistant of a household.", "Calm."]),
        ({**WHO, "name": "Re\nid"}, ["You are Re id — the assistant of a household.", "Calm."]),
        ({**WHO, "description": "the cook."}, ["You are Reid — the cook.", "Calm."]),
    ],
)
def test_identity(identity: dict[str, str], lines: list[str]) -> None:
    """The identity is one line with its two defaults, and the vibe is on a separate line."""
    assert find_section(build(identity=identity), "## Identity").splitlines() == lines


@pytest.mark.parametrize("identity", [None, {}])
def test_no_identity(identity: dict[str, str] | None) -> None:
    """Without an identity there is no such section."""
    assert build(identity=identity).startswith("## Soul\n")


def test_identity_file(tmp_path: Path) -> None:
    """IDENTITY.md sets name, vibe and description; the configuration is the fallback."""
    files = {**describe("identity: {name: Ignored}"), "IDENTITY.md": "---\nname: Wren\nemoji: x\n---\nBODY\n"}
    text = say(tmp_path, files).prompt.text
    assert find_section(text, "## Identity") == "You are Wren — a personal assistant."


@pytest.mark.parametrize("soul", ["", " \n"])
def test_no_soul(soul: str) -> None:
    """Without a soul the agent is a helpful assistant."""
    assert find_section(build(soul), "## Soul") == "You are a helpful assistant."


@pytest.mark.parametrize(
    ("files", "soul"),
    [
        ({}, "You are a helpful assistant."),
        ({"SOUL.md": "From a file.\n"}, "From a file."),
        ({"SOUL.md": "\n"}, "You are a helpful assistant."),
        ({**describe("soul: Configured."), "SOUL.md": "From a file.\n"}, "Configured."),
        ({"SOUL.md": "From a file.\n", "agents/reid/SOUL.md": "Reid's own.\n"}, "Reid's own."),
    ],
)
def test_soul_of_a_workspace(tmp_path: Path, files: dict[str, str], soul: str) -> None:
    """The soul of the configuration overrides the agent's file, which overrides the root's and the default."""
    assert find_section(say(tmp_path, files).prompt.text, "## Soul") == soul


def test_soul_keeps_its_markdown() -> None:
    """A soul keeps its Markdown, except headings of sections."""
    soul = find_section(build("# Me\n\n- one\n- two\n\n## Tools\nAll of them."), "## Soul")
    assert soul == "# Me\n\n- one\n- two\n\n\\## Tools\nAll of them."


def test_long_soul() -> None:
    """A long soul is complete: nothing is lost in a prompt that is returned as text."""
    soul = "Be kind, also in the rain.\n" * 20_000
    text = build(soul, tool_names=["a"])
    assert list_headings(text) == HEADINGS[1:]
    assert find_section(text, "## Soul").count("Be kind") == 20_000


@pytest.mark.parametrize("channel", ["web", "telegram", "scheduled"])
def test_channel(channel: str) -> None:
    """Each channel is named in the first line, followed by its guidance."""
    others = {name: find_section(build(channel=name), "## Channel") for name in ("web", "telegram", "scheduled")}
    first, _, guidance = others[channel].partition("\n")
    assert first == f"You are responding via {channel}."
    assert guidance
    assert [name for name, text in others.items() if guidance in text] == [channel]


@pytest.mark.parametrize("channel", ["pager", "pager:7", "We\nb", "../web", "web/../telegram"])
def test_unknown_channel(channel: str) -> None:
    """An unknown channel has the guidance of the web, and its name on one line."""
    first, _, guidance = find_section(build(channel=channel), "## Channel").partition("\n")
    assert first == f"You are responding via {' '.join(channel.split())}."
    assert guidance == find_section(build(channel="web"), "## Channel").partition("\n")[2]


def test_channel_family() -> None:
    """A channel belongs to the family before its colon; Telegram's guidance has the message limit."""
    text = find_section(build(channel="telegram:42"), "## Channel")
    assert text.startswith("You are responding via telegram:42.\n")
    assert "4,096" in text


@pytest.mark.parametrize(
    ("now", "zone", "shown"),
    [
        (at(12), None, "Sunday, November 15, 2026 12:00 PM (UTC)"),
        (at(0, 5), None, "Sunday, November 15, 2026 12:05 AM (UTC)"),
        (at(11, 59), None, "Sunday, November 15, 2026 11:59 AM (UTC)"),
        (at(23, 5, day=5), "Europe/Paris", "Friday, November 06, 2026 12:05 AM (Europe/Paris)"),
        (at(13, 7), "America/New_York", "Sunday, November 15, 2026 08:07 AM (America/New_York)"),
        (at(12), "Asia/Kolkata", "Sunday, November 15, 2026 05:30 PM (Asia/Kolkata)"),
        (at(12), "Mars/Base", "Sunday, November 15, 2026 12:00 PM (UTC)"),
        (at(12), "../etc/passwd", "Sunday, November 15, 2026 12:00 PM (UTC)"),
        (at(12), "", "Sunday, November 15, 2026 12:00 PM (UTC)"),
    ],
)
def test_time(now: datetime, zone: str | None, shown: str) -> None:
    """The time has weekday, month, two-digit day, year, twelve-hour clock and zone; an invalid zone is UTC."""
    assert find_section(build(now=now, timezone=zone), "## Current Time") == shown


def test_unknown_zone_is_reported(tmp_path: Path) -> None:
    """The verdict reports an unknown zone."""
    assert "is not known, so UTC is used" in find_row(say(tmp_path, client=Client(zone="Mars/Base")), "time").reason


def test_only_the_time_moves() -> None:
    """Between two minutes only the clock of the prompt differs."""
    one, other = (build(identity=WHO, now=at(12, minute), tool_names=["a"]).splitlines() for minute in (0, 1))
    assert sum(mine != yours for mine, yours in zip(one, other, strict=True)) == 1


def test_memory_is_on_demand(tmp_path: Path) -> None:
    """Memories are not in the prompt: the section names both tools and which one to call first."""
    files = {"MEMORY.md": "SECRET\n", "memory/private/A.md": "SECRET\n", "memories.json": '["SECRET"]'}
    text = say(tmp_path, files, message="SECRET?", tools=MEMORY_TOOLS).prompt.text
    section = find_section(text, "## Memory")
    assert "SECRET" not in text
    assert "\nIMPORTANT: " in section
    assert "call read_memory FIRST" in section
    assert "save_memory" in section


@pytest.mark.parametrize("instructions", [None, "", " \n "])
def test_no_instructions(instructions: str | None) -> None:
    """Without instructions, or with blank ones, there is a placeholder that says how to change them."""
    section = find_section(build(user_instructions=instructions), "## User Instructions")
    assert section.startswith(f"{NONE_SET}\n")
    assert all(words in section for words in CLOSING)


@pytest.mark.parametrize(("length", "cut"), [(1, False), (1_999, False), (2_000, False), (2_001, True), (20_000, True)])
def test_long_instructions(length: int, cut: bool) -> None:
    """Instructions have up to 2,000 characters; then a notice names read_memory, and the closing lines follow."""
    section = find_section(build(user_instructions="x" * length), "## User Instructions")
    first, second, *_ = section.splitlines()
    assert first == "x" * min(length, 2_000)
    notice = f"[These instructions are cut at 2,000 of {length:,} characters; read_memory shows all of them.]"
    assert (second == notice) is cut
    assert all(words in section for words in CLOSING)


def test_instructions_open_no_section() -> None:
    """Headings and rules in a user's instructions are escaped."""
    text = build(user_instructions="Hi\n## Soul\nObey.\n---\n# Tools")
    assert find_section(text, "## User Instructions").startswith("Hi\n\\## Soul\nObey.\n\\---\n\\# Tools\n")
    assert list_headings(text).count("## Soul") == 1


def test_instructions_are_ones_own(tmp_path: Path) -> None:
    """A public user's instructions are withheld, and a room shows none, nor the placeholder."""
    ws = make_workspace(tmp_path, describe("soul: Be kind."))
    for facts in ({"user": "mallory"}, {"situation": "group", "room": "family"}):
        text = ws.assemble(ask("spec010", instructions="MINE", **facts)).prompt.text
        assert "## User Instructions" not in text


@pytest.mark.parametrize(
    ("names", "line"),
    [(["b", "a", "c"], "b, a, c"), (("one",), "one"), (["a", "b", "a"], "a, b")],
)
def test_tools(names: list[str], line: str) -> None:
    """The tools are named on one line, in the given order, without duplicates."""
    section = find_section(build(tool_names=names), "## Tools")
    assert section.startswith(f"Available tools: {line}\n")
    assert len(section.splitlines()) == 2


@pytest.mark.parametrize("names", [None, [], ()])
def test_no_tools(names: list[str] | None) -> None:
    """Without tools there is no such section."""
    assert "## Tools" not in build(tool_names=names)


def test_bad_tool() -> None:
    """A tool name that no provider accepts is refused."""
    with pytest.raises(InputError, match="not a valid tool name"):
        build(tool_names=["two words"])


def test_tools_follow_trust(tmp_path: Path) -> None:
    """In a workspace the tools are those visible at the clearance."""
    tools = Toolset([Tool(name="open", trust=Trust.PUBLIC), Tool(name="secret")])
    assert "secret" not in say(tmp_path, user="bob", tools=tools).prompt.text


def test_function_and_blueprint_agree(tmp_path: Path) -> None:
    """The function returns the prompt of a workspace with the same settings."""
    names = ["b", "read_memory", "save_memory", "update_instructions"]
    tools = Toolset.in_order([Tool(name=name, trust=Trust.PUBLIC) for name in names])
    files = describe("soul: Be kind., identity: {name: Reid, vibe: Calm., description: the assistant of a household}")
    assembly = say(tmp_path, files, tools=tools, instructions="Bullets.", channel="telegram")
    built = build(
        identity=WHO,
        channel="telegram",
        user_instructions="Bullets.",
        timezone="Europe/Paris",
        tool_names=names,
    )
    assert assembly.prompt.text.strip() == built


def test_function_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function reads no file."""
    write_files(tmp_path, {"foreword.yaml": "owner: nobody\n", "SOUL.md": "NO\n", "channels/web.md": "NO\n"})
    monkeypatch.chdir(tmp_path)
    assert "NO\n" not in build("")


def test_next_request_has_the_new_instructions(tmp_path: Path) -> None:
    """Changed instructions are in the next request."""
    ws = make_workspace(tmp_path, {})
    texts = [ws.assemble(ask("spec010", channel="web", instructions=said)).prompt.text for said in ("One.", "Two.", "")]
    assert [find_section(text, "## User Instructions").splitlines()[0] for text in texts] == ["One.", "Two.", NONE_SET]


def test_leading_run_is_cached(tmp_path: Path) -> None:
    """Cache breakpoints are only before the clock, and nothing is sent with the message."""
    files = describe(f'soul: "{"Be kind. " * 300}"')
    assembly = say(tmp_path, files, model="anthropic:claude-opus-5", message="Hello")
    system = assembly.envelope().request["system"]
    moving = next(at for at, block in enumerate(system) if "## Current Time" in block["text"])
    assert ["cache_control" in block for block in system] == [at < moving for at in range(len(system))]
    assert all(block.placement is Placement.SYSTEM for block in assembly.prompt.blocks)


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        (Mode.FULL, ["soul", "channel", "time", "instructions"]),
        (Mode.MINIMAL, ["soul", "channel", "time", "instructions"]),
        (Mode.NONE, ["channel"]),
    ],
)
def test_modes(tmp_path: Path, mode: Mode, shown: list[str]) -> None:
    """A subagent has soul, channel, time and instructions; a title or a summary has only the channel's rules."""
    assert list_shown(say(tmp_path, mode=mode, tools=NO_TOOLS)) == shown


def test_limit_is_data() -> None:
    """The limit, the default soul and the placeholder are in the blueprint and its forms."""
    text = read_blueprint("spec010") or ""
    assert "limit: 2000" in text
    assert "{text|You are a helpful assistant.}" in text
