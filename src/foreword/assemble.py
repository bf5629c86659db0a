"""Assemble the prompt of a turn: one line per stage."""

from collections.abc import Mapping

from foreword.assembly import Assembly
from foreword.engine.blueprint import Blueprint, Plan
from foreword.engine.budget import fit_budget
from foreword.engine.context import AssemblyContext
from foreword.engine.cuts import FitInputs
from foreword.engine.render import Layout, render_prompt
from foreword.engine.selection import select_slots
from foreword.engine.sources.documents import replace_surrogates
from foreword.engine.sources.fill import fill_runs
from foreword.engine.sources.toolkit import Toolkit, choose_tools
from foreword.engine.trust import Clearance, resolve_trust
from foreword.promptcache.changes import PromptDraft
from foreword.promptcache.decision import NO_LEDGER, Ledger
from foreword.tokens.count import Meter
from foreword.turn import Message, Turn
from foreword.types import EditPolicy


def assemble(turn: Turn, ground: AssemblyContext, blueprint: Blueprint, ledger: Ledger = NO_LEDGER) -> Assembly:
    """Assemble the prompt of a turn. The function changes nothing outside the returned value."""
    clearance = resolve_clearance(turn, ground)
    plan = make_plan(turn, clearance, ground, blueprint)
    layout = make_layout(turn, plan, ground)
    toolkit = choose_toolkit(turn, plan, layout, ground)
    terms = get_fit_inputs(plan, layout, toolkit, ground)
    message = replace_surrogates(turn.message)  # sent as a separate block, so it needs no escaping
    conversation = count_conversation(message, turn.history, terms.meter)
    filled = fill_runs(plan, turn, ground, conversation, toolkit)
    fitted = fit_budget(filled, terms, conversation)
    prompt = render_prompt(fitted, layout, ground.scratch)
    standing = ledger.compare(
        PromptDraft(
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


def resolve_clearance(turn: Turn, ground: AssemblyContext) -> Clearance:
    """Resolve the clearance; cached per user, situation, room and ceiling."""
    key = ("clearance", turn.user, turn.situation, turn.room, turn.ceiling)
    return ground.memo.recall(key, lambda: resolve_trust(turn, ground.config))


def make_plan(turn: Turn, clearance: Clearance, ground: AssemblyContext, blueprint: Blueprint) -> Plan:
    """Select the slots; cached per clearance, user and place."""
    key = (blueprint, clearance, turn.agent, turn.user, turn.channel, turn.room, turn.situation, turn.mode, turn.host)
    return ground.memo.recall(key, lambda: select_slots(turn, clearance, ground.config, blueprint, ground.hooks))


def make_layout(turn: Turn, plan: Plan, ground: AssemblyContext) -> Layout:
    """Build the layout; cached per blueprint and model."""
    meter = ground.measure(turn.model)
    return ground.memo.recall((plan.blueprint, meter), lambda: Layout(plan.blueprint, meter, list_file_titles(ground)))


def list_file_titles(ground: AssemblyContext) -> list[str]:
    """List the titles of the files that the configuration lists."""
    return [entry.path for entry in ground.config.prompt.files]


def list_policies(ground: AssemblyContext) -> Mapping[str, EditPolicy]:
    """Map each listed file to its edit policy; cached per configuration."""
    return ground.memo.recall("policies", lambda: {entry.path: entry.edits for entry in ground.config.prompt.files})


def choose_toolkit(turn: Turn, plan: Plan, layout: Layout, ground: AssemblyContext) -> Toolkit:
    """Choose the tools; cached per plan, model and toolset."""
    key = (plan, layout.meter, turn.tools)
    return ground.memo.recall(key, lambda: choose_tools(turn.tools, plan, layout.meter))


def get_fit_inputs(plan: Plan, layout: Layout, toolkit: Toolkit, ground: AssemblyContext) -> FitInputs:
    """Return the inputs of the fit; cached per layout, mode and tools."""
    return ground.memo.recall((layout, plan.mode, toolkit), lambda: make_fit_inputs(plan, layout, toolkit, ground))


def make_fit_inputs(plan: Plan, layout: Layout, toolkit: Toolkit, ground: AssemblyContext) -> FitInputs:
    """Build the inputs of the fit."""
    return FitInputs(
        blueprint=plan.blueprint,
        mode=plan.mode,
        meter=layout.meter,
        toolkit=toolkit,
        limit=plan.blueprint.budget.limit(layout.meter.facts.window),
        scale=layout,
        memo=ground.memo,
        scratch=ground.scratch,
    )


def count_conversation(message: str, history: tuple[Message, ...], meter: Meter) -> int:
    """Count the tokens of the message as sent, and of the history."""
    return meter.count(message) + sum([meter.count(said.text) for said in history])
