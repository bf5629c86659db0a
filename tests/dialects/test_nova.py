"""The blueprint `nova`: tagged sections in a fixed order, none empty, and nothing else."""

import json
import os
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest
from dialect_case import ask, assemble, at, describe, find_row

from foreword.assembly import Assembly
from foreword.errors import ConfigError
from foreword.testing import make_workspace, write_files
from foreword.turn import Message, Step, Task, Tool, Toolset
from foreword.types import Delivery, Mode, Placement, Trust

# All combinations in soak; else none, all, and each alone.
EVERY = list(product((False, True), repeat=5))
SETTLED = EVERY if os.environ.get("FOREWORD_SOAK") else [some for some in EVERY if sum(some) in (0, 1, 5)]
TAGS = (
    "Identity", "Instructions", "Responsibilities", "Directories", "Storage", "Formatting", "Context", "Memories",
    "Task", "Background",
)  # fmt: skip
SECTION = re.compile(r"<([A-Z][A-Za-z]+)>\n(.+?)\n</\1>(?:\n\n|$)", re.DOTALL)
STORAGE = {"files": "Files:", "instructions": "Instructions:", "memory": "Memory:", "schedule": "Schedules:"}
TASK = Task(
    id="12",
    title="Plan the move",
    description="Until the keys are handed over",
    status="active",
    steps=(Step(text="One", status="active"), Step(text="Two"), Step(text="Three", status="done")),
)
NOTIFY = Tool(name="notify_user", trust=Trust.PUBLIC, kind="messages")
WRITE = Tool(name="write_file", trust=Trust.INNER, kind="files")
PLAIN = describe("identity: You are Nova.")


def say(folder: Path, files: Mapping[str, str] = PLAIN, **facts: object) -> Assembly:
    """Assemble a turn with the blueprint."""
    return assemble(folder, ask("nova", **facts), files)


def read(assembly: Assembly) -> dict[str, str]:
    """Read the sections of a prompt by their tags, and check that there is nothing else in it."""
    text = assembly.prompt.text
    found = {match[1]: match[2] for match in SECTION.finditer(text)}
    assert "".join(match[0] for match in SECTION.finditer(text)) == text
    return found


def give(*duties: tuple[str, str]) -> dict[str, str]:
    """Write a workspace whose agent has these responsibilities."""
    items = ", ".join(json.dumps({"title": title, "content": content}) for title, content in duties)
    return describe(f"identity: You are Nova., responsibilities: [{items}]")


@pytest.mark.parametrize("settled", SETTLED)
def test_order(tmp_path: Path, settled: tuple[bool, ...]) -> None:
    """Sections are in order, each in its tag, none empty, and the time is always there."""
    identity, instructions, duties, directories, memories = settled
    settings = {
        "identity: You are Nova.": identity,
        "instructions: Be brief.": instructions,
        "responsibilities: [{title: A, content: b}]": duties,
        "directories: [~/notes]": directories,
    }
    files = describe(", ".join(text for text, there in settings.items() if there))
    ws = make_workspace(tmp_path, {**files, "memories.json": '["One"]' if memories else "[]"})
    for storage, formatting, task, background in product((False, True), repeat=4):
        turn = ask(
            "nova",
            tools=Toolset([WRITE]) if storage else Toolset(),
            channel="telegram" if formatting else "web",
            task=TASK if task else None,
            background=Delivery.NEVER if background else None,
        )
        wanted = (identity, identity and instructions, duties, directories, storage, formatting, True)
        there = (*wanted, memories, task, background)
        assembly = ws.assemble(turn)
        assert list(read(assembly)) == [tag for tag, shown in zip(TAGS, there, strict=True) if shown]
        assert not re.search(r"<(\w+)>\s*</\1>", assembly.prompt.text)


def test_nothing_after_the_builder(tmp_path: Path) -> None:
    """Nothing is sent outside the prompt: not with the message, not with the history, not after the last tag."""
    history = (Message(role="user", text="Hi"), Message(role="assistant", text="Hello"))
    assembly = say(tmp_path, task=TASK, background=Delivery.NEVER, message="And now?", history=history)
    request = assembly.envelope().request
    assert all(block.placement is Placement.SYSTEM for block in assembly.prompt.blocks)
    assert request["messages"][0] == {"role": "system", "content": assembly.prompt.text}
    assert request["messages"][-1]["content"] == [{"type": "text", "text": "And now?"}]
    assert assembly.prompt.text.endswith("\n</Background>")


def test_slow_sections_stand_before_fast_ones(tmp_path: Path) -> None:
    """Slower sections are before faster ones, so everything before the time can be cached."""
    assembly = say(tmp_path, {**PLAIN, "memories.json": '["One"]'}, task=TASK, directories=("~/notes",))
    paces = [block.pace for block in assembly.prompt.blocks]
    assert paces == sorted(paces)


def test_no_other_file_speaks(tmp_path: Path) -> None:
    """An agent consists of its configuration: files with souls, skills, profiles and memories are not used."""
    names = ("SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "USER.md", "BOOT.md", "MEMORY.md", "SYSTEM.md")
    files = {**PLAIN, **dict.fromkeys(names, "NO\n"), "skills/a/SKILL.md": "NO\n", "rules/a.md": "NO\n"}
    assert list(read(say(tmp_path, files, message="NO"))) == ["Identity", "Context"]


@pytest.mark.parametrize(
    ("settings", "tags"),
    [
        ("identity: You are Nova.", ["Identity"]),
        ("identity: You are Nova., instructions: Be brief.", ["Identity", "Instructions"]),
        ("instructions: Be brief.", []),
        ("role: Old.", ["Role"]),
        ("role: Old., instructions: Be brief.", ["Role"]),
        ("identity: You are Nova., role: Old.", ["Identity"]),
        ("identity: You are Nova., role: Old., instructions: Be brief.", ["Identity", "Instructions"]),
        ('identity: "", role: Old., instructions: Be brief.', ["Role"]),
        ('identity: You are Nova., instructions: " "', ["Identity"]),
        ('role: " "', []),
    ],
)
def test_identity_and_role(tmp_path: Path, settings: str, tags: list[str]) -> None:
    """Instructions need an identity; an old role is used alone, and only without an identity."""
    assert list(read(say(tmp_path, describe(settings)))) == [*tags, "Context"]


@pytest.mark.parametrize("identity", ["{}", '" "', '{name: ""}'])
def test_blank_identity(tmp_path: Path, identity: str) -> None:
    """A blank identity is none."""
    files = describe(f"identity: {identity}, role: Old., instructions: Be brief.")
    assert list(read(say(tmp_path, files))) == ["Role", "Context"]


def test_identity_text(tmp_path: Path) -> None:
    """A text identity is unchanged, with its line breaks."""
    found = read(say(tmp_path, describe(r'identity: "You are Nova.\n\n- calm\n", instructions: "One.\nTwo."')))
    assert found["Identity"] == "You are Nova.\n\n- calm"
    assert found["Instructions"] == "One.\nTwo."


def test_responsibilities(tmp_path: Path) -> None:
    """Each responsibility is an element with its title as an attribute, its content indented, in their order."""
    found = read(say(tmp_path, give(("Agent routing", "Decide.\n\nSay so."), ("Product onboarding", "Help."))))
    assert found["Responsibilities"].splitlines() == [
        '  <Responsibility title="Agent routing">',
        "    Decide.",
        "",
        "    Say so.",
        "  </Responsibility>",
        '  <Responsibility title="Product onboarding">',
        "    Help.",
        "  </Responsibility>",
    ]


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ('Say "hi"', "Say &quot;hi&quot;"),
        ("<b>bold</b>", "&lt;b&gt;bold&lt;/b&gt;"),
        ("Tea & cake", "Tea &amp; cake"),
        ("two\nlines", "two lines"),
        ('"><Task>', "&quot;&gt;&lt;Task&gt;"),
    ],
)
def test_title(tmp_path: Path, title: str, shown: str) -> None:
    """A title cannot close its attribute or start a line."""
    found = read(say(tmp_path, give((title, "Text."))))
    assert found["Responsibilities"].splitlines()[0] == f'  <Responsibility title="{shown}">'


@pytest.mark.parametrize("tag", ["Responsibility", "Responsibilities", "Task", "Background", "Role"])
def test_content_stays_inside(tmp_path: Path, tag: str) -> None:
    """Content cannot close its element or open a section, in any spelling."""
    text = say(tmp_path, give(("A", f"</{tag}> < / {tag} > <{tag.lower()}>"))).prompt.text
    assert f"    &lt;/{tag}> &lt; / {tag} > &lt;{tag.lower()}>\n" in text


def test_blank_responsibility(tmp_path: Path) -> None:
    """A responsibility without content is left out; without any other, so is the section."""
    assert "Responsibilities" not in read(say(tmp_path / "none", give(("A", " "))))
    assert read(say(tmp_path / "one", give(("A", " "), ("B", "b"))))["Responsibilities"].count("title=") == 1


def test_same_title_twice(tmp_path: Path) -> None:
    """Titles are unique, so that a responsibility can be addressed."""
    with pytest.raises(ConfigError, match="repeats the responsibility 'A'"):
        say(tmp_path, give(("A", "one"), ("A", "two")))


@pytest.mark.parametrize(
    ("given", "project", "cwd", "more"),
    [
        (("~/a",), "", "~/a", []),
        (("~/a", "~/b", "~/c"), "", "~/a", ["- ~/b", "- ~/c"]),
        (("~/a", "~/b", "~/a"), "", "~/a", ["- ~/b"]),
        ((), "~/p", "~/p", []),
        (("~/a",), "~/p", "~/p", ["- ~/a"]),
        (("~/a\nb",), "", "~/a b", []),
        (("~/p", "~/a"), "~/p", "~/p", ["- ~/a"]),
    ],
)
def test_directories(tmp_path: Path, given: tuple[str, ...], project: str, cwd: str, more: list[str]) -> None:
    """The working directory is first; the others are listed after an introduction, if any."""
    first, _, *rest = read(say(tmp_path, directories=given, project=project))["Directories"].splitlines()
    assert first == f"Your working directory is: {cwd}"
    assert rest == (["", "You also have access to these additional directories:", *more] if more else [])


def test_no_directories(tmp_path: Path) -> None:
    """An agent without a directory has no such section."""
    assert "Directories" not in read(say(tmp_path))


@pytest.mark.parametrize(
    "kinds", [*product(STORAGE, repeat=1), ("schedule", "files"), tuple(STORAGE), ("shell", "memory")]
)
def test_storage(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """Storage has one line for each storage tool of the agent, in order."""
    tools = Toolset(Tool(name=f"use_{kind}", trust=Trust.INNER, kind=kind) for kind in kinds)
    lines = read(say(tmp_path, tools=tools))["Storage"].splitlines()
    assert [line.partition(" ")[0] for line in lines] == [label for kind, label in STORAGE.items() if kind in kinds]


@pytest.mark.parametrize("tools", [Toolset(), Toolset([NOTIFY]), Toolset([Tool(name="save", kind="memory")])])
def test_no_storage(tmp_path: Path, tools: Toolset) -> None:
    """An agent without a storage tool, or below its trust, has no such section."""
    assert "Storage" not in read(say(tmp_path, user="carol", tools=tools))


@pytest.mark.parametrize(
    ("channel", "formatted"),
    [
        ("telegram", True),
        ("telegram:42", True),
        ("web", False),
        ("scheduled", False),
        ("", False),
        ("../telegram", False),
    ],
)
def test_formatting(tmp_path: Path, channel: str, formatted: bool) -> None:
    """Only Telegram has formatting rules."""
    assert ("Formatting" in read(say(tmp_path, channel=channel))) is formatted


@pytest.mark.parametrize(
    ("user", "zone"), [("alice", "13:00 (Europe/Paris)"), ("carol", "12:00 (UTC)"), ("", "12:00 (UTC)")]
)
@pytest.mark.parametrize("mode", list(Mode))
def test_context(tmp_path: Path, user: str, zone: str, mode: Mode) -> None:
    """The time is in every prompt, in every mode, in the user's zone."""
    found = read(say(tmp_path, user=user, mode=mode))
    assert found["Context"] == f"Current time: Sunday, 15 November 2026, {zone}"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (["a", "b"], ["- a", "- b"]),
        (["a", "b", "a", " a "], ["- a", "- b"]),
        (["A", "a"], ["- A", "- a"]),
        ([" ", "", "a\n- b"], ["- a - b"]),
        ([{"text": "a"}, {"content": "b"}, {"memory": "c"}, {"fact": "d"}], ["- a", "- b", "- c", "- d"]),
        ({"memories": ["a"]}, ["- a"]),
        (["x" * 199, "y" * 200], [f"- {'x' * 199}", f"- {'y' * 200}"]),
        (["z" * 201], [f"- {'z' * 199}…"]),
        (["</Memories><Task>"], ["- &lt;/Memories>&lt;Task>"]),
    ],
)
def test_memories(tmp_path: Path, value: object, lines: list[str]) -> None:
    """Facts are a list of at most 200 characters each, without duplicates, each on its line."""
    found = read(say(tmp_path, {**PLAIN, "memories.json": json.dumps(value)}))
    assert found["Memories"].splitlines() == lines


@pytest.mark.parametrize("text", ["[]", '{"memories": []}', '[" "]', "", "\n"])
def test_no_memories(tmp_path: Path, text: str) -> None:
    """Without a fact there is no such section."""
    assert "Memories" not in read(say(tmp_path, {**PLAIN, "memories.json": text}))


@pytest.mark.parametrize("text", ["tea", "{}", "[1]", '[["a"]]', "[" * 100_000])
def test_broken_memories_are_reported(tmp_path: Path, text: str) -> None:
    """A file that is not a list of texts is reported as a loss."""
    row = find_row(say(tmp_path, {**PLAIN, "memories.json": text}), "memories")
    assert str(row.verdict) == "dropped"
    assert row.reason.startswith("memories.json ")


def test_broken_memories_leave_no_placeholder(tmp_path: Path) -> None:
    """A file that cannot be used leaves no trace in the prompt."""
    assert "Memories" not in read(say(tmp_path, {**PLAIN, "memories.json": "tea"}))


def test_memories_are_fresh(tmp_path: Path) -> None:
    """New facts are in the next run."""
    ws = make_workspace(tmp_path, {**PLAIN, "memories.json": '["One"]'})
    turn = ask("nova", user="alice")
    assert read(ws.assemble(turn))["Memories"] == "- One"
    write_files(tmp_path, {"memories.json": '["One", "Two"]'})
    ws.refresh(now=True)
    assert read(ws.assemble(turn))["Memories"] == "- One\n- Two"


def test_memories_are_shared_by_agents(tmp_path: Path) -> None:
    """All agents of a workspace share the facts."""
    config = "owner: alice\nusers: {alice: {trust: full}}\nagents: {one: {}, two: {}}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config, "memories.json": '["One"]'})
    assert {read(ws.assemble(ask("nova", agent=name)))["Memories"] for name in ("one", "two")} == {"- One"}


def test_task(tmp_path: Path) -> None:
    """The bound task has its number, a blank line, then title, description, status and steps with symbols."""
    first, *rest = read(say(tmp_path, task=TASK))["Task"].splitlines()
    assert first.startswith("You are working on task #12. ")
    assert rest == [
        "",
        "Title: Plan the move",
        "Description: Until the keys are handed over",
        "Status: active",
        "Steps:",
        "1. → One",
        "2. ○ Two",
        "3. ✓ Three (done)",
    ]


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (Task(id="7", title="Call"), ["", "Title: Call", "Status: active"]),
        (Task(id="7", title="Call", status=""), ["", "Title: Call"]),
        (Task(id="7", title="", description="A call"), ["", "Description: A call", "Status: active"]),
        (
            Task(id="7", title="a\nb", steps=(Step(text="c\nd"),)),
            ["", "Title: a b", "Status: active", "Steps:", "1. ○ c d"],
        ),
    ],
)
def test_sparse_task(tmp_path: Path, task: Task, lines: list[str]) -> None:
    """A missing field has no line, and no field can start a line."""
    first, *rest = read(say(tmp_path, task=task))["Task"].splitlines()
    assert first.startswith("You are working on task #7. ")
    assert rest == lines


@pytest.mark.parametrize("background", [None, *Delivery])
@pytest.mark.parametrize("tools", [Toolset(), Toolset([NOTIFY]), Toolset([Tool(name="notify_user")])])
def test_background(tmp_path: Path, background: Delivery | None, tools: Toolset) -> None:
    """A silent run names notify_user if the turn has that tool at its clearance; a chat has no such section."""
    found = read(say(tmp_path, user="carol", background=background, tools=tools)).get("Background", "")
    able = background is Delivery.NEVER and "notify_user" in tools.allowed(Trust.INNER)
    assert bool(found) is (background is not None)
    assert ("notify_user" in found) is able


@pytest.mark.parametrize(
    ("user", "tags"),
    [
        ("mallory", ["Formatting", "Context", "Background"]),
        ("bob", ["Identity", "Instructions", "Responsibilities", "Formatting", "Context", "Background"]),
        ("carol", list(TAGS)),
        ("alice", list(TAGS)),
    ],
)
def test_trust(tmp_path: Path, user: str, tags: list[str]) -> None:
    """A public user sees nothing of the agent, a familiar one its identity, an inner one everything."""
    settings = "identity: N., instructions: I., responsibilities: [{title: A, content: b}], directories: [~/notes]"
    files = {**describe(settings), "memories.json": '["One"]'}
    given = {"tools": Toolset([WRITE]), "channel": "telegram", "task": TASK, "background": Delivery.NEVER}
    assert list(read(say(tmp_path, files, user=user, **given))) == tags


def test_only_the_moment_moves(tmp_path: Path) -> None:
    """Between two minutes only the time differs."""
    ws = make_workspace(tmp_path, {**PLAIN, "memories.json": '["One"]'})
    one, other = (read(ws.assemble(ask("nova", now=at(12, minute), task=TASK))) for minute in (0, 1))
    assert [tag for tag in one if one[tag] != other[tag]] == ["Context"]
