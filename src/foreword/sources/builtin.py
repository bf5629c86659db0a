"""The texts that ship with Foreword and stand where a workspace has no file of its own."""

from functools import cache

from foreword.shipped import list_prompts, read_shipped
from foreword.sources.document import parse_document


def read_builtin(name: str) -> str:
    """Return a built-in text without its front matter, or nothing if there is none of that name."""
    return read_prompt(name) if name in list_prompts() else ""


@cache
def read_prompt(name: str) -> str:
    """Read a built-in text that exists."""
    return parse_document(name, read_shipped("prompts", f"{name}.md") or "").body
