"""A gateway whose agent uses the coop dialect, with a fake provider, an MCP server and a manual clock."""

import json
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
for place in (TESTS, TESTS / "promises", TESTS / "gateway", TESTS / "gateway" / "schedule"):
    if str(place) not in sys.path:
        sys.path.append(str(place))

from clockwork import open_clockwork  # noqa: E402 - found only with the paths above
from recorded_house import read_events, run_house, say  # noqa: E402

from foreword.testing import ScriptedCall, ScriptedReply  # noqa: E402
from waiting import until  # noqa: E402

__all__ = ["CONFIG", "call", "configure", "open_clockwork", "read_events", "read_results", "run_house", "say", "until"]

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: coop}}
users: {alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}, bob: {trust: familiar}}
"""
SERVER = """\
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
server = MCPServer("box", instructions="Open gently.")
@server.tool()
def bash(command: str) -> str:
    "Run a command."
    return "a.txt"
@server.tool()
def burn() -> str:
    "Fail."
    raise ToolError("the printer is on fire")
server.run("stdio")
"""


def configure(more: str = "") -> str:
    """Write a configuration whose agent has an MCP server that needs no approval."""
    mcp = [{"name": "box", "command": [sys.executable, "-c", SERVER], "confirm": "never"}]
    return CONFIG.replace("blueprint: coop", f"blueprint: coop, mcp: {json.dumps(mcp)}") + more


def call(name: str, /, **arguments: object) -> ScriptedReply:
    """Make a model reply that calls one tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


def read_results(body: dict) -> list[str]:
    """Return the tool results of a request to Anthropic, in order."""
    parts = [part for message in body["messages"] for part in message["content"] if isinstance(part, dict)]
    return [str(part["content"][0]["text"]) for part in parts if part.get("type") == "tool_result"]
