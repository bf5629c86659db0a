"""Hooks: installed functions that may change the list of files after trust was decided, and can never raise it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foreword.blueprint.guard import FileGuard
from foreword.blueprint.plan import Planned
from foreword.blueprint.slot import LISTED, Blueprint, Slot
from foreword.config.load import judge_path, normalise_path
from foreword.frozen import frozen
from foreword.words import Mode, Trust, Verdict

GROUP = "foreword.files"  # the entry points by which hooks are found


@frozen(eq=True)
class FileEntry:
    """One file that the turn's clearance may see, and the slot it stands in; a new one has no slot yet."""

    path: str
    slot: str = ""


@frozen(eq=True)
class Occasion:
    """What a hook may decide by: all that the list of files depends on."""

    agent: str
    user: str
    channel: str
    room: str
    situation: str
    mode: Mode
    clearance: Trust


Hook = Callable[[Sequence[FileEntry], Occasion], Iterable[FileEntry]]


@frozen
class Revision:
    """The entries of a plan after a hook has seen them, and what went wrong."""

    entries: tuple[Planned, ...]
    warnings: tuple[str, ...] = ()


def revise(entries: Sequence[Planned], hooks: Mapping[str, Hook], occasion: Occasion, guard: FileGuard) -> Revision:
    """Let each hook change the list of files; the answer of one that fails is as if it had not been asked."""
    warnings: list[str] = []
    for name, hook in hooks.items():
        before = tuple(FileEntry(path=entry.paths[-1], slot=entry.id) for entry in entries if is_file(entry))
        try:
            after = check(hook(before, occasion), before)
        except Exception as error:  # noqa: BLE001 - somebody's own code may raise anything; the turn goes on
            warnings.append(f"hook {name!r} failed, so the files stay as they were: {type(error).__name__}: {error}")
            continue
        wanted = find_wanted(entries, after, find_listed(guard.blueprint))
        entries = arrange([change(entry, wanted, name, occasion, guard) for entry in entries], wanted, occasion, guard)
        if misplaced := sorted({one.slot for one in after if is_no_file(one, entries)}):
            warnings.append(f"hook {name!r} gives a file for {', '.join(misplaced)}, which is read from no file")
        homeless = wanted.keys() - {entry.id for entry in entries}
        if homeless:
            paths = ", ".join(sorted(wanted[key] for key in homeless))
            warnings.append(f"hook {name!r} adds {paths}, and the blueprint has no slot for further files")
    return Revision(entries=tuple(entries), warnings=tuple(warnings))


def is_file(entry: Planned) -> bool:
    """Whether an entry is a file that the turn may have."""
    return entry.verdict is None and bool(entry.paths)


def is_no_file(one: FileEntry, entries: Sequence[Planned]) -> bool:
    """Whether a hook gives a file for a slot that has none."""
    slot = next((entry.slot for entry in entries if entry.id == one.slot), None)
    return slot is not None and not slot.file and slot.source != LISTED


def check(answer: Iterable[Any], before: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
    """Take what a hook answered, or say that it is no list of files."""
    entries = tuple(answer)
    for one in entries:
        if not isinstance(one, FileEntry) or not (isinstance(one.path, str) and isinstance(one.slot, str)):
            raise TypeError(f"it must give FileEntry values, not {one!r}")
        if one not in before and (problem := judge_path(one.path)):
            raise ValueError(f"a path {problem}")
    slots = [one.slot for one in entries if one.slot]
    if twice := sorted({slot for slot in slots if slots.count(slot) > 1}):
        raise ValueError(f"it gives several files for slot {twice[0]!r}")
    return tuple(one if one in before else replace(one, path=normalise_path(one.path)) for one in entries)


def find_listed(blueprint: Blueprint) -> Slot | None:
    """Find the slot of the files that no other slot is for."""
    return next((slot for slot in blueprint.slots if slot.source == LISTED), None)


def find_wanted(entries: Sequence[Planned], after: Sequence[FileEntry], listed: Slot | None) -> dict[str, str]:
    """Find the path that a hook wants for each entry, in its order; a listed file is known by its path."""
    known = {entry.id: entry for entry in entries}
    wanted: dict[str, str] = {}
    for one in after:
        entry = known.get(one.slot)
        if entry is None or (entry.slot is listed and one.path not in entry.paths):
            wanted.setdefault(f"{listed.id if listed else LISTED}:{one.path}", one.path)
        else:
            wanted[one.slot] = one.path
    return wanted


def change(entry: Planned, wanted: Mapping[str, str], name: str, occasion: Occasion, guard: FileGuard) -> Planned:
    """Give an entry as a hook wants it: as it was, without a text, or from elsewhere."""
    if not is_file(entry):
        return entry
    if entry.id not in wanted:
        return refuse(entry, Verdict.ABSENT, f"hook {name!r} leaves it out")
    if wanted[entry.id] in entry.paths:
        return entry
    return admit(replace(entry, paths=(wanted[entry.id],)), occasion, guard)


def arrange(
    entries: Sequence[Planned], wanted: Mapping[str, str], occasion: Occasion, guard: FileGuard
) -> Sequence[Planned]:
    """Put new files to the listed ones, all in the order that a hook wants; the other slots stay where they are."""
    slots = guard.blueprint.slots
    listed = find_listed(guard.blueprint)
    if listed is None:
        return entries
    known = {entry.id: entry for entry in entries}
    new = {key: admit(add(listed, path), occasion, guard) for key, path in wanted.items() if key not in known}
    named = iter([entry for key in wanted if (entry := known.get(key) or new[key]).slot is listed])
    mine = [next(named) if entry.id in wanted else entry for entry in entries if entry.slot is listed]
    behind = {slot.id for slot in slots[slots.index(listed) + 1 :]}
    others = [entry for entry in entries if entry.slot is not listed]
    at = next((at for at, entry in enumerate(others) if entry.slot.id in behind), len(others))
    return [*others[:at], *mine, *named, *others[at:]]


def add(slot: Slot, path: str) -> Planned:
    """Plan a file that nothing lists."""
    return Planned(slot=slot, id=f"{slot.id}:{path}", trust=Trust.FULL, paths=(path,))


def admit(entry: Planned, occasion: Occasion, guard: FileGuard) -> Planned:
    """Judge a file that a hook named by what that file needs, whatever the slot was open to."""
    path = entry.paths[0]
    if guard.find_person(path):
        return refuse(entry, Verdict.WITHHELD, "a person's own file has its own slot")
    least = guard.find_least(path)
    judged = replace(entry, trust=least if entry.slot.source == LISTED else max(entry.trust, least))
    if occasion.clearance < judged.trust:
        return refuse(judged, Verdict.WITHHELD, f"needs {judged.trust}")
    return judged


def refuse(entry: Planned, verdict: Verdict, reason: str) -> Planned:
    """Close an entry: it keeps its name and its level, and nothing that could be read."""
    return Planned(slot=entry.slot, id=entry.id, trust=entry.trust, verdict=verdict, reason=reason)
