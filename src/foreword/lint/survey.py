"""The survey: every file a prompt could be made of, which slots it feeds, and where the configuration says so."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from foreword.blueprint import Blueprint, Slot
from foreword.config.schema import Config
from foreword.config.structure import Keys, structure
from foreword.errors import ConfigError, ForewordError, PathRefused
from foreword.lint.feeds import Feed, find_feeds
from foreword.lint.finding import Finding, Level, show
from foreword.lint.page import Page, open_page
from foreword.sources.archived import is_archive
from foreword.sources.document import Trouble
from foreword.workspace import CONFIG, Workspace

FOLDERS = ("agents", "channels", "groups", "memory", "prompts", "rules", "skills", "users")
TEXTS = (".md", ".markdown", ".mdx", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Survey:
    """All that the rules look at."""

    workspace: Workspace
    names: tuple[str, ...]
    """The paths of all files that were found, in order."""
    pages: Mapping[str, Page]
    troubles: tuple[Trouble, ...]
    feeds: Mapping[str, tuple[Feed, ...]]
    blueprints: Mapping[str, Blueprint]
    """The blueprint of every agent that has a usable one."""
    lines: Mapping[Keys, int]
    """The line of everything that foreword.yaml says."""
    faults: tuple[Finding, ...]
    """What is wrong with the configuration and the blueprints themselves."""

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.workspace.config

    def line_of(self, *keys: str | int) -> int:
        """Return the line of foreword.yaml that says this, or the nearest one above it."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return 1


def survey(workspace: Workspace) -> Survey:
    """Read a workspace as it is on the disk now."""
    workspace.refresh(now=True)
    faults: list[Finding] = []
    lines = find_lines(workspace, faults)
    blueprints = find_blueprints(workspace, lines, faults)
    names = find_names(workspace, blueprints.values())
    found = [(name, read(workspace, name)) for name in (*names, CONFIG)]
    return Survey(
        workspace=workspace,
        names=names,
        pages={name: open_page(name, text) for name, text in found if isinstance(text, str)},
        troubles=tuple(text for _, text in found if isinstance(text, Trouble)),
        feeds=find_feeds(workspace.config, blueprints, names),
        blueprints=blueprints,
        lines=lines,
        faults=tuple(faults),
    )


def find_names(workspace: Workspace, blueprints: Iterable[Blueprint]) -> tuple[str, ...]:
    """Name every file of the root, of the known folders, of the slots and of the configuration that is there."""
    config, files = workspace.config, workspace.files
    names = {name for name in os.listdir(files.root) if name.lower().endswith(TEXTS)}
    slots = [slot for blueprint in blueprints for slot in blueprint.slots]
    for folder in {*FOLDERS, *filter(None, map(find_folder, slots))}:
        names.update(name for name in files.list(folder) if not is_archive(name))
    given = [entry.path for entry in config.prompt.files]
    given += [slot.file for slot in slots if slot.file and "{" not in slot.file]
    given += [situation.prompt_overlay for situation in config.situations.values() if situation.prompt_overlay]
    for path in given:
        places = (
            path,
            *(f"agents/{name}/{path}" for name in config.agents),
            *(f"users/{n}/{path}" for n in config.users),
        )
        names.update(place for place in places if os.path.lexists(os.path.join(files.root, place)))
    return tuple(sorted(names - {CONFIG}))


def find_folder(slot: Slot) -> str:
    """Find the folder in which the files of a slot lie, as far as it has one name for every turn."""
    parts = slot.folder.split("/") if slot.folder else slot.file.split("/")[:-1]
    return "/".join(takewhile(lambda part: "{" not in part, parts))


def read(workspace: Workspace, name: str) -> str | Trouble:
    """Read one file that was seen; a name that no source would open is a trouble of its own."""
    try:
        text = workspace.files.read_text(name)
        return text if text is not None else Trouble(path=name, reason="is a link to nothing")
    except PathRefused:
        return Trouble(path=name, reason="has a name that is refused everywhere; rename it")


def find_lines(workspace: Workspace, faults: list[Finding]) -> Mapping[Keys, int]:
    """Find where foreword.yaml says what, or note why it is not in force."""
    from foreword.config.composer import compose

    text = workspace.files.read_text(CONFIG)
    try:
        if fault := workspace.faults.get(CONFIG):
            raise fault
        structured = structure(compose(text if isinstance(text, str) else "", CONFIG), Config, CONFIG)
    except ConfigError as error:
        faults.extend(report(error, CONFIG, 1))
        return {}
    return {keys: place.line for keys, place in structured.places.items()}


def find_blueprints(workspace: Workspace, lines: Mapping[Keys, int], faults: list[Finding]) -> Mapping[str, Blueprint]:
    """Find the blueprint of every agent; one that cannot be used leaves its agent without a prompt."""
    found: dict[str, Blueprint] = {}
    for agent, settings in workspace.config.agents.items():
        try:
            found[agent] = workspace.blueprint(settings.blueprint)
        except ForewordError as error:
            line = lines.get(("agents", agent, "blueprint"), lines.get(("agents", agent), 1))
            faults.extend(report(error, CONFIG, line))
    return found


def report(error: ForewordError, file: str, line: int) -> Iterator[Finding]:
    """Report what an error says as findings, each fault at its own place."""
    if isinstance(error, ConfigError):
        for fault in error.faults:
            remedy = fault.remedy or "correct it; until then the last good version is used, or none"
            yield Finding(
                file=show(fault.file),
                line=fault.line or 1,
                rule="config",
                level=Level.ERROR,
                message=fault.message,
                remedy=remedy,
            )
    else:
        yield Finding(
            file=file, line=line, rule="config", level=Level.ERROR, message=str(error), remedy="name one that exists"
        )
