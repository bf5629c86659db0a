"""The texts that ship with Foreword and stand where a workspace has no file of its own."""

from functools import cache
from importlib.resources import files

from foreword.sources.document import parse_document


@cache
def read_builtin(name: str) -> str:
    """Return a built-in text without its front matter, or nothing if there is none of that name."""
    file = files("foreword") / "prompts" / f"{name}.md"
    return parse_document(name, file.read_text(encoding="utf-8")).body if file.is_file() else ""
