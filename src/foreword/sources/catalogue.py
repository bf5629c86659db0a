"""Sources that list what the agent can use: tools, skills, and the memory menu."""

from functools import lru_cache

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.document import Document, Trouble, escape_attribute, escape_markup, one_line
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, write_line
from foreword.sources.texts import UNFOUND, round_tokens
from foreword.sources.view import SessionView, StaticView
from foreword.tokens import Meter
from foreword.turn import Tool, Toolset
from foreword.words import Pace

DESCRIPTION = 160  # characters of a tool's description; its schema travels beside the prompt


@source("tool_list", Pace.STATIC)
def list_tools(view: StaticView, entry: Planned) -> Item:
    """List the tools that this clearance may know of, one line each."""
    if not view.tools:
        return Missing(entry=entry, reason="the turn has no tools")
    return Section(entry=entry, text=show_tools(view.tools), origin="tools")


def show_tools(tools: Toolset) -> str:
    """Show tools one line each; their schemas travel beside the prompt."""
    return "\n".join(f"- {tool.name}: {shorten_description(tool)}".rstrip(": ") for tool in tools.tools)


@source("tool_guidance", Pace.STATIC)
def guide_tools(view: StaticView, entry: Planned) -> Item:
    """Say once per class of tools how to use them well."""
    kinds: dict[str, list[str]] = {}
    for tool in view.tools.tools:
        kinds.setdefault(tool.kind, []).append(tool.name)
    lines = [
        f"- {', '.join(names)}: {one_line(text)}"
        for kind, names in sorted(kinds.items())
        if kind and (text := read_builtin(f"tools/{kind}"))
    ]
    if not lines:
        return Missing(entry=entry, reason="the turn has no tools that need guidance")
    return Section(entry=entry, text="\n".join(lines), origin="built-in tools")


@source("skills", Pace.STATIC)
def list_skills(view: StaticView, entry: Planned) -> Item:
    """List the skills of the workspace, each with what it is for."""
    blocks: list[str] = []
    troubles: list[str] = []
    for path in view.files.list(entry.folder, "SKILL.md"):
        match view.files.read(path):
            case Document() as document:
                blocks.append(show_skill(path.removesuffix("/SKILL.md"), document))
            case trouble:
                troubles.append(f"{path} {trouble.reason if trouble else UNFOUND}")
    if not blocks:
        return Missing(entry=entry, reason="; ".join(troubles) or "there are no skills")
    text = "\n".join(["<available_skills>", *blocks, "</available_skills>"])
    if "memory_get" in view.tools:
        text += '\nRead a skill before you use it, by its path: memory_get("PATH/SKILL.md").'
    return Section(entry=entry, text=text, origin=entry.folder, note="; ".join(troubles))


@lru_cache(maxsize=4_096)
def show_skill(folder: str, document: Document) -> str:
    """Show one skill as the listing has it; a skill without a description is known by its name alone."""
    name = document.field("name") or folder.rpartition("/")[2]
    lines = [f'<skill name="{escape_attribute(name)}" source="skill" path="{escape_attribute(folder)}">']
    if description := document.field("description"):
        lines.append(escape_markup(one_line(description)))
    return "\n".join([*lines, "</skill>"])


@source("menu", Pace.SESSION)
def list_memory(view: SessionView, entry: Planned) -> Item:
    """List the memories that this clearance may load, each with its price; the budget may add to it."""
    if "memory_get" not in view.static.tools:
        return Missing(entry=entry, reason="the turn has no memory_get to load anything with")
    closing = read_builtin("menu/search" if "memory_search" in view.static.tools else "menu/load")
    if entry.text:
        closing = f"{read_builtin(entry.text).replace('$remaining', round_tokens(view.static.beyond))} {closing}"
    lines, troubles = find_memories(view.static)
    return Section(
        entry=entry,
        text=closing,
        origin="memory",
        title=f"Available Memory (trust: {view.static.clearance})",
        lines=tuple(lines),
        note="; ".join(troubles),
    )


def find_memories(view: StaticView) -> tuple[list[str], list[str]]:
    """Price every file of the stores that the clearance may see, and say what cannot be read; others are not opened."""
    lines: list[str] = []
    troubles: list[str] = []
    for store, settings in sorted(view.stores.items()):
        for path in view.files.list(f"memory/{store}") if view.clearance >= settings.trust else ():
            match view.files.read(path):
                case Document() as document if document.body:
                    lines.append(price_memory(document, view.meter))
                case Trouble() as trouble:
                    troubles.append(f"{path} {trouble.reason}")
                case None:
                    troubles.append(f"{path} {UNFOUND}")
    return lines, troubles


@lru_cache(maxsize=8_192)
def price_memory(document: Document, meter: Meter) -> str:
    """Price one memory, once for as long as it does not change; unreviewed words of others are not repeated."""
    store, _, rest = document.path.removeprefix("memory/").partition("/")
    author = rest.split("/")[1] if rest.startswith("inbox/") and rest.count("/") > 1 else ""
    description = f"unreviewed, from {author}" if author else document.description
    return write_line(f"{store}/{rest}", meter.count(document.body), description)


def shorten_description(tool: Tool) -> str:
    """Keep a tool's description within its limit."""
    text = one_line(tool.description)
    return text if len(text) <= DESCRIPTION else text[:DESCRIPTION] + "..."
