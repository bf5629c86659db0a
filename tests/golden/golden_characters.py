"""Goldens of `moltis`: each character limit exactly, one below and one above."""

from golden_case import Case, alice
from golden_coop import describe
from golden_moltis import PLAIN, PROJECT, moltis

from foreword.turn import Toolset

LINE = "Write it down where the next one finds it, with the day and your name.\n"
SKILL = '<skill name="s001" source="skill" path="skills/s001">\n\n</skill>\n'
INSIDE = alice(project="$HERE/site/house")
LIST = 30_000


def fill(length: int) -> str:
    """Make a text of this length, in lines."""
    return (LINE * (length // len(LINE) + 1))[: length - 1] + "."


def nest(outer: int, inner: int) -> dict[str, str]:
    """Make a project with a file of the inner length and one of the outer length in its parent folder."""
    texts = {"site/CLAUDE.md": fill(outer), "site/house/CLAUDE.md": fill(inner)}
    return {**PLAIN, "foreword.yaml": PROJECT["foreword.yaml"], **texts}


def list_skills(length: int) -> dict[str, str]:
    """Make a hundred skills of about 300 characters each whose list has this length."""
    lengths = [300] * 99 + [300 + length - LIST]
    texts = [("Sorts what it is given. " * 20)[: one - len(SKILL) - 1] + "." for one in lengths]
    pages = {f"skills/s{at:03}": f"---\nname: s{at:03}\ndescription: {text}\n---\n" for at, text in enumerate(texts, 1)}
    return {**PLAIN, **{f"{folder}/SKILL.md": page for folder, page in pages.items()}}


def write(length: int) -> dict[str, str]:
    """Make a workspace file of this length."""
    return {**PLAIN, "AGENTS.md": fill(length)}


def near(name: str, proves: str, files: dict[str, str], **verdicts: str) -> Case:
    """Make a case at a limit; the keywords of verdicts are slot ids."""
    return moltis(name, proves, files=files, turn=INSIDE, verdicts=verdicts)


OUTER, INNER = "project:../CLAUDE.md", "project:CLAUDE.md"
CASES = (
    near("project-below", "7,999 characters of project context are whole", nest(5_999, 2_000)),
    near("project-exact", "8,000 characters of project context are whole", nest(6_000, 2_000)),
    near(
        "project-above",
        "of 8,001 characters the outermost file loses its end, and a notice says how much is shown",
        nest(6_001, 2_000),
        **{OUTER: "shortened", INNER: "kept"},
    ),
    near(
        "project-dropped",
        "a file for which the limit has nothing left leaves its notice, and the project's own file is cut last",
        nest(900, 8_500),
        **{OUTER: "dropped", INNER: "shortened"},
    ),
    near("skills-below", "a list of 29,999 characters has every skill", list_skills(LIST - 1), skills="kept"),
    near("skills-exact", "a list of 30,000 characters has every skill too", list_skills(LIST), skills="kept"),
    near(
        "skills-above",
        "at 30,001 characters the last skill is left out whole, and a line says so",
        list_skills(LIST + 1),
        **{"skills": "kept", "skills:s100": "dropped"},
    ),
    near("files-below", "a workspace file of 31,999 characters is whole", write(31_999), agents="kept"),
    near("files-exact", "a workspace file of 32,000 characters is whole too", write(32_000), agents="kept"),
    near("files-above", "of 32,001 characters the last one gives way to a notice", write(32_001), agents="shortened"),
    moltis(
        "tools-native",
        "one line per tool; a description of 160 characters stays, of 161 it is cut and ends in three dots",
        turn=alice(tools=Toolset([describe(159), describe(160), describe(161)])),
    ),
)
