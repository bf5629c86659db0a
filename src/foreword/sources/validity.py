"""Whether a text file can be used as what its name says it is: a template, or fields in front matter."""

import os
from collections.abc import Collection

from foreword.sources.document import parse_document
from foreword.sources.pattern import TemplateFault, compile_template

TEMPLATE = "SYSTEM.md"  # a template wherever it lies; other files are if the configuration says so
FIELDS = "IDENTITY.md"  # whose front matter is its content
ASIDE = (" and was ignored", ", so it is taken for text")  # what a note says of a file that is used all the same


def find_fault(path: str, text: str, templates: Collection[str]) -> str:
    """Say why a text cannot be used, with the line; empty where it can."""
    name = os.path.basename(path)
    if name == TEMPLATE or path in templates:
        document = parse_document(path, text)
        try:
            compile_template(document.body)
        except TemplateFault as fault:
            line = fault.below(document.first - 1).line  # the words of a fault may quote the file
            return f"is not a valid template{f' in line {line:,}' if line else ''} (foreword lint says why)"
    if name == FIELDS:
        document = parse_document(path, text)
        if document.note and not document.meta:
            note = document.note
            for words in ASIDE:
                note = note.removesuffix(words)
            return f"cannot be used: {note}"
    return ""
