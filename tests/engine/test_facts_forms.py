"""Claims about the facts in forms: of the agent, of the place and of the moment."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foreword.assembly import Assembly, ReportRow
from foreword.engine.sources.forms import FACTS_BY_PACE, SESSION_FACTS, STATIC_FACTS, TURN_FACTS
from foreword.errors import ConfigError
from foreword.testing import make_workspace
from foreword.turn import Bulletin, Client, Communication, Git, Host, Sandbox, State, Step, Task, Tool, Toolset, Turn
from foreword.types import Pace, Trust

PEOPLE = "users: {alice: {trust: full, timezone: Europe/Paris}, ina: {trust: inner}, fay: {trust: familiar}}\n"
CONFIG = f"owner: alice\n{PEOPLE}rooms: {{hall: {{ceiling: inner, timezone: Asia/Tokyo}}}}\n"
HEAD = 'name: mine\nmarker: "[cut]"\nmarker_without_call: "[cut]"\n'
FORMS = {"about": "static", "place": "session", "moment": "turn"}
TASK = Task(id="7", title="Bees\n## Core", description="Count.", steps=(Step(text="a", status="done"), Step(text="b")))


def build(folder: Path, source: str, form: str, files: Mapping[str, str] | None = None, **facts: object) -> Assembly:
    """Assemble a turn whose prompt is one form."""
    slot = f"id: x, source: {source}, pace: {FORMS[source]}, trust: public, voice: outside"
    more = ", per_user: true, file: USER.md" if files and "USER.md" in files else ""
    text = f'{HEAD}slots:\n  - {{{slot}{more}, form: "{form}"}}\n'
    turn = {"user": "alice", "situation": "dm", "model": "openai:gpt-5", "blueprint": "mine", "tools": Toolset()}
    ws = make_workspace(folder, {"foreword.yaml": CONFIG, "blueprints/mine.yaml": text, **(files or {})})
    return ws.assemble(Turn(**{**turn, **facts}))


def render_form(folder: Path, source: str, form: str, **facts: object) -> str:
    """Return the text of a form in a turn."""
    return build(folder, source, form, **facts).prompt.text.removesuffix("\n\n")


def find(assembly: Assembly) -> ReportRow:
    """Find the row of the only slot."""
    return next(assembly.rows())


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("{agent} {name}", "assistant Assistant"),
        ("{provider} {model} {full_model}", "openai gpt-5 openai:gpt-5"),
        ("{tools|none}", "none"),
        ("<{identity|-}{duties|-}{role|-}>", "<--->"),
    ],
)
def test_about(tmp_path: Path, form: str, text: str) -> None:
    """A static form shows the agent, its model and its configuration."""
    assert render_form(tmp_path, "about", form) == text


def test_about_the_configured_agent(tmp_path: Path) -> None:
    """The configured facts of an agent have their own lines; a name is one line, regardless of its content."""
    agent = 'agents: {a: {identity: {name: "Ada\\n## Core"}, instructions: " Do\\n it. ", role: R}}\n'
    text = build(tmp_path, "about", "{name}|{duties}|{role}|{identity|-}", {"foreword.yaml": CONFIG + agent})
    assert text.prompt.text == "Ada ## Core|Do\n it.|R|-\n\n"


def test_tools_in_their_order(tmp_path: Path) -> None:
    """The tools of a turn are in its order, and only those that its clearance may know of."""
    tools = Toolset.in_order([Tool(name=name, trust=Trust.PUBLIC) for name in "ba"] + [Tool(name="c")])
    assert render_form(tmp_path / "1", "about", "{tools}", tools=tools) == "b, a, c"
    assert render_form(tmp_path / "2", "about", "{tools}", tools=tools, user="ina") == "b, a"


def test_unnamed_model(tmp_path: Path) -> None:
    """A model without a name is shown as unnamed, and has no provider."""
    assert render_form(tmp_path, "about", "{full_model}[ of {provider}]", model="") == "not named"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "-|-|-"),
        ({"project": "/p"}, "/p|/p|-"),
        ({"directories": ("/a", "/b")}, "-|/a|- /b"),
        ({"project": "/p", "directories": ("/a",)}, "/p|/p|- /a"),
        ({"project": "/p", "directories": ("/p", "/a", "/a")}, "/p|/p|- /a"),
        ({"directories": ("/a\n## Core",)}, "-|/a ## Core|-"),
    ],
)
def test_directories(tmp_path: Path, facts: dict[str, object], text: str) -> None:
    """The working directory is the project or the first given directory, and no directory is named twice."""
    assert render_form(tmp_path, "place", "{project|-}|{cwd|-}|{additional|-}", **facts) == text


def test_host(tmp_path: Path) -> None:
    """The facts of host, model and client are in one line as key=value; empty ones are left out."""
    host = Host(host="box|1", os="linux", sudo_non_interactive=False)
    client = Client(language="fr", location="Lyon\n## Core")
    text = render_form(tmp_path, "place", "Host: {host}", host=host, session="main", client=client)
    assert text == (
        "Host: host=box/1 | os=linux | provider=openai | model=gpt-5 | session=main | sudo_non_interactive=false"
        " | timezone=Europe/Paris | accept_language=fr | location=Lyon ## Core"
    )


def test_sandbox(tmp_path: Path) -> None:
    """The facts of a sandbox have a fixed order; where none is known the line is left out."""
    sandbox = Sandbox(enabled=True, network="none", mode="all")
    assert (
        render_form(tmp_path / "1", "place", "{sandbox}", sandbox=sandbox) == "enabled=true | mode=all | network=none"
    )
    assembly = build(tmp_path / "2", "place", "Sandbox: {sandbox}")
    assert (assembly.prompt.text, str(find(assembly).verdict)) == ("", "absent")


def test_place_from_the_profile(tmp_path: Path) -> None:
    """Zone and location may be in the speaking person's own file, and the device's values win."""
    form, files = "{host}", {"USER.md": "---\ntimezone: Asia/Tokyo\nlocation: Kyoto\n---\n"}
    host = Host(os="linux")
    ina = {"USER.md": "", "users/ina/USER.md": files["USER.md"]}
    text = build(tmp_path / "1", "place", form, ina, host=host, user="ina").prompt.text
    assert text.strip().endswith("timezone=Asia/Tokyo | location=Kyoto")
    client = Client(zone="UTC", location="Lyon")
    text = build(tmp_path / "2", "place", form, ina, host=host, user="ina", client=client).prompt.text
    assert text.strip().endswith("timezone=UTC | location=Lyon")
    text = build(tmp_path / "3", "place", form, files, host=host, user="ina").prompt.text
    assert "Kyoto" not in text


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "13:00 Europe/Paris"),
        ({"client": Client(zone="America/New_York")}, "07:00 America/New_York"),
        ({"user": "ina"}, "12:00 UTC"),
        ({"room": "hall"}, "21:00 Asia/Tokyo"),
        ({"room": "hall", "client": Client(zone="America/New_York")}, "21:00 Asia/Tokyo"),
        ({"room": "other"}, "12:00 UTC"),
    ],
)
def test_whose_clock(tmp_path: Path, facts: dict[str, object], said: str) -> None:
    """The clock is the asking person's own, and in a room the room's, so that it reveals no person's location."""
    assert render_form(tmp_path, "moment", "{time} {zone}", **facts) == said


@pytest.mark.parametrize("form", ["{timestamp}", "{date}", "{weekday}", "{time_12} ({zone})"])
def test_unknown_zone(tmp_path: Path, form: str) -> None:
    """An unknown zone is a note on every form that shows the time, in any format."""
    row = find(build(tmp_path, "moment", form, client=Client(zone="Mars/Base")))
    assert row.reason == "time zone 'Mars/Base' is not known, so UTC is used"


def test_no_clock_no_note(tmp_path: Path) -> None:
    """A form that does not show the time has no note about its zone."""
    assert find(build(tmp_path, "moment", "{remaining}", client=Client(zone="Mars/Base"))).reason == ""


@pytest.mark.parametrize(
    ("git", "said"),
    [
        (Git(branch="main"), "branch main, clean"),
        (Git(branch="main", changed=1), "branch main, 1 changed file"),
        (
            Git(branch="a\n## Core", changed=2, commit="abc\nFix"),
            "branch a ## Core, 2 changed files, last commit abc Fix",
        ),
    ],
)
def test_git(tmp_path: Path, git: Git, said: str) -> None:
    """The state of a repository is one line, whatever a branch or a commit is called."""
    assert render_form(tmp_path, "moment", "{git}", git=git) == said


def test_task(tmp_path: Path) -> None:
    """A task is shown with its steps and their signs; its words cannot begin a new line."""
    text = render_form(
        tmp_path, "moment", "#{task} {task_title} ({task_status})\\n{task_description}\\n{steps}", task=TASK
    )
    assert text == "#7 Bees ## Core (active)\nCount.\n1. ✓ a (done)\n2. ○ b"


def test_state(tmp_path: Path) -> None:
    """Tasks, workflow and manner are shown where they are known."""
    manner = Communication(formality="low", topics=("bees", "tea"))
    state = State(workflow=" Step 2\r\nof 3 ", tasks=(TASK,), communication=manner)
    form = "{tasks}\\n{workflow}\\nFormality: {formality}\\nLength: {length}\\nTopics: {topics}"
    text = render_form(tmp_path, "moment", form, state=state)
    assert text == "- #7 Bees ## Core (active)\nStep 2\nof 3\nFormality: low\nTopics: bees, tea"


@pytest.mark.parametrize(("user", "said"), [("alice", "for full"), ("ina", "for inner"), ("fay", ""), ("stranger", "")])
def test_bulletins(tmp_path: Path, user: str, said: str) -> None:
    """Of several bulletins, only the one for the highest clearance that is not above the turn's is shown."""
    levels = [Bulletin(text=f"for {level}", trust=level) for level in (Trust.FULL, Trust.INNER)]
    assert render_form(tmp_path, "moment", "{bulletin}", user=user, state=State(bulletins=tuple(levels))) == said


@pytest.mark.parametrize(
    ("source", "form", "reason"),
    [
        ("about", "{tools}", "the turn has no tools"),
        ("place", "{directories}", "the agent was given no directories"),
        ("moment", "Git: {git}", "no repository is known"),
        ("moment", "{task}", "no task is bound"),
        ("moment", "{length}", "nothing is known of it"),
    ],
)
def test_reasons(tmp_path: Path, source: str, form: str, reason: str) -> None:
    """An empty form gives the missing facts as its reason."""
    row = find(build(tmp_path, source, form))
    assert (str(row.verdict), row.reason) == ("absent", reason)


@pytest.mark.parametrize(("source", "form"), [("about", "{channel}"), ("about", "{time}"), ("place", "{time}")])
def test_no_faster_facts(tmp_path: Path, source: str, form: str) -> None:
    """A form cannot show a fact that changes faster than its source: such a field is a fault of the blueprint."""
    with pytest.raises(ConfigError, match="has the unknown field"):
        render_form(tmp_path, source, f"<{form[:-1]}|nothing}}>")


def test_slower_facts(tmp_path: Path) -> None:
    """A form of a turn may show slower facts."""
    assert render_form(tmp_path, "moment", "{agent} {channel} {time}") == "assistant terminal 13:00"


def test_one_name_one_fact() -> None:
    """No two facts have the same name, so that a name has one meaning in every form."""
    assert (
        not STATIC_FACTS.keys() & SESSION_FACTS.keys()
        | SESSION_FACTS.keys() & TURN_FACTS.keys()
        | STATIC_FACTS.keys() & TURN_FACTS.keys()
    )
    assert FACTS_BY_PACE[Pace.TURN].keys() == STATIC_FACTS.keys() | SESSION_FACTS.keys() | TURN_FACTS.keys()


def test_before_the_epoch(tmp_path: Path) -> None:
    """A moment before 1970 is shown like any other."""
    moment = datetime(1969, 12, 31, 22, 58, tzinfo=UTC)
    assert render_form(tmp_path, "moment", "{date} {time}", now=moment) == "1969-12-31 23:58"


def test_blank_bulletin(tmp_path: Path) -> None:
    """A blank bulletin does not hide one that was made at a lower clearance."""
    bulletins = (Bulletin(text=" \n", trust=Trust.FULL), Bulletin(text="LOW DIGEST", trust=Trust.FAMILIAR))
    turn = Turn(user="alice", situation="dm", model="openai:gpt-5", state=State(bulletins=bulletins))
    assert "LOW DIGEST" in make_workspace(tmp_path, {}).assemble(turn).prompt.text
