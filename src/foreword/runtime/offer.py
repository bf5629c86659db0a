"""What a server of tools offers and answers, as ours: text from outside, bounded and scanned."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from foreword.config.schema import Server
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.runtime.connection import LONGEST_REASON, Listing
from foreword.runtime.failing import ToolFailed
from foreword.sources.document import normalise, one_line
from foreword.sources.injection import scan
from foreword.turn import Extension, Tool

if TYPE_CHECKING:
    import mcp_types

LONGEST_NAME = 64  # characters; no provider takes more
LONGEST_DESCRIPTION = 1_024
LONGEST_SCHEMA = 20_000
LONGEST_INSTRUCTIONS = 8_000
LONGEST_ANSWER = 400_000  # characters that are read of an answer; the model sees fewer
GRACE = 30.0  # seconds to start a server again before a call
LONGEST_SERVER = 32
LONGEST_URI = 2_000
READ = "read_resource"
SIGN = re.compile(r"[^A-Za-z0-9_-]+")
LINE_OF_LINK = re.compile(r"^(?=\(linked: )", re.MULTILINE)


@frozen
class Offer:
    """The tools of one server under our names, what each is called there, its words, and what was left out."""

    tools: tuple[Tool, ...]
    originals: Mapping[str, str]
    extension: Extension | None
    faults: tuple[str, ...]
    reader: str = ""
    """Our tool that reads the resources of the server; nothing if it has none."""


def make_offer(name: str, server: Server, listing: Listing, reserved: Collection[str]) -> Offer:
    """Take what a server offers, in the order of the names."""
    taken = set(reserved)
    tools: list[Tool] = []
    originals: dict[str, str] = {}
    faults = [
        f"it has no tool {wanted!r}" for wanted in server.tools if wanted not in {one.name for one in listing.tools}
    ]
    for found in sorted(listing.tools, key=lambda one: one.name):
        if server.tools and found.name not in server.tools:
            continue
        if found.execution and found.execution.task_support == "required":
            faults.append(f"its tool {found.name!r} runs only as a task, which is not supported, so it is not offered")
            continue
        ours = make_name(name, found.name, taken)
        try:
            tools.append(make_tool(ours, server, found))
        except InputError as error:
            faults.append(str(error))
            continue
        taken.add(ours)
        originals[ours] = found.name
    reader = make_name(name, READ, taken) if listing.resources and tools else ""
    if reader:
        tools.append(make_reader(reader, name, server))
    words = normalise(listing.instructions)[:LONGEST_INSTRUCTIONS].strip()
    extension = Extension(name=name, instructions=words, trust=server.trust) if words else None
    return Offer(tools=tuple(tools), originals=originals, extension=extension, faults=tuple(faults), reader=reader)


def make_tool(name: str, server: Server, found: "mcp_types.Tool") -> Tool:
    """Make a tool of ours from one of a server; raise InputError for what no model could be told."""
    schema = make_schema(found.input_schema)
    if len(json.dumps(schema, default=str)) > LONGEST_SCHEMA:
        raise InputError(f"the parameters of {name} have more than {LONGEST_SCHEMA:,} characters")
    harmless = bool(found.annotations and found.annotations.read_only_hint)
    return Tool(
        name=name,
        description=describe(found.description or found.title or ""),
        parameters=schema,
        trust=server.trust,
        kind="mcp",
        changes=not (harmless and server.confirm == "changes"),
        confirm=server.confirm != "never",
        seconds=server.seconds + GRACE,
    )


def make_reader(name: str, owner: str, server: Server) -> Tool:
    """Make the tool that reads a resource which a tool of the same server has linked."""
    return Tool(
        name=name,
        description=f"Read a resource that a tool of {owner} has linked in this conversation.",
        parameters={
            "type": "object",
            "properties": {
                "uri": {"type": "string", "maxLength": LONGEST_URI, "description": "The address as linked."}
            },
            "required": ["uri"],
            "additionalProperties": False,
        },
        trust=server.trust,
        kind="mcp",
        seconds=server.seconds + GRACE,
    )


def extend(name: str, server: Server, offer: Offer, current: Offer) -> Offer:
    """Add to the words of a server what has changed since the conversation with this offer was begun."""
    change = describe_change(offer, current)
    if not change:
        return offer
    words = "\n\n".join(filter(None, (offer.extension.instructions if offer.extension else "", change)))
    return replace(offer, extension=Extension(name=name, instructions=words, trust=server.trust))


def describe_change(offer: Offer, current: Offer) -> str:
    """Say which tools a conversation with an earlier list does not have yet, and which are gone."""
    had, has = set(offer.originals), set(current.originals)
    parts = []
    if new := sorted(has - had):
        parts.append(f"It has new tools, which can be called from the next conversation on: {', '.join(new)}.")
    if gone := sorted(had - has):
        parts.append(f"It has no longer: {', '.join(gone)}.")
    return " ".join(parts)


def make_schema(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take a schema of parameters; the parts that everything relies on are of their kind, or left out."""
    schema = {**written, "type": "object"}
    properties, required = schema.get("properties"), schema.get("required")
    schema["properties"] = properties if isinstance(properties, Mapping) else {}
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        schema.pop("required", None)
    return schema


def describe(text: str) -> str:
    """Take a description on one line; one that speaks to the model in another's name is left out."""
    line = one_line(normalise(text).replace("\0", ""))[:LONGEST_DESCRIPTION]
    kinds = sorted({str(hit.kind) for hit in scan(text)})
    return f"(its description was left out: a scan found {', '.join(kinds)})" if kinds else line


def make_name(server: str, tool: str, taken: Collection[str]) -> str:
    """Make a name that providers take and that no other tool has; it is the same for the same server and tool."""
    plain = SIGN.sub("_", f"{server}_{tool}")
    mark = sha256(f"{server}\0{tool}".encode(errors="replace")).hexdigest()[:8]
    if len(plain) > LONGEST_NAME or plain in taken:
        plain = f"{plain[: LONGEST_NAME - len(mark) - 1]}_{mark}"
    return plain


def name_servers(servers: Sequence[Server]) -> Iterator[str]:
    """Name servers before they have started: as configured, else by the last word of the command, or the host."""
    seen: set[str] = set()
    for server in servers:
        last = next((word for word in reversed(server.command) if not word.startswith("-")), "")
        host = server.url.partition("//")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
        stem = last.rstrip("/").rpartition("/")[2].partition("@")[0].removesuffix(".py")
        name = make_distinct(clean_name(server.name or stem or host) or "server", seen)
        seen.add(name)
        yield name


def choose_name(server: Server, listing: Listing, before: str, taken: Collection[str]) -> str:
    """Choose what the tools of a server begin with: its configured name, else its own, else the one before.

    Its own name is text from outside: it is made safe, and one that a scan objects to is not used.
    """
    own = "" if scan(listing.name) else clean_name(listing.name)
    return make_distinct(before if server.name else own or before, taken)


def clean_name(text: str) -> str:
    """Make a name of a server safe."""
    return SIGN.sub("_", text).strip("_")[:LONGEST_SERVER]


def make_distinct(base: str, taken: Collection[str]) -> str:
    """Number a name that another server has already."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return name


def list_links(result: "mcp_types.CallToolResult") -> list[str]:
    """List the addresses of the resources that an answer links."""
    found = (getattr(part, "uri", None) for part in result.content if getattr(part, "type", "") == "resource_link")
    return [str(uri) for uri in found if uri and len(str(uri)) <= LONGEST_URI]


def read_resource(result: "mcp_types.ReadResourceResult") -> str:
    """Read a resource as a text; what is none is named with its kind and size."""
    return bound("\n".join(show_part(part) for part in result.contents)) or "(empty)"


def show_link(reader: str, uri: str) -> str:
    """Show a linked resource as the line with the call that reads it."""
    return f"(linked: {reader}({json.dumps({'uri': uri}, ensure_ascii=False)}) reads it)"


def bound(text: str) -> str:
    """Cut a text that is longer than anybody reads, and say so."""
    return text if len(text) <= LONGEST_ANSWER else f"{text[:LONGEST_ANSWER]}\n(cut: {len(text):,} characters)"


def read_answer(result: "mcp_types.CallToolResult", reader: str = "") -> str:
    """Return the text of a tool's answer; other content is named with its kind and size.

    Raise ToolFailed where the server marks the answer as an error.
    """
    parts = [show_part(part, reader) for part in result.content]
    if not any(parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, default=str)]
    text = bound("\n".join(parts))
    if result.is_error:
        raise ToolFailed(text[:LONGEST_REASON] or "the server gave no reason")
    return text


def show_part(part: Any, reader: str = "") -> str:
    """Show one part of an answer; a linked resource with the call that reads it."""
    resource = getattr(part, "resource", None)
    text = getattr(part, "text", None) or getattr(resource, "text", None)
    if isinstance(text, str):
        return LINE_OF_LINK.sub("> ", normalise(text))  # only a resource_link makes a line that counts as a link
    data = getattr(part, "data", None) or getattr(resource, "blob", None)
    kind = one_line(str(getattr(part, "mime_type", None) or getattr(resource, "mime_type", None) or "data"))[:100]
    if isinstance(data, str):
        return f"({kind}, about {len(data) * 3 // 4:,} bytes, which are not shown)"
    address = str(getattr(part, "uri", None) or "")
    if reader and address and len(address) <= LONGEST_URI:
        return show_link(reader, address)
    return f"(see {one_line(address)[:500]})" if address else ""
