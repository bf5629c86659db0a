"""The texts that ship with Foreword and stand where a workspace has no file of its own."""

from functools import cache

from foreword.shipped import read_shipped
from foreword.sources.document import parse_document


@cache
def read_builtin(name: str) -> str:
    """Return a built-in text without its front matter, or nothing if there is none of that name."""
    text = read_shipped("prompts", f"{name}.md")
    return parse_document(name, text).body if text else ""
