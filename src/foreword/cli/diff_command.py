"""The command `diff`: compare two assemblies or two recorded turns, and show the effect on the cache."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile, zip_longest
from typing import Any, Literal, TypeVar

from foreword.assembly import ASSEMBLY_SCHEMA
from foreword.cli.inputs import find_folder, find_overrides, read_json
from foreword.cli.log_commands import EventQuery, add_reader_options, open_event_query
from foreword.cli.output import clean_text, count, print_json, print_table, print_text, to_plain, warn
from foreword.config.schema import ModelOverride
from foreword.errors import InputError
from foreword.events import lines, sent_prompts
from foreword.tokens.models import find_model
from foreword.tokens.prices import PricedRequest, find_prices, format_usd
from foreword.types import frozen

LOSS_CAUSES = {"model": "the model changed", "tools": "the tool schemas changed, and they precede the system text"}
CHANGE_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}

T = TypeVar("T")


@frozen(eq=True)
class RecordedSection:
    """A recorded section; its text is None if it was not in the prompt."""

    id: str
    tokens: int
    start: int
    text: str | None


@frozen(eq=True)
class RecordedBlock:
    """A recorded block."""

    pace: str
    placement: str
    text: str
    tokens: int
    marked: bool


@frozen(eq=True)
class RecordedAssembly:
    """A recorded assembly."""

    file: str
    model: str
    tokens: int
    tools: str
    tool_tokens: int
    parts: tuple[RecordedSection, ...]
    pieces: tuple[RecordedBlock, ...]

    @property
    def system(self) -> str:
        """The system text."""
        return "".join(piece.text for piece in self.pieces if piece.placement == "system")

    @property
    def used(self) -> int:
        """The tokens of the prompt: text and tool schemas."""
        return self.tokens + self.tool_tokens


def read_assembly(file: str) -> RecordedAssembly:
    """Read a recorded assembly, or raise InputError with the problem."""
    value = read_json(file)
    hint = "create it with: foreword build --json"
    if not isinstance(value, dict) or "schema" not in value:
        raise InputError(f"{file} is not an assembly: it has no `schema`; {hint}")
    if value["schema"] != ASSEMBLY_SCHEMA:
        raise InputError(f"{file} has schema {value['schema']!r}, expected {ASSEMBLY_SCHEMA!r}; {hint}")
    try:
        return convert_assembly(file, value)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{file} is not a complete assembly: {reason}; {hint}") from None


def convert_assembly(file: str, value: Mapping[str, Any]) -> RecordedAssembly:
    """Convert the JSON of an assembly."""
    text = get_typed(value, "text", str)
    tokens = get_typed(value, "tokens", int)
    pieces = tuple(convert_block(block) for block in get_typed(value, "blocks", list))
    if "".join(piece.text for piece in pieces) != text:
        raise ValueError("its blocks differ from its text")
    return RecordedAssembly(
        file=file,
        model=get_typed(value, "model", str),
        tokens=tokens,
        tools=get_typed(value, "tools", str),
        tool_tokens=get_typed(get_typed(value, "budget", dict), "used", int) - tokens,
        parts=tuple(convert_section(section, text) for section in get_typed(value, "sections", list)),
        pieces=pieces,
    )


def convert_sent(name: str, sent: sent_prompts.SentPrompt) -> RecordedAssembly:
    """Convert a sent prompt; its sections have the texts that were sent."""
    parts, start = [], 0
    for piece in sent.pieces:
        if piece.kind == sent_prompts.TEXT_KIND:
            if piece.name:
                parts.append(RecordedSection(id=piece.name, tokens=piece.tokens, start=start, text=piece.text))
            start += len(piece.text)
    included = {part.id for part in parts}
    parts += [RecordedSection(id=row.id, tokens=0, start=0, text=None) for row in sent.rows if row.id not in included]
    facts = sent.facts
    tokens = get_typed(facts, "tokens", int)
    return RecordedAssembly(
        file=name,
        model=get_typed(facts, "model", str),
        tokens=tokens,
        tools=get_typed(facts, "tools", str),
        tool_tokens=get_typed(get_typed(facts, "budget", dict), "used", int) - tokens,
        parts=tuple(parts),
        pieces=tuple(convert_block(block) for block in sent.blocks),
    )


def convert_block(block: Mapping[str, Any]) -> RecordedBlock:
    """Convert one block."""
    return RecordedBlock(
        pace=get_typed(block, "pace", str),
        placement=get_typed(block, "placement", str),
        text=get_typed(block, "text", str),
        tokens=get_typed(block, "tokens", int),
        marked=block["cache"] is not None,
    )


def convert_section(section: Mapping[str, Any], text: str) -> RecordedSection:
    """Convert one section, with the text of its span."""
    name = get_typed(section, "id", str)
    span = section["span"]
    start, end = (0, 0) if span is None else tuple(span)
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end <= len(text):
        raise ValueError(f"the span of section {name!r} is outside the text")
    return RecordedSection(
        id=name,
        tokens=get_typed(section, "tokens", int),
        start=start,
        text=None if span is None else text[start:end],
    )


def get_typed(value: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """Return a value of this type, or raise TypeError."""
    found = value[key]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise TypeError(f"{key!r} is {type(found).__name__}, expected {kind.__name__}")
    return found


@frozen(eq=True)
class SectionDiff:
    """The change of one section between two assemblies."""

    id: str
    what: str
    """added, removed, changed or same."""
    before: int
    after: int


@frozen(eq=True)
class PrefixMove:
    """The first difference in the cached prefix, its cause, and the tokens billed again."""

    cause: Literal["section", "tools", "model"]
    """Tool schemas precede all sections. Each model has its own cache."""
    section: str | None = None
    what: str
    """changed, added, removed or moved."""
    byte: int
    tokens: int
    write_usd: float | None = None
    read_usd: float | None = None


@frozen(eq=True)
class AssemblyComparison:
    """The result of comparing two assemblies."""

    changes: tuple[SectionDiff, ...]
    move: PrefixMove | None
    reason: str
    """Why the cached prefix did not move; empty if it did."""


def compare_assemblies(
    before: RecordedAssembly, after: RecordedAssembly, overrides: Mapping[str, ModelOverride]
) -> AssemblyComparison:
    """Compare two assemblies, section by section and byte by byte."""
    changes = tuple(list_section_diffs(before, after))
    old = find_cached_prefix(before, overrides)
    if not old:
        return AssemblyComparison(changes=changes, move=None, reason=f"{before.file} is too short to be cached")
    facts = find_model(before.model, overrides)
    marks_tools = facts.cache.marked and facts.cache.order[0] == "tools" and not facts.cache.newest
    reads_tools = marks_tools and before.tool_tokens >= facts.cache_minimum
    move = find_move(before, after, old, find_leading_blocks(after), reads_tools=reads_tools)
    if move is None:
        return AssemblyComparison(changes=changes, move=None, reason="the cached prefix is the same, byte for byte")
    if prices := find_prices(after.model, overrides, PricedRequest(tokens=after.used)):
        written = prices.cache_write if find_cached_prefix(after, overrides) else prices.input
        move = replace(move, write_usd=move.tokens * written, read_usd=move.tokens * prices.cache_read)
    return AssemblyComparison(changes=changes, move=move, reason="")


def list_section_diffs(before: RecordedAssembly, after: RecordedAssembly) -> Iterator[SectionDiff]:
    """List the change of each section in the order of the second assembly, removed sections last."""
    old = {part.id: part for part in before.parts}
    new = {part.id: part for part in after.parts}
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name), new.get(name)
        had, has = (part.text if part else None for part in (was, now))
        what = "same" if had == has else "added" if had is None else "removed" if has is None else "changed"
        yield SectionDiff(id=name, what=what, before=was.tokens if was else 0, after=now.tokens if now else 0)


def find_leading_blocks(recorded: RecordedAssembly) -> tuple[RecordedBlock, ...]:
    """Return the blocks before the first one of pace `turn`."""
    return tuple(takewhile(lambda piece: piece.pace != "turn" and piece.placement == "system", recorded.pieces))


def find_cached_prefix(recorded: RecordedAssembly, overrides: Mapping[str, ModelOverride]) -> tuple[RecordedBlock, ...]:
    """Return the cached blocks: up to the last cache breakpoint, or all leading blocks if they are long enough."""
    leading = find_leading_blocks(recorded)
    if uses_breakpoints(recorded):
        last = max((at for at, piece in enumerate(leading, 1) if piece.marked), default=0)
        return leading[:last]
    tokens = recorded.tool_tokens + sum(piece.tokens for piece in leading)
    return leading if tokens >= find_model(recorded.model, overrides).cache_minimum else ()


def uses_breakpoints(recorded: RecordedAssembly) -> bool:
    """Return whether the provider caches up to explicit breakpoints rather than any equal prefix."""
    return find_model(recorded.model, {}).cache.marked


def find_move(
    before: RecordedAssembly,
    after: RecordedAssembly,
    old: Sequence[RecordedBlock],
    new: Sequence[RecordedBlock],
    *,
    reads_tools: bool,
) -> PrefixMove | None:
    """Find the first difference between the cached prefix and the prefix now sent."""
    whole = after.tool_tokens + sum(piece.tokens for piece in new)
    if before.model != after.model:
        return PrefixMove(cause="model", what="changed", byte=0, tokens=whole)
    if before.tools != after.tools:
        return PrefixMove(cause="tools", what="changed", byte=0, tokens=whole)
    was, now = before.system.encode(), after.system.encode()
    byte = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False)))
    equal = sum(1 for _ in takewhile(lambda pair: pair[0].text == pair[1].text, zip(old, new, strict=False)))
    if uses_breakpoints(before):
        if equal == len(old):
            return None
        section, what = find_cause(before, after, old, new)
        # Blocks up to the last equal breakpoint and the tools are read from the cache; the rest is written again.
        kept = max((at for at, piece in enumerate(old[:equal], 1) if piece.marked), default=0)
        tokens = sum(piece.tokens for piece in new[kept:]) + (0 if kept or reads_tools else after.tool_tokens)
        return PrefixMove(cause="section", section=section, what=what, byte=byte, tokens=tokens)
    if byte >= len("".join(piece.text for piece in old).encode()):
        return None
    section, what = find_cause(before, after, old, new)
    at = len(now[:byte].decode(errors="ignore"))
    tokens = sum(part.tokens for part in list_prefix_sections(after, new) if part.start + len(part.text or "") > at)
    return PrefixMove(cause="section", section=section, what=what, byte=byte, tokens=tokens)


def find_cause(
    before: RecordedAssembly, after: RecordedAssembly, old: Sequence[RecordedBlock], new: Sequence[RecordedBlock]
) -> tuple[str, str]:
    """Return the first section of the prefix that changed, and how it changed."""
    was, now = list_prefix_sections(before, old), list_prefix_sections(after, new)
    for left, right in zip_longest(was, now):
        if left and right and left.id == right.id:
            if left.text == right.text:
                continue
            return right.id, "changed"
        if left and left.id not in {part.id for part in now}:
            return left.id, "removed"
        if right:
            return right.id, "moved" if right.id in {part.id for part in was} else "added"
    return (now or was)[-1].id, "moved"


def list_prefix_sections(recorded: RecordedAssembly, pieces: Sequence[RecordedBlock]) -> list[RecordedSection]:
    """List the sections inside the given leading blocks."""
    end = sum(len(piece.text) for piece in pieces)
    return [part for part in recorded.parts if part.text and part.start < end]


@frozen
class ComparedSide:
    """One side of a comparison."""

    recorded: RecordedAssembly
    logged: sent_prompts.LoggedTurn | None = None
    """The recorded turn, if this side is one."""


def add_diff_options(parser: ArgumentParser) -> None:
    """Add the two sides and the reader."""
    earlier = "the earlier one: a file written by build --json, - for stdin, or the id of a turn"
    parser.add_argument("before", metavar="A", help=earlier)
    parser.add_argument("after", metavar="B", help="the later one, given in the same way")
    add_reader_options(parser)


def run_diff(args: Namespace) -> int:
    """Compare two assemblies written by `foreword build --json`, or two recorded turns.

    Turns are named by their ids or the hashes of their prompts. Prints the changed sections, the first change in the
    cached prefix, and the tokens billed again. For a recorded turn it also prints the ledger's decisions and the cache
    reads of its calls. A turn that the reader may not see is reported as unknown.

    Examples:
        foreword build --json > before.json
        foreword build --json | foreword diff before.json -
        foreword diff 3f2a9c01 a1d5e2cc
    """
    if args.before == args.after == "-":
        raise InputError("only one of A and B can be read from stdin")
    sides = load_sides(args)
    before, after = (side.recorded for side in sides)
    comparison = compare_assemblies(before, after, find_overrides(args))
    later = sides[1].logged
    if args.json:
        tokens = {"before": before.used, "after": after.used}
        turns = {name: side.logged and side.logged.turn for name, side in zip(tokens, sides, strict=True)}
        report = {
            "tokens": tokens,
            "tools_changed": before.tools != after.tools,
            **to_plain(comparison),
            "turns": turns,
        }
        for name, read in (("moves", lines.read_decision), ("breaks", lines.read_break)) if later else ():
            found = map(read, later.records if later else ())
            report[name] = [lines.to_json_values(one) for one in found if one]
        print_json(report)
        return 0
    print_comparison(before, after, comparison)
    if later and (explained := [f"  {line}" for line in lines.explain_cache(later.records)]):
        print_text(clean_text("\n".join(["", f"in turn {later.turn[: lines.SHORT_ID_DIGITS]}", *explained])))
    return 0


def load_sides(args: Namespace) -> list[ComparedSide]:
    """Load both sides: files, or recorded turns that the reader may see. An existing file takes precedence."""
    names = (args.before, args.after)
    turns = [name for name in names if sent_prompts.is_recorded_name(name) and not os.path.lexists(name)]
    loaded: dict[str, ComparedSide] = {}
    if turns and find_folder(args) is not None:
        workspace, query = open_event_query(args)
        workspace.close()
        loaded = {name: load_turn(query, name) for name in turns}
    return [loaded.get(name) or ComparedSide(recorded=read_assembly(name)) for name in names]


def load_turn(query: EventQuery, name: str) -> ComparedSide:
    """Load a recorded turn; an unknown turn and one the reader may not see give the same error."""
    logged = query.run(lambda log: sent_prompts.find_recorded_turn(log, query.reader, name))
    if logged is None:
        raise InputError(f"{name} is neither a file nor a recorded turn or prompt; foreword logs lists turns")
    title = f"turn {logged.turn[: lines.SHORT_ID_DIGITS]}"
    if logged.sent is None:
        raise InputError(f"no prompt of {title} is recorded; prompts are deleted with their events")
    if logged.sent.forgotten:
        warn(f"parts of {title} have been erased; placeholders replace them")
    return ComparedSide(recorded=convert_sent(title, logged.sent), logged=logged)


def print_comparison(before: RecordedAssembly, after: RecordedAssembly, comparison: AssemblyComparison) -> None:
    """Print a comparison as text."""
    more = after.used - before.used
    both = f"{before.used:,} tokens before, {after.used:,} after ({more:+,})"
    print(both if more else f"{after.used:,} tokens in both")
    rows = []
    for change in comparison.changes:
        if change.what != "same":
            style = CHANGE_STYLES[change.what]
            old = "–" if change.what == "added" else f"{change.before:,}"
            new = "–" if change.what == "removed" else f"{change.after:,}"
            rows.append(((change.id, style), (change.what, style), old, new))
    if rows:
        print()
        print_table(("section", "what", "before", "after"), rows, right=("before", "after"))
    same = sum(change.what == "same" and change.after > 0 for change in comparison.changes)
    print(f"\n{count(same, 'section')} {'is' if same == 1 else 'are'} the same")
    if before.tools != after.tools and (comparison.move is None or comparison.move.cause != "tools"):
        print("the tool schemas changed")
    print(describe_move(comparison.move) if comparison.move else comparison.reason)


def describe_move(move: PrefixMove) -> str:
    """Describe where the cached prefix changed first, and the cost."""
    if move.cause == "section":
        place = f"{move.section} ({move.what}), at byte {move.byte:,} of the system text"
        first = f"the cached prefix changed first in {place}"
    else:
        first = f"the whole cached prefix is lost: {LOSS_CAUSES[move.cause]}"
    price = ""
    if move.write_usd is not None and move.read_usd is not None:
        price = f": {format_usd(move.write_usd)} instead of {format_usd(move.read_usd)} from the cache"
    return f"{first}\n{count(move.tokens, 'token')} must be billed again{price}"
