"""Runs the tools by which an agent asks what went on, within the clearance of its turn."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from foreword.assembly import Assembly
from foreword.errors import UnknownName
from foreword.events.asking import ask
from foreword.events.branch import lay_out
from foreword.events.breaks import find_breaks, read_asked, show_causes
from foreword.events.filter import ASKED, read_filter, read_text
from foreword.events.line import show_branch, show_line, show_time, sum_up
from foreword.events.outcomes import asks_for_errors, find_outcomes, show_outcomes
from foreword.events.question import find_events, find_trace
from foreword.events.reader import find_reader
from foreword.events.spending import find_spending, show_spending
from foreword.events.status import find_status, show_status
from foreword.memory import Memory, Stock
from foreword.sources.clock import find_zone
from foreword.sources.ground import Ground
from foreword.sources.section import quote
from foreword.tools.answer import Answer
from foreword.tools.introspection import FEW, KIND

SPACE = 3_000  # tokens of one answer

T = TypeVar("T")


class Inquiry:
    """Runs the introspection tools for one turn."""

    def __init__(self, assembly: Assembly, ground: Ground, memory: Memory, folder: str) -> None:
        turn = assembly.turn
        self._assembly = assembly
        self._memory = memory
        self._folder = folder
        self._now = turn.now or datetime.now(UTC)
        self._reader = find_reader(turn, assembly.clearance.level, ground.config)
        self._zone, _ = find_zone(self._reader.timezone)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool, under the name that the blueprint gives it."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
            self._name("status"): self.status,
            self._name("logs"): self.logs,
            self._name("trace"): self.trace,
            self._name("cost"): self.cost,
        }
        if name not in self._assembly.terms.tools or name not in tools:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & tools.keys())
        text = tools[name](arguments)
        return Answer(text=text, tokens=self._count(text))

    def status(self, arguments: Mapping[str, Any]) -> str:
        """Say how things are."""
        refuse_unknown(arguments, ())
        found = self._ask(lambda log: find_status(log, self._reader, self._now))
        lines = [show_stock(stock) for stock in self._memory.take_stock(self._assembly.audience)]
        text, _ = self._fill([*lines, *show_status(found, self._zone)])
        return text

    def logs(self, arguments: Mapping[str, Any]) -> str:
        """Find events."""
        asked = {"limit": FEW, **{name: value for name, value in arguments.items() if value is not None}}
        wanted = read_filter(asked, self._reader, self._now)
        found = self._ask(lambda log: find_events(log, self._reader, wanted))
        if not found.records:
            return "No recorded event fits."
        lines = (f"{show_time(record.time, self._zone)} {show_line(record)}" for record in found.records)
        text, shown = self._fill(lines)
        notes = [f"({found.notice})"] if found.notice else []
        if asks_for_errors(wanted):
            outcomes = self._ask(lambda log: find_outcomes(log, self._reader, found.records[:shown]))
            notes += ["what became of these turns:", *show_outcomes(outcomes, self._zone)] if outcomes else []
        if rest := found.find_rest(shown, wanted):
            onward = {**arguments, "until": rest}
            call = ", ".join(f"{name}={show_argument(onward[name])}" for name in ASKED if onward.get(name) is not None)
            notes.append(f"older: {self._name('logs')}({call})")
        head = f"{shown} events, the newest first; times in {self._zone.key}:" if shown > 1 else f"{self._zone.key}:"
        return "\n".join([head, text, *notes])

    def trace(self, arguments: Mapping[str, Any]) -> str:
        """Show what a turn did."""
        refuse_unknown(arguments, ("turn",))
        turn = read_text("turn", arguments.get("turn"))
        found = self._ask(lambda log: find_trace(log, self._reader, turn))
        if not found.records:
            return "There is no such turn."
        start = found.records[0].time
        text, shown = self._fill(show_branch(branch, start) for branch in lay_out(found.records))
        left = len(found.records) - shown
        more = f"({left:,} more; {self._name('logs')} finds them by session and time)" if left else found.notice
        return "\n".join(filter(None, [sum_up(found.records, self._zone), text, more]))

    def cost(self, arguments: Mapping[str, Any]) -> str:
        """Say what was spent."""
        refuse_unknown(arguments, ("by", "since", "until"))
        texts = {name: read_text(name, arguments.get(name)) for name in ("by", "since", "until")}
        wanted = read_asked(texts, self._reader, self._now)
        spending = self._ask(lambda log: find_spending(log, self._reader, texts, self._now))
        breaks = self._ask(lambda log: find_breaks(log, self._reader, wanted))
        lines = [*show_spending(spending, self._zone), *show_causes(breaks, self._name("trace"))]
        text, shown = self._fill(lines)
        return text if shown == len(lines) else f"{text}\n({len(lines) - shown:,} more; ask about a shorter time)"

    def _name(self, which: str) -> str:
        """Return the name that a tool has in this turn."""
        tools = self._assembly.terms.tools.tools
        known = (tool.name for tool in tools if tool.kind == KIND and tool.name.endswith(f"_{which}"))
        return next(known, f"{self._assembly.terms.blueprint.log_tools}_{which}")

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        answer, _ = ask(self._folder, question)
        return answer

    def _fill(self, lines: Iterable[str]) -> tuple[str, int]:
        """Take lines as long as there is space, and at least one; returns them and how many they are."""
        kept: list[str] = []
        left = SPACE
        for line in lines:
            left -= self._count(line) + 1
            if left < 0 and kept:
                break
            kept.append(line)
        return "\n".join(kept), len(kept)

    def _count(self, text: str) -> int:
        return self._assembly.terms.meter.count(text)


def show_stock(stock: Stock) -> str:
    """Show what is in a store, and how fresh its index is."""
    documents = f"{stock.documents:,} document{'' if stock.documents == 1 else 's'}"
    return f"memory {stock.store}: {documents}, {stock.indexed:,} indexed as now, {stock.unreviewed:,} unreviewed"


def show_argument(value: Any) -> str:
    """Show an argument as it is written in a call."""
    return quote(value) if isinstance(value, str) else str(value)


def refuse_unknown(arguments: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse an argument that a tool does not take: leaving it out in silence would answer another question."""
    for name in arguments:
        if name not in known:
            raise UnknownName("argument", str(name)[:40], known)
