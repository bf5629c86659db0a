"""The introspection tools, which query the event log within the clearance of the turn: status, logs, trace, cost."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from foreword.agent.tools.built_in import TEXT, TextExcerpt, ToolFamily, ToolRun
from foreword.engine.sources.sections import quote
from foreword.errors import UnknownName
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
from foreword.turn import ToolAnswer, Toolset
from foreword.types import Trust

LOG_TOOL_KIND = "introspection"
DEFAULT_EVENTS = 20  # default number of events in an answer
SINCE = {**TEXT, "description": "From when on: 1h, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30."}
UNTIL = {**TEXT, "description": "Up to when, written as since; a day is meant whole."}


@lru_cache(maxsize=16)
def make_log_tools(prefix: str) -> Toolset:
    """Make the tools with names that start with a prefix."""
    family = ToolFamily(LOG_TOOL_KIND, Trust.FAMILIAR, 20)
    family.declare(
        f"{prefix}_status",
        "Say how things are: channels with their last message and errors, sessions, memory, the newest errors.",
        {},
    )
    family.declare(
        f"{prefix}_logs",
        "Find recorded events, the newest first, to see what happened or went wrong.",
        {
            "session_id": {**TEXT, "description": "One session only."},
            "level": {**TEXT, "enum": ["info", "warn", "error"], "description": "This level and above."},
            "event_type": {**TEXT, "description": "One type only, such as api_error, tool_error or message_received."},
            "user": {**TEXT, "description": "One person only."},
            "channel": {**TEXT, "description": "One channel only."},
            "since": SINCE,
            "until": UNTIL,
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": f"How many events; {DEFAULT_EVENTS} if left out.",
            },
        },
    )
    family.declare(
        f"{prefix}_trace",
        "Show everything that one turn did, as a tree with times, tokens, cost and errors.",
        {"turn": {**TEXT, "description": f"The id that {prefix}_logs shows as turn=…."}},
        ("turn",),
    )
    family.declare(
        f"{prefix}_cost",
        "Say what was spent: in all, on average for a turn, and by day, session, user, agent, channel and so on.",
        {
            "by": {**TEXT, "enum": list(GROUPINGS), "description": "What to sum by; day if left out."},
            "since": {**SINCE, "description": f"{SINCE['description']} today if left out."},
            "until": UNTIL,
        },
    )
    return family.toolset


LOG_TOOLS = make_log_tools("foreword")


@lru_cache(maxsize=256)
def rename_log_tools(tools: Toolset, prefix: str) -> Toolset:
    """Rename the introspection tools with a blueprint's prefix; equal arguments return the same object.

    A name that another tool of the turn has is not used.
    """
    pairs = zip(LOG_TOOLS.tools, make_log_tools(prefix).tools, strict=True)
    renamed = {ours.name: theirs for ours, theirs in pairs if theirs.name not in tools}
    if not renamed.keys() & tools.names:
        return tools
    return Toolset(renamed.get(tool.name, tool) for tool in tools.tools)


MAX_LOG_ANSWER_TOKENS = 3_000  # tokens of one answer

T = TypeVar("T")


def run_log_tool(run: ToolRun) -> TextExcerpt | ToolAnswer:
    """Run an introspection tool by the name that the blueprint gives it."""
    queries = LogQueries(run)
    functions = {"status": queries.status, "logs": queries.logs, "trace": queries.trace, "cost": queries.cost}
    return run.answer(functions[run.name.rpartition("_")[2]](run.arguments))


class LogQueries:
    """The queries of the introspection tools, for one turn."""

    def __init__(self, run: ToolRun) -> None:
        self._run = run
        self._now = run.turn.now or datetime.now(UTC)
        self._reader = find_reader(run.turn, run.level, run.workspace.context.config)
        self._zone, _ = load_zone(self._reader.timezone)

    def status(self, arguments: Mapping[str, Any]) -> str:
        """Return the status of channels, sessions and memory."""
        refuse_unknown_arguments(arguments, ())
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
        asked = {"limit": DEFAULT_EVENTS, **{name: value for name, value in arguments.items() if value is not None}}
        wanted = parse_filter(asked, self._reader, self._now)
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
            given = {name: onward[name] for name in FILTER_NAMES if onward.get(name) is not None}
            call = ", ".join(
                f"{name}={quote(value) if isinstance(value, str) else value}" for name, value in given.items()
            )
            notes.append(f"older: {self._name('logs')}({call})")
        head = f"{shown} events, the newest first; times in {self._zone.key}:" if shown > 1 else f"{self._zone.key}:"
        return "\n".join([head, text, *notes])

    def trace(self, arguments: Mapping[str, Any]) -> str:
        """Return the events of a turn as a tree."""
        refuse_unknown_arguments(arguments, ("turn",))
        turn = parse_text("turn", arguments.get("turn"))
        found = self._ask(lambda log: find_turn_events(log, self._reader, turn))
        if not found.records:
            return "There is no such turn."
        start = found.records[0].time
        text, shown = self._fill(show_tree_entry(*entry, start) for entry in lay_out_turn(found.records))
        left = len(found.records) - shown
        more = f"({left:,} more; {self._name('logs')} finds them by session and time)" if left else found.notice
        return "\n".join(filter(None, [summarise_turn(found.records, self._zone), text, more]))

    def cost(self, arguments: Mapping[str, Any]) -> str:
        """Return the cost by the requested group."""
        refuse_unknown_arguments(arguments, ("by", "since", "until"))
        texts = {name: parse_text(name, arguments.get(name)) for name in ("by", "since", "until")}
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


def refuse_unknown_arguments(arguments: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse unknown arguments: ignoring one would answer another question."""
    for name in arguments:
        if name not in known:
            raise UnknownName("argument", str(name)[:40], known)
