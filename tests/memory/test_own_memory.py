"""A person's own memory is found in their private conversations and nowhere else."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foreword.agent.tools import reading_tools
from foreword.agent.tools.registry import WITH_LOG
from foreword.engine import trust
from foreword.engine.sources import memory_sections
from foreword.engine.trust import Audience, hide_own_paths, list_index_stores, locate_path
from foreword.errors import ConfigError, InputError
from foreword.gateway.bulletins import write_bulletin_prompt
from foreword.lint.linter import lint_workspace
from foreword.memory.entry import Note
from foreword.memory.stores import Memory
from foreword.testing import NOON, make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace, open_workspace

SOAK = bool(os.environ.get("FOREWORD_SOAK"))
FAMILIES = 60 if SOAK else 4
PEOPLE = 12 if SOAK else 5
CONFIG = """\
owner: ada
users:
  ada: {trust: full}
  ben: {trust: full}
  mia: {trust: inner}
  tom: {trust: familiar}
situations: {dm: {ceiling: full}, den: {ceiling: inner}, phone: {ceiling: familiar}, group: {ceiling: full}}
rooms: {kitchen: {situation: group}, hall: {situation: dm}}
memory: {recall: true}
"""
WISH = "Mia wishes for a red bicycle with a silver bell."
PRESENT = "Ben hides the present, a red bicycle, in the shed behind the ladder."
QUESTION = "Who wishes for a red bicycle with a bell, and where is the present hidden in the shed?"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """The workspace of a family."""
    with make_workspace(tmp_path, {"foreword.yaml": CONFIG, "AGENTS.md": "Be kind.\n"}) as workspace:
        yield workspace


def use(ws: Workspace, turn: Turn, name: str, **arguments: object) -> str:
    """Call a tool in a turn, and return its answer or its refusal."""
    try:
        return ws.call(ws.assemble(turn), name, arguments).text
    except InputError as error:
        return str(error)


def save(ws: Workspace, turn: Turn, text: str) -> str:
    """Save a memory in a turn, and return its path."""
    return use(ws, turn, "save_memory", text=text).removeprefix("Saved as ").removesuffix(".")


def make_turn(user: str, **more: object) -> Turn:
    """Make a turn with every tool that asks for memory or for what went on."""
    return Turn(**{"user": user, "situation": "dm", "tools": WITH_LOG, "channel": "telegram", "now": NOON, **more})


def show_all(ws: Workspace, turn: Turn, query: str, paths: list[str]) -> str:
    """Show everything that a turn can see of memory: its prompt with recall, each tool, bulletin and status."""
    assembly = ws.assemble(Turn(**{**{name: getattr(turn, name) for name in SHOWN}, "message": query}))
    documents = ws.memory.open_all(ws.memory.survey(assembly.clearance.level).paths)
    return "\n".join(
        [
            assembly.prompt.text,
            assembly.explain(),
            write_bulletin_prompt(documents),
            use(ws, turn, "memory_search", query=query, limit=20),
            use(ws, turn, "memory_search", query=query, store="own"),
            use(ws, turn, "memory_list"),
            use(ws, turn, "memory_list", store="own"),
            use(ws, turn, "read_memory"),
            use(ws, turn, "foreword_status"),
            *(use(ws, turn, "memory_get", path=path) for path in paths),
            repr(list(ws.memory.entries(assembly.audience))),
        ]
    )


SHOWN = ("user", "situation", "room", "tools", "channel", "now")


def test_family(ws: Workspace) -> None:
    """A child's wish and a partner's present, saved in private, are found by each of them alone, and in no group."""
    mia, ben = make_turn("mia"), make_turn("ben")
    paths = [save(ws, mia, WISH), save(ws, ben, PRESENT)]
    assert [path.rpartition("/")[0] for path in paths] == ["own/inner", "own/full"]
    assert WISH in show_all(ws, mia, QUESTION, paths)
    assert PRESENT in show_all(ws, ben, QUESTION, paths)
    assert "bicycle" not in show_all(ws, mia, "present shed ladder", paths).replace(WISH, "").replace(QUESTION, "")
    others = [make_turn("ada"), make_turn("tom"), make_turn("ben", situation="phone")]
    others += [
        make_turn(user, room=room, situation="") for user in ("ada", "ben", "mia") for room in ("kitchen", "hall")
    ]
    others += [make_turn(user, situation="group") for user in ("ada", "ben", "mia", "tom")]
    for turn in others:
        seen = show_all(ws, turn, QUESTION, paths).replace(QUESTION, "")
        assert "bicycle" not in seen, turn
        assert "own/" not in seen.replace("own/inner/", "").replace("own/full/", ""), turn


def test_shared_by_choice(ws: Workspace) -> None:
    """A shared entry is found by others, names the person who confirmed it, and waits for the owner's review."""
    mia = make_turn("mia")
    path = save(ws, mia, WISH)
    assert use(ws, mia, "share_memory", path=path, store="social").startswith("Shared as social/inbox/mia/")
    assert WISH in use(ws, make_turn("tom", situation="group"), "memory_search", query="red bicycle")
    (entry,) = ws.memory.entries(Audience(clearance=Trust.FULL, person="ada"))
    assert (entry.text, entry.provenance.author, entry.provenance.clearance) == (WISH, "mia", "inner")
    assert 'confirmed: "mia"' in (Path(ws.files.root) / "memory" / entry.path).read_text()


def test_saved_before(ws: Workspace) -> None:
    """Entries that were saved to a store before are found as before."""
    ws.memory.save(Note(text=WISH, author="mia", clearance=Trust.INNER, time=NOON), "shared")
    for user in ("ada", "ben", "mia"):
        assert WISH in use(ws, make_turn(user), "memory_search", query="red bicycle")
    assert WISH in use(ws, make_turn("mia"), "read_memory")


class Family:
    """A generated family: people, their rooms, and words that each has saved in private."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.people = {f"p{number}": self.dice.choice(("full", "inner", "familiar")) for number in range(PEOPLE)}
        self.people["p0"] = "full"
        levels = ("full", "inner", "familiar")
        self.rooms = {f"r{number}": self.dice.choice(levels) for number in range(3)}
        users = ", ".join(f"{name}: {{trust: {trust}}}" for name, trust in self.people.items())
        rooms = ", ".join(f"{name}: {{situation: dm, ceiling: {level}}}" for name, level in self.rooms.items())
        config = (
            f"owner: p0\nusers: {{{users}}}\nrooms: {{{rooms}}}\nmemory: {{recall: true}}\n"
            "situations: {dm: {ceiling: full}, group: {ceiling: full}, phone: {ceiling: inner}}\n"
        )
        self.workspace = make_workspace(folder, {"foreword.yaml": config, "AGENTS.md": "Be kind.\n"})
        self.words: dict[str, list[str]] = {name: [] for name in self.people}
        self.paths: list[str] = []
        for name in self.people:
            for number in range(self.dice.randint(1, 3)):
                self.plant(name, number)
        self.workspace.refresh(now=True)
        self.workspace.refresh(now=True)

    def plant(self, name: str, number: int) -> None:
        """Save a wish in private, or write one by hand."""
        word = f"zq{name}n{number}qz"
        text = f"A secret wish for the birthday: {word}, with a red bicycle."
        if self.dice.random() < 0.3:
            write_files(self.workspace.files.root, {f"users/{name}/memory/notes{number}.md": f"# {word}\n\n{text}\n"})
            self.paths.append(f"own/notes{number}.md")
        else:
            self.paths.append(save(self.workspace, make_turn(name), text))
        self.words[name].append(word)

    def list_turns(self) -> Iterator[Turn]:
        """List every person in every place."""
        for name in (*self.people, "stranger"):
            yield from (make_turn(name, situation=situation) for situation in ("dm", "phone", "system", "group"))
            yield from (make_turn(name, room=room, situation="") for room in self.rooms)

    def find_leak(self) -> str:
        """Return the first turn that shows a person's words to others, or an empty text."""
        words = [(name, word) for name in self.words for word in self.words[name]]
        for turn in self.list_turns():
            private = not turn.room and turn.situation != "group"
            asked = f"secret wish birthday red bicycle {' '.join(word for _, word in words)}"
            seen = show_all(self.workspace, turn, asked, self.paths).replace(asked, "")
            for name, word in words:
                if word in seen and not (private and name == turn.user):
                    return f"{turn.user} in {turn.room or turn.situation} meets {word}"
        return ""


@pytest.mark.parametrize("seed", range(FAMILIES))
def test_generated_families(tmp_path: Path, seed: int) -> None:
    """In generated families a turn shows no words of another person, and each person finds their words in private."""
    family = Family(tmp_path, seed)
    with family.workspace:
        assert family.find_leak() == ""
        for name, words in family.words.items():
            seen = show_all(family.workspace, make_turn(name), "secret wish birthday red bicycle", family.paths)
            assert [word for word in words if word not in seen] == []


_open, _list_own = Memory._open, memory_sections.list_own_paths
RULES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "company": lambda patch: patch.setattr(trust, "has_other_readers", lambda _: False),
    "the person of a search": lambda patch: patch.setattr(
        Memory,
        "_open",
        lambda self, audience, store="": [*_open(self, audience, store), *list_index_stores("p1", 3)],
    ),
    "the person of memory_get": lambda patch: patch.setattr(
        reading_tools, "list_own_paths", lambda _, level, files: _list_own("p1", level, files)
    ),
    "the person of the menu": lambda patch: patch.setattr(
        memory_sections, "list_own_paths", lambda _, level, files: _list_own("p1", level, files)
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_family_would_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """The generated family finds a leak as soon as a rule is removed."""
    family = Family(tmp_path, 1)
    with family.workspace:
        for number in range(7, 9):  # p1 has both kinds of memory, whatever the dice say
            write_files(tmp_path, {f"users/p1/memory/full/{number}.md": f"The birthday wish zqp1n{number}qz.\n"})
            write_files(tmp_path, {f"users/p1/memory/{number}.md": f"The birthday wish zqp1n{number}qz.\n"})
            family.words["p1"].append(f"zqp1n{number}qz")
        family.paths.append("own/full")
        RULES[rule](monkeypatch)
        assert " meets zq" in family.find_leak()


def test_same_name_on_display(tmp_path: Path) -> None:
    """Two people whose profiles have the same name share nothing: the key of the configuration decides."""
    profile = "---\nname: Sam\n---\nLikes tea.\n"
    config = "owner: ada\nusers: {ada: {trust: full}, sam1: {trust: inner}, sam2: {trust: inner}}\n"
    files = {"foreword.yaml": config, "users/sam1/USER.md": profile, "users/sam2/USER.md": profile}
    with make_workspace(tmp_path, files) as ws:
        path = save(ws, make_turn("sam1"), WISH)
        assert "Nothing" in use(ws, make_turn("sam2"), "memory_search", query="red bicycle")
        assert path != save(ws, make_turn("sam2"), WISH)


def test_renamed(ws: Workspace) -> None:
    """A renamed person has no memory until the folder is renamed by hand; lint warns about the old folder."""
    save(ws, make_turn("mia"), WISH)
    root = Path(ws.files.root)
    (root / "foreword.yaml").write_text(CONFIG.replace("mia", "maria"))
    ws.refresh(now=True)
    assert "Nothing" in use(ws, make_turn("maria"), "memory_search", query="red bicycle")
    assert use(ws, make_turn("mia"), "memory_list").startswith("unknown tool")
    found = [finding.message for finding in lint_workspace(ws) if finding.file.startswith("users/mia/memory/")]
    assert found == ["users/mia belongs to no user, so its files are never read; did you mean 'maria'?"]
    (root / "users/mia").rename(root / "users/maria")
    with open_workspace(str(root)) as again:
        assert WISH in use(again, make_turn("maria"), "memory_search", query="red bicycle")
        assert not [finding for finding in lint_workspace(again) if "belongs to no user" in finding.message]


def test_a_store_becomes_private(ws: Workspace) -> None:
    """A store whose trust is raised while a session runs is not in the next turn: not on its menu, in no search."""
    write_files(ws.files.root, {"memory/social/BIKE.md": "# Bikes\n\nThe red bicycle has a silver bell.\n"})
    ws.refresh(now=True)
    turn = make_turn("tom", message="Which red bicycle has a bell?")
    assert "silver bell" in ws.assemble(turn).prompt.text
    root = Path(ws.files.root)
    (root / "foreword.yaml").write_text(CONFIG + "stores: {social: {trust: full}}\n")
    ws.refresh(now=True)
    assembly = ws.assemble(turn)
    assert "silver" not in assembly.prompt.text
    assert "BIKE" not in assembly.prompt.text
    assert use(ws, turn, "memory_search", query="red bicycle") == "Nothing in memory answers that."


def test_reserved(tmp_path: Path) -> None:
    """No store is called `own`: the configuration says so, with the line."""
    with pytest.raises(ConfigError) as caught:
        make_workspace(tmp_path, {"foreword.yaml": "owner: ada\nusers: {ada: {}}\nstores:\n  own: {trust: inner}\n"})
    (fault,) = caught.value.faults
    assert (fault.line, fault.message) == (
        4,
        "stores.own is reserved for each person's own memory (users/NAME/memory/); rename the store",
    )


LINKS = {
    "a file of another": ("users/tom/memory/link.md", "../../mia/memory/note.md"),
    "a folder of another": ("users/tom/memory/deep", "../../mia/memory"),
    "a person's folder": ("users/tom", "mia"),
    "a person's memory": ("users/tom/memory", "../mia/memory"),
    "a store": ("users/tom/memory/link.md", "../../../memory/private/DIARY.md"),
    "from a store": ("memory/social/link.md", "../../users/mia/memory/note.md"),
    "a store by itself": ("memory/social", "../users/mia/memory"),
    "out of the workspace": ("users/tom/memory/link.md", "../../../../outside.md"),
    "a higher level": ("users/tom/memory/link.md", "full/note.md"),
}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_links(tmp_path: Path, link: tuple[str, str]) -> None:
    """A link out of a person's own memory shows nothing, and a link into it shows nothing."""
    secret = f"{WISH}\n"
    write_files(tmp_path, {"outside.md": secret})
    files = {"users/mia/memory/note.md": secret, "memory/private/DIARY.md": secret}
    if "full/" in link[1]:
        files["users/tom/memory/full/note.md"] = secret
    with make_workspace(tmp_path / "ws", {"foreword.yaml": CONFIG, **files}) as ws:
        place = tmp_path / "ws" / link[0]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(link[1])
        turn = make_turn("tom")
        name = link[0].rpartition("/")[2]
        paths = [f"own/{name}", "own/link.md", "own/note.md", "own/deep/note.md", "social/link.md", "social/note.md"]
        seen = show_all(ws, turn, QUESTION, paths).replace(QUESTION, "")
        assert "bicycle" not in seen
        if place.name in ("tom", "memory"):
            assert "behind a link" in use(ws, turn, "save_memory", text="Tea at four.")


@pytest.mark.parametrize(
    "path",
    [
        *("own/../../mia/memory/note.md", "users/mia/memory/note.md", "own//note.md", "own/./note.md", "own", "own/"),
        *("OWN/note.md", "own/..", "own/../USER.md", "memory/own/note.md", "../users/mia/memory/note.md"),
    ],
)
def test_paths(ws: Workspace, path: str) -> None:
    """No spelling of a path leads to another person's memory, or out of `users/NAME/memory/`."""
    write_files(ws.files.root, {"users/mia/memory/note.md": WISH, "users/tom/USER.md": WISH})
    write_files(ws.files.root, {"users/tom/memory/mine.md": "Mine.\n"})
    for name in ("memory_get", "forget_memory", "share_memory"):
        answer = use(ws, make_turn("tom"), name, path=path, store="social")
        assert answer.startswith("there is no ")
    assert (Path(ws.files.root) / "users/mia/memory/note.md").exists()


def test_no_person_has_no_own_path() -> None:
    """In a room a path of own memory is no file of a store or of a person."""
    assert locate_path("own/note.md", "mia") == "users/mia/memory/note.md"
    assert locate_path("own/note.md", "") == ""
    assert locate_path("social/note.md", "") == "memory/social/note.md"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("there is no 'own/FOR ADA.md' here", "there is no 'own/…' here"),
        ("users/mia/memory/FOR ADA.md is not UTF-8 in line 2", "own/… is not UTF-8 in line 2"),
        ("OSError: '/srv/ws/users/mia/memory/full/a.md': it is no file", "OSError: '/srv/ws/own/…': it is no file"),
        ("own/familiar cannot be written", "own/… cannot be written"),
        (
            "memory/social/A.md and users/mia/USER.md are down/up",
            "memory/social/A.md and users/mia/USER.md are down/up",
        ),
    ],
)
def test_hidden_paths(text: str, hidden: str) -> None:
    """An error that others read names no file of a person's own memory, and names every other file."""
    assert hide_own_paths(text) == hidden


def test_a_shared_copy_says_how_it_was_learned(ws: Workspace) -> None:
    """A shared copy has the clearance, channel, session and time of its entry; only the confirmation is new."""
    learned = make_turn("ben", channel="sms", session="s1", now=NOON)
    path = save(ws, learned, PRESENT)
    later = make_turn("ben", channel="web", session="s2", now=NOON.replace(year=NOON.year + 1))
    first = use(ws, later, "share_memory", path=path, store="shared").removeprefix("Shared as ").partition(",")[0]
    low = make_turn("ben", situation="den")  # a turn whose clearance is lower than that of the text
    second = use(ws, low, "share_memory", path=first, store="social").removeprefix("Shared as ").partition(",")[0]
    for copy in (first, second):
        text = (Path(ws.files.root) / "memory" / copy).read_text()
        assert [line for line in text.splitlines() if ": " in line] == [
            'author: "ben"',
            'clearance: "full"',
            'channel: "sms"',
            'session: "s1"',
            f'time: "{NOON.isoformat(timespec="seconds")}"',
            'confirmed: "ben"',
        ]


def test_levels(ws: Workspace) -> None:
    """An entry is not shown in a private conversation below the clearance at which it was learned."""
    path = save(ws, make_turn("ben"), PRESENT)
    low = make_turn("ben", situation="phone")
    assert "bicycle" not in show_all(ws, low, QUESTION, [path, "own/full"]).replace(QUESTION, "")
    said = save(ws, low, "Ben likes tea.")
    assert said.startswith("own/familiar/")
    assert "Ben likes tea." in use(ws, make_turn("ben"), "memory_search", query="tea")


def test_written_by_hand(ws: Workspace) -> None:
    """A file that a person puts into their folder is a memory like any other, and no agent removes it."""
    write_files(ws.files.root, {"users/tom/memory/NOTES.md": "# Fishing\n\nTom fishes at the weir.\n"})
    ws.refresh(now=True)
    turn = make_turn("tom")
    assert "- own/NOTES.md (10 tok) — Fishing" in ws.assemble(turn).prompt.text
    assert "Tom fishes" in use(ws, turn, "memory_search", query="weir")
    assert "Tom fishes" in use(ws, turn, "memory_get", path="own/NOTES.md")
    assert use(ws, turn, "forget_memory", path="own/NOTES.md") == "there is no 'own/NOTES.md' of this person here"
    write_files(ws.files.root, {"users/tom/memory/EMPTY.md": "---\ndescription: x\n---\n"})
    ws.refresh(now=True)
    assert use(ws, turn, "memory_list", store="own") == "- own/NOTES.md (10 tok) — Fishing"


def test_large(ws: Workspace) -> None:
    """A file of a person's own memory may be as large as one of a store."""
    lines = f"{'Sun and rain and wind. ' * 100_000}\n\n" * 2
    assert len(lines) > 4_000_000
    write_files(ws.files.root, {"users/tom/memory/LONG.md": f"{lines}Tom fishes at the weir.\n"})
    assert "Tom fishes" in use(ws, make_turn("tom"), "memory_search", query="fishes weir", store="own")
