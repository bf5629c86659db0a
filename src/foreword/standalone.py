"""Prompts without a workspace: one agent and one person, every text handed in by the caller.

Some dialects have functions with the signatures of their documents. They run the same flow as a workspace; all texts
come from arguments, and no workspace file is read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

from foreword.assemble import assemble
from foreword.blueprint import Blueprint, Slot
from foreword.blueprint import load as load_blueprint
from foreword.blueprint.condition import TOOL
from foreword.budget import Fitted
from foreword.config.people import User
from foreword.config.schema import Agent, Config, Identity
from foreword.errors import BudgetError, InputError
from foreword.shipped import read_blueprint
from foreword.sources import SOURCES
from foreword.sources.builtin import read_builtin
from foreword.sources.ground import Ground
from foreword.sources.text_files import NO_TEXTS, TextFiles
from foreword.tokens import Counter, Meter, find
from foreword.turn import Tool, Toolset, Turn
from foreword.words import Mode, Trust, Vocabulary

AGENT, USER = "assistant", "user"
TOOL_FIELD = re.compile(r"\{tool_(\w+)\}")
WINDOW_TOKENS = 2_000_000  # no window is known here, so texts are cut by their dialect's limits alone


def build_prompt(
    blueprint: str, turn: Turn, agent: Agent, texts: Mapping[str, str] = NO_TEXTS, *, native_tools: bool = False
) -> str:
    """Assemble a turn of the agent's owner in private, and return the prompt.

    Raise BudgetError if a section does not fit.
    """
    config = Config(owner=USER, agents={AGENT: agent}, users={USER: User(trust=Trust.FULL)})
    ground = Ground(config=config, files=TextFiles(texts), measure=measure_native if native_tools else measure)
    whole = replace(
        turn,
        agent=AGENT,
        user=USER,
        situation="dm",
        mode=turn.mode or Mode.FULL,
        now=turn.now or datetime.now(UTC),
    )
    assembly = assemble(whole, ground, load_dialect(blueprint))
    fitted = [one for run in assembly.fit.runs for one in run.items if isinstance(one, Fitted)]
    if lost := [f"{one.item.id}: {one.reason}" for one in fitted if one.tokens < one.wanted]:
        raise BudgetError(f"the prompt has no room for {'; '.join(lost)}")
    return assembly.prompt.text.strip()


def make_tools(tools: Sequence[Tool | str] | Toolset | None) -> Toolset:
    """Make a toolset of tools or of their names, each once, in the order that was given."""
    if isinstance(tools, str):
        raise InputError(f"tools are a list of names, not {tools!r}; a single one is [{tools!r}]")
    if isinstance(tools, Toolset):
        return tools
    made = [tool if isinstance(tool, Tool) else Tool(name=tool, trust=Trust.PUBLIC) for tool in tools or ()]
    return Toolset.in_order({tool.name: tool for tool in made}.values())


def make_identity(identity: Mapping[str, str] | None, names: Sequence[str]) -> Identity | None:
    """Take the fields that an identity may have; an empty mapping is no identity."""
    if not identity:
        return None
    if not isinstance(identity, Mapping):
        raise InputError(f"identity is a mapping with {', '.join(names[:-1])} and {names[-1]}, not {identity!r}")
    return Identity(**{name: str(identity.get(name) or "") for name in names})


@cache
def load_dialect(name: str) -> Blueprint:
    """Load a shipped blueprint with half of the large window for the prompt."""
    blueprint = load_blueprint(read_blueprint(name) or "", f"blueprints/{name}.yaml", SOURCES)
    half = WINDOW_TOKENS // 2
    return replace(
        blueprint,
        budget=replace(blueprint.budget, system=half, window_share=0.5, turn=half // 2),
        slots=tuple(map(name_memory_tools, blueprint.slots)),
    )


def name_memory_tools(slot: Slot) -> Slot:
    """Let a slot name the memory tools whether the caller lists them or not: its document requires that they exist."""
    form = TOOL_FIELD.sub(r"\1", read_builtin(slot.form)) or slot.form
    return replace(slot, form=form, when=tuple(one for one in slot.when if not one.startswith(TOOL)))


@cache
def measure(model: str) -> Meter:
    """Return the meter of a model that takes no tool schemas beside the prompt."""
    return make_meter(model, native_tools=False)


@cache
def measure_native(model: str) -> Meter:
    """Return the meter of a model that takes tool schemas beside the prompt."""
    return make_meter(model, native_tools=True)


def make_meter(model: str, *, native_tools: bool) -> Meter:
    """Make a meter for a large window; the name of the model is what the caller says."""
    return Meter(replace(find(model, {}), window=WINDOW_TOKENS, native_tools=native_tools), Counter(Vocabulary.O200K))
