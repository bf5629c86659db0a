"""Claims about the documentation: its examples work."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from foreword.engine.blueprint import Blueprint, Budget, Slot
from foreword.engine.blueprint_file import CONDITIONS, load_blueprint
from foreword.engine.selection import HOOK_ENTRY_POINTS
from foreword.engine.sources.forms import SESSION_FACTS, STATIC_FACTS, TURN_FACTS
from foreword.engine.sources.sections import SOURCES
from foreword.resources import list_blueprints, list_prompts, read_blueprint
from foreword.testing import run_fake_provider, write_files

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BIN = Path(sys.executable).parent
NAMED = re.compile(r"(?:#|<!--) ([\w-][\w/.-]*\.\w+)(?: -->)?\n")
DIALECTS = [name for name in list_blueprints() if name != "default"]


def find_blocks(page: Path, language: str) -> list[str]:
    """Find the code blocks of one language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def lay_out(page: Path, folder: Path) -> str:
    """Write the files of a page, each named in its first line, and return the remaining Python code."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns(".foreword"))
    for language in ("yaml", "markdown", "toml", "python"):
        files = {name[1]: block[name.end() :] for block in find_blocks(page, language) if (name := NAMED.match(block))}
        write_files(folder, files)
        if project := files.get("pyproject.toml"):
            install(tomllib.loads(project)["project"], folder)
    return "\n".join(block for block in find_blocks(page, "python") if not NAMED.match(block))


def install(project: dict, folder: Path) -> None:
    """Write the metadata that pip writes for a package installed in this folder."""
    hooks = "\n".join(f"{name} = {place}" for name, place in project["entry-points"][HOOK_ENTRY_POINTS].items())
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    home = f"{project['name']}-{project['version']}.dist-info"
    write_files(folder, {f"{home}/METADATA": metadata, f"{home}/entry_points.txt": f"[{HOOK_ENTRY_POINTS}]\n{hooks}\n"})


@pytest.mark.parametrize(
    "page", [page for page in PAGES if find_blocks(page, "python")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_python(page: Path, tmp_path: Path) -> None:
    """The Python of a page runs from top to bottom with the files of the page, and prints the shown texts in order."""
    code = lay_out(page, tmp_path)
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rest = "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())
    for part in (part for block in find_blocks(page, "text") for part in block.split("…\n") if part.strip()):
        assert part in rest, f"{page.name} shows what is not printed, or not then:\n{part}"
        rest = rest.partition(part)[2]


def test_commands(tmp_path: Path) -> None:
    """The commands of the README succeed in order in an empty folder, with a fake provider."""
    script = "\n".join(find_blocks(ROOT / "README.md", "sh")[1:])
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": "none"}
    command = ["/bin/sh", "-e", "-c", script]
    with run_fake_provider() as provider:
        environment["ANTHROPIC_BASE_URL"] = provider.url
        run = subprocess.run(
            command, cwd=tmp_path, env=environment, input="", capture_output=True, text=True, check=False
        )
    assert run.returncode == 0, run.stderr
    assert "What do you know about me?" in provider.requests[0].raw.decode()


@pytest.mark.parametrize(
    "names",
    [
        [name for name in SOURCES if name.isidentifier()],
        [field.name for kind in (Blueprint, Budget, Slot) for field in fields(kind)],
        [*CONDITIONS, "tool:NAME", "kind:NAME"],
        [f"{{{name}}}" for source in SOURCES.values() for name in source.fields],
        [f"{{{name}}}" for name in (*STATIC_FACTS, *SESSION_FACTS, *TURN_FACTS)],
        list_blueprints(),
    ],
    ids=["sources", "keys", "conditions", "fields", "facts", "blueprints"],
)
def test_reference_is_whole(names: list[str]) -> None:
    """The blueprint reference names every source, key, condition, field, fact and blueprint."""
    text = (ROOT / "docs" / "blueprints.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", DIALECTS)
def test_dialect_has_a_page(name: str) -> None:
    """The page of a dialect names every slot in order, with its heading if that differs from the name."""
    blueprint = load_blueprint(read_blueprint(name) or "", f"{name}.yaml")
    page = (ROOT / "docs" / "dialects" / f"{name}.md").read_text(encoding="utf-8")
    text = " ".join(page.partition("\n## What it shows")[2].partition("\n## ")[0].split())
    slots = [
        f"`{slot.id}` ({slot.title})" if slot.title and slot.title.lower() != slot.id else f"`{slot.id}`"
        for slot in blueprint.slots
    ]
    assert ", ".join(slots) in text


def test_prompts_are_listed() -> None:
    """The page of the built-in texts names only existing ones; a name in capitals is a placeholder for several."""
    text = (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8")
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("`")]
    names = [name for cell in cells for name in re.findall(r"`([^`]+)\.md`", cell)]
    patterns = [re.compile(re.sub("[A-Z]+", "[a-z0-9_]+", re.escape(name))) for name in names]
    assert patterns
    assert [each.pattern for each in patterns if not any(map(each.fullmatch, list_prompts()))] == []


def list_anchors(page: Path) -> set[str]:
    """List the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links() -> None:
    """Every file and every heading that a page links to exists."""
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([\w./-]*?)(?:#([\w-]*))?\)", text):
            found = page.parent / target if target else page
            assert found.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in list_anchors(found), f"{page.name} links to {target}#{anchor}"


def test_shipped_command() -> None:
    """The installed command exists and prints its version."""
    command = shutil.which("foreword", path=str(BIN))
    assert command
    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("foreword ")
