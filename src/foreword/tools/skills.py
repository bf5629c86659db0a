"""The tool that opens a skill: one that the list of this turn names, or has no room for."""

from collections.abc import Iterator, Mapping
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import InputError, UnknownName, show_name
from foreword.sources.document import Document, one_line
from foreword.sources.ground import Ground
from foreword.sources.section import quote
from foreword.sources.trace import Reader
from foreword.tools.reading import LINES, Reading, cut, list_sections, read_name, read_number
from foreword.turn import Tool, Toolset
from foreword.words import Trust

FILE = "/SKILL.md"

SKILLS = Toolset(
    [
        Tool(
            name="read_skill",
            description="Read a skill that the prompt lists, or a part of it.",
            parameters={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The skill's path or its name, as the list shows it."},
                    **LINES,
                },
                "required": ["name"],
            },
            trust=Trust.FAMILIAR,
            kind="skills",
            shown_in=("skills",),
            seconds=10,
        )
    ]
)


def read_skill(assembly: Assembly, ground: Ground, arguments: Mapping[str, Any]) -> Reading:
    """Read a skill for a turn, with that turn's clearance and no other."""
    if "read_skill" not in assembly.terms.tools:
        raise UnknownName("tool", "read_skill", assembly.terms.tools.names & SKILLS.names)
    wanted = arguments.get("name")
    if not isinstance(wanted, str):
        raise InputError("read_skill needs 'name', a text")
    first, lines = read_number(arguments, "from", 1), read_number(arguments, "lines", None)
    skills = dict(list_skills(assembly, ground))
    for name in read_name(wanted):
        if document := find_skill(skills, name):
            return cut(document.body, first or 1, lines, assembly, f"read_skill({quote(wanted)}")
    # The same words for what is not there and for what may not be seen.
    raise InputError(f"there is no skill {show_name(wanted)} here")


def list_skills(assembly: Assembly, ground: Ground) -> Iterator[tuple[str, Document]]:
    """List the skills that this turn's clearance may see, by their paths."""
    reader = Reader(ground.files, ground.guard(assembly.plan.blueprint), assembly.clearance.level)
    folders = [section.origin for section in list_sections(assembly) if section.slot.source == "skills"]
    for folder in folders:
        for path in reader.list(folder, FILE[1:]):
            if isinstance(document := reader.read(path), Document):
                yield path.removesuffix(FILE), document


def find_skill(skills: Mapping[str, Document], name: str) -> Document | None:
    """Find a skill by its path, or by a name that no other has."""
    path = name.removesuffix(FILE).strip("/")
    if path in skills:
        return skills[path]
    named = {
        place: one for place, one in skills.items() if name in (one_line(one.field("name")), place.rpartition("/")[2])
    }
    if len(named) > 1:
        raise InputError(
            f"several skills are called {show_name(name)}: {', '.join(sorted(named))}; name one by its path"
        )
    return next(iter(named.values()), None)
