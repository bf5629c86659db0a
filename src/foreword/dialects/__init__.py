"""The prompt functions of three dialects, with the signatures of their documents and without a workspace.

This module has what they share: one agent and one user, with every text passed by the caller.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial

from foreword.assemble import assemble
from foreword.config.schema import Agent, Config, Identity, User
from foreword.engine.blueprint import TOOL_PREFIX, Blueprint, Slot
from foreword.engine.blueprint_file import load_blueprint
from foreword.engine.context import AssemblyContext
from foreword.engine.cuts import Fitted
from foreword.engine.sources.documents import read_builtin
from foreword.engine.sources.files import NO_TEXTS, TextFiles
from foreword.errors import BudgetError, InputError
from foreword.resources import read_blueprint
from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import find_model
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Mode, Trust, Vocabulary

AGENT, USER = "assistant", "user"
TOOL_FIELD = re.compile(r"\{tool_(\w+)\}")
WINDOW_TOKENS = 2_000_000  # the window is unknown here, so only the dialect's limits cut texts


def build_prompt(
    blueprint: str, turn: Turn, agent: Agent, texts: Mapping[str, str] = NO_TEXTS, *, native_tools: bool = False
) -> str:
    """Assemble a private turn of the agent's owner, and return the prompt.

    Raise BudgetError if a section does not fit.
    """
    config = Config(owner=USER, agents={AGENT: agent}, users={USER: User(trust=Trust.FULL)})
    measure = partial(make_meter, native_tools=native_tools)
    context = AssemblyContext(config=config, files=TextFiles(texts), measure=measure)
    now, mode = turn.now or datetime.now(UTC), turn.mode or Mode.FULL
    private = replace(turn, agent=AGENT, user=USER, situation="dm", mode=mode, now=now)
    assembly = assemble(private, context, load_dialect(blueprint))
    fitted = [item for run in assembly.fit.runs for item in run.items if isinstance(item, Fitted)]
    if lost := [f"{item.item.id}: {item.reason}" for item in fitted if item.tokens < item.wanted]:
        raise BudgetError(f"the prompt has no room for {'; '.join(lost)}")
    return assembly.prompt.text.strip()


def make_tools(tools: Sequence[Tool | str] | Toolset | None) -> Toolset:
    """Build a toolset from tools or names, without duplicates, in the given order."""
    if isinstance(tools, str):
        raise InputError(f"tools must be a list of names, not {tools!r}; use [{tools!r}]")
    if isinstance(tools, Toolset):
        return tools
    made = [tool if isinstance(tool, Tool) else Tool(name=tool, trust=Trust.PUBLIC) for tool in tools or ()]
    return Toolset.in_order({tool.name: tool for tool in made}.values())


def make_identity(identity: Mapping[str, str] | None, names: Sequence[str]) -> Identity | None:
    """Build an identity from the fields it may have; an empty mapping is None."""
    if not identity:
        return None
    if not isinstance(identity, Mapping):
        raise InputError(f"identity must be a mapping with {', '.join(names[:-1])} and {names[-1]}, not {identity!r}")
    return Identity(**{name: str(identity.get(name) or "") for name in names})


@cache
def load_dialect(name: str) -> Blueprint:
    """Load a shipped blueprint and give half of the large window to the prompt."""
    blueprint = load_blueprint(read_blueprint(name) or "", f"blueprints/{name}.yaml")
    half = WINDOW_TOKENS // 2
    return replace(
        blueprint,
        budget=replace(blueprint.budget, system=half, window_share=0.5, turn=half // 2),
        slots=tuple(map(name_memory_tools, blueprint.slots)),
    )


def name_memory_tools(slot: Slot) -> Slot:
    """Let a slot always name the memory tools, listed or not: its document requires that they exist."""
    form = TOOL_FIELD.sub(r"\1", read_builtin(slot.form)) or slot.form
    return replace(slot, form=form, when=tuple(name for name in slot.when if not name.startswith(TOOL_PREFIX)))


@cache
def make_meter(model: str, *, native_tools: bool) -> Meter:
    """Make a meter with a large window for the caller's model, with or without native tool schemas."""
    facts = replace(find_model(model, {}), window=WINDOW_TOKENS, native_tools=native_tools)
    return Meter(facts, Counter(Vocabulary.O200K))
