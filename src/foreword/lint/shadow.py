"""The rule `shadow`: files that look like one that is read, and are not."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from foreword.lint.finding import Finding, Level
from foreword.lint.survey import Survey

RULE = "shadow"
KNOWN = ("AGENTS", "BOOT", "HEARTBEAT", "IDENTITY", "MEMORY", "SOUL", "SYSTEM", "TOOLS", "USER")
TYPO = 5  # letters from which a name can be misspelt and still be recognised


def check_shadows(survey: Survey) -> Iterator[Finding]:
    """Find files whose name is nearly a known one."""
    files = {slot.file for blueprint in survey.blueprints.values() for slot in blueprint.slots if "/" not in slot.file}
    known = {*KNOWN, *(file.removesuffix(".md") for file in files if file.endswith(".md") and "{" not in file)}
    for path in survey.names:
        folder, _, name = path.rpartition("/")
        top, depth = folder.partition("/")[0], folder.count("/")
        if path in survey.feeds:
            continue
        if not folder or (top in ("agents", "users") and depth == 1):
            right = find_near(name, known)
        elif top == "skills" and depth == 1:
            right = find_near(name, ("SKILL",))
        else:
            continue
        if right and right != name:
            yield Finding(
                file=path,
                line=1,
                rule=RULE,
                level=Level.WARNING,
                message=f"is never read; the file that is read is called {right}",
                remedy=f"rename it to {right}, or to something else entirely",
            )


def find_near(name: str, known: Iterable[str]) -> str:
    """Find the known file that a name is meant to be, if it is nearly that."""
    stem = name.partition(".")[0].upper()
    stems = {shorten(each): each for each in known}
    if shorten(stem) in stems:
        return f"{stems[shorten(stem)]}.md"
    near = get_close_matches(stem, stems.values(), n=1, cutoff=0.8) if len(stem) >= TYPO else []
    return f"{near[0]}.md" if near else ""


def shorten(stem: str) -> str:
    """Take the plural off a name."""
    return f"{stem[:-3]}Y" if stem.endswith("IES") else stem.removesuffix("S")
