"""Reads the tags of a message as the Bot API does: what it cannot read is refused, and nothing is sent."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from foreword.standin.telegram.faults import Refused

KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
    "a": "text_link",
    "blockquote": "blockquote",
}
MOST = 100  # entities that are kept
_PIECE = re.compile(r"<(/?)([^\s<>]*)([^<>]*)>|<|[^<]+")
_HREF = re.compile(r"""\s*href\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s*""")
_LANGUAGE = re.compile(r'\s*class\s*=\s*"language-([^"]*)"\s*')
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);")
Entity = dict[str, Any]


def measure(text: str) -> int:
    """Count units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def read(params: Mapping[str, str]) -> tuple[str, list[Entity]]:
    """Read the text and the entities of a request."""
    text, mode = params.get("text", ""), params.get("parse_mode", "")
    if mode.lower() == "html":
        return read_html(text)
    if mode:
        raise Refused(400, f"Bad Request: unsupported parse_mode: the stand-in reads HTML, not {mode}")
    entities = json.loads(params.get("entities") or "[]")
    for entity in entities:
        if not 0 <= entity["offset"] < entity["offset"] + entity["length"] <= measure(text):
            raise Refused(400, "Bad Request: ENTITY_BOUNDS_INVALID")
    return text, entities[:MOST]


def read_html(written: str) -> tuple[str, list[Entity]]:
    """Read tags; they have to be known, closed and in order."""
    text, opened, entities = "", list[tuple[str, Entity]](), list[Entity]()
    for piece in _PIECE.finditer(written):
        closing, name, rest = piece[1], (piece[2] or "").lower(), piece[3] or ""
        if piece[2] is None and piece[0] != "<":
            text += _ENTITY.sub(lambda found: html.unescape(found[0]), piece[0])
        elif closing:
            close(name, opened, entities, measure(text), piece.start())
        elif name not in KINDS:
            raise refuse(f'Unsupported start tag "{name}" at byte offset {piece.start()}')
        else:
            opened.append((name, make(name, rest, measure(text))))
    if opened:
        raise refuse(f'Can\'t find end tag corresponding to start tag "{opened[-1][0]}"')
    kept = [entity for entity in entities if entity["length"] and "skip" not in entity]
    return text, sorted(kept, key=lambda entity: (entity["offset"], -entity["length"]))[:MOST]


def make(name: str, rest: str, offset: int) -> Entity:
    """Begin an entity."""
    entity: Entity = {"type": KINDS[name], "offset": offset, "length": 0}
    if name == "a":
        found = _HREF.fullmatch(rest)
        return entity | ({"url": html.unescape(found[1] or found[2] or found[3] or "")} if found else {"skip": True})
    if name == "code" and (language := _LANGUAGE.fullmatch(rest)):
        return entity | {"language": html.unescape(language[1])}
    return entity


def close(name: str, opened: list[tuple[str, Entity]], entities: list[Entity], end: int, place: int) -> None:
    """End the entity that was begun last, which has to be of this name."""
    if not opened:
        raise refuse(f"Unexpected end tag at byte offset {place}")
    begun, entity = opened.pop()
    if name and begun != name:
        raise refuse(f'Unmatched end tag at byte offset {place}, expected "</{begun}>", found "</{name}>"')
    entity["length"] = end - entity["offset"]
    if opened and opened[-1][0] == "pre" and entity.get("language"):
        opened[-1][1]["language"] = entity["language"]  # code in a block is its language
        return
    entities.append(entity)


def refuse(why: str) -> Refused:
    """Make the answer to a text that cannot be read."""
    return Refused(400, f"Bad Request: can't parse entities: {why}")
