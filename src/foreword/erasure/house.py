"""A workspace as erasure needs it."""

from foreword.config.schema import Config
from foreword.frozen import frozen
from foreword.workspace import CONFIG, Workspace


@frozen
class House:
    """The folder of a workspace, that of its state, its configuration and the text of that."""

    root: str
    folder: str
    config: Config
    text: str = ""


def find_house(workspace: Workspace) -> House:
    """Find what erasure needs to know of a workspace."""
    text = workspace.files.read_text(CONFIG)
    known = text if isinstance(text, str) else ""
    return House(root=workspace.files.root, folder=workspace.state, config=workspace.config, text=known)
