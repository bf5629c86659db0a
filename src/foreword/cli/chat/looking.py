"""Commands that look at the turn, its reasons, its cost, memory and tasks, within the clearance of the session."""

from typing import TYPE_CHECKING

from foreword.cli import cost, explain, trace
from foreword.cli.chat.answer import tell_end
from foreword.cli.chat.clean import clean
from foreword.cli.chat.talk import Talk
from foreword.cli.events import Desk, find_desk
from foreword.cli.output import print_text
from foreword.errors import InputError, UnknownName
from foreword.report import Row, show_tokens

if TYPE_CHECKING:
    import sqlite3

    from foreword.events.sent import Sent
    from foreword.events.spending import Spending

NOTHING_YET = "nothing was said yet"
MARKS = {"active": "→", "open": "○", "done": "✓"}
SETTLING = 2.0  # seconds that a log may take to write what was told


def sit_down(talk: Talk) -> Desk:
    """Ask the log with the eyes of this conversation, after everything in it was written down."""
    from foreword.events.log import EventLog

    listeners = talk.gateway.listeners
    if isinstance(listeners.recorder, EventLog):
        listeners.recorder.flush(SETTLING)
    if listeners.prompts:
        listeners.prompts.flush(SETTLING)
    return find_desk(talk.gateway.workspace, talk.look().turn)


async def show_context(talk: Talk, rest: str) -> str:
    """Show what the agent would be told in the next turn, or what it was told in the last."""
    if rest == "last":
        for sent in find_sent(talk):
            print_text(clean(sent.explain()))
    elif rest:
        raise InputError("write /context for the next turn, or /context last for the last one")
    else:
        assembly = await talk.foresee()
        explain.show(talk.gateway.workspace, assembly, list(assembly.rows(assembly.clearance.level)))
    return ""


def find_sent(talk: Talk) -> "list[Sent]":
    """Find what the model was told in the last turn."""
    from foreword.events.prompts import find_prompts

    if not talk.turn:
        raise InputError(f"{NOTHING_YET}; /context shows what would be told")
    desk = sit_down(talk)
    sent = desk.ask(lambda log: find_prompts(log, desk.reader, talk.turn))
    if not sent:
        raise InputError("no prompt of the last turn is recorded")
    return sent


async def show_why(talk: Talk, rest: str) -> str:
    """Show why a slot is as it is; without one, explain the newest turn: its state, its cache, and all that it did."""
    if rest:
        for line in explain_slot(list((await talk.foresee()).rows()), rest):
            print_text(clean(line))
        return ""
    from foreword.events.branch import lay_out
    from foreword.events.question import find_trace
    from foreword.events.why import explain_cache

    if not talk.turn:
        raise InputError(f"{NOTHING_YET}; /why SLOT says why a slot is as it is, and /context lists them")
    reply = await talk.gateway.find(talk.turn)
    if reply and not reply.state.ended:
        print_text(clean(f"this message is {reply.state}: {tell_end(reply)}"))
    desk = sit_down(talk)
    found = desk.ask(lambda log: find_trace(log, desk.reader, talk.turn))
    for line in explain_cache(found.records):
        print_text(clean(line))
    if found.records:
        trace.show(list(lay_out(found.records)), found.records, desk)
    else:
        print("nothing is recorded of the newest turn")
    return ""


def explain_slot(rows: list[Row], name: str) -> list[str]:
    """Say of a slot, and of each part it has, what became of it and why."""
    wanted = [row for row in rows if name in (row.id, row.id.partition(":")[0], row.id.partition(":")[2])]
    if not wanted:
        unknown = str(UnknownName("slot", name, [row.id for row in rows]))
        raise InputError(unknown if unknown.endswith("?") else f"{unknown}; /context lists them")
    return [
        f"{row.id}: {row.verdict}, {show_tokens(row)} tokens, {row.pace}, needs {row.trust}"
        + (f", from {row.source}" if row.source else "")
        + (f"\n  {row.reason}" if row.reason else "")
        for row in wanted
    ]


async def show_cost(talk: Talk, _: str) -> str:
    """Show what this session cost, and what today did."""
    from foreword.events.moment import stamp
    from foreword.events.spending import find_spending, show_total

    desk = sit_down(talk)

    def find(log: "sqlite3.Connection") -> "tuple[Spending | None, Spending]":
        since = stamp(talk.session.created) if talk.session else ""
        own = find_spending(log, desk.reader, {"by": "session", "since": since}, desk.now) if since else None
        return own, find_spending(log, desk.reader, {}, desk.now)

    own, today = desk.ask(find)
    mine = [total for total in own.totals if talk.session and total.name == talk.session.id] if own else []
    print(f"this session: {show_total(mine[0], 'day')}" if mine else f"this session: {NOTHING_YET}")
    cost.show(today, desk)
    return ""


async def show_memory(talk: Talk, rest: str) -> str:
    """List what is remembered, or search in it, at the clearance of the session; no model is needed for it."""
    from foreword.events.reader import find_context
    from foreword.events.trace import Trace
    from foreword.tools.equipped import equip_person
    from foreword.tools.telling import tell_answer

    assembly = equip_person(talk.look())
    name = "memory_search" if rest else "memory_list"
    if name not in assembly.terms.tools:
        raise InputError(
            f"{assembly.turn.user or 'nobody'} is {assembly.clearance.level} here, and has no memory to ask"
        )
    answer = talk.gateway.workspace.call(assembly, name, {"query": rest} if rest else {})
    tell_answer(Trace(talk.gateway.listeners.recorder, find_context(assembly)), name, answer)
    print_text(clean(answer.text))
    return ""


async def show_tasks(talk: Talk, _: str) -> str:
    """Show the tasks of this session, with their steps."""
    tasks = await talk.gateway.sessions.list_tasks(talk.session.id) if talk.session else ()
    if not tasks:
        print("this session has no tasks")
    for task in tasks:
        print(clean(f"{MARKS.get(task.status, '·')} {task.title} ({task.status})"))
        for step in task.steps:
            print(clean(f"    {MARKS[step.status]} {step.text}"))
    return ""
