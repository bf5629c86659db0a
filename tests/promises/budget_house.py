"""Shared helpers of the overlay, tool and small-window tests: a workspace in any dialect, for any model."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
for place in (TESTS, TESTS / "gateway", TESTS / "gateway" / "schedule"):
    if str(place) not in sys.path:
        sys.path.append(str(place))

from clockwork import open_clockwork  # noqa: E402 - found only with the paths above
from house import open_house, read_log, say  # noqa: E402

from foreword.assembly import Assembly  # noqa: E402
from foreword.gateway.gateway_tools import find_gateway_tools  # noqa: E402
from foreword.testing import NOON, make_workspace  # noqa: E402
from foreword.turn import Turn  # noqa: E402

__all__ = [
    "BLUEPRINTS",
    "GATEWAY_TOOLS",
    "assemble",
    "describe",
    "find_verdicts",
    "open_clockwork",
    "open_house",
    "read_log",
    "read_system",
    "say",
]

BLUEPRINTS = ("default", "coop", "moltis", "nova", "osa", "spec010")
GATEWAY_TOOLS = find_gateway_tools(())
CONFIG = """\
owner: alice
users: {{alice: {{trust: full}}, bob: {{trust: familiar}}}}
agents: {{reid: {{model: "{model}", blueprint: {blueprint}, identity: {{name: Reid}}}}}}
situations:
  group: {{ceiling: familiar, prompt_overlay: prompts/group.md}}
  system: {{ceiling: full, prompt_overlay: prompts/heartbeat.md}}
models: {{"{model}": {{{facts}}}}}
"""
FILES = {
    "SOUL.md": "You like a tidy ledger.\n",
    "IDENTITY.md": "---\nname: Reid\n---\n",
    "USER.md": "---\nname: Alice\n---\n",
    "prompts/group.md": "Speak to all of them.\n",
    "prompts/heartbeat.md": "Report due items only.\n",
    "channels/telegram.md": "Two lines at most.\n",
}
LONG = {"AGENTS.md": "Check the ledger before you answer.\n" * 1_500}


def describe(blueprint: str, facts: str = "window: 200000", model: str = "anthropic:claude-sonnet-5") -> dict[str, str]:
    """Return the files of a workspace whose agent uses a dialect and a model with these facts."""
    return {"foreword.yaml": CONFIG.format(blueprint=blueprint, facts=facts, model=model), **FILES}


def assemble(
    folder: Path, blueprint: str, facts: str = "window: 200000", *, long: bool = False, **turn: object
) -> Assembly:
    """Assemble a turn of alice with all tools of a gateway."""
    files = {**describe(blueprint, facts), **(LONG if long else {})}
    given = {"user": "alice", "situation": "dm", "tools": GATEWAY_TOOLS, "now": NOON, **turn}
    return make_workspace(folder, files).assemble(Turn(**given))


def find_verdicts(assembly: Assembly) -> dict[str, str]:
    """Return the verdict of every slot."""
    return {row.id: str(row.verdict) for row in assembly.rows()}


def read_system(body: dict) -> str:
    """Return the system part of a request to Anthropic."""
    return "\n".join(part["text"] for part in body["system"])
