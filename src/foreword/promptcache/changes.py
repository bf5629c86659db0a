"""Changes: the sections in which the prefix a turn wants differs from what its session has sent, and their updates.

A memory menu is one section with an entry per file; a file's policy applies to its entry.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from hashlib import sha256
from itertools import takewhile

from foreword.engine.budget import Fit
from foreword.engine.cuts import Fitted
from foreword.engine.render import UPDATES_TITLE, Layout, Prompt, PromptBlock, Span, join_words
from foreword.engine.sources.documents import read_prompt
from foreword.engine.sources.sections import Missing, Section
from foreword.promptcache.ledger import (
    CacheIdentity,
    Prefix,
    RemovalKind,
    SectionSnapshot,
    Snapshots,
    Update,
    UpdateChannel,
    UpdateKind,
    list_stable_blocks,
)
from foreword.turn import Message, Toolset
from foreword.types import EditPolicy, Pace, Placement, Trust, Verdict, frozen

LISTING_SOURCE = "menu"  # the source of listing sections
OVERRIDE_FOLDERS = ("agents", "users", "groups")  # folders whose files override shared files of the same name


@frozen
class WantedPrefix:
    """The prefix a turn wants, with the inputs of the comparison."""

    identity: CacheIdentity
    prompt: Prompt  # the rendered prompt
    prefix: Prefix  # its leading stable part
    layout: Layout  # renders updates and counts their tokens
    edits: Mapping[str, EditPolicy] = field(default_factory=dict)  # for single edits, by section, removed ones included
    policies: Mapping[str, EditPolicy] = field(default_factory=dict)  # policies for files, by path
    listings: frozenset[str] = frozenset()  # sections that list files, one per line
    withheld: frozenset[str] = frozenset()  # sections this clearance may not see; sent ones are removed without a trace
    broken: frozenset[str] = frozenset()  # sections with broken files; the session keeps their earlier text
    joined: frozenset[str] = frozenset()  # those of a broken template; a session with the valid one gets none of them
    said: tuple[str, ...] = ()  # the history before this turn, as sent
    compacted: bool = False  # whether the history is known to be compacted; otherwise its hash decides
    waits: bool = False  # whether no update can be added because the turn resumes after an interruption

    def contains_update(self, update: Update) -> bool:
        """Whether the history contains an update; true if the history is unknown."""
        return not self.said or any(update.said in text for text in self.said)


@frozen
class PromptDraft:
    """A rendered prompt with the ledger's other inputs."""

    prompt: Prompt
    fit: Fit
    layout: Layout
    clearance: Trust
    model: str
    tools: Toolset
    snapshots: Mapping[PromptBlock, Snapshots]  # the snapshots of the stable blocks
    said: tuple[Message, ...] = ()
    policies: Mapping[str, EditPolicy] = field(default_factory=dict)  # the owner's policies for edits, by file


def make_wanted_prefix(
    draft: PromptDraft, decided: Mapping[tuple[str, str], EditPolicy], *, compacted: bool = False
) -> WantedPrefix:
    """Return the prefix a turn wants; a policy for a single edit overrides the file's."""
    items = [one for run in draft.fit.runs for one in run.items]
    known = {one.item.id: one for one in items if isinstance(one, Fitted)}
    places = (
        ((name, (one.item.path or one.item.origin, one.item.sha256)) for name, one in known.items()) if decided else ()
    )
    edits = {name: decided[place] for name, place in places if place in decided}
    return WantedPrefix(
        identity=CacheIdentity(
            clearance=draft.clearance,
            model=draft.model,
            tools=sha256("\n".join(draft.tools.schemas).encode()).hexdigest(),
        ),
        prompt=draft.prompt,
        prefix=Prefix(
            blocks=tuple(
                # A block that was joined with a separator of the turn has none yet.
                draft.snapshots.get(block) or take_snapshots(block, known, draft.layout, draft.policies)
                for block in list_stable_blocks(draft.prompt.blocks)
            )
        ),
        layout=draft.layout,
        edits=edits,
        policies=draft.policies,
        listings=frozenset(name for name, one in known.items() if one.item.slot.source == LISTING_SOURCE),
        withheld=frozenset(
            one.id if isinstance(one, Missing) else one.item.id for one in items if one.verdict is Verdict.WITHHELD
        ),
        broken=frozenset(name for name, one in known.items() if one.item.broken),
        joined=frozenset(name for name, one in known.items() if one.item.broken and not one.item.opens),
        said=tuple(message.text for message in draft.said),
        compacted=compacted,
    )


def take_snapshots(
    block: PromptBlock, fitted: Mapping[str, Fitted], layout: Layout, policies: Mapping[str, EditPolicy]
) -> Snapshots:
    """Return the section snapshots of a stable block; `fitted` has its sections by id."""
    lines = []
    for span in block.spans:
        section, piece = fitted[span.id].item, block.text[span.start : span.end]
        text = layout.draw(section, fitted[span.id].body or "")
        line = SectionSnapshot(
            id=span.id,
            title=section.title or section.slot.title or section.id,
            pace=block.pace,
            text=text,
            piece=text if piece == text else piece,  # mostly equal; one string is kept instead of two
            tokens=span.tokens,
            governs=section.slot.governs,
            policy=find_policy(policies, section.path or section.origin),
            gated=find_removal_kind(section),
        )
        lines.append(line)
    return tuple(lines)


def find_removal_kind(section: Section) -> RemovalKind:
    """Return what a removal from a section may hide; public sections hide nothing."""
    if section.trust is Trust.PUBLIC:
        return RemovalKind.NONE
    if section.slot.source == LISTING_SOURCE:
        return RemovalKind.LISTING
    return RemovalKind.FILE if section.path else RemovalKind.NONE


def find_policy(policies: Mapping[str, EditPolicy], path: str) -> EditPolicy:
    """Return the policy of a file; an agent's, user's or group's override has the policy of the shared file."""
    folder, _, rest = path.partition("/")
    shared = rest.partition("/")[2] if folder in OVERRIDE_FOLDERS else ""
    return policies.get(path) or policies.get(shared) or EditPolicy.AUTO


ENTRY_PRICE = re.compile(r" \([0-9,]+ tok\)(?= — |$)")  # follows the path, which may contain brackets
STORES_FOLDER = "memory/"  # the folder that menu entries omit


@frozen(eq=True)
class HeldEntry:
    """A menu entry that is held because of its file's policy."""

    section: str
    path: str
    what: str  # changed or added
    policy: EditPolicy


def list_entries(text: str) -> dict[str, str]:
    """Map the entry names of a listing to their lines; a duplicate name maps by its whole line."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("- "):
            name = ENTRY_PRICE.split(line[2:], maxsplit=1)[0]
            found[line if name in found else name] = line
    return found


def hold_entries(
    told: Mapping[str, SectionSnapshot], wanted: WantedPrefix, *, warm: bool
) -> tuple[WantedPrefix, tuple[HeldEntry, ...]]:
    """Keep the sent entries of files whose edits are held; removed files are removed."""
    if not any(policy in (EditPolicy.COLD, EditPolicy.NEXT_SESSION) for policy in wanted.policies.values()):
        return wanted, ()
    waiting = {
        line.id: found
        for line in wanted.prefix.lines
        if line.id in wanted.listings and line.id in told
        if (found := tuple(list_held_entries(told[line.id], line, wanted, warm=warm)))
    }
    if not waiting:
        return wanted, ()
    blocks = tuple(
        tuple(
            restore_entries(told[line.id], line, waiting[line.id], wanted) if line.id in waiting else line
            for line in lines
        )
        for lines in wanted.prefix.blocks
    )
    return replace(wanted, prefix=Prefix(blocks=blocks)), tuple(one for found in waiting.values() for one in found)


def list_held_entries(
    before: SectionSnapshot, after: SectionSnapshot, wanted: WantedPrefix, *, warm: bool
) -> Iterator[HeldEntry]:
    """List the entries of a listing that are held."""
    told = list_entries(before.text)
    for name, line in list_entries(after.text).items():
        policy = find_entry_policy(wanted.policies, name)
        if told.get(name) != line and (policy is EditPolicy.NEXT_SESSION or (policy is EditPolicy.COLD and warm)):
            yield HeldEntry(section=after.id, path=name, what="changed" if name in told else "added", policy=policy)


def restore_entries(
    before: SectionSnapshot, after: SectionSnapshot, waiting: tuple[HeldEntry, ...], wanted: WantedPrefix
) -> SectionSnapshot:
    """Restore the earlier lines of held entries."""
    told, now = list_entries(before.text), list_entries(after.text)
    lines = {now[one.path]: told.get(one.path) for one in waiting}
    text, piece = (
        "\n".join(kept for line in one.split("\n") if (kept := lines.get(line, line)) is not None)
        for one in (after.text, after.piece)
    )
    return replace(after, text=text, piece=piece, tokens=wanted.layout.meter.count(piece))


def find_listing_policy(before: SectionSnapshot, after: SectionSnapshot, wanted: WantedPrefix) -> EditPolicy:
    """Return the policy for a changed listing: `now` if any entry has it, `append` if all have it."""
    told, now = list_entries(before.text), list_entries(after.text)
    names = (name for name in {**told, **now} if told.get(name) != now.get(name))
    found = {find_entry_policy(wanted.policies, name) for name in names}
    if EditPolicy.NOW in found:
        return EditPolicy.NOW
    return EditPolicy.APPEND if found == {EditPolicy.APPEND} else after.policy


def find_entry_policy(policies: Mapping[str, EditPolicy], name: str) -> EditPolicy:
    """Return the policy of an entry's file; entries of stores omit the folder."""
    known = find_policy(policies, name)
    return find_policy(policies, f"{STORES_FOLDER}{name}") if known is EditPolicy.AUTO else known


@frozen(eq=True)
class SectionChange:
    """A section that differs."""

    id: str
    before: SectionSnapshot | None  # the section as the session knows it
    after: SectionSnapshot | None  # the section as the turn wants it
    block: int  # the block of the prefix it belongs to
    policy: EditPolicy
    broken: bool = False  # whether its file is broken; the session then keeps the earlier text
    private: bool = False  # whether the clearance may no longer see it, or that may be why it was removed

    @property
    def what(self) -> str:
        """Return `added`, `removed` or `changed`."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    @property
    def governs(self) -> bool:
        """Whether the section governs safety."""
        return any(line is not None and line.governs for line in (self.before, self.after))


def list_changes(told: Mapping[str, SectionSnapshot], prefix: Prefix, wanted: WantedPrefix) -> Iterator[SectionChange]:
    """List the differing sections in prompt order, then the removed ones."""
    lines = {line.id: line for line in wanted.prefix.lines}
    for name in [*lines, *(name for name in told if name not in lines)]:
        before, after = told.get(name), lines.get(name)
        line = after or before
        if line is None or (before and after and before.text == after.text):
            continue
        listed = name in wanted.listings
        policy = wanted.edits.get(name, line.policy)
        if listed and before and after:
            policy = find_listing_policy(before, after, wanted)
        broken = name in wanted.broken and (before is not None or name in wanted.joined)
        # A file with a policy, or one that is only broken, was not restricted.
        open_to_doubt = listed or (policy is EditPolicy.AUTO and not broken)
        yield SectionChange(
            id=name,
            before=before,
            after=after,
            block=find_block(line, prefix, wanted.prefix),
            policy=EditPolicy.NEXT_SESSION if wanted.waits or broken else policy,
            broken=broken,
            private=(after is None and name in wanted.withheld)
            or (open_to_doubt and before is not None and may_be_private(before, after)),
        )


def may_be_private(before: SectionSnapshot, after: SectionSnapshot | None) -> bool:
    """Whether content may have been removed for privacy; a moved file looks the same."""
    if after is None:
        return before.gated is not RemovalKind.NONE
    return (
        before.gated is RemovalKind.LISTING and not list_entries(before.text).keys() <= list_entries(after.text).keys()
    )


def count_aligned_blocks(prefix: Prefix, wanted: Prefix) -> int:
    """Count the leading blocks with equal paces; everything after them moves together."""
    pairs = zip(list_paces(prefix), list_paces(wanted), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def list_paces(prefix: Prefix) -> list[Pace]:
    """Return the pace of each block."""
    return [lines[0].pace for lines in prefix.blocks]


def find_block(line: SectionSnapshot, prefix: Prefix, wanted: Prefix) -> int:
    """Find the block of a section: in the wanted prefix, else in the sent one, else by its pace."""
    most = count_aligned_blocks(prefix, wanted)
    for each in (wanted, prefix):
        for at, lines in enumerate(each.blocks):
            if any(one.id == line.id for one in lines):
                return min(at, most)
    return next((at for at, pace in enumerate(list_paces(prefix)) if pace == line.pace), most)


def rebuild_prefix(
    prefix: Prefix, wanted: Prefix, start: int, held: Mapping[str, SectionSnapshot], away: frozenset[str]
) -> Prefix:
    """Rebuild the prefix from a block on; held sections keep their sent text, or stay out if never sent."""
    old = prefix.blocks
    blocks = [
        restore_held(lines, old[at] if at < len(old) else (), held, away)
        for at, lines in enumerate(wanted.blocks[start:], start)
    ]
    placed = {line.id for block in blocks for line in block}
    for line in held.values():
        if line.id not in placed:  # never in the prefix, so it is added to the last block of its pace
            at = next(
                (at for at in reversed(range(len(blocks))) if blocks[at] and blocks[at][0].pace == line.pace), None
            )
            if at is None:
                blocks.append((line,))
            else:
                blocks[at] = (*blocks[at], line)
    return Prefix(blocks=tuple(block for block in (*old[:start], *blocks) if block))


def restore_held(
    lines: Snapshots, old: Snapshots, held: Mapping[str, SectionSnapshot], away: frozenset[str]
) -> Snapshots:
    """Restore the held sections of a block; a removed one keeps its position."""
    if not held and not away:
        return lines
    names = {line.id for line in lines}
    kept = [held.get(line.id, line) for line in lines if line.id not in away]
    for at, line in enumerate(old):
        if line.id in held and line.id not in names:
            before = {one.id for one in old[:at]}
            kept.insert(
                max((number for number, one in enumerate(kept, 1) if one.id in before), default=0), held[line.id]
            )
    return tuple(kept)


# The heading over updates if none is left.
EMPTY_HEADING = re.compile(
    rf"\s*(?:##\s+)?{UPDATES_TITLE}\s*\Z|\s*<{join_words(UPDATES_TITLE)}>\s*</{join_words(UPDATES_TITLE)}>"
)
NOTICE_PROMPTS = (*UpdateKind, "settled")  # texts under the heading begin like one of these prompts
MAX_AMENDMENT_SHARE = 0.5  # of the section's tokens: the limit for sending only changed lines


def write_update(
    layout: Layout, before: SectionSnapshot | None, after: SectionSnapshot | None, channel: UpdateChannel
) -> Update:
    """Write the update about one section; for a long section with few changes, only the changed lines."""
    line = after or before
    if line is None:
        raise ValueError("an update needs a section")
    kind = UpdateKind.ENDS if after is None else UpdateKind.REPLACES if before else UpdateKind.JOINS
    said = write_update_heading(layout, kind, line)
    if after:
        said = f"{said}\n\n{after.text.strip()}"
    tokens = layout.meter.count(said)
    if before and after:
        less = f"{write_update_heading(layout, UpdateKind.AMENDS, after)}\n\n{compare_lines(before, after)}"
        if layout.meter.count(less) < tokens * MAX_AMENDMENT_SHARE:
            said, kind, tokens = less, UpdateKind.AMENDS, layout.meter.count(less)
    return Update(id=line.id, title=line.title, kind=kind, channel=channel, said=said, tokens=tokens, line=after)


def compare_lines(before: SectionSnapshot, after: SectionSnapshot) -> str:
    """Write the changed lines of a section; each begins with a diff sign, so none can become a heading."""
    from difflib import unified_diff

    old, new = before.text.strip().split("\n"), after.text.strip().split("\n")
    lines = list(unified_diff(old, new, lineterm="", n=1))[2:]
    return "\n".join("…" if line.startswith("@@") else line for line in lines)


def write_update_heading(layout: Layout, kind: UpdateKind, line: SectionSnapshot) -> str:
    """Write the introduction of an update, or the whole notice for a removed section."""
    return read_prompt(f"ledger/{kind}").strip().replace("{title}", layout.name(line.title))


def write_settled_notice(layout: Layout, updates: Iterable[Update]) -> str:
    """Name the sections whose earlier updates are superseded because the prompt now contains them."""
    titles = list(dict.fromkeys(f"“{layout.name(update.title)}”" for update in updates))
    return read_prompt("ledger/settled").strip().replace("{titles}", ", ".join(titles)) if titles else ""


def join_notices(layout: Layout, updates: Sequence[Update], settled: str) -> str:
    """Join all notices under their heading; return an empty text if there are none."""
    said = "\n\n".join(filter(None, (settled, *(update.said for update in updates))))
    return layout.wrap_updates(said) if said else ""


def append_to_tail(prompt: Prompt, layout: Layout, text: str) -> Prompt:
    """Append a text to the tail; a separator before it belongs to the section before it."""
    if not text:
        return prompt
    blocks = list(prompt.blocks)
    if blocks and (last := blocks[-1]).placement is Placement.TAIL and not last.text.endswith(layout.separator):
        longer = last.text + layout.separator
        *spans, end = last.spans
        spans.append(Span(end.id, end.start, len(longer), end.tokens))
        blocks[-1] = replace(last, text=longer, spans=tuple(spans))
    tokens = layout.meter.count(text)
    span = Span("updates", 0, len(text), tokens)
    block = PromptBlock(pace=Pace.TURN, placement=Placement.TAIL, text=text, tokens=tokens, spans=(span,))
    return Prompt(blocks=(*blocks, block))


@cache
def make_notice_pattern() -> re.Pattern[str]:
    """Return the pattern for the start of our notices at the end of a tail.

    With plain headings a person's line may look like our heading; the text under it does not.
    """
    known = (re.escape(read_prompt(f"ledger/{name}").strip()) for name in NOTICE_PROMPTS)
    says = "|".join(re.sub(r"\\{titles?\\}", "[^\\n]*", text) for text in known)
    tag = join_words(UPDATES_TITLE)
    return re.compile(rf"(?:^(?:##[ ])?{UPDATES_TITLE}\n|<{tag}>\n(?=(?s:.*)\n</{tag}>\s*\Z))(?:{says})", re.MULTILINE)


def remove_notices(text: str) -> str:
    """Remove all notices from a tail of the history.

    A tail that begins with notices contains nothing else. Otherwise the last match is ours; keep the text before it.
    """
    found = [one.start() for one in make_notice_pattern().finditer(text)]
    return text[: found[-1] if found[0] else 0].rstrip() if found else text


def remove_updates(text: str, gone: Sequence[str]) -> str:
    """Remove withheld updates from a text of the history, without a trace."""
    for said in sorted(gone, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(f"{said}\n\n", "").replace(f"\n\n{said}", "").replace(said, "")
    return EMPTY_HEADING.sub("", text) if gone else text
