"""Selecting: which slots of a blueprint a turn may have, from names and levels alone."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from foreword.blueprint.guard import FileGuard
from foreword.blueprint.hook import Hook, Occasion, refuse, revise
from foreword.blueprint.plan import Plan, Planned, Run
from foreword.blueprint.slot import LISTED, Blueprint, Slot
from foreword.config.schema import Config, PromptFile
from foreword.trust import Clearance, find_situation, has_company
from foreword.turn import Turn
from foreword.words import Mode, Placement, Verdict

AGENT = re.compile(r"^agents/[^/]+/")
MARK = re.compile(r"\{(\w+)\}")
NAMES = ("family", "situation", "group", "user", "os", "machine", "overlay")
# The tail comes last in the text, wherever its slots stand in the file; nested slots stand where a template says.
ORDER = {Placement.SYSTEM: 0, Placement.TAIL: 1, Placement.NESTED: 2}


NO_HOOKS: Mapping[str, Hook] = {}


def select(
    turn: Turn, clearance: Clearance, config: Config, blueprint: Blueprint, hooks: Mapping[str, Hook] = NO_HOOKS
) -> Plan:
    """Decide for every slot whether this turn may have it; nothing is opened here."""
    mode = find_mode(turn.mode or Mode.FULL, blueprint)
    names = fill_names(turn, config)
    claimed = find_claimed(blueprint, config, names)
    entries: list[Planned] = []
    for slot in list_slots(blueprint, mode):
        if slot.source == LISTED:
            further = [entry for entry in config.prompt.files if entry.path not in claimed]
            entries.extend(plan_file(slot, entry, turn, clearance, config) for entry in further)
        else:
            file = expand(slot.file, names)
            entry = Planned(
                slot=slot,
                id=slot.id,
                trust=slot.trust,
                paths=(file,) if file else (),
                folder=expand(slot.folder, names),
                text=expand(slot.text, names),
            )
            entries.append(plan_slot(entry, claimed.get(file), turn, clearance, config))
    entries = [refuse_mode(entry, mode) for entry in entries]
    revision = revise(entries, hooks, see(turn, clearance, mode), FileGuard(blueprint, config))
    # What a hook adds to a slot is there only where the slot is.
    revised = [refuse_mode(refuse_situation(entry, turn, config), mode) for entry in revision.entries]
    ordered = sorted(revised, key=lambda entry: ORDER[entry.slot.placement])
    runs = tuple(
        Run(pace=pace, placement=placement, entries=tuple(group))
        for (pace, placement), group in groupby(ordered, key=lambda e: (e.slot.pace, e.slot.placement))
    )
    return Plan(blueprint=blueprint, clearance=clearance, mode=mode, runs=runs, warnings=revision.warnings)


def find_mode(mode: Mode, blueprint: Blueprint) -> Mode:
    """Return the prompt mode to use: a blueprint that has no brief prompt uses its minimal one."""
    if mode is Mode.BRIEF and not any(Mode.BRIEF in slot.modes for slot in blueprint.slots):
        return Mode.MINIMAL
    return mode


def list_slots(blueprint: Blueprint, mode: Mode) -> list[Slot]:
    """List the slots of a prompt mode and of the full prompt; a slot that only another mode has is no loss here."""
    return [slot for slot in blueprint.slots if Mode.FULL in slot.modes or mode in slot.modes]


def see(turn: Turn, clearance: Clearance, mode: Mode) -> Occasion:
    """Say by what a hook may decide."""
    return Occasion(
        agent=turn.agent,
        user=turn.user,
        channel=turn.channel,
        room=turn.room,
        situation=turn.situation,
        mode=mode,
        clearance=clearance.level,
    )


def find_claimed(blueprint: Blueprint, config: Config, names: dict[str, str]) -> dict[str, PromptFile]:
    """Find the listed files that a slot shows already; a file of each person's own needs a slot of that kind."""
    per_user = {expand(slot.file, names): slot.per_user for slot in blueprint.slots if slot.file}
    return {
        entry.path: entry
        for entry in config.prompt.files
        if (plain := AGENT.sub("", entry.path)) in per_user and per_user[plain] >= entry.per_user
    }


def plan_slot(entry: Planned, listed: PromptFile | None, turn: Turn, clearance: Clearance, config: Config) -> Planned:
    """Plan one slot of the blueprint, with the trust that the configuration gives its file."""
    slot = entry.slot
    least = listed.trust if listed else slot.file_least
    # Where a built-in text lies beneath the file, only the file is withheld.
    shown = clearance.level >= least or slot.file_trust is None
    file = entry.paths[0] if entry.paths and shown else ""
    paths = tuple(find_candidates(file, turn, config, per_user=slot.per_user))
    trust = slot.trust if slot.file_trust is not None else least
    planned = replace(
        entry,
        paths=paths,
        trust=trust,
        template=listed is not None and listed.template,
        personal=slot.per_user or bool(slot.situations) or "{" in slot.file,
    )
    return judge(planned, turn, clearance, config, per_user=slot.per_user)


def plan_file(slot: Slot, listed: PromptFile, turn: Turn, clearance: Clearance, config: Config) -> Planned:
    """Plan one of the further files that the configuration lists."""
    entry = Planned(
        slot=slot,
        id=f"{slot.id}:{listed.path}",
        trust=listed.trust,
        paths=tuple(find_candidates(listed.path, turn, config, per_user=listed.per_user)),
        template=listed.template,
        personal=listed.per_user or bool(slot.situations),
    )
    return judge(entry, turn, clearance, config, per_user=listed.per_user)


def find_candidates(file: str, turn: Turn, config: Config, *, per_user: bool) -> Iterator[str]:
    """Name the paths that may hold a file, the most particular first; nobody inherits another's own file."""
    if not file:
        return
    if per_user:
        if turn.user in config.users:
            yield f"users/{turn.user}/{file}"
        if turn.user == config.owner:
            yield file
        return
    yield f"agents/{turn.agent}/{file}"
    yield file


def judge(entry: Planned, turn: Turn, clearance: Clearance, config: Config, *, per_user: bool) -> Planned:
    """Refuse an entry that this turn may not have; trust speaks first."""
    if clearance.level < entry.trust:
        return refuse(entry, Verdict.WITHHELD, f"needs {entry.trust}")
    if (elsewhere := refuse_situation(entry, turn, config)) is not entry:
        return elsewhere
    if per_user and has_company(turn):
        return refuse(entry, Verdict.ABSENT, "everyone in a room reads the reply, so nobody's own slots are in it")
    if per_user and turn.user not in config.users:
        return refuse(entry, Verdict.ABSENT, "belongs to a known user, and nobody known is speaking")
    return entry


def refuse_situation(entry: Planned, turn: Turn, config: Config) -> Planned:
    """Leave out what belongs to other situations than this one."""
    situations = entry.slot.situations
    if entry.verdict or not situations or find_situation(turn, config) in situations:
        return entry
    return refuse(entry, Verdict.ABSENT, f"only in situation {' or '.join(situations)}")


def refuse_mode(entry: Planned, mode: Mode) -> Planned:
    """Leave out what the prompt mode does not include; its files stay known, since recall may search them."""
    if entry.verdict or mode in entry.slot.modes:
        return entry
    return replace(entry, verdict=Verdict.ABSENT, reason=tell_left_out(mode))


def tell_left_out(mode: Mode) -> str:
    """Say why a slot is absent that the prompt mode does not include."""
    return f"prompt mode {mode} leaves it out"


def fill_names(turn: Turn, config: Config) -> dict[str, str]:
    """Collect the names that paths and built-in texts may contain; one that could leave its folder is empty."""
    room = config.rooms.get(turn.room)
    governing = find_situation(turn, config)
    situation = config.situations.get(governing)
    names = {
        "family": turn.channel.partition(":")[0],
        "situation": governing,
        "group": (room.group if room else "") or turn.room,
        "user": turn.user,
        "os": turn.host.os if turn.host else "",
        "machine": turn.host.host if turn.host else "",
    }
    safe = {name: value if is_plain(value) else "" for name, value in names.items()}
    return {**safe, "overlay": situation.prompt_overlay if situation else ""}


def is_plain(name: str) -> bool:
    """Whether a name is one part of a path and nothing else."""
    return not name.startswith(".") and not any(sign in name for sign in "/\\\0")


def expand(template: str, names: dict[str, str]) -> str:
    """Fill the names into a template in one pass; an empty name gives no path at all."""
    marks = MARK.findall(template)
    if any(not names.get(name, "") for name in marks):
        return ""
    return MARK.sub(lambda mark: names[mark[1]], template)
