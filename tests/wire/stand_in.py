"""A stand-in for the providers: it keeps every request's bytes, and refuses what the real ones refuse."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

Body = dict[str, Any]


@dataclass
class StandIn:
    """Where it listens, and what it was sent."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def body(self) -> Body:
        """The newest request, as JSON with its keys in order."""
        return json.loads(self.bodies[-1])


def refuse_anthropic(body: Body) -> Iterator[str]:
    """Name what POST /v1/messages would answer with a 400."""
    yield from demand(body, "model", "max_tokens", "messages")
    texts = body.get("system", [])
    if any(block.get("type") != "text" or not block.get("text", "").strip() for block in texts):
        yield "system: text content blocks must be non-empty"
    parts = [part for message in body["messages"] for part in list_parts(message["content"])]
    marked = [item for item in (*body.get("tools", []), *texts, *parts) if "cache_control" in item]
    if len(marked) > 4:
        yield f"a maximum of 4 blocks with cache_control may be provided, found {len(marked)}"
    if any(item["cache_control"].get("type") != "ephemeral" for item in marked):
        yield "cache_control.type must be ephemeral"
    if any(
        "input_schema" not in tool or tool["input_schema"].get("type") != "object" for tool in body.get("tools", [])
    ):
        yield "tools: input_schema is required"
    yield from refuse_roles([message["role"] for message in body["messages"]])
    if any(not part.get("text", "").strip() for part in parts):
        yield "messages: text content blocks must be non-empty"


def refuse_chat(body: Body) -> Iterator[str]:
    """Name what POST /v1/chat/completions would answer with a 400."""
    yield from demand(body, "model", "messages")
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles[1:]:
        yield "a system message comes first"
    if any(tool.get("type") != "function" or "name" not in tool.get("function", {}) for tool in body.get("tools", [])):
        yield "tools: function.name is required"
    yield from refuse_roles([role for role in roles if role != "system"])


def refuse_responses(body: Body) -> Iterator[str]:
    """Name what POST /v1/responses would answer with a 400."""
    yield from demand(body, "model", "input")
    if any(tool.get("type") != "function" or "name" not in tool for tool in body.get("tools", [])):
        yield "tools: name is required beside type"
    newest = body["input"][-1]
    if any(part["type"] != "input_text" for part in list_parts(newest["content"], "input_text")):
        yield "input: the parts of a user message are input_text"
    yield from refuse_roles([message["role"] for message in body["input"]])


def refuse_gemini(body: Body) -> Iterator[str]:
    """Name what generateContent would answer with a 400."""
    yield from demand(body, "contents")
    if {content["role"] for content in body["contents"]} - {"user", "model"}:
        yield "contents: role is user or model"
    if any(not content["parts"] for content in body["contents"]):
        yield "contents: parts must not be empty"
    yield from refuse_roles([content["role"] for content in body["contents"]])


def refuse_roles(roles: list[str]) -> Iterator[str]:
    """Name what is wrong with the order of a conversation."""
    if not roles or roles[0] != "user":
        yield "the first message is the user's"
    if any(one == other for one, other in pairwise(roles)):
        yield "roles alternate"


def demand(body: Body, *names: str) -> Iterator[str]:
    """Name the fields that are missing."""
    yield from (f"{name} is required" for name in names if not body.get(name))


def list_parts(content: Any, kind: str = "text") -> list[Body]:
    """Give the parts of a message, also of one that is a bare text."""
    return [{"type": kind, "text": content}] if isinstance(content, str) else content


ANSWERS: Mapping[str, tuple[Callable[[Body], Iterator[str]], Body]] = {
    "/v1/messages": (
        refuse_anthropic,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Yes."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    ),
    "/v1/chat/completions": (
        refuse_chat,
        {
            "id": "c_1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
        },
    ),
    "/v1/responses": (
        refuse_responses,
        {
            "id": "r_1",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "completed",
            "output": [
                {
                    "type": "message",
                    "id": "m_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
                }
            ],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        },
    ),
    ":generateContent": (
        refuse_gemini,
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]},
    ),
}


@contextmanager
def listen() -> Iterator[StandIn]:
    """Answer requests on the loopback until the block ends."""
    stand_in = StandIn()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.partition("?")[0]
            stand_in.bodies.append(raw)
            stand_in.paths.append(path)
            check, answer = next(found for ending, found in ANSWERS.items() if path.endswith(ending))
            faults = list(check(json.loads(raw)))
            refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "; ".join(faults)}}
            text = json.dumps(refusal if faults else answer).encode()
            self.send_response(400 if faults else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
