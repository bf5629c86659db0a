"""What a run is told: the words of its schedule, and what its blueprint has no place for."""

from foreword.blueprint import Blueprint
from foreword.config.schema import Config
from foreword.gateway.schedule.due import Kind
from foreword.gateway.schedule.schedules import Schedule
from foreword.sources.builtin import read_prompt
from foreword.sources.document import Document
from foreword.words import Mode, Trust
from foreword.workspace import Workspace

HEARTBEAT = "HEARTBEAT.md"


def find_words(schedule: Schedule, workspace: Workspace, allowed: Trust) -> str:
    """Find what a run is told, or nothing where there is nothing to do: a heartbeat has its list, or does not beat."""
    blueprint = workspace.blueprint(workspace.config.agents[schedule.agent].blueprint)
    before = "" if has_source(blueprint, "background") else read_prompt(f"background/{schedule.delivery}")
    if schedule.timing.kind is not Kind.HEARTBEAT:
        return join(before, schedule.say)
    tasks = read_heartbeat(workspace, schedule.agent, allowed)
    if not tasks:
        return ""
    shown = any(slot.file == HEARTBEAT and Mode.MINIMAL in slot.modes for slot in blueprint.slots)
    return join(before, schedule.say.strip() or read_prompt("schedule/heartbeat"), "" if shown else tasks)


def read_heartbeat(workspace: Workspace, agent: str, allowed: Trust) -> str:
    """Read the list of an agent's heartbeat; one above the clearance of the run is not opened."""
    if allowed < find_trust(workspace.config):
        return ""
    for path in (f"agents/{agent}/{HEARTBEAT}", HEARTBEAT):
        document = workspace.files.read(path)
        if isinstance(document, Document) and document.body.strip():
            return document.body
    return ""


def find_trust(config: Config) -> Trust:
    """Find the least clearance that may see the list."""
    return next((file.trust for file in config.prompt.files if file.path == HEARTBEAT), Trust.FULL)


def has_source(blueprint: Blueprint, name: str) -> bool:
    """Whether a blueprint has a place for something."""
    return any(slot.source == name for slot in blueprint.slots)


def join(*texts: str) -> str:
    """Join texts as paragraphs."""
    return "\n\n".join(text for text in texts if text)
