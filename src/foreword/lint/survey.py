"""The survey that all rules read: files that prompts may use, slots that they feed, and lines of foreword.yaml."""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from foreword.config.schema import Config
from foreword.config.structure import Keys, convert_node
from foreword.engine.blueprint import LISTED_SOURCE, SKILLS_SOURCE, Blueprint, Slot
from foreword.engine.sources import documents
from foreword.engine.sources.documents import FRONT_MATTER_FENCE, FileProblem
from foreword.engine.sources.texts import IDENTITY_FIELDS
from foreword.engine.trust import is_archive
from foreword.errors import ConfigError, ForewordError, PathRefused
from foreword.types import Pace, TextEnum, frozen
from foreword.workspace import CONFIG_FILE, Workspace


@frozen(eq=True)
class Feed:
    """A slot that reads a file, and the agent it belongs to."""

    agent: str
    blueprint: Blueprint
    slot: Slot


def find_feeds(
    config: Config, blueprints: Mapping[str, Blueprint], names: Iterable[str]
) -> Mapping[str, tuple[Feed, ...]]:
    """Map every file to the slots that may read it."""
    feeds: dict[str, list[Feed]] = {}
    for agent, blueprint in blueprints.items():
        for slot, pattern in list_slot_patterns(agent, blueprint, config):
            for name in filter(re.compile(pattern).fullmatch, names):
                feeds.setdefault(name, []).append(Feed(agent=agent, blueprint=blueprint, slot=slot))
    return {name: tuple(found) for name, found in feeds.items()}


def list_slot_patterns(agent: str, blueprint: Blueprint, config: Config) -> Iterator[tuple[Slot, str]]:
    """Yield the path pattern of every slot."""
    listed = {entry.path: entry for entry in config.prompt.files}
    per_user = {slot.file: slot.per_user for slot in blueprint.slots if slot.file}
    for slot in blueprint.slots:
        if slot.source == LISTED_SOURCE:
            for path, entry in listed.items():
                if path not in per_user or per_user[path] < entry.per_user:
                    yield slot, make_location_pattern(re.escape(path), agent, per_user=entry.per_user)
        elif slot.file:
            yield slot, make_location_pattern(make_path_pattern(slot.file, config), agent, per_user=slot.per_user)
        elif slot.folder:
            last = "SKILL" if slot.source == SKILLS_SOURCE else ""
            yield slot, rf"{make_path_pattern(slot.folder, config)}/.*{last}\.md"


def make_location_pattern(path: str, agent: str, *, per_user: bool) -> str:
    """Return the pattern of the locations where slot selection looks for a file."""
    return f"(?:users/[^/]+/)?{path}" if per_user else f"(?:agents/{re.escape(agent)}/)?{path}"


def make_path_pattern(template: str, config: Config) -> str:
    """Convert a path template to a pattern in which each placeholder matches any name."""
    overlays = [re.escape(each.prompt_overlay) for each in config.situations.values() if each.prompt_overlay]
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template.replace("{overlay}", "\0")))
    return pattern.replace(re.escape("\0"), f"(?:{'|'.join(overlays) or '(?!)'})")


class Severity(TextEnum):
    """The severity of a finding: an error breaks a guarantee, a warning has a cost."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """A problem in a file of the workspace."""

    file: str
    line: int
    rule: str
    level: Severity
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.level} {self.rule}: {self.message} ({self.remedy})"


def make_printable(name: str) -> str:
    """Return a file name in printable form."""
    return name if name.isprintable() else ascii(name)[1:-1]


TextRange = tuple[int, int]
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)  # an unclosed comment extends to the end


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LintedFile:
    """The normalised text of a file and the positions of its parts."""

    path: str
    text: str
    breaks: tuple[int, ...]
    header: TextRange
    body: TextRange
    comments: tuple[TextRange, ...]

    def line_of(self, place: int) -> int:
        """Return the line number of a position."""
        return bisect_left(self.breaks, place) + 1

    def is_comment(self, place: int) -> bool:
        """Whether a position is in an HTML comment, which rendered files do not show."""
        at = bisect_left(self.comments, (place + 1, 0)) - 1
        return at >= 0 and place < self.comments[at][1]

    def find_fields(self, names: Iterable[str]) -> Iterator[TextRange]:
        """Find these fields of the front matter, each with its continuation lines."""
        wanted = "|".join(map(re.escape, names))
        for match in re.finditer(rf"(?m)^(?:{wanted})[ \t]*:.*(?:\n[ \t].*)*", self.text[slice(*self.header)]):
            yield self.header[0] + match.start(), self.header[0] + match.end()


def make_linted_file(path: str, raw: str) -> LintedFile:
    """Make the linted file of a text; find front matter and leading comments as the sources do."""
    # Editors do not treat Unicode line separators as line breaks, so count lines before normalising.
    plain = raw.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = documents.normalise_lines(raw)
    end = documents.find_fence(text) if text.startswith(FRONT_MATTER_FENCE) else None
    header = (len(FRONT_MATTER_FENCE), end) if end is not None else (0, 0)
    rest = text[end:].partition("\n")[2] if end is not None else text
    return LintedFile(
        path=path,
        text=text,
        breaks=tuple(match.start() for match in re.finditer("\n", plain)),
        header=header,
        body=(len(text) - len(documents.strip_comments(rest)), len(text)),
        comments=tuple(match.span() for match in COMMENT.finditer(text)),
    )


PROMPT_FOLDERS = ("agents", "channels", "groups", "memory", "prompts", "rules", "skills", "users")
TEXT_SUFFIXES = (".md", ".markdown", ".mdx", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkspaceSurvey:
    """The input of all rules."""

    workspace: Workspace
    names: tuple[str, ...]
    """The paths of all files found, sorted."""
    pages: Mapping[str, LintedFile]
    unreadable_files: tuple[FileProblem, ...]
    feeds: Mapping[str, tuple[Feed, ...]]
    blueprints: Mapping[str, Blueprint]
    """The blueprint of each agent with a valid one."""
    lines: Mapping[Keys, int]
    """The line of each value of foreword.yaml."""
    faults: tuple[Finding, ...]
    """Problems of the configuration and the blueprints."""

    @property
    def config(self) -> Config:
        """The current configuration."""
        return self.workspace.config

    def line_of(self, *keys: str | int) -> int:
        """Return the line of these keys in foreword.yaml, or of the nearest parent."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return 1


def survey_workspace(workspace: Workspace) -> WorkspaceSurvey:
    """Read the current workspace from disk."""
    workspace.refresh(now=True)
    faults: list[Finding] = []
    lines = find_lines(workspace, faults)
    blueprints = find_blueprints(workspace, lines, faults)
    names = list_files(workspace, blueprints.values())
    found = [(name, read_file(workspace, name)) for name in (*names, CONFIG_FILE)]
    return WorkspaceSurvey(
        workspace=workspace,
        names=names,
        pages={name: make_linted_file(name, text) for name, text in found if isinstance(text, str)},
        unreadable_files=tuple(text for _, text in found if isinstance(text, FileProblem)),
        feeds=find_feeds(workspace.config, blueprints, names),
        blueprints=blueprints,
        lines=lines,
        faults=tuple(faults),
    )


def list_files(workspace: Workspace, blueprints: Iterable[Blueprint]) -> tuple[str, ...]:
    """List the existing files of the root, the known folders, the slots and the configuration."""
    config, files = workspace.config, workspace.files
    names = {name for name in os.listdir(files.root) if name.lower().endswith(TEXT_SUFFIXES)}
    slots = [slot for blueprint in blueprints for slot in blueprint.slots]
    for folder in {*PROMPT_FOLDERS, *filter(None, map(find_folder, slots))}:
        names.update(name for name in files.list(folder) if not is_archive(name))
    given = [entry.path for entry in config.prompt.files]
    given += [slot.file for slot in slots if slot.file and "{" not in slot.file]
    given += [situation.prompt_overlay for situation in config.situations.values() if situation.prompt_overlay]
    for path in given:
        own = [f"agents/{name}/{path}" for name in config.agents] + [f"users/{name}/{path}" for name in config.users]
        names.update(place for place in (path, *own) if os.path.lexists(os.path.join(files.root, place)))
    return tuple(sorted(names - {CONFIG_FILE}))


def find_folder(slot: Slot) -> str:
    """Return the folder of a slot's files, up to the first placeholder."""
    parts = slot.folder.split("/") if slot.folder else slot.file.split("/")[:-1]
    return "/".join(takewhile(lambda part: "{" not in part, parts))


def read_file(workspace: Workspace, name: str) -> str | FileProblem:
    """Read one file; return a problem if no source could open it."""
    try:
        text = workspace.files.read_text(name)
        return text if text is not None else FileProblem(path=name, reason="is a broken link")
    except PathRefused:
        return FileProblem(path=name, reason="has a name that is not allowed; rename it")


def find_lines(workspace: Workspace, faults: list[Finding]) -> Mapping[Keys, int]:
    """Find the line of each value of foreword.yaml, or record why it is not in force."""
    from foreword.config.yaml import parse_nodes

    text = workspace.files.read_text(CONFIG_FILE)
    try:
        if fault := workspace.faults.get(CONFIG_FILE):
            raise fault
        structured = convert_node(parse_nodes(text if isinstance(text, str) else "", CONFIG_FILE), Config, CONFIG_FILE)
    except ConfigError as error:
        faults.extend(list_error_findings(error, CONFIG_FILE, 1))
        return {}
    return {keys: place.line for keys, place in structured.values.items()}


def find_blueprints(workspace: Workspace, lines: Mapping[Keys, int], faults: list[Finding]) -> Mapping[str, Blueprint]:
    """Find the blueprint of each agent; an agent with an invalid one has no prompt."""
    found: dict[str, Blueprint] = {}
    for agent, settings in workspace.config.agents.items():
        try:
            found[agent] = workspace.blueprint(settings.blueprint)
        except ForewordError as error:
            line = lines.get(("agents", agent, "blueprint"), lines.get(("agents", agent), 1))
            faults.extend(list_error_findings(error, CONFIG_FILE, line))
    return found


def list_error_findings(error: ForewordError, file: str, line: int) -> Iterator[Finding]:
    """Convert an error to findings, one per problem."""
    if not isinstance(error, ConfigError):
        yield Finding(file, line, "config", Severity.ERROR, str(error), "use an existing one")
        return
    for fault in error.faults:
        remedy = fault.remedy or "correct it; until then the last valid version is used, if any"
        yield Finding(make_printable(fault.file), fault.line or 1, "config", Severity.ERROR, fault.message, remedy)


PROMPT_FIELDS = {SKILLS_SOURCE: ("name", "description"), "identity": (*IDENTITY_FIELDS, "emoji")}


def find_static_passages(survey: WorkspaceSurvey) -> Iterator[tuple[LintedFile, TextRange]]:
    """Find all passages that a static slot sends."""
    for path, feeds in survey.feeds.items():
        page = survey.pages.get(path)
        static = [feed for feed in feeds if feed.slot.pace is Pace.STATIC]
        if page and static:
            spans = {page.body} if any(feed.slot.source != SKILLS_SOURCE for feed in static) else set()
            for feed in static:
                spans.update(page.find_fields(PROMPT_FIELDS.get(feed.slot.source, ("",))))
            yield from ((page, span) for span in sorted(spans))
