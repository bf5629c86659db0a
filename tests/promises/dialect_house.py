"""Shared helpers of the dialect tests: a served workspace, an in-process gateway, and the command line."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
for place in (TESTS, TESTS / "gateway", TESTS / "http"):
    if str(place) not in sys.path:
        sys.path.append(str(place))

from house import open_house, read_log, say  # noqa: E402 - found only with the paths above
from served import serve_workspace  # noqa: E402

from foreword.cli.main import main  # noqa: E402

__all__ = ["open_house", "read_log", "run", "say", "serve_workspace"]


def run(capsys, folder, *words):
    """Run a command in a folder, and return its exit code and its output."""
    code = main(["-w", str(folder), *words])
    printed = capsys.readouterr()
    return code, printed.out + printed.err
