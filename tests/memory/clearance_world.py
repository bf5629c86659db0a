"""One workspace, its copies without the texts that an audience may not see, and all that a turn can see of either."""

import json
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from foreword.agent.tools.registry import BUILT_IN
from foreword.assembly import Assembly
from foreword.engine.trust import LEVELS as OWN_LEVELS
from foreword.engine.trust import Audience, find_own_level
from foreword.errors import InputError
from foreword.memory.entry import Note
from foreword.testing import NOON, make_workspace
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
users: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}, dave: {trust: inner}}
situations: {dm: {ceiling: full}, phone: {ceiling: familiar}, group: {ceiling: familiar}, open: {ceiling: public}}
stores: {private: {trust: full}, shared: {trust: inner}, social: {trust: familiar}, vault: {trust: full}}
memory: {recall: true}
"""
LEAST = {
    "private": Trust.FULL,
    "vault": Trust.FULL,
    "shared": Trust.INNER,
    "facts": Trust.INNER,
    "social": Trust.FAMILIAR,
}
FOLDERS = ("private", "vault", "shared", "social")
TRUSTS = {
    "alice": Trust.FULL,
    "carol": Trust.INNER,
    "dave": Trust.INNER,
    "bob": Trust.FAMILIAR,
    "mallory": Trust.PUBLIC,
    "": Trust.PUBLIC,
}
PEOPLE = ("alice", "carol", "dave", "bob")  # those with a personal memory
CEILINGS = {
    "dm": Trust.FULL,
    "phone": Trust.FAMILIAR,
    "group": Trust.FAMILIAR,
    "open": Trust.PUBLIC,
    "nowhere": Trust.PUBLIC,
}
BLUEPRINTS = ("default", "default", "default", "coop", "osa", "spec010", "nova", "moltis")
WORDS = (
    *("birthday", "lake", "garden", "ring", "tax", "noon", "ferry", "bread", "Carol", "bob", "when", "2026", "may"),
    *("OR", "NOT", '"', "*", "NEAR(", "text:", "🙂", "\0", "\ud800", "private", "facts", ""),
)
NAMES = ("A.md", "B.md", "deep/C.md", "inbox/bob/d.md", "inbox/alice/e.md")
OWN_NAMES = ("A.md", "familiar/d.md", "inner/e.md", "full/f.md")
ASKED = (
    *(*NAMES, *OWN_NAMES, "link.md", "up", "up.md", "up/A.md", "facts.md", "nothing.md", "inbox/bob", "inbox/alice"),
    *("full", "inner", "bob.md", "alice/A.md", "P.md", ""),
)
SHAPES = ("{store}/{name}",) * 6 + (
    *("memory/{store}/{name}", "social/../{store}/{name}", "/{store}/{name}", "{store}/./{name}", "{store}\\{name}"),
    *("../{store}/{name}", "memories.json", "{store}", "social/{name}/../../{store}/A.md"),
    *(
        "users/bob/memory/{name}",
        "users/alice/memory/{name}",
        "own/../../alice/memory/{name}",
        "own/../../bob/memory/A.md",
    ),
)
SECTIONS = ("menu", "recall", "core", "files", "memories", "long-term", "facts", "memory", "remaining", "nothing")
LINKS = {
    "link.md": "../private/A.md",
    "up": "../vault",
    "up.md": "../vault",
    "facts.md": "../../memories.json",
    "deep/link.md": "../../shared/deep/C.md",
    "round.md": "round.md",
    "bob.md": "../../users/bob/memory/A.md",
    "alice": "../../users/alice/memory",
}
OWN_LINKS = {
    "users/carol/memory/bob.md": "../../bob/memory/A.md",
    "users/carol/memory/higher.md": "full/f.md",
    "users/dave/memory/bob": "../../bob/memory",
    "users/bob/memory/private.md": "../../../memory/private/A.md",
}


def mark(store: str) -> str:
    """Return a word that is in every text of one store and in no other text."""
    return f"mark{store}"


def mark_own(person: str, level: Trust) -> str:
    """Return a word that is in every text of one clearance of a person's own memory and in no other text."""
    return f"mark{person}s{level}"


def list_marks(audience: Audience, *, seen: bool) -> list[str]:
    """Return the words that an audience may see, or those that it may not."""
    level = audience.clearance
    stores = {mark(store): level >= least for store, least in LEAST.items()}
    own = {mark_own(name, least): level >= least and name == audience.person for name in PEOPLE for least in OWN_LEVELS}
    return [word for word, open_ in {**stores, **own}.items() if open_ is seen]


def hide(audience: Audience) -> list[str]:
    """Return the words that an audience may not see."""
    return list_marks(audience, seen=False)


def make_files() -> dict[str, str]:
    """Make the same words in every store, each with the mark of its store in text, heading and front matter."""
    files = {"foreword.yaml": CONFIG, "AGENTS.md": "Be brief.\n"}
    for store in FOLDERS:
        word = mark(store)
        for name in NAMES:
            head = f"---\ndescription: {word} described\ntime: {word}\nchannel: {word}\n---\n"
            text = f"# Heading {word}\n\nThe birthday at the lake, {word}.\n\nA ring, a garden, tax at noon {word}.\n"
            files[f"memory/{store}/{name}"] = f"{head}{text}\nCarol: {word} was on 3 May 2026, at {name}.\n"
    for person in PEOPLE:
        for name in OWN_NAMES:
            word = mark_own(person, find_own_level(f"users/{person}/memory/{name}"))
            head = f"---\ndescription: {word} described\ntime: {word}\nchannel: {word}\n---\n"
            text = f"# Heading {word}\n\nThe birthday at the lake, {word}.\n\nA ring, tax at noon {word}.\n"
            files[f"users/{person}/memory/{name}"] = f"{head}{text}"
    files["memories.json"] = json.dumps([f"A birthday in May, {mark('facts')}", f"The ferry at noon {mark('facts')}"])
    return files


def may_see(path: str, audience: Audience) -> bool:
    """Whether an audience may see a file."""
    parts, level = path.split("/"), audience.clearance
    if path == "memories.json":
        return level >= Trust.INNER
    if parts[0] == "users":
        return parts[1] == audience.person and level >= find_own_level(path)
    return level >= LEAST[parts[1]] if parts[0] == "memory" else True


@dataclass
class Twin:
    """A workspace, and the assemblies of its turns."""

    workspace: Workspace
    audiences: Sequence[Audience]
    """The audiences whose stores are indexed after each change."""
    turns: dict[Turn, Assembly] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """The files after the last refresh."""

    @property
    def root(self) -> Path:
        """The folder."""
        return Path(self.workspace.files.root)

    def assemble(self, turn: Turn) -> Assembly:
        """Assemble a turn, once until the next refresh."""
        if turn not in self.turns:
            self.turns[turn] = self.workspace.assemble(turn)
        return self.turns[turn]

    def refresh(self) -> None:
        """Read changes from the disk and index them."""
        self.turns.clear()
        self.workspace.refresh(now=True)
        self.files = read_files(self.root)
        memory = self.workspace.memory
        memory._index_sync.mark_changed(*(store for audience in self.audiences for store in memory._open(audience)))
        for audience in self.audiences:
            memory.search("birthday", audience)


@dataclass
class World:
    """The whole workspace, and for each audience one without the texts that it may not see."""

    whole: Twin
    less: Mapping[Audience, Twin]
    logged: list[str]

    def mirror(self, *changed: Audience) -> None:
        """Delete in the others what their audience may not see, then restore missing original files.

        The workspaces of the given audiences have changed; without any, all may have.
        All index the same changes in the same order: it decides between equally good results.
        """
        for audience in changed or self.less:
            self.less[audience].refresh()
        self._copy()
        missing = {path: text for path, text in make_files().items() if path not in self.whole.files}
        for path, text in missing.items():
            (self.whole.root / path).write_text(text)
        if missing:
            self._copy()

    def _copy(self) -> None:
        self.whole.refresh()
        for audience, twin in self.less.items():
            visible = {path: text for path, text in self.whole.files.items() if may_see(path, audience)}
            if visible == twin.files:
                continue
            for path in twin.files.keys() - visible.keys():
                (twin.root / path).unlink()
            for path, text in visible.items():
                if twin.files.get(path) != text:
                    (twin.root / path).parent.mkdir(parents=True, exist_ok=True)
                    (twin.root / path).write_text(text)
            twin.refresh()


def read_files(root: Path) -> dict[str, str]:
    """Read the files that a person could edit."""
    places = [root / "foreword.yaml", root / "AGENTS.md", root / "memories.json"]
    places += [*(root / "memory").rglob("*.md"), *(root / "users").rglob("*.md")]
    plain = [place for place in places if place.is_file() and not place.is_symlink()]
    return {place.relative_to(root).as_posix(): place.read_text() for place in plain}


class Listener(logging.Handler):
    """Collects every record of every logger."""

    def __init__(self, records: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a record."""
        self._records.append(record.getMessage())


@contextmanager
def make_world(folder: Path) -> Iterator[World]:
    """Make the workspaces, with links from the lowest store to every other, and capture the log."""
    with ExitStack() as stack:

        def make(name: str, files: Mapping[str, str], audiences: Sequence[Audience]) -> Twin:
            shutil.rmtree(folder / name, ignore_errors=True)
            workspace = stack.enter_context(make_workspace(folder / name, files))
            links = {f"memory/social/{link}": target for link, target in LINKS.items()}
            for link, target in {**links, **OWN_LINKS}.items():
                place = folder / name / link
                place.parent.mkdir(parents=True, exist_ok=True)
                os.symlink(target, place)
            twin = Twin(workspace, audiences)
            twin.refresh()
            return twin

        logged: list[str] = []
        listener = Listener(logged)
        logger = logging.getLogger()
        before = logger.level
        logger.addHandler(listener)
        logger.setLevel(logging.DEBUG)
        try:
            files = make_files()
            less = {
                one: make(
                    f"{one.clearance}-{one.person}",
                    {path: text for path, text in files.items() if may_see(path, one)},
                    [one],
                )
                for one in list_audiences()
            }
            everyone = [Audience(clearance=Trust.FULL, person=person) for person in PEOPLE]
            yield World(make("whole", files, everyone), less, logged)
        finally:
            logger.removeHandler(listener)
            logger.setLevel(before)


def list_audiences() -> list[Audience]:
    """List every audience that the people and situations have."""
    turns = [(user, situation) for user in TRUSTS for situation in CEILINGS]
    return list(dict.fromkeys(find_place(user, situation) for user, situation in turns))


def find_place(user: str, situation: str) -> Audience:
    """Find the readers in a situation; a public user has no personal memory."""
    level = min(TRUSTS[user], CEILINGS[situation])
    return Audience(clearance=level, person=user if level and situation != "group" else "")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request by a person in a place, in one of the possible ways."""

    surface: str
    user: str
    situation: str
    store: str
    query: str
    path: str
    number: int
    blueprint: str = "default"

    @property
    def audience(self) -> Audience:
        """The clearance that this person has there, and the person where no one else reads."""
        return find_place(self.user, self.situation)

    @property
    def level(self) -> Trust:
        """The clearance that this person has there."""
        return self.audience.clearance

    @property
    def turn(self) -> Turn:
        """The turn, without a message."""
        room = "telegram:1" if self.situation == "group" and self.number % 2 else ""
        return Turn(user=self.user, situation=self.situation, room=room, tools=BUILT_IN, channel="telegram", now=NOON)


def draw(dice: random.Random) -> Case:
    """Draw one case; the asker knows every hidden word and every path, and writes the words in capitals."""
    user, situation = dice.choice(list(TRUSTS)), dice.choice(list(CEILINGS))
    store = dice.choice([*LEAST, "own", "own", "", "nope"])
    hidden = [word.upper() for word in hide(find_place(user, situation))]
    return Case(
        surface=dice.choice(EVERY),
        user=user,
        situation=situation,
        store=store,
        query=" ".join(dice.choices([*WORDS, *hidden], k=dice.randint(1, 4))),
        path=dice.choice(SHAPES).format(store=store, name=dice.choice(ASKED)),
        number=dice.randint(1, 20),
        blueprint=dice.choice(BLUEPRINTS),
    )


def use(twin: Twin, case: Case, name: str, **arguments: object) -> str:
    """Use a tool."""
    return repr(twin.workspace.call(twin.assemble(case.turn), name, arguments))


def search(twin: Twin, case: Case) -> str:
    """Search with the tool and without: results, their order, their scores."""
    hits = twin.workspace.memory.search(case.query, case.audience, limit=case.number, store=case.store)
    return f"{hits!r}\n{use(twin, case, 'memory_search', query=case.query, store=case.store, limit=case.number)}"


def get(twin: Twin, case: Case) -> str:
    """Read a path, from some line on."""
    return use(twin, case, "memory_get", path=case.path, **{"from": max(1, case.number - 15)})


def read_section(twin: Twin, case: Case) -> str:
    """Read a section, or a path as if it were one."""
    return use(twin, case, "read_section", id=[*SECTIONS, case.path][case.number % (len(SECTIONS) + 1)])


def show_list(twin: Twin, case: Case) -> str:
    """List a store with the tool and without."""
    memory = twin.workspace.memory
    lines = memory.menu(case.audience, twin.workspace.context.measure("openai:gpt-5"), case.store)
    return f"{lines}\n{use(twin, case, 'memory_list', store=case.store)}"


def read(twin: Twin, case: Case) -> str:
    """Read a person's saved entries, including those that wait for review."""
    memory = twin.workspace.memory
    entries = [*memory.entries(case.audience), *memory.find_own(case.user, case.audience)]
    output = (entries, memory.count_stocks(case.audience), memory.survey(case.level).paths)
    return f"{output!r}\n{use(twin, case, 'read_memory')}"


def prompt(twin: Twin, case: Case) -> str:
    """Assemble a whole turn with its recalled parts, and return everything that its report shows."""
    turn = replace(case.turn, message=case.query, blueprint=case.blueprint)
    assembly = twin.workspace.assemble(turn)
    request = json.dumps(assembly.envelope().request, default=str)
    whole = json.dumps(assembly.to_dict(), default=str)
    return "\n".join([assembly.prompt.text, repr(list(assembly.rows())), assembly.explain(), request, whole])


def save(twin: Twin, case: Case) -> str:
    """Save something that only the clearance of the turn may see."""
    store = twin.workspace.memory.find_store(case.audience)
    word = mark_own(case.user, case.level) if store == "own" else mark(store)
    return use(twin, case, "save_memory", text=f"Note {case.number} on the lake, {word}")


def share(twin: Twin, case: Case) -> str:
    """Share an entry, or try to share a path; shared words are not marked any more."""
    memory = twin.workspace.memory
    use(twin, case, "save_memory", text=f"Ferry {case.number} at noon")
    own = [entry.path for entry in memory.find_own(case.user, case.audience) if "mark" not in entry.text]
    path = own[case.number % len(own)] if own and case.number > 5 else case.path
    entry = next((one for one in memory.find_own(case.user, case.audience) if one.path == path), None)
    return "" if entry and "mark" in entry.text else use(twin, case, "share_memory", path=path, store=case.store)


def forget(twin: Twin, case: Case) -> str:
    """Forget a path, or an entry that is there."""
    memory = twin.workspace.memory
    own = [entry.path for entry in (*memory.entries(case.audience), *memory.find_own(case.user, case.audience))]
    return use(twin, case, "forget_memory", path=own[case.number % len(own)] if own and case.number > 10 else case.path)


def promote(twin: Twin, case: Case) -> str:
    """Promote an entry to a store that has no more readers than its own."""
    entries = [entry.path for entry in twin.workspace.memory.entries(case.audience)]
    path = entries[case.number % len(entries)] if entries and case.number > 5 else case.path
    origin = LEAST.get(path.partition("/")[0], Trust.PUBLIC)
    target = case.store if LEAST.get(case.store, Trust.PUBLIC) >= origin else "private"
    place = "memories.json" if target == "facts" else f"{target}/P.md"
    return repr(twin.workspace.memory.promote(path, place, case.audience, case.user))


def save_note(twin: Twin, case: Case) -> str:
    """Save a note as the library does, in a store that the clearance may see."""
    if case.store not in twin.workspace.memory.open_to(case.audience):
        return ""
    word = mark_own(case.user, case.level) if case.store == "own" else mark(case.store)
    note = Note(text=f"Ferry {case.number}, {word}", author=case.user, clearance=case.level, time=NOON)
    return repr(twin.workspace.memory.save(note, case.store))


LOOKING: Mapping[str, Callable[[Twin, Case], str]] = {
    "search": search,
    "get": get,
    "section": read_section,
    "list": show_list,
    "read": read,
    "prompt": prompt,
}
CHANGING: Mapping[str, Callable[[Twin, Case], str]] = {
    "save": save,
    "share": share,
    "note": save_note,
    "forget": forget,
    "promote": promote,
}
EVERY = (*("search", "get", "prompt") * 40, *("section", "list", "read") * 20, *CHANGING)


def show(world: World, twin: Twin, case: Case) -> str:
    """Return everything that a case shows, including errors, notices and the log."""
    act = {**LOOKING, **CHANGING}[case.surface]
    world.logged.clear()
    try:
        answer = act(twin, case)
    except InputError as error:
        answer = f"{type(error).__name__}: {error}"
    return "\n".join([answer, twin.workspace.memory.notice, *world.logged])


def find_leak(world: World, seed: int, cases: int) -> str:
    """Try generated cases, and return the first that shows a hidden text to its audience, or nothing."""
    dice = random.Random(seed)
    for _ in range(cases):
        case = draw(dice)
        shown = show(world, world.whole, case)
        for word in hide(case.audience):
            if word in shown:
                return f"{case} shows {word}"
        if shown != show(world, world.less[case.audience], case):
            return f"{case} changes with what its audience may not see"
        if case.surface in CHANGING:
            world.mirror(case.audience)
    return ""
