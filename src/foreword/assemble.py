"""The flow of Foreword: from a turn to an assembled prompt, one line per stage."""

from collections.abc import Mapping

from foreword.assembly import Assembly
from foreword.blueprint import Blueprint, Plan, select
from foreword.budget import fit
from foreword.budget.verdict import Terms
from foreword.ledger import NOTHING_FROZEN, Draft, Ledger
from foreword.render import Layout, render
from foreword.sources import read
from foreword.sources.document import make_unicode
from foreword.sources.ground import Ground
from foreword.sources.toolkit import Toolkit, choose_tools
from foreword.tokens import Meter
from foreword.trust import Clearance, resolve
from foreword.turn import Message, Turn
from foreword.words import Policy


def assemble(turn: Turn, ground: Ground, blueprint: Blueprint, ledger: Ledger = NOTHING_FROZEN) -> Assembly:
    """Assemble the prompt of a turn; nothing outside the returned value is changed."""
    clearance = decide(turn, ground)
    plan = choose(turn, clearance, ground, blueprint)
    layout = lay_out(turn, plan, ground)
    toolkit = equip(turn, plan, layout, ground)
    terms = agree(plan, layout, toolkit, ground)
    message = make_unicode(turn.message)  # a block of its own on the wire: nothing in it needs escaping
    conversation = weigh(message, turn.history, terms.meter)
    filled = read(plan, turn, ground, conversation, toolkit)
    fitted = fit(filled, terms, conversation)
    prompt = render(fitted, layout, ground.scratch)
    standing = ledger.compare(
        Draft(
            prompt=prompt,
            fit=fitted,
            layout=layout,
            clearance=clearance.level,
            model=terms.meter.facts.name,
            tools=terms.tools,
            said=turn.history,
            policies=list_policies(ground),
        )
    )
    return Assembly(
        turn=turn,
        plan=plan,
        terms=terms,
        message=message,
        conversation=conversation,
        fit=fitted,
        prompt=standing.prompt,
        standing=standing,
    )


def decide(turn: Turn, ground: Ground) -> Clearance:
    """Resolve the clearance, once per person, situation, room and ceiling."""
    key = ("clearance", turn.user, turn.situation, turn.room, turn.ceiling)
    return ground.memo.recall(key, lambda: resolve(turn, ground.config))


def choose(turn: Turn, clearance: Clearance, ground: Ground, blueprint: Blueprint) -> Plan:
    """Select the slots, once per clearance and place."""
    key = (blueprint, clearance, turn.agent, turn.user, turn.channel, turn.room, turn.situation, turn.mode, turn.host)
    return ground.memo.recall(key, lambda: select(turn, clearance, ground.config, blueprint, ground.hooks))


def lay_out(turn: Turn, plan: Plan, ground: Ground) -> Layout:
    """Make the layout, once per blueprint and model."""
    meter = ground.measure(turn.model)
    return ground.memo.recall((plan.blueprint, meter), lambda: Layout(plan.blueprint, meter, list_titles(ground)))


def list_titles(ground: Ground) -> list[str]:
    """List the titles that listed files have."""
    return [entry.path for entry in ground.config.prompt.files]


def list_policies(ground: Ground) -> Mapping[str, Policy]:
    """List what the owner has decided about edits, by file, once per configuration."""
    return ground.memo.recall("policies", lambda: {entry.path: entry.edits for entry in ground.config.prompt.files})


def equip(turn: Turn, plan: Plan, layout: Layout, ground: Ground) -> Toolkit:
    """Choose the tools, once per plan, model and toolset."""
    key = (plan, layout.meter, turn.tools)
    return ground.memo.recall(key, lambda: choose_tools(turn.tools, plan, layout.meter))


def agree(plan: Plan, layout: Layout, toolkit: Toolkit, ground: Ground) -> Terms:
    """Settle the terms of the fit, once per layout, mode and tools."""
    return ground.memo.recall((layout, plan.mode, toolkit), lambda: make_terms(plan, layout, toolkit, ground))


def make_terms(plan: Plan, layout: Layout, toolkit: Toolkit, ground: Ground) -> Terms:
    """Settle the terms."""
    return Terms(
        blueprint=plan.blueprint,
        mode=plan.mode,
        meter=layout.meter,
        toolkit=toolkit,
        limit=plan.blueprint.budget.limit(layout.meter.facts.window),
        scale=layout,
        memo=ground.memo,
        scratch=ground.scratch,
    )


def weigh(message: str, history: tuple[Message, ...], meter: Meter) -> int:
    """Count the message as it is sent, and everything that was said before it."""
    return meter.count(message) + sum([meter.count(said.text) for said in history])
