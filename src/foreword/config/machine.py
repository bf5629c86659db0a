"""Settings about the machine that an agent works on: what commands may do there, and how they are confined."""

from foreword.frozen import frozen


@frozen(eq=True)
class HostSettings:
    """Host facts that cannot be detected, or should not be."""

    sudo: bool | None = None
    """Whether sudo works without a password. If left out: yes for root, otherwise unknown and not shown."""
    timezone: str = ""
    """The zone of people and rooms that have none, such as Europe/Paris; if left out, that of the machine."""


@frozen(eq=True)
class SandboxSettings:
    """How tool commands are sandboxed. Shown to the agent; not enforced."""

    enabled: bool = True
    """Whether commands run in the sandbox."""
    mode: str = ""
    """Which commands do, such as all."""
    backend: str = ""
    """What confines them, such as docker."""
    scope: str = ""
    """How long one sandbox lives, such as session."""
    image: str = ""
    """What it is made from."""
    workspace_mount: str = ""
    """How it sees the workspace, such as ro."""
    network: str = ""
    """Whether it reaches the network, such as disabled."""
