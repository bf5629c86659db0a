"""Hooks: installed functions that may change the list of files after trust was decided, and can never raise it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from foreword.blueprint.guard import FileGuard
from foreword.blueprint.plan import Planned
from foreword.blueprint.slot import Slot
from foreword.frozen import frozen
from foreword.words import Mode, Trust, Verdict

GROUP = "foreword.files"  # the entry points by which hooks are found
OTHERS = "users/"  # what lies here belongs to one person each


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
            after = check(hook(before, occasion))
        except Exception as error:  # noqa: BLE001 - somebody's own code may raise anything; the turn goes on
            warnings.append(f"hook {name!r} failed, so the files stay as they were: {type(error).__name__}: {error}")
            continue
        entries = tuple(apply(entries, after, name, occasion, guard))
    return Revision(entries=tuple(entries), warnings=tuple(warnings))


def is_file(entry: Planned) -> bool:
    """Whether an entry is a file that the turn may have."""
    return entry.verdict is None and bool(entry.paths)


def check(answer: Iterable[Any]) -> tuple[FileEntry, ...]:
    """Take what a hook answered, or say that it is no list of files."""
    entries = tuple(answer)
    if wrong := [one for one in entries if not isinstance(one, FileEntry)]:
        raise TypeError(f"it must give FileEntry values, not {wrong[0]!r}")
    return entries


def apply(
    entries: Sequence[Planned], after: Sequence[FileEntry], name: str, occasion: Occasion, guard: FileGuard
) -> Iterator[Planned]:
    """Give the entries as a hook wants them: some left out, some from elsewhere, new ones behind the listed files."""
    wanted = {one.slot: one.path for one in after if one.slot}
    known = {entry.id for entry in entries}
    new = [one for one in after if one.slot not in known]
    listed = next((entry.slot for entry in reversed(entries) if entry.slot.source == "files"), None)
    for entry in entries:
        if not is_file(entry):
            yield entry
        elif entry.id not in wanted:
            yield refuse(entry, Verdict.ABSENT, f"hook {name!r} leaves it out")
        elif wanted[entry.id] == entry.paths[-1]:
            yield entry
        else:
            yield admit(replace(entry, paths=(wanted[entry.id],)), occasion, guard)
    if listed:
        yield from (admit(add(listed, one.path), occasion, guard) for one in new)


def add(slot: Slot, path: str) -> Planned:
    """Plan a file that nothing lists."""
    return Planned(slot=slot, id=f"{slot.id}:{path}", trust=Trust.FULL, paths=(path,))


def admit(entry: Planned, occasion: Occasion, guard: FileGuard) -> Planned:
    """Judge a file that a hook named by what that file needs, whatever the slot was open to."""
    path = entry.paths[0]
    if path.startswith(OTHERS):
        return refuse(entry, Verdict.WITHHELD, "a person's own file has its own slot")
    least = guard.find_least(path)
    judged = replace(entry, trust=least if entry.slot.source == "files" else max(entry.trust, least))
    if occasion.clearance < judged.trust:
        return refuse(judged, Verdict.WITHHELD, f"needs {judged.trust}")
    return judged


def refuse(entry: Planned, verdict: Verdict, reason: str) -> Planned:
    """Close an entry: it keeps its name and its level, and nothing that could be read."""
    return Planned(slot=entry.slot, id=entry.id, trust=entry.trust, verdict=verdict, reason=reason)
