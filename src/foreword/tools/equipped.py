"""The tools that an agent has in a gateway, as declarations: what a turn is offered can be shown without one."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from foreword.assembly import Assembly
from foreword.config.schema import Directory
from foreword.tools import BUILT_IN, DELEGATING, FILES, NOTIFYING, SCHEDULING, SKILLS, WITH_STATE
from foreword.tools.scheduling import CREATE, NOTIFY
from foreword.turn import Tool, Toolset
from foreword.words import Trust

BEYOND = (DELEGATING, SCHEDULING, NOTIFYING)
"""What the gateway itself runs, beside the tools that work in a workspace."""


def find_own(given: Iterable[Directory]) -> Toolset:
    """Find the tools that work in a workspace, for an agent with these directories; the same ones are one object."""
    return make_own(tuple(sorted({one.trust for one in given})))


def find_equipped(given: Iterable[Directory]) -> Toolset:
    """Find everything that an agent with these directories can call in a gateway, but the tools of servers."""
    return Toolset([*find_own(given).tools, *(tool for one in BEYOND for tool in one.tools)])


@lru_cache(maxsize=16)
def make_own(levels: tuple[Trust, ...]) -> Toolset:
    """Make them; those for files are for whoever may read in one of the directories, and without any there are none."""
    files = [open_to(tool, levels[0]) for tool in FILES.tools] if levels else []
    return Toolset([*WITH_STATE.tools, *SKILLS.tools, *files])


def open_to(tool: Tool, least: Trust) -> Tool:
    """Open a tool for files to those who may read in a directory."""
    return replace(tool, trust=max(tool.trust, least))


def equip_person(assembly: Assembly) -> Assembly:
    """Give a person the built-in tools that their clearance allows, whatever tools the agent's model can use."""
    allowed = BUILT_IN.allowed(assembly.clearance.level)
    toolkit = replace(assembly.terms.toolkit, tools=allowed)
    return replace(assembly, terms=replace(assembly.terms, toolkit=toolkit))


def find_useless(*, known: bool, planned: bool, reached: bool) -> frozenset[str]:
    """Name the tools that could do nothing in a turn: plans for a stranger or of a plan, notices that reach nobody.

    A person is reached where a notice arrives somewhere else than the reply.
    """
    if not known:
        return SCHEDULING.names | NOTIFYING.names
    return frozenset([*([CREATE] if planned else []), *([] if reached else [NOTIFY])])


@lru_cache(maxsize=256)
def leave_out(tools: Toolset, names: frozenset[str]) -> Toolset:
    """Leave some tools out; the same ones give the same object, so that no prompt is made anew for it."""
    return Toolset.in_order(tool for tool in tools.tools if tool.name not in names) if names else tools
