"""Assemble the prompt of a turn: one line per stage."""

from collections.abc import Hashable, Mapping

from foreword.assembly import Assembly
from foreword.engine.blueprint import Blueprint
from foreword.engine.budget import FittedRun, fit_budget, fit_stable
from foreword.engine.context import AssemblyContext, SessionView
from foreword.engine.cuts import FitInputs, Fitted
from foreword.engine.render import Layout, PromptBlock, render_prompt, render_run
from foreword.engine.selection import Plan, select_slots
from foreword.engine.sources.documents import replace_surrogates
from foreword.engine.sources.fill import fill_stable, fill_turn, make_session_view, make_turn_view
from foreword.engine.sources.toolkit import choose_tools
from foreword.engine.trust import resolve_trust
from foreword.promptcache.changes import PromptDraft, take_snapshots
from foreword.promptcache.decision import NO_LEDGER, Ledger
from foreword.promptcache.ledger import Snapshots
from foreword.turn import Turn
from foreword.types import EditPolicy, Pace, frozen


@frozen
class StablePart:
    """The stages before the turn's own: everything that no clock, message or task can change."""

    plan: Plan
    layout: Layout
    inputs: FitInputs
    view: SessionView
    runs: tuple[FittedRun | None, ...]
    """The fitted static and session runs; None is the place of a turn run."""
    blocks: tuple[PromptBlock | None, ...]
    """The same runs as text."""
    snapshots: Mapping[PromptBlock, Snapshots]
    """The blocks as the ledger stores them."""


def assemble(turn: Turn, context: AssemblyContext, blueprint: Blueprint, ledger: Ledger = NO_LEDGER) -> Assembly:
    """Assemble the prompt of a turn. The function changes nothing outside the returned value."""
    stable = context.cached(list_stable_inputs(turn, context, blueprint), lambda: prepare(turn, context, blueprint))
    plan, layout, inputs = stable.plan, stable.layout, stable.inputs
    message = replace_surrogates(turn.message)  # sent as a separate block, so it needs no escaping
    texts = [message, *(said.text for said in turn.history)]
    conversation = sum(map(inputs.meter.count, texts)) + turn.image_tokens
    view = make_turn_view(plan, stable.view, turn, context, conversation)
    filled = fill_turn(plan, view)
    fit = fit_budget(stable.runs, filled, inputs, conversation)
    prompt = render_prompt(fit, stable.blocks, layout)
    decision = ledger.compare(
        PromptDraft(
            prompt=prompt,
            fit=fit,
            layout=layout,
            snapshots=stable.snapshots,
            clearance=plan.clearance.level,
            model=inputs.meter.facts.name,
            tools=inputs.tools,
            said=turn.history,
            policies=list_edit_policies(context),
        )
    )
    return Assembly(
        turn=turn,
        plan=plan,
        inputs=inputs,
        message=message,
        conversation=conversation,
        fit=fit,
        prompt=decision.prompt,
        prefix_decision=decision,
    )


def prepare(turn: Turn, context: AssemblyContext, blueprint: Blueprint) -> StablePart:
    """Run the stages that depend on `list_stable_inputs`, the configuration and the files alone."""
    meter = context.measure(turn.model)
    clearance = resolve_trust(turn, context.config)
    plan = select_slots(turn, clearance, context.config, blueprint, context.hooks)
    layout = Layout(blueprint, meter, [entry.path for entry in context.config.prompt.files])
    toolkit = choose_tools(turn.tools, plan, meter)
    limit = blueprint.budget.limit(meter.facts.window)
    inputs = FitInputs(blueprint=blueprint, mode=plan.mode, meter=meter, toolkit=toolkit, limit=limit, layout=layout)
    view = make_session_view(plan, turn, context, toolkit)
    runs = fit_stable(fill_stable(plan, view), inputs)
    policies = list_edit_policies(context)
    shared = [share_block(run, layout, policies, context) if run else None for run in runs]
    return StablePart(
        plan=plan,
        layout=layout,
        inputs=inputs,
        view=view,
        runs=runs,
        blocks=tuple([one and one[0] for one in shared]),
        snapshots=dict(filter(None, shared)),
    )


def share_block(
    run: FittedRun, layout: Layout, policies: Mapping[str, EditPolicy], context: AssemblyContext
) -> tuple[PromptBlock, Snapshots]:
    """Render a stable run and take its snapshots; all sessions share those of an equal static run."""
    block = render_run(run, layout)
    fitted = {one.item.id: one for one in run.items if isinstance(one, Fitted)}
    snapshots = take_snapshots(block, fitted, layout, policies)
    if run.pace is not Pace.STATIC:
        return block, snapshots
    key = (block.placement, block.text, block.spans, snapshots)
    return context.cached(key, lambda: (block, snapshots))


def list_edit_policies(context: AssemblyContext) -> dict[str, EditPolicy]:
    """Return the owner's policies for edits, by file."""
    return {entry.path: entry.edits for entry in context.config.prompt.files}


def list_stable_inputs(turn: Turn, context: AssemblyContext, blueprint: Blueprint) -> Hashable:
    """List the values that the stable part depends on, apart from the files: the key of its cache."""
    person = (turn.agent, context.characters(turn.agent), turn.user, turn.instructions, turn.client)
    place = (turn.channel, turn.room, turn.situation, turn.ceiling, turn.session, turn.host, turn.sandbox)
    work = (turn.project, turn.project_root, turn.directories)
    return blueprint, turn.model, turn.mode, turn.tools, turn.extensions, person, place, work
