"""Converts messages that older versions stored as the JSON of pydantic-ai into the form of `agent.conversation`."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

OldPart = Mapping[str, Any]
FAMILIES = {"google-gla": "google", "google-vertex": "google"}  # providers that had another name
REDACTED_ID = "redacted_thinking"


def convert_history(state: sqlite3.Connection) -> None:
    """Convert the messages of all sessions, and the steps of unfinished turns."""
    for table, column in (("history", "messages"), ("turns", "taken")):
        rows = state.execute(f"SELECT rowid FROM {table} WHERE {column} IS NOT NULL").fetchall()
        for (row,) in rows:
            (stored,) = state.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
            if (converted := convert_messages(stored)) != stored:
                state.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (converted, row))


def convert_messages(stored: bytes) -> bytes:
    """Convert stored messages; damaged ones stay as they are, and are reported when they are read."""
    try:
        converted = [new for message in json.loads(stored) for new in convert_message(message)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return stored
    return json.dumps(converted, ensure_ascii=False, separators=(",", ":")).encode()


def convert_message(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Convert one message; a request with user text and tool results becomes two."""
    if message["kind"] == "response":
        yield convert_answer(message)
        return
    results = [convert_result(part) for part in message["parts"] if part["part_kind"] == "tool-return"]
    texts = [
        text
        for part in message["parts"]
        if part["part_kind"] == "user-prompt"
        for text in ([part["content"]] if isinstance(part["content"], str) else part["content"])
        if isinstance(text, str)
    ]
    system = "".join(part["content"] for part in message["parts"] if part["part_kind"] == "system-prompt")
    if results:
        yield {"role": "tool", "parts": results}
    if texts or system:
        parts = [{"type": "text", "text": text} for text in texts]
        yield {"role": "user", "parts": parts, **({"system": system} if system else {})}


def convert_result(part: OldPart) -> dict[str, Any]:
    """Convert the result of a tool call."""
    content = part["content"]
    return drop_empty(
        {
            "type": "result",
            "id": part["tool_call_id"],
            "name": part["tool_name"],
            "text": content if isinstance(content, str) else write_json(content),
            "failed": part.get("outcome", "success") != "success",
        }
    )


def convert_answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an answer of the model."""
    provider = message.get("provider_name") or ""
    details = message.get("provider_details") or {}
    return drop_empty(
        {
            "role": "assistant",
            "parts": list(convert_answer_parts(message["parts"], FAMILIES.get(provider, provider))),
            "cut": message.get("finish_reason") == "length",
            "provider": FAMILIES.get(provider, provider),
            "drops_thinking": "input_transformations" in details,
        }
    )


def convert_answer_parts(parts: list[OldPart], provider: str) -> Iterator[dict[str, Any]]:
    """Convert the parts of an answer; Gemini's signature of a thought belongs to the part after it."""
    pending = ""
    for part in parts:
        kind, key = part["part_kind"], part.get("id") or ""
        signature = (part.get("provider_details") or {}).get("thought_signature") or pending
        pending = ""
        if kind == "text":
            yield drop_empty({"type": "text", "text": part["content"], "id": key, "signature": signature})
        elif kind == "tool-call":
            written = part["args"]
            yield drop_empty(
                {
                    "type": "call",
                    "id": part["tool_call_id"],
                    "name": part["tool_name"],
                    "arguments": written if isinstance(written, str) else write_json(written or {}),
                    "item": key,
                    "signature": signature,
                }
            )
        elif kind == "thinking":
            own = part.get("signature") or ""
            if provider == "google":
                pending, own = own, signature
            redacted = key == REDACTED_ID
            shown = {"type": "thinking", "text": part["content"], "id": "" if redacted else key}
            yield drop_empty({**shown, "signature": own, "redacted": redacted})


def drop_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out fields with their default."""
    return {name: value for name, value in fields.items() if value or name == "parts"}


def write_json(value: Any) -> str:
    """Serialize a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
