"""The command `diff`: compare two assemblies or two recorded turns, and show the effect on the cache."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile, zip_longest
from typing import Any, Literal

from foreword.assembly import ASSEMBLY_SCHEMA
from foreword.cli.inputs import find_config, find_folder, read_json
from foreword.cli.log_commands import EventQuery, add_reader_options, open_event_query
from foreword.cli.output import clean_text, count, print_json, print_table, print_text, to_plain, warn
from foreword.config.schema import ModelOverride
from foreword.errors import InputError
from foreword.events import lines, sent_prompts
from foreword.tokens.models import PricedRequest, find_model, find_prices, format_usd
from foreword.types import frozen

LOSS_CAUSES = {"model": "the model changed", "tools": "the tool schemas changed, and they precede the system text"}
CHANGE_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}

Block = Mapping[str, Any]


@frozen(eq=True)
class RecordedSection:
    """A recorded section; its text is None if it was not in the prompt."""

    id: str
    tokens: int
    start: int
    text: str | None


@frozen
class RecordedAssembly:
    """A recorded assembly."""

    file: str
    model: str
    tools: str
    tool_tokens: int
    used: int  # the tokens of the prompt: text and tool schemas
    sections: tuple[RecordedSection, ...]
    blocks: tuple[Block, ...]
    logged: sent_prompts.LoggedTurn | None = None  # the recorded turn, if it was not read from a file

    @property
    def leading(self) -> list[Block]:
        """The blocks before the first one of pace `turn`."""
        return list(takewhile(lambda block: block["pace"] != "turn" and block["placement"] == "system", self.blocks))

    @property
    def system(self) -> bytes:
        """The system text."""
        return "".join(block["text"] for block in self.blocks if block["placement"] == "system").encode()

    def list_sections(self, blocks: Sequence[Block]) -> list[RecordedSection]:
        """List the sections inside these leading blocks."""
        end = sum(len(block["text"]) for block in blocks)
        return [section for section in self.sections if section.text and section.start < end]


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
    check_types(value, text=str, model=str, tools=str, tokens=int, budget=dict, blocks=list, sections=list)
    check_types(value["budget"], used=int)
    for block in value["blocks"]:
        check_types(block, pace=str, placement=str, text=str, tokens=int, cache=object)
    text, used = value["text"], value["budget"]["used"]
    if "".join(block["text"] for block in value["blocks"]) != text:
        raise ValueError("its blocks differ from its text")
    sections = []
    for section in value["sections"]:
        check_types(section, id=str, span=object)
        start, end = section["span"] or (0, 0)
        if not 0 <= start <= end <= len(text):
            raise ValueError(f"the span of section {section['id']!r} is outside the text")
        check_types(section, tokens=int)
        found = None if section["span"] is None else text[start:end]
        sections.append(RecordedSection(id=section["id"], tokens=section["tokens"], start=start, text=found))
    return RecordedAssembly(
        file=file,
        model=value["model"],
        tools=value["tools"],
        tool_tokens=used - value["tokens"],
        used=used,
        sections=tuple(sections),
        blocks=tuple(value["blocks"]),
    )


def check_types(value: Mapping[str, Any], **kinds: type) -> None:
    """Raise KeyError for a missing key, and TypeError for a value of another type."""
    for key, kind in kinds.items():
        found = value[key]
        if not isinstance(found, kind) or isinstance(found, bool):
            raise TypeError(f"{key!r} is {type(found).__name__}, expected {kind.__name__}")


def convert_sent(name: str, logged: sent_prompts.LoggedTurn, sent: sent_prompts.SentPrompt) -> RecordedAssembly:
    """Convert a sent prompt; its sections have the texts that were sent."""
    sections: list[dict[str, Any]] = []
    end = 0
    for piece in sent.pieces:
        if piece.kind == sent_prompts.TEXT_KIND:
            start, end = end, end + len(piece.text)
            sections += [{"id": piece.name, "tokens": piece.tokens, "span": [start, end]}] if piece.name else []
    included = {section["id"] for section in sections}
    sections += [{"id": row.id, "tokens": 0, "span": None} for row in sent.rows if row.id not in included]
    value = {**sent.facts, "text": sent.text, "blocks": sent.blocks, "sections": sections}
    return replace(convert_assembly(name, value), logged=logged)


@frozen(eq=True)
class SectionDiff:
    """The change of one section between two assemblies."""

    id: str
    what: str  # added, removed, changed or same
    before: int
    after: int


@frozen(eq=True)
class PrefixMove:
    """The first difference in the cached prefix, its cause, and the tokens billed again."""

    cause: Literal["section", "tools", "model"]  # tool schemas precede all sections. Each model has its own cache
    section: str | None = None
    what: str = "changed"  # changed, added, removed or moved
    byte: int = 0
    tokens: int
    write_usd: float | None = None
    read_usd: float | None = None


Comparison = tuple[tuple[SectionDiff, ...], PrefixMove | None, str]  # the last says why the cached prefix did not move


def compare_assemblies(
    before: RecordedAssembly, after: RecordedAssembly, overrides: Mapping[str, ModelOverride]
) -> Comparison:
    """Compare two assemblies, section by section and byte by byte."""
    changes = tuple(list_section_diffs(before, after))
    old = find_cached_prefix(before, overrides)
    if not old:
        return changes, None, f"{before.file} is too short to be cached"
    move = find_move(before, after, old, overrides)
    if move is None:
        return changes, None, "the cached prefix is the same, byte for byte"
    if prices := find_prices(after.model, overrides, PricedRequest(tokens=after.used)):
        written = prices.cache_write if find_cached_prefix(after, overrides) else prices.input
        move = replace(move, write_usd=move.tokens * written, read_usd=move.tokens * prices.cache_read)
    return changes, move, ""


def list_section_diffs(before: RecordedAssembly, after: RecordedAssembly) -> Iterator[SectionDiff]:
    """List the change of each section in the order of the second assembly, removed sections last."""
    old = {part.id: part for part in before.sections}
    new = {part.id: part for part in after.sections}
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name), new.get(name)
        had, has = (part.text if part else None for part in (was, now))
        what = "same" if had == has else "added" if had is None else "removed" if has is None else "changed"
        yield SectionDiff(id=name, what=what, before=was.tokens if was else 0, after=now.tokens if now else 0)


def find_cached_prefix(recorded: RecordedAssembly, overrides: Mapping[str, ModelOverride]) -> Sequence[Block]:
    """Return the cached blocks: up to the last cache breakpoint, or all leading blocks if they are long enough."""
    leading = recorded.leading
    if find_model(recorded.model, {}).cache.marked:
        return leading[: count_marked(leading)]
    tokens = recorded.tool_tokens + sum(block["tokens"] for block in leading)
    return leading if tokens >= find_model(recorded.model, overrides).cache_minimum else ()


def count_marked(blocks: Sequence[Block]) -> int:
    """Return the number of blocks up to the last cache breakpoint."""
    return max((at for at, block in enumerate(blocks, 1) if block["cache"] is not None), default=0)


def find_move(
    before: RecordedAssembly, after: RecordedAssembly, old: Sequence[Block], overrides: Mapping[str, ModelOverride]
) -> PrefixMove | None:
    """Find the first difference between the cached prefix and the prefix now sent."""
    new = after.leading
    for cause, same in (("model", before.model == after.model), ("tools", before.tools == after.tools)):
        if not same:
            tokens = after.tool_tokens + sum(block["tokens"] for block in new)
            return PrefixMove(cause=cause, tokens=tokens)  # type: ignore[arg-type]
    was, now = before.system, after.system
    byte = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False)))
    if find_model(before.model, {}).cache.marked:
        pairs = zip(old, new, strict=False)
        equal = sum(1 for _ in takewhile(lambda pair: pair[0]["text"] == pair[1]["text"], pairs))
        if equal == len(old):
            return None
        # Blocks up to the last equal breakpoint and the tools are read from the cache; the rest is written again.
        kept, facts = count_marked(old[:equal]), find_model(before.model, overrides)
        marks_tools = facts.cache.marked and facts.cache.order[0] == "tools" and not facts.cache.newest
        reads_tools = kept or (marks_tools and before.tool_tokens >= facts.cache_minimum)
        tokens = sum(block["tokens"] for block in new[kept:]) + (0 if reads_tools else after.tool_tokens)
    elif byte >= sum(len(block["text"].encode()) for block in old):
        return None
    else:
        at = len(now[:byte].decode(errors="ignore"))
        tokens = sum(one.tokens for one in after.list_sections(new) if one.start + len(one.text or "") > at)
    section, what = find_cause(before.list_sections(old), after.list_sections(new))
    return PrefixMove(cause="section", section=section, what=what, byte=byte, tokens=tokens)


def find_cause(was: Sequence[RecordedSection], now: Sequence[RecordedSection]) -> tuple[str, str]:
    """Return the first section of the prefix that changed, and how it changed."""
    for left, right in zip_longest(was, now):
        if left and right and left.id == right.id:
            if left.text == right.text:
                continue
            return right.id, "changed"
        if left and left.id not in {section.id for section in now}:
            return left.id, "removed"
        if right:
            return right.id, "moved" if right.id in {section.id for section in was} else "added"
    return (now or was)[-1].id, "moved"


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
    before, after = load_sides(args)
    config, later = find_config(args), after.logged
    comparison = compare_assemblies(before, after, config.models if config else {})
    if args.json:
        report = {
            "tokens": {"before": before.used, "after": after.used},
            "tools_changed": before.tools != after.tools,
            **to_plain(dict(zip(("changes", "move", "reason"), comparison, strict=True))),
            "turns": {"before": before.logged and before.logged.turn, "after": later and later.turn},
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


def load_sides(args: Namespace) -> list[RecordedAssembly]:
    """Load both sides: files, or recorded turns that the reader may see. An existing file takes precedence."""
    names = (args.before, args.after)
    turns = [name for name in names if sent_prompts.is_recorded_name(name) and not os.path.lexists(name)]
    loaded: dict[str, RecordedAssembly] = {}
    if turns and find_folder(args) is not None:
        workspace, query = open_event_query(args)
        workspace.close()
        loaded = {name: load_turn(query, name) for name in turns}
    return [loaded.get(name) or read_assembly(name) for name in names]


def load_turn(query: EventQuery, name: str) -> RecordedAssembly:
    """Load a recorded turn; an unknown turn and one the reader may not see give the same error."""
    logged = query.run(lambda log: sent_prompts.find_recorded_turn(log, query.reader, name))
    if logged is None:
        raise InputError(f"{name} is neither a file nor a recorded turn or prompt; foreword logs lists turns")
    title = f"turn {logged.turn[: lines.SHORT_ID_DIGITS]}"
    if logged.sent is None:
        raise InputError(f"no prompt of {title} is recorded; prompts are deleted with their events")
    if logged.sent.forgotten:
        warn(f"parts of {title} have been erased; placeholders replace them")
    return convert_sent(title, logged, logged.sent)


def print_comparison(before: RecordedAssembly, after: RecordedAssembly, comparison: Comparison) -> None:
    """Print a comparison as text."""
    changes, move, reason = comparison
    more = after.used - before.used
    both = f"{before.used:,} tokens before, {after.used:,} after ({more:+,})"
    print(both if more else f"{after.used:,} tokens in both")
    rows = []
    for change in changes:
        if change.what != "same":
            style = CHANGE_STYLES[change.what]
            old = "–" if change.what == "added" else f"{change.before:,}"
            new = "–" if change.what == "removed" else f"{change.after:,}"
            rows.append(((change.id, style), (change.what, style), old, new))
    if rows:
        print()
        print_table(("section", "what", "before", "after"), rows, right=("before", "after"))
    same = sum(change.what == "same" and change.after > 0 for change in changes)
    print(f"\n{count(same, 'section')} {'is' if same == 1 else 'are'} the same")
    if before.tools != after.tools and (move is None or move.cause != "tools"):
        print("the tool schemas changed")
    print(describe_move(move) if move else reason)


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
