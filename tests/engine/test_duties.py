"""Claims about the sections on responsibilities, on storage, and on background runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from foreword.assembly import Assembly
from foreword.testing import make_workspace
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Delivery, Trust
from foreword.workspace import Workspace

PEOPLE = "owner: alice\nusers: {alice: {trust: full}, ina: {trust: inner}, fay: {trust: familiar}, pat: {}}\n"
TURN = Turn(user="alice", situation="dm", model="openai:gpt-5")
KINDS = {"files": "Files:", "instructions": "Instructions:", "memory": "Memory:", "schedule": "Schedules:"}


def make(folder: Path, agent: str = "") -> Workspace:
    """Make a workspace with one agent."""
    return make_workspace(folder, {"foreword.yaml": PEOPLE + (f"agents: {{a: {{{agent}}}}}\n" if agent else "")})


def show(assembly: Assembly, slot: str) -> dict[str, str]:
    """Show the text of every section of a slot, or its verdict and reason."""
    shown = {}
    for row in assembly.rows(Trust.FULL):
        if row.id.partition(":")[0] == slot:
            text = assembly.prompt.text[row.span[0] : row.span[1]] if row.span else f"{row.verdict}: {row.reason}"
            shown[row.id] = text.rstrip("\n")
    return shown


TAKEN = 'responsibilities: [{title: Mail, content: "Sort it.\\n"}, {title: "Calendar\\n## Core", content: Keep it.}]'


def test_responsibilities(tmp_path: Path) -> None:
    """The responsibilities of an agent are in the order of its configuration, each under its title on one line."""
    assert show(make(tmp_path, TAKEN).assemble(TURN), "responsibilities") == {
        "responsibilities:Mail": "## Responsibilities\n### Mail\nSort it.",
        "responsibilities:Calendar ## Core": "### Calendar ## Core\nKeep it.",
    }


def test_responsibilities_in_tags(tmp_path: Path) -> None:
    """In tags, each responsibility is one element in a common one, and its title cannot end its attribute."""
    agent = 'responsibilities: [{title: \'a" b\', content: "One\\n</Responsibilities>"}, {title: c, content: Two}]'
    text = make(tmp_path, agent).assemble(replace(TURN, blueprint="nova")).prompt.text
    assert text.startswith(
        "<Responsibilities>\n"
        '  <Responsibility title="a&quot; b">\n    One\n    &lt;/Responsibilities>\n  </Responsibility>\n'
        '  <Responsibility title="c">\n    Two\n  </Responsibility>\n'
        "</Responsibilities>\n"
    )


def test_blank_responsibility(tmp_path: Path) -> None:
    """A responsibility without content is absent under its title."""
    shown = show(make(tmp_path, "responsibilities: [{title: Mail, content: ' '}]").assemble(TURN), "responsibilities")
    assert shown == {"responsibilities:Mail": "absent: its content is blank"}


@pytest.mark.parametrize("agent", ["", "responsibilities: []"])
def test_no_responsibilities(tmp_path: Path, agent: str) -> None:
    """An agent without responsibilities has the reason that it has none."""
    shown = show(make(tmp_path, agent).assemble(TURN), "responsibilities")
    assert shown == {"responsibilities": "absent: the agent has no responsibilities"}


def test_trust_of_responsibilities(tmp_path: Path) -> None:
    """The responsibilities of an agent need familiar trust."""
    ws = make(tmp_path, TAKEN)
    assert "Sort it." in ws.assemble(replace(TURN, user="fay")).prompt.text
    assert "Sort it." not in ws.assemble(replace(TURN, user="pat")).prompt.text


@pytest.mark.parametrize("kinds", [["files"], ["memory", "schedule"], ["schedule", "instructions", "files", "memory"]])
def test_storage(tmp_path: Path, kinds: list[str]) -> None:
    """The storage section names only the storage tools that the agent has, in a fixed order."""
    tools = Toolset([Tool(name=kind, kind=kind, trust=Trust.PUBLIC) for kind in kinds])
    shown = show(make(tmp_path).assemble(replace(TURN, tools=tools)), "storage")["storage"]
    labels = [line.partition(" ")[0] for line in shown.splitlines()[1:] if line]
    assert labels == [label for kind, label in KINDS.items() if kind in kinds]


@pytest.mark.parametrize("tools", [[], [Tool(name="exec", kind="shell")], [Tool(name="own")]])
def test_no_storage(tmp_path: Path, tools: list[Tool]) -> None:
    """An agent without any storage tool has no storage section."""
    shown = show(make(tmp_path).assemble(replace(TURN, tools=Toolset(tools))), "storage")
    assert shown == {"storage": "absent: the agent has no tool that stores anything"}


def test_storage_of_others(tmp_path: Path) -> None:
    """A storage tool above the clearance is not named in this turn."""
    tools = Toolset([Tool(name="write", kind="files"), Tool(name="save", kind="memory", trust=Trust.PUBLIC)])
    shown = show(make(tmp_path).assemble(replace(TURN, user="ina", tools=tools)), "storage")["storage"]
    assert [line.partition(" ")[0] for line in shown.splitlines()[1:] if line] == ["Memory:"]


NOTIFY = Toolset([Tool(name="notify_user", trust=Trust.PUBLIC)])


@pytest.mark.parametrize(
    ("delivery", "tools", "words", "others"),
    [
        (Delivery.ALWAYS, NOTIFY, ["your reply is delivered"], ["NO_ACTION_NEEDED", "notify_user"]),
        (Delivery.AS_NEEDED, NOTIFY, ["your reply is delivered", "NO_ACTION_NEEDED"], ["notify_user"]),
        (Delivery.NEVER, NOTIFY, ["your reply is not delivered", "notify_user"], ["NO_ACTION_NEEDED"]),
        (Delivery.NEVER, Toolset(), ["your reply is not delivered"], ["notify_user", "NO_ACTION_NEEDED"]),
    ],
)
def test_background(tmp_path: Path, delivery: Delivery, tools: Toolset, words: list[str], others: list[str]) -> None:
    """A background run says one thing about its reply, and names a tool only if the turn has it."""
    shown = show(make(tmp_path).assemble(replace(TURN, background=delivery, tools=tools)), "background")["background"]
    assert shown.startswith("## Background\n")
    assert [word for word in words if word not in shown] == []
    assert [word for word in others if word in shown] == []


def test_notify_above_the_clearance(tmp_path: Path) -> None:
    """A tool that the clearance may not know of is also not named in a background run."""
    turn = replace(TURN, user="ina", background=Delivery.NEVER, tools=Toolset([Tool(name="notify_user")]))
    assert "notify_user" not in make(tmp_path).assemble(turn).prompt.text


def test_foreground(tmp_path: Path) -> None:
    """Where a person waits for the reply there is no such section."""
    shown = show(make(tmp_path).assemble(TURN), "background")
    assert shown == {"background": "absent: not a background run"}
