"""Select the slots that a turn may have, from names and trust levels alone; hooks may change the list of files."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from foreword.config.load import check_path
from foreword.config.schema import Config, PromptFile
from foreword.config.structure import convert_node
from foreword.engine.blueprint import LISTED_SOURCE, Blueprint, Slot
from foreword.engine.trust import Clearance, FileGuard, find_situation, has_other_readers
from foreword.errors import ConfigError, ConfigFault, InputError, suggest_name
from foreword.turn import Turn
from foreword.types import Mode, Pace, Placement, Trust, Verdict, frozen


@frozen
class PlannedSlot:
    """A slot, or one file of a slot, with the paths that may be read for it or the reason why none may."""

    slot: Slot
    id: str
    trust: Trust
    paths: tuple[str, ...] = ()
    folder: str = ""
    text: str = ""
    template: bool = False
    """Whether the file is a template to expand."""
    per_user: bool = False
    """Whether the file belongs to the user who speaks."""
    personal: bool = False
    """Whether the file depends on the user or the situation."""
    verdict: Verdict | None = None
    reason: str = ""


@frozen
class SlotRun:
    """Adjacent slots with the same pace and placement; they are cached together or not at all."""

    pace: Pace
    placement: Placement
    entries: tuple[PlannedSlot, ...]


@frozen
class Plan:
    """Every slot of a blueprint in prompt order, each with its permission."""

    blueprint: Blueprint
    clearance: Clearance
    mode: Mode
    runs: tuple[SlotRun, ...]
    warnings: tuple[str, ...] = ()
    """Problems found while planning, for the owner."""


HOOK_ENTRY_POINTS = "foreword.files"  # the entry point group of hooks


@frozen(eq=True)
class FileEntry:
    """A file that the turn's clearance may see, and its slot; a file that a hook adds has no slot yet."""

    path: str
    slot: str = ""


@frozen(eq=True)
class HookContext:
    """The inputs of a hook: everything that the list of files depends on."""

    agent: str
    user: str
    channel: str
    room: str
    situation: str
    mode: Mode
    clearance: Trust


Hook = Callable[[Sequence[FileEntry], HookContext], Iterable[FileEntry]]


def run_hooks(
    entries: Sequence[PlannedSlot], hooks: Mapping[str, Hook], context: HookContext, guard: FileGuard
) -> tuple[Sequence[PlannedSlot], list[str]]:
    """Let each hook change the list of files. A hook that fails changes nothing and adds a warning."""
    warnings: list[str] = []
    # The slot for additional files, which no other slot is for.
    listed = next((slot for slot in guard.blueprint.slots if slot.source == LISTED_SOURCE), None)
    for name, hook in hooks.items():
        before = tuple(FileEntry(path=entry.paths[-1], slot=entry.id) for entry in entries if is_open_file(entry))
        try:
            after = check_hook_result(hook(before, context), before)
        except Exception as error:  # noqa: BLE001 - a hook is foreign code and may raise anything; the turn continues
            warnings.append(f"hook {name!r} failed, so the list of files is unchanged: {type(error).__name__}: {error}")
            continue
        slots = {entry.id: entry.slot for entry in entries}
        fileless = {key for key, slot in slots.items() if not slot.file and slot.source != LISTED_SOURCE}
        if misplaced := sorted({one.slot for one in after} & fileless):
            warnings.append(f"hook {name!r} returns a file for {', '.join(misplaced)}, which is not read from a file")
        wanted = map_wanted_paths(entries, after, listed)
        entries = [apply_hook_result(entry, wanted, name, context, guard) for entry in entries]
        if listed:
            entries = insert_listed_files(entries, wanted, listed, context, guard)
        elif homeless := wanted.keys() - slots.keys():
            paths = ", ".join(sorted(wanted[key] for key in homeless))
            warnings.append(f"hook {name!r} adds {paths}, but the blueprint has no slot for additional files")
    return entries, warnings


def is_open_file(entry: PlannedSlot) -> bool:
    """Return whether an entry is a file that the turn may read."""
    return entry.verdict is None and bool(entry.paths)


def check_hook_result(answer: Iterable[Any], before: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
    """Validate what a hook returned: `FileEntry` values with valid paths, at most one per slot."""
    entries = tuple(answer)
    for one in entries:
        if not isinstance(one, FileEntry) or not (isinstance(one.path, str) and isinstance(one.slot, str)):
            raise TypeError(f"it must return FileEntry values, not {one!r}")
        if one not in before and (problem := check_path(one.path)):
            raise ValueError(f"a path {problem}")
    slots = [one.slot for one in entries if one.slot]
    if twice := sorted({slot for slot in slots if slots.count(slot) > 1}):
        raise ValueError(f"it returns several files for slot {twice[0]!r}")
    return tuple(one if one in before else replace(one, path=posixpath.normpath(one.path)) for one in entries)


def map_wanted_paths(entries: Sequence[PlannedSlot], after: Sequence[FileEntry], listed: Slot | None) -> dict[str, str]:
    """Map each entry to the path that a hook wants, in the hook's order; a listed file is identified by its path."""
    known = {entry.id: entry for entry in entries}
    wanted: dict[str, str] = {}
    for one in after:
        entry = known.get(one.slot)
        if entry is None or (entry.slot is listed and one.path not in entry.paths):
            wanted.setdefault(f"{listed.id if listed else LISTED_SOURCE}:{one.path}", one.path)
        else:
            wanted[one.slot] = one.path
    return wanted


def apply_hook_result(
    entry: PlannedSlot, wanted: Mapping[str, str], name: str, context: HookContext, guard: FileGuard
) -> PlannedSlot:
    """Apply a hook's answer to one entry: unchanged, removed, or read from another path."""
    if not is_open_file(entry):
        return entry
    if entry.id not in wanted:
        return refuse_entry(entry, Verdict.ABSENT, f"hook {name!r} removes it")
    if wanted[entry.id] in entry.paths:
        return entry
    return check_hook_file(replace(entry, paths=(wanted[entry.id],)), context, guard)


def insert_listed_files(
    entries: Sequence[PlannedSlot], wanted: Mapping[str, str], listed: Slot, context: HookContext, guard: FileGuard
) -> Sequence[PlannedSlot]:
    """Add new files to the listed ones, in the order the hook wants; the other slots keep their places."""
    slots = guard.blueprint.slots
    known = {entry.id: entry for entry in entries}
    for key, path in wanted.items():
        if key not in known:
            new = PlannedSlot(slot=listed, id=f"{listed.id}:{path}", trust=Trust.FULL, paths=(path,))
            known[key] = check_hook_file(new, context, guard)
    named = iter([known[key] for key in wanted if known[key].slot is listed])
    mine = [next(named) if entry.id in wanted else entry for entry in entries if entry.slot is listed]
    behind = {slot.id for slot in slots[slots.index(listed) + 1 :]}
    others = [entry for entry in entries if entry.slot is not listed]
    at = next((at for at, entry in enumerate(others) if entry.slot.id in behind), len(others))
    return [*others[:at], *mine, *named, *others[at:]]


def check_hook_file(entry: PlannedSlot, context: HookContext, guard: FileGuard) -> PlannedSlot:
    """Check a file that a hook named against the trust of that file, whatever trust the slot needs."""
    path = entry.paths[0]
    if guard.find_person(path):
        return refuse_entry(entry, Verdict.WITHHELD, "a personal file is read only through its own slot")
    least = guard.find_required_trust(path)
    judged = replace(entry, trust=least if entry.slot.source == LISTED_SOURCE else max(entry.trust, least))
    if context.clearance < judged.trust:
        return refuse_entry(judged, Verdict.WITHHELD, f"needs {judged.trust}")
    return judged


def refuse_entry(entry: PlannedSlot, verdict: Verdict, reason: str) -> PlannedSlot:
    """Refuse an entry: keep its id and trust, and remove everything that could be read."""
    return PlannedSlot(slot=entry.slot, id=entry.id, trust=entry.trust, verdict=verdict, reason=reason)


def load_hooks(names: Sequence[str], text: str, file: str) -> Mapping[str, Hook]:
    """Load the hooks that a configuration names. An installed hook that is not named is not run."""
    if not names:
        return {}
    from importlib.metadata import entry_points

    from foreword.config.yaml import parse_nodes

    installed = {point.name: point for point in entry_points(group=HOOK_ENTRY_POINTS)}
    if unknown := [at for at, name in enumerate(names) if name not in installed]:
        places = convert_node(parse_nodes(text, file), Config, file).values
        raise ConfigError(
            [
                ConfigFault(
                    file=file,
                    line=places["prompt", "hooks", at].line,
                    message=f"unknown hook {names[at]!r}{suggest_name(names[at], sorted(installed))}",
                )
                for at in unknown
            ]
        )
    hooks: dict[str, Hook] = {}
    for name in names:
        point = installed[name]
        try:
            hooks[name] = point.load()
        except Exception as error:  # noqa: BLE001 - importing foreign code may raise anything
            problem = f"cannot be loaded from {point.value}: {type(error).__name__}: {error}"
            raise InputError(f"hook {name!r} {problem}") from None
        if not callable(hooks[name]):
            raise InputError(f"hook {name!r} is {point.value}, which is not a function")
    return hooks


AGENT_PREFIX = re.compile(r"^agents/[^/]+/")
PATH_PLACEHOLDER = re.compile(r"\{(\w+)\}")
PATH_PLACEHOLDERS = ("family", "situation", "group", "user", "os", "machine", "overlay")
# The tail comes last in the text, wherever its slots are in the blueprint; a template places the nested slots.
PLACEMENT_ORDER = {Placement.SYSTEM: 0, Placement.TAIL: 1, Placement.NESTED: 2}
NO_HOOKS: Mapping[str, Hook] = {}


def select_slots(
    turn: Turn, clearance: Clearance, config: Config, blueprint: Blueprint, hooks: Mapping[str, Hook] = NO_HOOKS
) -> Plan:
    """Decide for every slot whether this turn may have it. No file is opened here."""
    mode = turn.mode or Mode.FULL
    if mode is Mode.BRIEF and not any(Mode.BRIEF in slot.modes for slot in blueprint.slots):
        mode = Mode.MINIMAL
    names = collect_path_values(turn, config)
    # The listed files that a slot already shows; a per-user file needs a per-user slot.
    per_user = {expand_path(slot.file, names): slot.per_user for slot in blueprint.slots if slot.file}
    claimed = {
        entry.path: entry
        for entry in config.prompt.files
        if (plain := AGENT_PREFIX.sub("", entry.path)) in per_user and per_user[plain] >= entry.per_user
    }
    entries: list[PlannedSlot] = []
    for slot in blueprint.slots:
        if Mode.FULL not in slot.modes and mode not in slot.modes:
            continue  # a slot of other modes only is not reported as absent
        if slot.source == LISTED_SOURCE:
            further = [entry for entry in config.prompt.files if entry.path not in claimed]
            planned = [plan_file(slot, entry, turn, config) for entry in further]
        else:
            planned = [plan_slot(slot, names, claimed, turn, config, clearance=clearance)]
        entries += [refuse_mode(check_entry(entry, turn, clearance, config), mode) for entry in planned]
    context = HookContext(
        **{name: getattr(turn, name) for name in ("agent", "user", "channel", "room", "situation")},
        mode=mode,
        clearance=clearance.level,
    )
    changed, warnings = run_hooks(entries, hooks, context, FileGuard(blueprint, config))
    # A file that a hook adds to a slot is subject to the slot's situations and modes.
    revised = [refuse_mode(refuse_situation(entry, turn, config), mode) for entry in changed]
    ordered = sorted(revised, key=lambda entry: PLACEMENT_ORDER[entry.slot.placement])
    runs = tuple(
        SlotRun(pace=pace, placement=placement, entries=tuple(group))
        for (pace, placement), group in groupby(ordered, key=lambda e: (e.slot.pace, e.slot.placement))
    )
    return Plan(blueprint=blueprint, clearance=clearance, mode=mode, runs=runs, warnings=tuple(warnings))


def plan_slot(
    slot: Slot,
    names: dict[str, str],
    claimed: Mapping[str, PromptFile],
    turn: Turn,
    config: Config,
    *,
    clearance: Clearance,
) -> PlannedSlot:
    """Plan one slot of the blueprint, with the trust that the configuration sets for its file."""
    file = expand_path(slot.file, names)
    listed = claimed.get(file)
    least = listed.trust if listed else slot.file_required_trust
    # If the file has a built-in fallback text, only the file is withheld.
    shown = clearance.level >= least or slot.file_trust is None
    return PlannedSlot(
        slot=slot,
        id=slot.id,
        trust=least if slot.file_trust is None else slot.trust,
        paths=tuple(list_candidate_paths(file if shown else "", turn, config, per_user=slot.per_user)),
        folder=expand_path(slot.folder, names),
        text=expand_path(slot.text, names),
        template=listed is not None and listed.template,
        per_user=slot.per_user,
        personal=slot.per_user or bool(slot.situations) or "{" in slot.file,
    )


def plan_file(slot: Slot, listed: PromptFile, turn: Turn, config: Config) -> PlannedSlot:
    """Plan one of the additional files that the configuration lists."""
    return PlannedSlot(
        slot=slot,
        id=f"{slot.id}:{listed.path}",
        trust=listed.trust,
        paths=tuple(list_candidate_paths(listed.path, turn, config, per_user=listed.per_user)),
        template=listed.template,
        per_user=listed.per_user,
        personal=listed.per_user or bool(slot.situations),
    )


def list_candidate_paths(file: str, turn: Turn, config: Config, *, per_user: bool) -> Iterator[str]:
    """Yield the paths that may hold a file, most specific first; a personal file has no shared fallback."""
    if not file:
        return
    if not per_user:
        yield f"agents/{turn.agent}/{file}"
    elif turn.user in config.users:
        yield f"users/{turn.user}/{file}"
    if not per_user or turn.user == config.owner:
        yield file


def check_entry(entry: PlannedSlot, turn: Turn, clearance: Clearance, config: Config) -> PlannedSlot:
    """Refuse an entry that this turn may not have. Trust is checked first."""
    if clearance.level < entry.trust:
        return refuse_entry(entry, Verdict.WITHHELD, f"needs {entry.trust}")
    if (elsewhere := refuse_situation(entry, turn, config)) is not entry:
        return elsewhere
    if entry.per_user and has_other_readers(turn):
        return refuse_entry(entry, Verdict.ABSENT, "personal slots are left out where others read the reply")
    if entry.per_user and turn.user not in config.users:
        return refuse_entry(entry, Verdict.ABSENT, "needs a known user")
    return entry


def refuse_situation(entry: PlannedSlot, turn: Turn, config: Config) -> PlannedSlot:
    """Refuse an entry of another situation."""
    situations = entry.slot.situations
    if entry.verdict or not situations or find_situation(turn, config) in situations:
        return entry
    return refuse_entry(entry, Verdict.ABSENT, f"only in situation {' or '.join(situations)}")


def refuse_mode(entry: PlannedSlot, mode: Mode) -> PlannedSlot:
    """Mark an entry outside the prompt mode as absent; its paths stay known because recall may search them."""
    if entry.verdict or mode in entry.slot.modes:
        return entry
    return replace(entry, verdict=Verdict.ABSENT, reason=describe_mode_absence(mode))


def describe_mode_absence(mode: Mode) -> str:
    """Return the reason of a slot that the prompt mode leaves out."""
    return f"prompt mode {mode} leaves it out"


def collect_path_values(turn: Turn, config: Config) -> dict[str, str]:
    """Collect the values of path placeholders; a value that could leave its folder becomes empty."""
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
    safe = {name: value for name, value in names.items() if not value.startswith(".") and not set(value) & set("/\\\0")}
    return {**safe, "overlay": situation.prompt_overlay if situation else ""}


def expand_path(template: str, names: dict[str, str]) -> str:
    """Fill the names into a path template in one pass; an empty name yields an empty path."""
    marks = PATH_PLACEHOLDER.findall(template)
    if any(not names.get(name, "") for name in marks):
        return ""
    return PATH_PLACEHOLDER.sub(lambda mark: names[mark[1]], template)
