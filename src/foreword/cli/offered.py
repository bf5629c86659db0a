"""The tools that a turn would be offered in a gateway, found without one: nothing is started, asked or written."""

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreword.assembly import Assembly
    from foreword.config import Config
    from foreword.turn import Tool, Toolset
    from foreword.workspace import Workspace


def find_offered(args: Namespace, workspace: "Workspace", user: str, further: "tuple[Tool, ...]" = ()) -> "Toolset":
    """Find what a turn is offered: the tools of its agent that can do something in it, and further ones."""
    from foreword.tools.equipped import find_equipped, find_useless, leave_out
    from foreword.turn import Toolset

    config = workspace.config
    agent = config.agents.get(args.agent or next(iter(config.agents)))
    reached = bool(find_reaching(args, workspace, user))
    useless = find_useless(known=user in config.users, planned=args.background is not None, reached=reached)
    own = leave_out(find_equipped(agent.folders if agent else ()), useless)
    return Toolset([*own.tools, *further]) if further else own


def find_reaching(args: Namespace, workspace: "Workspace", user: str) -> set[str]:
    """Find the channels of `serve` on which a notice reaches a person elsewhere than the reply; `chat` has none."""
    config = workspace.config
    served = {"telegram"} if config.telegram else set()
    if not served or (args.channel == "terminal" and args.background is None):
        return set()
    here = () if args.room else served if args.background in ("always", "as_needed") else (args.channel,)
    return (find_private(workspace, user) & served).difference(here)


def find_private(workspace: "Workspace", user: str) -> set[str]:
    """Find the channels on which a person has a private address: by the configuration, or because they were paired."""
    from foreword.store.reader import StateReader

    config = workspace.config
    if user not in config.users:
        return set()
    reader = StateReader(workspace.state)
    try:
        taken = {identity for name, one in config.users.items() if name != user for identity in one.identities}
        paired = [identity for identity in reader.list_paired(user) if identity not in taken]
    finally:
        reader.close()
    return {identity.partition(":")[0] for identity in (*config.users[user].identities, *paired)}


def name_uncounted(assembly: "Assembly", config: "Config") -> str:
    """Say which servers' tools are not in the prompt, since nobody has asked them what they offer."""
    agent = config.agents[assembly.turn.agent]
    if not agent.mcp or not assembly.turn.tools:
        return ""
    from foreword.runtime.offer import name_servers

    servers = zip(name_servers(agent.mcp), agent.mcp, strict=True)
    names = [name for name, server in servers if server.trust <= assembly.clearance.level]
    if not names:
        return ""
    several = "" if len(names) == 1 else "s"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"the tools of the MCP server{several} {listed} are not counted; a server is asked when a turn runs"
