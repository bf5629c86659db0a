"""What a server of tools offers and answers, as ours: text from outside, bounded and scanned."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from foreword.config.schema import Server
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.runtime.connection import Listing
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
SIGN = re.compile(r"[^A-Za-z0-9_-]+")


@frozen
class Offer:
    """The tools of one server under our names, what each is called there, its words, and what was left out."""

    tools: tuple[Tool, ...]
    originals: Mapping[str, str]
    extension: Extension | None
    faults: tuple[str, ...]


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
        ours = make_name(name, found.name, taken)
        try:
            tools.append(make_tool(ours, server, found))
        except InputError as error:
            faults.append(str(error))
            continue
        taken.add(ours)
        originals[ours] = found.name
    words = normalise(listing.instructions)[:LONGEST_INSTRUCTIONS].strip()
    extension = Extension(name=name, instructions=words, trust=server.trust) if words else None
    return Offer(tools=tuple(tools), originals=originals, extension=extension, faults=tuple(faults))


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
    """Name servers: as the configuration does, else by the last word of the command, or the host."""
    seen: set[str] = set()
    for server in servers:
        last = next((word for word in reversed(server.command) if not word.startswith("-")), "")
        host = server.url.partition("//")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
        stem = last.rstrip("/").rpartition("/")[2].partition("@")[0].removesuffix(".py")
        base = SIGN.sub("_", server.name or stem or host).strip("_")[:32] or "server"
        name, number = base, 2
        while name in seen:
            name, number = f"{base}{number}", number + 1
        seen.add(name)
        yield name


def read_answer(result: "mcp_types.CallToolResult") -> str:
    """Read what a tool answered as a text; what is none is named with its kind and size."""
    parts = [show_part(part) for part in result.content]
    if not any(parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, default=str)]
    text = "\n".join(parts)
    if len(text) > LONGEST_ANSWER:
        text = f"{text[:LONGEST_ANSWER]}\n(cut: {len(text):,} characters)"
    if result.is_error:
        raise InputError(text[:2_000] or "it failed and says no more")
    return text


def show_part(part: Any) -> str:
    """Show one part of an answer."""
    resource = getattr(part, "resource", None)
    text = getattr(part, "text", None) or getattr(resource, "text", None)
    if isinstance(text, str):
        return normalise(text)
    data = getattr(part, "data", None) or getattr(resource, "blob", None)
    kind = one_line(str(getattr(part, "mime_type", None) or getattr(resource, "mime_type", None) or "data"))[:100]
    if isinstance(data, str):
        return f"({kind}, about {len(data) * 3 // 4:,} bytes, which are not shown)"
    address = getattr(part, "uri", None)
    return f"(see {one_line(str(address))[:500]})" if address else ""
