"""The rules `unreachable` and `shadow`: slots, files and folders that no turn of this configuration can use."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from foreword.config.schema import Config, PromptFile
from foreword.engine.blueprint import LISTED_SOURCE, Blueprint
from foreword.engine.selection import select_slots
from foreword.engine.trust import Clearance, resolve_trust
from foreword.errors import suggest_name
from foreword.lint.survey import Finding, Severity, WorkspaceSurvey, make_location_pattern
from foreword.turn import Turn
from foreword.types import Mode
from foreword.workspace import CONFIG_FILE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reachable:
    """The reachable slots by agent, paths, and the highest clearance."""

    slots: frozenset[tuple[str, str]]
    paths: frozenset[str]
    best: Clearance


def find_reachable(config: Config, blueprints: Mapping[str, Blueprint]) -> Reachable:
    """Select the slots for every kind of turn this configuration allows."""
    turns = [(turn, resolve_trust(turn, config)) for turn in generate_turns(config)]
    slots: set[tuple[str, str]] = set()
    paths: set[str] = set()
    for agent, blueprint in blueprints.items():
        alike = all(Mode.FULL in slot.modes for slot in blueprint.slots)
        for mode in (Mode.FULL,) if alike else Mode:
            for turn, clearance in turns:
                plan = select_slots(replace(turn, agent=agent, mode=mode), clearance, config, blueprint)
                for entry in (entry for run in plan.runs for entry in run.entries if entry.verdict is None):
                    slots.add((agent, entry.id))
                    paths.update(entry.paths)
    best = max((clearance for _, clearance in turns), key=lambda clearance: clearance.level)
    return Reachable(slots=frozenset(slots), paths=frozenset(paths), best=best)


def generate_turns(config: Config) -> Iterator[Turn]:
    """Generate turns: all users in private in all situations, and one user per trust level in each kind of room."""
    for situation in ("", *config.situations):
        yield from (Turn(user=user, situation=situation) for user in ("", *config.users))
    levels = {person.trust: name for name, person in config.users.items()}
    rooms = {(room.situation, room.ceiling): name for name, room in config.rooms.items()}
    for room in rooms.values():
        for situation in config.situations:
            yield from (Turn(user=user, situation=situation, room=room) for user in levels.values())


KNOWN_FILES = ("AGENTS", "BOOT", "HEARTBEAT", "IDENTITY", "MEMORY", "SOUL", "SYSTEM", "TOOLS", "USER")
MIN_TYPO_CHARS = 5  # minimum letters of a name for typo detection


def check_shadows(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find files whose names nearly match a known one."""
    files = {slot.file for blueprint in survey.blueprints.values() for slot in blueprint.slots if "/" not in slot.file}
    known = {*KNOWN_FILES, *(file.removesuffix(".md") for file in files if file.endswith(".md") and "{" not in file)}
    for path in survey.names:
        folder, _, name = path.rpartition("/")
        top, depth = folder.partition("/")[0], folder.count("/")
        if path in survey.feeds:
            continue
        if not folder or (top in ("agents", "users") and depth == 1):
            right = find_similar_name(name, known)
        elif top == "skills" and depth == 1:
            right = find_similar_name(name, ("SKILL",))
        else:
            continue
        if right and right != name:
            message = f"is never read; the expected name is {right}"
            remedy = f"rename it to {right}, or give it a clearly different name"
            yield Finding(path, 1, "shadow", Severity.WARNING, message, remedy)


def find_similar_name(name: str, known: Iterable[str]) -> str:
    """Return the known file name that a name nearly matches; empty if none."""
    stem = name.partition(".")[0].upper()
    stems = {strip_plural(each): each for each in known}
    if strip_plural(stem) in stems:
        return f"{stems[strip_plural(stem)]}.md"
    near = get_close_matches(stem, stems.values(), n=1, cutoff=0.8) if len(stem) >= MIN_TYPO_CHARS else []
    return f"{near[0]}.md" if near else ""


def strip_plural(stem: str) -> str:
    """Remove the plural ending of a name."""
    return f"{stem[:-3]}Y" if stem.endswith("IES") else stem.removesuffix("S")


def check_reach(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find content of the configuration or the folder that no turn can use."""
    reach = find_reachable(survey.config, survey.blueprints)
    yield from find_unreachable_slots(survey, reach)
    yield from find_unreachable_files(survey, reach)
    yield from find_unreachable_user_files(survey, reach)
    yield from find_missing_overlays(survey)
    yield from find_unknown_folders(survey)
    yield from find_unreachable_stores(survey, reach)


def find_unreachable_slots(survey: WorkspaceSurvey, reach: Reachable) -> Iterator[Finding]:
    """Find slots that need a higher clearance than anyone has, or a missing situation."""
    listed = {entry.path for entry in survey.config.prompt.files}
    for agent, blueprint in survey.blueprints.items():
        closed: dict[str, list[str]] = {}
        for slot in blueprint.slots:
            open_ = slot.source == LISTED_SOURCE or (agent, slot.id) in reach.slots
            # An unused slot without a file is not a problem.
            feeds = (feed for feeds in survey.feeds.values() for feed in feeds)
            has_text = slot.text or not (slot.file or slot.folder)
            has_text = has_text or any(feed.slot.id == slot.id and feed.agent == agent for feed in feeds)
            if not open_ and slot.file not in listed and has_text:
                known, wanted = survey.config.situations, slot.situations
                reason = describe_missing_clearance(reach, str(slot.trust))
                if wanted and not any(name in known for name in wanted):
                    near = suggest_name(wanted[0], list(known))
                    reason = f"there is no situation {' or '.join(wanted)}{near}"
                closed.setdefault(reason, []).append(slot.id)
        for reason, slots in closed.items():
            line = survey.line_of("agents", agent, "blueprint")
            message = f"no turn of agent {agent} can use {', '.join(slots)}: {reason}"
            remedy = "raise a user's trust or a ceiling, or use a blueprint with lower requirements"
            yield make_unreachable_finding(CONFIG_FILE, line, message, remedy)


def describe_missing_clearance(reach: Reachable, needed: str) -> str:
    """Compare the required clearance with the highest available one."""
    return f"it needs {needed}, and the highest clearance is {reach.best.level} ({reach.best.reason})"


def find_unreachable_files(survey: WorkspaceSurvey, reach: Reachable) -> Iterator[Finding]:
    """Find listed files that do not exist, or that no clearance may see."""
    for index, entry in enumerate(survey.config.prompt.files):
        line = survey.line_of("prompt", "files", index)
        path = re.escape(entry.path)
        places = [make_location_pattern(path, agent, per_user=entry.per_user) for agent in survey.config.agents]
        if not any(map(re.compile("|".join(places)).fullmatch, survey.names)):
            where = f"users/NAME/{entry.path}" if entry.per_user else entry.path
            remedy = f"create it, or remove {entry.path} from prompt.files"
            yield make_unreachable_finding(CONFIG_FILE, line, f"{where} is listed but does not exist", remedy)
        elif not any(find_section_id(entry, plan) for plan in survey.blueprints.values()):
            names = ", ".join(sorted({plan.name for plan in survey.blueprints.values()}))
            message = f"no turn can use {entry.path}: {names} has no slot for further files"
            remedy = "add a slot with the source `files` to the blueprint, or use another one"
            yield make_unreachable_finding(CONFIG_FILE, line, message, remedy)
        elif not any((agent, find_section_id(entry, plan)) in reach.slots for agent, plan in survey.blueprints.items()):
            message = f"no turn can use {entry.path}: {describe_missing_clearance(reach, str(entry.trust))}"
            remedy = "lower its trust, or raise the trust of the users who should see it"
            yield make_unreachable_finding(CONFIG_FILE, line, message, remedy)


def find_section_id(entry: PromptFile, blueprint: Blueprint) -> str:
    """Return the section id that a blueprint uses for a listed file."""
    for slot in blueprint.slots:
        if slot.file == entry.path:
            return slot.id
    return next((f"{slot.id}:{entry.path}" for slot in blueprint.slots if slot.source == LISTED_SOURCE), "")


def find_unreachable_user_files(survey: WorkspaceSurvey, reach: Reachable) -> Iterator[Finding]:
    """Find files of users whose trust is always below the slot's."""
    for path in survey.feeds:
        parts = path.split("/")
        person = survey.config.users.get(parts[1]) if parts[0] == "users" and len(parts) > 2 else None
        if person and path not in reach.paths:
            message = f"no turn can use it: {parts[1]} is {person.trust}, and its slot needs more"
            remedy = f"lower the trust of {parts[-1]} under prompt.files, or raise the trust of {parts[1]}"
            yield make_unreachable_finding(path, 1, message, remedy)


def find_missing_overlays(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find configured overlays that do not exist."""
    for name, situation in survey.config.situations.items():
        path = situation.prompt_overlay
        if path and not {path, *(f"agents/{agent}/{path}" for agent in survey.config.agents)} & set(survey.names):
            line = survey.line_of("situations", name, "prompt_overlay")
            message = f"the overlay {path} of situation {name} does not exist"
            yield make_unreachable_finding(CONFIG_FILE, line, message, "create it, or remove prompt_overlay")


def find_unknown_folders(survey: WorkspaceSurvey) -> Iterator[Finding]:
    """Find folders that match no user, agent or store."""
    config = survey.config
    known = {
        "users": (list(config.users), "user", "list them under users"),
        "agents": (list(config.agents), "agent", "list it under agents"),
        "memory": (list(config.stores), "store", "list it under stores"),
    }
    seen: set[tuple[str, str]] = set()
    for path in survey.names:
        top, _, rest = path.partition("/")
        name, _, file = rest.partition("/")
        if top not in known or (top, name) in seen or (not file and top != "memory"):
            continue
        names, kind, remedy = known[top]
        if name not in names:
            seen.add((top, name))
            near = suggest_name(name, names)
            what = f"{top}/{name} belongs to no {kind}" if file else f"{path} is not in a {kind}"
            message = f"{what}, so its files are never read{near}"
            yield make_unreachable_finding(path, 1, message, f"rename the folder, or {remedy}")


def find_unreachable_stores(survey: WorkspaceSurvey, reach: Reachable) -> Iterator[Finding]:
    """Find stores with memories that no clearance may see."""
    for name, store in survey.config.stores.items():
        if store.trust > reach.best.level and any(path.startswith(f"memory/{name}/") for path in survey.names):
            message = f"no turn can use memory/{name}: {describe_missing_clearance(reach, str(store.trust))}"
            line, remedy = survey.line_of("stores", name), "lower its trust, or raise a user's"
            yield make_unreachable_finding(CONFIG_FILE, line, message, remedy)


def make_unreachable_finding(file: str, line: int, message: str, remedy: str) -> Finding:
    """Make a finding of this rule."""
    return Finding(file, line, "unreachable", Severity.WARNING, message, remedy)
