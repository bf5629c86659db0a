"""The rule `unreachable`: slots, files and folders that no turn of this configuration can have."""

import re
from collections.abc import Iterator

from foreword.blueprint import Blueprint, Slot
from foreword.blueprint.slot import LISTED
from foreword.config.schema import PromptFile
from foreword.errors import suggest
from foreword.lint.feeds import spell
from foreword.lint.finding import Finding, Level
from foreword.lint.reach import Reach, explore
from foreword.lint.survey import Survey
from foreword.workspace import CONFIG

RULE = "unreachable"


def check_reach(survey: Survey) -> Iterator[Finding]:
    """Find what the configuration or the folder holds and no turn can have."""
    reach = explore(survey.config, survey.blueprints)
    yield from find_slots(survey, reach)
    yield from find_listed(survey, reach)
    yield from find_own(survey, reach)
    yield from find_overlays(survey)
    yield from find_folders(survey)
    yield from find_stores(survey, reach)


def find_slots(survey: Survey, reach: Reach) -> Iterator[Finding]:
    """Find slots that need more than anybody has, or a situation that does not exist."""
    listed = {entry.path for entry in survey.config.prompt.files}
    for agent, blueprint in survey.blueprints.items():
        closed: dict[str, list[str]] = {}
        for slot in blueprint.slots:
            open_ = slot.source == LISTED or (agent, slot.id) in reach.slots
            if not open_ and slot.file not in listed and has_text(survey, agent, slot):
                closed.setdefault(explain(survey, reach, slot), []).append(slot.id)
        for reason, slots in closed.items():
            names = ", ".join(slots)
            yield warn(
                CONFIG,
                survey.line_of("agents", agent, "blueprint"),
                f"no turn of agent {agent} can have {names}: {reason}",
                "raise somebody's trust or a ceiling, or use a blueprint that asks for less",
            )


def has_text(survey: Survey, agent: str, slot: Slot) -> bool:
    """Whether there is anything that such a slot would show; one without its file is missed by nobody."""
    if slot.text or not (slot.file or slot.folder):
        return True
    return any(feed.slot.id == slot.id and feed.agent == agent for feeds in survey.feeds.values() for feed in feeds)


def explain(survey: Survey, reach: Reach, slot: Slot) -> str:
    """Say why no turn has a slot."""
    known = survey.config.situations
    if slot.situations and not any(name in known for name in slot.situations):
        return f"there is no situation {' or '.join(slot.situations)}{suggest(slot.situations[0], list(known))}"
    return lack(reach, str(slot.trust))


def lack(reach: Reach, needed: str) -> str:
    """Say what is needed, and the most that there is."""
    return f"it needs {needed}, and the highest clearance is {reach.best.level} ({reach.best.reason})"


def find_listed(survey: Survey, reach: Reach) -> Iterator[Finding]:
    """Find listed files that are nowhere, or that nobody may see."""
    for index, entry in enumerate(survey.config.prompt.files):
        line = survey.line_of("prompt", "files", index)
        if not exists(survey, entry):
            where = f"users/NAME/{entry.path}" if entry.per_user else entry.path
            remedy = f"write it, or take {entry.path} out of prompt.files"
            yield warn(CONFIG, line, f"{where} is listed and does not exist", remedy)
        elif not any(find_id(entry, plan) for plan in survey.blueprints.values()):
            names = ", ".join(sorted({plan.name for plan in survey.blueprints.values()}))
            message = f"no turn can have {entry.path}: {names} has no slot for further files"
            yield warn(CONFIG, line, message, "add a slot with the source `files` to the blueprint, or use another one")
        elif not any((agent, find_id(entry, plan)) in reach.slots for agent, plan in survey.blueprints.items()):
            yield warn(
                CONFIG,
                line,
                f"no turn can have {entry.path}: {lack(reach, str(entry.trust))}",
                "lower its trust, or raise that of whoever should see it",
            )


def exists(survey: Survey, entry: PromptFile) -> bool:
    """Whether a listed file is anywhere it is looked for."""
    places = [
        re.compile(spell(re.escape(entry.path), agent, per_user=entry.per_user)) for agent in survey.config.agents
    ]
    return any(place.fullmatch(name) for place in places for name in survey.names)


def find_id(entry: PromptFile, blueprint: Blueprint) -> str:
    """Find the id under which a blueprint plans a listed file."""
    for slot in blueprint.slots:
        if slot.file == entry.path:
            return slot.id
    return next((f"{slot.id}:{entry.path}" for slot in blueprint.slots if slot.source == LISTED), "")


def find_own(survey: Survey, reach: Reach) -> Iterator[Finding]:
    """Find files of people who never reach the trust that their slot needs."""
    for path in survey.feeds:
        parts = path.split("/")
        person = survey.config.users.get(parts[1]) if parts[0] == "users" and len(parts) > 2 else None
        if person and path not in reach.paths:
            yield warn(
                path,
                1,
                f"no turn can have it: {parts[1]} is {person.trust}, which is less than its slot needs",
                f"lower the trust of {parts[-1]} under prompt.files, or raise that of {parts[1]}",
            )


def find_overlays(survey: Survey) -> Iterator[Finding]:
    """Find overlays that are configured and missing."""
    for name, situation in survey.config.situations.items():
        path = situation.prompt_overlay
        if path and not {path, *(f"agents/{agent}/{path}" for agent in survey.config.agents)} & set(survey.names):
            line = survey.line_of("situations", name, "prompt_overlay")
            message = f"the overlay {path} of situation {name} does not exist"
            yield warn(CONFIG, line, message, "write it, or take prompt_overlay out")


def find_folders(survey: Survey) -> Iterator[Finding]:
    """Find folders that are named after nobody and nothing."""
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
            near = suggest(name, names)
            what = f"{top}/{name} belongs to no {kind}" if file else f"{path} lies in no {kind}"
            yield warn(path, 1, f"{what}, so nothing in it is ever read{near}", f"rename the folder, or {remedy}")


def find_stores(survey: Survey, reach: Reach) -> Iterator[Finding]:
    """Find stores that hold memories and that nobody may see."""
    for name, store in survey.config.stores.items():
        if store.trust > reach.best.level and any(path.startswith(f"memory/{name}/") for path in survey.names):
            message = f"no turn can have memory/{name}: {lack(reach, str(store.trust))}"
            yield warn(CONFIG, survey.line_of("stores", name), message, "lower its trust, or raise somebody's")


def warn(file: str, line: int, message: str, remedy: str) -> Finding:
    """Make a finding of this rule."""
    return Finding(file=file, line=line, rule=RULE, level=Level.WARNING, message=message, remedy=remedy)
