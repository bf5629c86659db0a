"""Sessions of a loop of one's own: the caller sends the requests, the session keeps everything else.

    session = workspace.session(user="alice", situation="dm")
    step = session.say("What is on today?")
    while step:
        step.run_tools()
        step = step.answered(client.messages.create(**step.request))
    print(session.reply)

A session holds the history in our own messages, the ledger of its prompt, cache breakpoints, token calibration, budget
and events. A step is one request and its reply; a turn has one step, and one more after each round of tools.
"""

import os
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import fields, replace
from hashlib import sha256
from threading import RLock
from typing import TYPE_CHECKING, Any

from foreword.agent.agent_events import BudgetExceeded, CallSettled, TurnSpending
from foreword.agent.conversation import (
    Messages,
    close_turn,
    convert_to_texts,
    dump_messages,
    find_answer,
    load_messages,
    make_user_message,
)
from foreword.agent.images import ImageFolder
from foreword.agent.model_call import RequestInputs, RequestWriter, TurnLedger
from foreword.agent.model_reply import RequestedCall, read_reply
from foreword.agent.providers.model_clients import find_model_wire
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.reply_stream import strip_no_reply_token
from foreword.agent.segments import HistorySegment, convert_segments_to_texts
from foreword.agent.session_dump import OpenTurnDump, SessionDump, dump_session, list_plain_fields
from foreword.agent.session_step import OpenTurn, SessionStep
from foreword.agent.tools.registry import BUILT_IN
from foreword.assembly import Assembly
from foreword.errors import InputError, UnknownName
from foreword.events.event import NO_POSITION, Usage, find_context, find_reader, sees_all
from foreword.events.sinks import EventStream, RecorderFanout
from foreword.events.tracer import Tracer
from foreword.promptcache.decision import NO_LEDGER, CacheContext, Ledger, SessionLedger
from foreword.promptcache.rules import NO_CALIBRATION, Calibration, update_calibration
from foreword.storage.ledgers import remove_texts_from_message, rewrite_messages
from foreword.tokens.models import PricedRequest, find_prices
from foreword.turn import Tool, Toolset, Turn

if TYPE_CHECKING:
    from foreword.workspace import Workspace

TOOL_SECONDS = 60.0  # the time limit of a tool without its own
MAX_KEPT_REPLIES = 16  # newest replies that are recognised when they are given again
FIXED_FIELDS = ("agent", "user", "channel", "room", "situation", "ceiling", "session")  # what a session is bound to
OWN_FIELDS = ("message", "history")  # what the session fills in itself
TURN_FIELDS = frozenset(one.name for one in fields(Turn)) - {*OWN_FIELDS}
UNANSWERED = "no reply came"
NO_TEXT = "nothing more to say"
NO_EVENTS = EventStream(recorder=RecorderFanout())

Approve = Callable[[RequestedCall], bool | Awaitable[bool]]
"""Decides whether a call that changes something may run."""


class OpenSession:
    """A conversation whose requests the caller sends; one thread at a time works with it."""

    def __init__(
        self,
        workspace: "Workspace",
        given: Mapping[str, Any],
        events: EventStream,
        max_tokens: int,
        stored: SessionDump | None = None,
    ) -> None:
        stored = stored or SessionDump(turn={})
        check_fields({**stored.turn, **given})
        self._workspace = workspace
        self._events = events
        self._max_tokens = max_tokens
        self._turn, self._tools = make_session_turn(given, stored)
        self._clearance = stored.clearance
        self._history = tuple(HistorySegment(messages) for messages in stored.history)
        self._ledger_state = stored.ledger_state
        self._calibrations = {one.model: one for one in stored.calibrations}
        self._replies = stored.replies
        self._spending = TurnSpending()
        self._lock = RLock()
        newest = find_answer(self._history[-1].messages) if self._history else None
        self._reply = newest.text if newest else ""
        self._open: OpenTurn | None = None
        if stored.open:
            self._open = self._begin(replace(self._turn, message=stored.open.message), stored.open)

    @property
    def id(self) -> str:
        """Its id in events, and in the provider's cache key."""
        return self._turn.session

    @property
    def step(self) -> SessionStep | None:
        """The step that waits for its reply; None between two turns."""
        return self._open.step if self._open else None

    @property
    def reply(self) -> str:
        """The text of the newest answer; empty if the model had nothing to say."""
        return strip_no_reply_token(self._reply)

    @property
    def usage(self) -> Usage:
        """The tokens of all replies since the session was opened or loaded."""
        return self._spending.total()[0]

    @property
    def cost_usd(self) -> float | None:
        """The cost of all replies since the session was opened or loaded; None if that of any reply is unknown."""
        return self._spending.total()[1]

    def say(self, text: str, **changes: Any) -> SessionStep:
        """Begin a turn with a message of the user; `changes` are fields of this `Turn` alone, such as `task`.

        A turn that still waits for a reply is closed, and its message stays in the history.
        """
        check_fields(changes)
        if fixed := sorted(changes.keys() & {*FIXED_FIELDS}):
            raise InputError(f"{', '.join(fixed)} cannot change within a session; open another one")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"a message must be a text with content, not {text!r}")
        if "tools" in changes:
            changes["tools"] = make_toolset(changes["tools"])
        with self._lock:
            self.close()
            self._open = self._begin(replace(self._turn, message=text, **changes))
            return self._write(self._open)

    def answered(self, reply: object) -> SessionStep | None:
        """Take the reply to the step that waits for one; return the next step, or None if the turn has ended.

        The reply is the SDK's object, its JSON as a dict, or a `foreword.Reply`.
        """
        with self._lock:
            if self._open is None:
                raise InputError("no step waits for a reply; call say() first")
            turn = self._open
            done = read_reply(reply, turn.inputs.opened)
            mark = hash_reply(done)
            if mark and mark in self._replies:
                raise InputError("this reply was given before; each step takes the reply to its own request")
            turn.write()
            self._settle(turn, turn.settle(done))
            self._reply = done.answer.text
            self._replies = (*self._replies, *filter(None, [mark]))[-MAX_KEPT_REPLIES:]
            if turn.step.tool_calls:
                return turn.step
            self._end(turn, NO_TEXT)
            return None

    def close(self) -> None:
        """Close a turn that waits for a reply, as the next `say` does."""
        with self._lock:
            if self._open:
                self._open.give_up(UNANSWERED)
                self._end(self._open, UNANSWERED)

    def dump(self) -> str:
        """Return the session as JSON, for `workspace.session(load=…)`; it has the whole conversation in plain text."""
        with self._lock:
            turn = self._open
            return dump_session(
                SessionDump(
                    turn=list_plain_fields(self._turn),
                    tools=self._tools,
                    clearance=self._clearance,
                    history=tuple(one.stored for one in self._history),
                    ledger_state=self._ledger_state,
                    calibrations=tuple(self._calibrations.values()),
                    replies=self._replies,
                    open=OpenTurnDump(
                        message=turn.inputs.assembly.turn.message,
                        position=turn.position,
                        messages=turn.messages if find_answer(turn.messages) else (),
                        results=turn.step.results,
                    )
                    if turn
                    else None,
                )
            )

    def _begin(self, turn: Turn, stored: OpenTurnDump | None = None) -> OpenTurn:
        """Assemble a turn against the ledger, and open its trace; `stored` is the part of it that a dump had."""
        taken = stored.messages if stored else ()
        self._workspace.refresh()
        assembly, taken = self._assemble(turn, taken)
        self._check_clearance(assembly)
        self._turn = replace(self._turn, agent=assembly.turn.agent)
        config, now = self._workspace.config, self._workspace.clock
        position = stored.position if stored else NO_POSITION
        trace = Tracer(self._events.recorder, find_context(assembly), now, position)
        opened = find_model_wire(assembly.turn.model, config.providers)
        provider = config.providers.get(assembly.turn.model.partition(":")[0])
        ledger = TurnLedger(
            assembly,
            opened,
            self._ledger_state,
            trace.id,
            diagnosed=provider is not None and provider.diagnostics,
            calibration=self._find_calibration(assembly),
        )
        inputs = RequestInputs(
            assembly=assembly,
            opened=opened,
            envelope=replace(assembly, turn=replace(assembly.turn, history=())).envelope(opened.shape),
            ledger=ledger,
            prompt_hash=self._events.prompts.keep(assembly) if self._events.prompts else "",
            config=config,
            images=ImageFolder(self._workspace.state),
            spending=self._spending,
            max_tokens=self._max_tokens,
        )
        history = self._history if assembly.meter.facts.history else ()
        begun = OpenTurn(self, self._workspace, inputs, RequestWriter(inputs, history), self._events)
        begun.start(trace, taken, stored)
        return begun

    def _assemble(self, turn: Turn, taken: Messages) -> tuple[Assembly, Messages]:
        """Assemble a turn; if text may no longer be seen, remove it from the history first."""
        assembly = self._assemble_once(turn, taken)
        if gone := assembly.prefix_decision.scrub:
            self._history = tuple(
                HistorySegment(rewrite_messages(one.stored, lambda message: remove_texts_from_message(message, gone)))
                for one in self._history
            )
            stored = rewrite_messages(dump_messages(taken), lambda message: remove_texts_from_message(message, gone))
            taken = load_messages(stored)
            assembly = self._assemble_once(turn, taken)
        return assembly, taken

    def _assemble_once(self, turn: Turn, taken: Messages) -> Assembly:
        """Assemble a turn with the current history."""
        workspace = self._workspace
        config = workspace.config
        agent = turn.agent or next(iter(config.agents))
        if agent not in config.agents:
            raise UnknownName("agent", agent, config.agents)
        facts = workspace.context.measure(turn.model or config.agents[agent].model).facts
        if not facts.history:  # the model is too small for a conversation
            return workspace.assemble(turn, NO_LEDGER)
        known = self._calibrations.get(facts.name, NO_CALIBRATION)
        now = turn.now or workspace.clock()
        tokens = known.correct(self._ledger_state.last.tokens) if self._ledger_state else 0
        moment = CacheContext(
            now=now,
            facts=facts.cache,
            prices=find_prices(facts.name, config.models, PricedRequest(tokens=tokens, now=now)),
            known=known,
        )
        ledger: Ledger = SessionLedger(
            state=self._ledger_state,
            moment=moment,
            edits=workspace.kept.find_edits(),
            taken=tuple(message.text for message in convert_to_texts(taken)),
        )
        said = convert_segments_to_texts(self._history)
        return workspace.assemble(replace(turn, history=said, now=now), ledger)

    def _check_clearance(self, assembly: Assembly) -> None:
        """Check that the session keeps its clearance, and warn if it has none for want of a situation."""
        clearance, turn = assembly.clearance, assembly.turn
        if self._clearance not in (None, clearance.level):
            raise InputError(
                f"a session's clearance cannot change: the session has {self._clearance}, the turn {clearance.level}"
            )
        if self._clearance is None and clearance.user_trust > clearance.level and not (turn.situation or turn.room):
            warnings.warn(
                f"this session has no situation, so {turn.user} sees {clearance.level} content only; "
                'name one, such as workspace.session(situation="dm", …)',
                stacklevel=5,
            )
        self._clearance = clearance.level

    def _find_calibration(self, assembly: Assembly) -> Calibration:
        """Return what the session has learned; before its first reply, what all have, if the reader may see that."""
        name = assembly.meter.facts.name
        reader = find_reader(assembly.turn, assembly.clearance.level, self._workspace.config)
        if name not in self._calibrations and sees_all(reader):
            return self._workspace.kept.find_calibration(name)
        return self._calibrations.get(name, NO_CALIBRATION)

    def _write(self, turn: OpenTurn) -> SessionStep:
        """Write the first request of a turn; a turn that a budget refuses leaves nothing behind."""
        try:
            turn.write()
        except BudgetExceeded as error:
            turn.refuse(error)
            self._open = None
            raise
        return turn.step

    def _settle(self, turn: OpenTurn, settled: CallSettled) -> None:
        """Keep what a reply has changed: the ledger and the calibration."""
        if turn.inputs.assembly.meter.facts.history:
            self._ledger_state = settled.ledger_state
        if settled.account:
            model = settled.ledger_state.last.model
            known = self._calibrations.get(model, Calibration(model=model))
            reported = settled.account.reported.total
            self._calibrations[model] = update_calibration(known, settled.counted, reported)

    def _end(self, turn: OpenTurn, words: str) -> None:
        """End a turn: add its messages to the history."""
        turn.stack.close()
        messages = turn.messages
        if not find_answer(messages):  # no provider has accepted the request: keep only the person's message
            messages = (make_user_message(turn.inputs.assembly.message),)
        self._history = (*self._history, HistorySegment(dump_messages(close_turn(messages, words))))
        self._open = None


def make_session_turn(given: Mapping[str, Any], stored: SessionDump) -> tuple[Turn, tuple[str, ...]]:
    """Make the turn that every turn of a session begins with, and the names of the tools it was given."""
    tools = make_toolset(given.get("tools"))
    whole = isinstance(given.get("tools"), Toolset)
    names = tuple(sorted(tools.names if whole else tools.names - BUILT_IN.names)) if tools else ()
    if missing := sorted({*stored.tools} - {*names}):
        raise InputError(
            f"this session was opened with the tools {', '.join(missing)}; give them again: "
            "workspace.session(load=…, tools=[…])"
        )
    turn = Turn(**{"session": os.urandom(8).hex(), **stored.turn, **given, "tools": tools})
    for name in FIXED_FIELDS if stored.turn else ():
        before = stored.turn.get(name, getattr(Turn(), name))
        if name in given and getattr(turn, name) != before:
            raise InputError(f"this session has {name} {before!r}, not {getattr(turn, name)!r}; open another one")
    return turn, names


def make_toolset(tools: Toolset | Iterable[Tool] | None) -> Toolset | None:
    """Return a toolset unchanged; other tools are added to the built-in ones."""
    if tools is None or isinstance(tools, Toolset):
        return tools
    added = list(tools)
    for one in added:
        if not isinstance(one, Tool):
            raise InputError(f"{one!r} is no tool; declare a function with @foreword.tool")
    return Toolset([*BUILT_IN.tools, *added])


def check_fields(given: Mapping[str, Any]) -> None:
    """Raise InputError if a name is no field of a turn, or one that the session fills in."""
    if own := sorted(given.keys() & {*OWN_FIELDS}):
        raise InputError(f"{', '.join(own)} comes from say(); a session takes the other fields of a Turn")
    for name in given:
        if name not in TURN_FIELDS:
            raise UnknownName("field of a turn", name, TURN_FIELDS)


def hash_reply(done: AnswerDone) -> str:
    """Return a hash that recognises a reply that is given again; empty if the provider gave it no id."""
    if not done.response_id:
        return ""
    return sha256(f"{done.response_id}\0{done.usage}\0{done.answer}".encode("utf-8", "replace")).hexdigest()[:16]
