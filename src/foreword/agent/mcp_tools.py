"""Tools and answers of MCP servers as our own types; text from servers is limited and scanned."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from foreword.agent.mcp_connection import MAX_REASON_CHARS, ServerListing
from foreword.config.schema import McpServer
from foreword.engine.sources.documents import join_lines, normalise_lines
from foreword.engine.sources.injection import scan_injections
from foreword.errors import InputError, ToolError
from foreword.turn import Extension, Tool
from foreword.types import frozen

if TYPE_CHECKING:
    import mcp_types


MAX_TOOL_NAME_CHARS = 64  # characters; providers accept no more
MAX_DESCRIPTION_CHARS = 1_024
MAX_SCHEMA_CHARS = 20_000
MAX_INSTRUCTIONS_CHARS = 8_000
MAX_ANSWER_CHARS = 400_000  # characters read of an answer; the model gets fewer
RESTART_GRACE_S = 30.0  # seconds to restart a server before a call
MAX_SERVER_NAME_CHARS = 32
MAX_URI_CHARS = 2_000
RESOURCE_TOOL = "read_resource"
INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]+")
LINK_LINE = re.compile(r"^(?=\(linked: )", re.MULTILINE)


@frozen
class ServerTools:
    """The tools of one server under our names, their original names, its instructions, and its faults."""

    tools: tuple[Tool, ...]
    originals: Mapping[str, str]
    extension: Extension | None
    faults: tuple[str, ...]
    reader: str = ""
    """Our tool that reads the resources of the server; empty if it has none."""


def make_server_tools(name: str, server: McpServer, listing: ServerListing, reserved: Collection[str]) -> ServerTools:
    """Make an offer from a tool list, in the order of the tool names."""
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
        ours = make_tool_name(name, found.name, taken)
        try:
            tools.append(convert_tool(ours, server, found))
        except InputError as error:
            faults.append(str(error))
            continue
        taken.add(ours)
        originals[ours] = found.name
    reader = make_tool_name(name, RESOURCE_TOOL, taken) if listing.resources and tools else ""
    if reader:
        tools.append(make_resource_tool(reader, name, server))
    words = normalise_lines(listing.instructions)[:MAX_INSTRUCTIONS_CHARS].strip()
    extension = Extension(name=name, instructions=words, trust=server.trust) if words else None
    return ServerTools(
        tools=tuple(tools), originals=originals, extension=extension, faults=tuple(faults), reader=reader
    )


def convert_tool(name: str, server: McpServer, found: "mcp_types.Tool") -> Tool:
    """Convert a server's tool; raise InputError if its schema is too long."""
    schema = clean_schema(found.input_schema)
    if len(json.dumps(schema, default=str)) > MAX_SCHEMA_CHARS:
        raise InputError(f"the parameters of {name} have more than {MAX_SCHEMA_CHARS:,} characters")
    harmless = bool(found.annotations and found.annotations.read_only_hint)
    return Tool(
        name=name,
        description=clean_description(found.description or found.title or ""),
        parameters=schema,
        trust=server.trust,
        kind="mcp",
        changes=not (harmless and server.confirm == "changes"),
        confirm=server.confirm != "never",
        seconds=server.seconds + RESTART_GRACE_S,
    )


def make_resource_tool(name: str, owner: str, server: McpServer) -> Tool:
    """Make the tool that reads a resource linked by a tool of the same server."""
    return Tool(
        name=name,
        description=f"Read a resource that a tool of {owner} has linked in this conversation.",
        parameters={
            "type": "object",
            "properties": {
                "uri": {"type": "string", "maxLength": MAX_URI_CHARS, "description": "The address as linked."}
            },
            "required": ["uri"],
            "additionalProperties": False,
        },
        trust=server.trust,
        kind="mcp",
        seconds=server.seconds + RESTART_GRACE_S,
    )


def add_change_note(name: str, server: McpServer, offer: ServerTools, current: ServerTools) -> ServerTools:
    """Add the changes since the start of the conversation to the server's instructions."""
    had, has = set(offer.originals), set(current.originals)
    words = [offer.extension.instructions] if offer.extension else []
    change = []
    if new := sorted(has - had):
        change.append(f"It has new tools, which can be called from the next conversation on: {', '.join(new)}.")
    if gone := sorted(had - has):
        change.append(f"It has no longer: {', '.join(gone)}.")
    if not change:
        return offer
    text = "\n\n".join([*words, " ".join(change)])
    return replace(offer, extension=Extension(name=name, instructions=text, trust=server.trust))


def clean_schema(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a valid parameter schema; drop `properties` and `required` of a wrong type."""
    schema = {**written, "type": "object"}
    properties, required = schema.get("properties"), schema.get("required")
    schema["properties"] = properties if isinstance(properties, Mapping) else {}
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        schema.pop("required", None)
    return schema


def clean_description(text: str) -> str:
    """Return a description on one line; replace it if the injection scan objects."""
    line = join_lines(normalise_lines(text).replace("\0", ""))[:MAX_DESCRIPTION_CHARS]
    kinds = sorted({str(hit.kind) for hit in scan_injections(text)})
    return f"(its description was left out: a scan found {', '.join(kinds)})" if kinds else line


def make_tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """Return a valid, unique tool name; stable for the same server and tool."""
    plain = INVALID_NAME_CHARS.sub("_", f"{server}_{tool}")
    mark = sha256(f"{server}\0{tool}".encode(errors="replace")).hexdigest()[:8]
    if len(plain) > MAX_TOOL_NAME_CHARS or plain in taken:
        plain = f"{plain[: MAX_TOOL_NAME_CHARS - len(mark) - 1]}_{mark}"
    return plain


def name_servers(servers: Sequence[McpServer]) -> Iterator[str]:
    """Name servers before they start: by configuration, else by the last word of the command or the host."""
    seen: set[str] = set()
    for server in servers:
        last = next((word for word in reversed(server.command) if not word.startswith("-")), "")
        host = server.url.partition("//")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
        stem = last.rstrip("/").rpartition("/")[2].partition("@")[0].removesuffix(".py")
        name = number_name(clean_server_name(server.name or stem or host) or "server", seen)
        seen.add(name)
        yield name


def choose_server_name(server: McpServer, listing: ServerListing, before: str, taken: Collection[str]) -> str:
    """Return the tool name prefix of a server: its configured name, else its reported name, else the previous one.

    The reported name is untrusted text: it is sanitized, and not used if the injection scan objects.
    """
    own = "" if scan_injections(listing.name) else clean_server_name(listing.name)
    return number_name(before if server.name else own or before, taken)


def clean_server_name(text: str) -> str:
    """Sanitize a server name."""
    return INVALID_NAME_CHARS.sub("_", text).strip("_")[:MAX_SERVER_NAME_CHARS]


def number_name(base: str, taken: Collection[str]) -> str:
    """Append a number to a name that is taken."""
    name, number = base, 2
    while name in taken:
        name, number = f"{base}{number}", number + 1
    return name


def list_links(result: "mcp_types.CallToolResult") -> list[str]:
    """List the URIs of the resources that an answer links."""
    found = (getattr(part, "uri", None) for part in result.content if getattr(part, "type", "") == "resource_link")
    return [str(uri) for uri in found if uri and len(str(uri)) <= MAX_URI_CHARS]


def read_resource(result: "mcp_types.ReadResourceResult") -> str:
    """Return a resource as text; binary content is described by type and size."""
    return join_parts([render_content(part) for part in result.contents]) or "(empty)"


def join_parts(parts: Sequence[str]) -> str:
    """Join the parts of an answer; truncate a long one and add a note."""
    text = "\n".join(parts)
    return text if len(text) <= MAX_ANSWER_CHARS else f"{text[:MAX_ANSWER_CHARS]}\n(cut: {len(text):,} characters)"


def render_link(reader: str, uri: str) -> str:
    """Return the line that shows a linked resource with the call that reads it."""
    return f"(linked: {reader}({json.dumps({'uri': uri}, ensure_ascii=False)}) reads it)"


def read_answer(result: "mcp_types.CallToolResult", reader: str = "") -> str:
    """Return the text of a tool's answer; other content is described by type and size.

    Raise ToolError if the server marks the answer as an error.
    """
    parts = [render_content(part, reader) for part in result.content]
    if not any(parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, default=str)]
    text = join_parts(parts)
    if result.is_error:
        raise ToolError(text[:MAX_REASON_CHARS] or "the server gave no reason")
    return text


def render_content(part: Any, reader: str = "") -> str:
    """Return one part of an answer as text; show a linked resource with the call that reads it."""
    resource = getattr(part, "resource", None)
    text = getattr(part, "text", None) or getattr(resource, "text", None)
    if isinstance(text, str):
        return LINK_LINE.sub("> ", normalise_lines(text))  # only a resource_link may produce a link line
    data = getattr(part, "data", None) or getattr(resource, "blob", None)
    kind = join_lines(str(getattr(part, "mime_type", None) or getattr(resource, "mime_type", None) or "data"))[:100]
    if isinstance(data, str):
        return f"({kind}, about {len(data) * 3 // 4:,} bytes, which are not shown)"
    address = str(getattr(part, "uri", None) or "")
    if reader and address and len(address) <= MAX_URI_CHARS:
        return render_link(reader, address)
    return f"(see {join_lines(address)[:500]})" if address else ""
