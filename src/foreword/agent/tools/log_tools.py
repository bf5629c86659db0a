"""The introspection tools, which query the event log within the clearance of the turn: status, logs, trace, cost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from foreword.agent.tools.declaration import ToolRun, tool
from foreword.engine.sources.sections import quote
from foreword.events.cache_breaks import find_breaks, parse_cache_filter, show_causes
from foreword.events.event import GROUPINGS, find_reader
from foreword.events.lines import show_line, show_time, show_tree_entry, summarise_turn
from foreword.events.query import (
    FILTER_NAMES,
    find_events,
    find_turn_events,
    lay_out_turn,
    parse_filter,
    parse_text,
    query_log,
)
from foreword.events.status import describe_outcomes, find_status, selects_errors, show_status
from foreword.events.totals import find_spending, show_spending
from foreword.host import load_zone
from foreword.turn import Tool, ToolAnswer, Toolset
from foreword.types import Trust

if TYPE_CHECKING:
    from pydantic import Field

LOG_TOOL_KIND = "introspection"
LOG_TOOL_PREFIX = "foreword"
DEFAULT_EVENTS = 20  # default number of events in an answer
MAX_LOG_ANSWER_TOKENS = 3_000  # tokens of one answer

T = TypeVar("T")


# The tools are named with the prefix of `LOG_TOOL_PREFIX`; a blueprint may choose another.
@tool(name="foreword_status", kind=LOG_TOOL_KIND, trust=Trust.FAMILIAR, seconds=20)
def show_log_status(run: ToolRun) -> ToolAnswer:
    """Say how things are: channels with their last message and errors, sessions, memory, the newest errors."""
    return run.answer(LogQueries(run).status())


@tool(name="foreword_logs", kind=LOG_TOOL_KIND, trust=Trust.FAMILIAR, seconds=20)
def show_log_events(
    run: ToolRun,
    *,
    session_id: str = "",
    level: Annotated[str, Field(json_schema_extra={"enum": ["info", "warn", "error"]})] = "",
    event_type: str = "",
    user: str = "",
    channel: str = "",
    since: str = "",
    until: str = "",
    limit: Annotated[int, Field(ge=1)] = DEFAULT_EVENTS,
) -> ToolAnswer:
    """Find recorded events, the newest first, to see what happened or went wrong.

    Args:
        session_id: One session only.
        level: This level and above.
        event_type: One type only, such as api_error, tool_error or message_received.
        user: One person only.
        channel: One channel only.
        since: From when on: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30.
        until: Up to when, written as since; a day is meant whole.
        limit: How many events; 20 if left out.
    """
    wanted = {
        "session_id": session_id,
        "level": level,
        "event_type": event_type,
        "user": user,
        "channel": channel,
        "since": since,
        "until": until,
        "limit": limit,
    }
    return run.answer(LogQueries(run).logs(wanted))


@tool(name="foreword_trace", kind=LOG_TOOL_KIND, trust=Trust.FAMILIAR, seconds=20)
def show_turn_trace(run: ToolRun, turn: str) -> ToolAnswer:
    """Show everything that one turn did, as a tree with times, tokens, cost and errors.

    Args:
        turn: The id that foreword_logs shows as turn=….
    """
    return run.answer(LogQueries(run).trace(turn))


@tool(name="foreword_cost", kind=LOG_TOOL_KIND, trust=Trust.FAMILIAR, seconds=20)
def show_cost(
    run: ToolRun,
    by: Annotated[str, Field(json_schema_extra={"enum": list(GROUPINGS)})] = "",
    since: str = "",
    until: str = "",
) -> ToolAnswer:
    """Say what was spent: in all, on average for a turn, and by day, session, user, agent, channel and so on.

    Args:
        by: What to sum by; day if left out.
        since: From when on: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30. today if left out.
        until: Up to when, written as since; a day is meant whole.
    """
    return run.answer(LogQueries(run).cost({"by": by, "since": since, "until": until}))


LOG_TOOLS = Toolset([show_log_status, show_log_events, show_turn_trace, show_cost])


@lru_cache(maxsize=16)
def name_log_tools(prefix: str) -> Mapping[str, Tool]:
    """Return the tools named with a prefix, by their own name; their texts name each other with it."""
    named = {}
    for one in LOG_TOOLS.tools:
        texts = json.dumps(one.parameters).replace(f"{LOG_TOOL_PREFIX}_", f"{prefix}_")
        suffix = one.name.removeprefix(LOG_TOOL_PREFIX)
        named[one.name] = replace(one, name=f"{prefix}{suffix}", parameters=json.loads(texts))
    return named


@lru_cache(maxsize=256)
def rename_log_tools(tools: Toolset, prefix: str) -> Toolset:
    """Rename the introspection tools with a blueprint's prefix; equal arguments return the same object.

    A name that another tool of the turn has is not used.
    """
    renamed = {ours: theirs for ours, theirs in name_log_tools(prefix).items() if theirs.name not in tools}
    if not renamed.keys() & tools.names:
        return tools
    return Toolset(renamed.get(one.name, one) for one in tools.tools)


class LogQueries:
    """The queries of the introspection tools, for one turn."""

    def __init__(self, run: ToolRun) -> None:
        self._run = run
        self._now = run.turn.now or datetime.now(UTC)
        self._reader = find_reader(run.turn, run.level, run.workspace.context.config)
        self._zone, _ = load_zone(self._reader.timezone)

    def status(self) -> str:
        """Return the status of channels, sessions and memory."""
        found = self._ask(lambda log: find_status(log, self._reader, self._now))
        lines = []
        for stock in self._run.workspace.memory.count_stocks(self._run.assembly.audience):
            documents = f"{stock.documents:,} document{'' if stock.documents == 1 else 's'}"
            lines.append(
                f"memory {stock.store}: {documents}, {stock.indexed:,} indexed as now, {stock.unreviewed:,} unreviewed"
            )
        text, _ = self._fill([*lines, *show_status(found, self._zone)])
        return text

    def logs(self, arguments: Mapping[str, Any]) -> str:
        """Return matching events, the newest first."""
        wanted = parse_filter(arguments, self._reader, self._now)
        found = self._ask(lambda log: find_events(log, self._reader, wanted))
        if not found.records:
            return "No recorded event fits."
        lines = (f"{show_time(record.time, self._zone)} {show_line(record)}" for record in found.records)
        text, shown = self._fill(lines)
        notes = [f"({found.notice})"] if found.notice else []
        if selects_errors(wanted):
            shown_records = found.records[:shown]
            outcomes = self._ask(lambda log: describe_outcomes(log, self._reader, shown_records, self._zone))
            notes += ["what became of these turns:", *outcomes] if outcomes else []
        if rest := found.find_next_page(shown, wanted):
            onward = {**arguments, "until": rest}
            if onward["limit"] == DEFAULT_EVENTS:
                del onward["limit"]
            given = {name: onward[name] for name in FILTER_NAMES if onward.get(name)}
            call = ", ".join(
                f"{name}={quote(value) if isinstance(value, str) else value}" for name, value in given.items()
            )
            notes.append(f"older: {self._name('logs')}({call})")
        head = f"{shown} events, the newest first; times in {self._zone.key}:" if shown > 1 else f"{self._zone.key}:"
        return "\n".join([head, text, *notes])

    def trace(self, turn: str) -> str:
        """Return the events of a turn as a tree."""
        named = parse_text("turn", turn)
        found = self._ask(lambda log: find_turn_events(log, self._reader, named))
        if not found.records:
            return "There is no such turn."
        start = found.records[0].time
        text, shown = self._fill(show_tree_entry(*entry, start) for entry in lay_out_turn(found.records))
        left = len(found.records) - shown
        more = f"({left:,} more; {self._name('logs')} finds them by session and time)" if left else found.notice
        return "\n".join(filter(None, [summarise_turn(found.records, self._zone), text, more]))

    def cost(self, arguments: Mapping[str, str]) -> str:
        """Return the cost by the requested group."""
        texts = {name: parse_text(name, value) for name, value in arguments.items()}
        wanted = parse_cache_filter(texts, self._reader, self._now)
        spending = self._ask(lambda log: find_spending(log, self._reader, texts, self._now))
        breaks = self._ask(lambda log: find_breaks(log, self._reader, wanted))
        lines = [*show_spending(spending, self._zone), *show_causes(breaks, self._name("trace"))]
        text, shown = self._fill(lines)
        return text if shown == len(lines) else f"{text}\n({len(lines) - shown:,} more; ask about a shorter time)"

    def _name(self, which: str) -> str:
        """Return the name of a tool in this turn."""
        inputs = self._run.assembly.inputs
        names = (tool.name for tool in inputs.tools.tools if tool.kind == LOG_TOOL_KIND)
        offered = (name for name in names if name.endswith(f"_{which}"))
        return next(offered, f"{inputs.blueprint.log_tools}_{which}")

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        return query_log(self._run.workspace.state, question)[0]

    def _fill(self, lines: Iterable[str]) -> tuple[str, int]:
        """Join lines up to the token limit, at least one; return the text and the number of lines."""
        shown: list[str] = []
        left = MAX_LOG_ANSWER_TOKENS
        for line in lines:
            left -= self._run.count(line) + 1
            if left < 0 and shown:
                break
            shown.append(line)
        return "\n".join(shown), len(shown)
