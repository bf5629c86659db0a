"""The report of a turn: one row per slot, as a reader is told about it."""

from collections.abc import Sequence
from typing import Any

from foreword.frozen import frozen
from foreword.words import Pace, Placement, Trust, Verdict

HEAD = ("slot", "pace", "needs", "tokens", "verdict", "why")


@frozen(eq=True)
class Row:
    """One item of a prompt as a reader is told about it."""

    id: str
    title: str
    pace: Pace
    placement: Placement
    trust: Trust
    verdict: Verdict
    reason: str
    tokens: int = 0
    wanted: int = 0
    source: str = ""
    sha256: str | None = None
    span: tuple[int, int] | None = None
    cached: bool = False


def show_row(row: Row) -> dict[str, Any]:
    """Write a row as the schema has it."""
    return {
        "id": row.id,
        "title": row.title,
        "pace": str(row.pace),
        "placement": str(row.placement),
        "trust": str(row.trust),
        "verdict": str(row.verdict),
        "reason": row.reason,
        "tokens": row.tokens,
        "wanted_tokens": row.wanted,
        "source": row.source,
        "sha256": row.sha256,
        "span": list(row.span) if row.span else None,
    }


def draw_table(head: str, rows: Sequence[Row], foot: str) -> str:
    """Draw rows as an aligned table of plain text."""
    cells = [
        HEAD,
        *((row.id, str(row.pace), str(row.trust), show_tokens(row), str(row.verdict), row.reason) for row in rows),
    ]
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEAD) - 1)]
    lines = []
    for slot, pace, needs, tokens, verdict, why in cells:
        start = f" {slot:{widths[0]}}  {pace:{widths[1]}}  {needs:{widths[2]}}  {tokens:>{widths[3]}}"
        lines.append(f"{start}  {verdict:{widths[4]}}  {why}".rstrip())
    return "\n".join([head, "", *lines, "", f" {foot}"])


def show_tokens(row: Row) -> str:
    """Show what a slot weighs; one that is not in the prompt weighs nothing."""
    return f"{row.tokens:,}" if row.span else "–"
