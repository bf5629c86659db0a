"""Tools for the directories that an agent was given: list, read, search and write.

What runs them is in `foreword.tools.filing`, which is imported when one of them is called.
"""

from collections.abc import Mapping
from typing import Any

from foreword.tools.reading import LINES
from foreword.turn import Tool, Toolset
from foreword.words import Trust

PATH: Mapping[str, Any] = {"type": "string"}


def make_parameters(needed: tuple[str, ...], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make the parameters of a tool."""
    return {"type": "object", "properties": properties, "required": list(needed)}


LISTING = Tool(
    name="list_files",
    description="List a directory that you were given, or a folder in it.",
    parameters=make_parameters(
        (),
        path={**PATH, "description": "The folder; all that you were given if left out."},
        **{"from": {"type": "integer", "minimum": 1, "description": "The first entry to show, counted from 1."}},
    ),
    trust=Trust.INNER,
    kind="files",
    seconds=15,
)
READING_FILES = Tool(
    name="read_file",
    description="Read a text file in a directory that you were given, or a part of it.",
    parameters=make_parameters(("path",), path={**PATH, "description": "The file, as list_files shows it."}, **LINES),
    trust=Trust.INNER,
    kind="files",
    seconds=15,
)
SEARCHING = Tool(
    name="search_files",
    description="Find files that have these words in their names or lines, whatever the case.",
    parameters=make_parameters(
        ("text",),
        text={"type": "string", "description": "The words to look for, as they stand in the file."},
        path={**PATH, "description": "The folder to look in; all that you were given if left out."},
    ),
    trust=Trust.INNER,
    kind="files",
    seconds=30,
)
WRITING = Tool(
    name="write_file",
    description="Write a text file in a directory that you were given. To replace one, read it and name its sha256.",
    parameters=make_parameters(
        ("path", "text"),
        path={**PATH, "description": "The file; folders that are missing are made."},
        text={"type": "string", "description": "The whole text of the file."},
        sha256={"type": "string", "description": "That of the file to be replaced, as read_file shows it."},
    ),
    trust=Trust.FULL,
    kind="files",
    changes=True,
    seconds=30,
)

FILES = Toolset([LISTING, READING_FILES, SEARCHING, WRITING])
