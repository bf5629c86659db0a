"""The request validation of providers (errors with status 400) and their cache diagnostics."""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from foreword.promptcache.rules import BREAKPOINT_KEYS, Body, list_parts, read_image_part, serialize_json
from foreword.tokens.image_tokens import read_image_header
from foreword.tokens.models import find_cache


def find_compared_id(shape: str, body: Body) -> str | None:
    """Return the response id that a request asks to be compared with; None if it asks for no diagnosis."""
    if shape == "anthropic":
        return (body["diagnostics"]["previous_message_id"] or "") if body.get("diagnostics") else None
    return (body.get("prompt_cache_options") or {}).get("comparison_response_id")


def diagnose_miss(shape: str, body: Body, answered: Mapping[str, Body]) -> str:
    """Return the reason why a request missed the cache of an earlier one, or an empty text."""
    compared = find_compared_id(shape, body)
    if not compared:
        return ""
    is_anthropic = shape == "anthropic"
    before = answered.get(compared)
    if before is None:
        return "previous_message_not_found" if is_anthropic else ""
    for name in ("model", "tools", "system") if is_anthropic else ("model", "tools", "prompt_cache_key"):
        if serialize_unmarked(before.get(name)) != serialize_unmarked(body.get(name)):
            return f"{name}_changed"
    if is_anthropic:
        return "" if is_prefix(before["messages"], body["messages"]) else "messages_changed"
    is_same = before.get("instructions") == body.get("instructions") and is_prefix(before["input"], body["input"])
    return "" if is_same else "input_changed"


def is_prefix(before: list[Body], after: list[Body]) -> bool:
    """Return whether a conversation continues another."""
    return serialize_unmarked(after[: len(before)]) == serialize_unmarked(before)


def serialize_unmarked(value: object) -> str:
    """Serialize a value without cache breakpoints."""
    return serialize_json(remove_breakpoints(value))


def remove_breakpoints(value: object) -> object:
    """Remove cache breakpoints from a value."""
    if isinstance(value, list):
        return [remove_breakpoints(item) for item in value]
    if isinstance(value, dict):
        return {name: remove_breakpoints(item) for name, item in value.items() if name not in BREAKPOINT_KEYS}
    return value


MAX_BREAKPOINTS = 4
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
RESPONSE_SCHEMAS = {"responseSchema", "responseJsonSchema"}


def check_anthropic(body: Body) -> Iterator[str]:
    """Yield the errors of a body of POST /v1/messages."""
    yield from require_fields(body, "model", "max_tokens", "messages")
    tools, system = body.get("tools", ()), list_parts(body.get("system"))
    if any(part.get("type") != "text" or not str(part.get("text", "")).strip() for part in system):
        yield "system: text content blocks must be non-empty"
    if any(tool.get("input_schema", {}).get("type") != "object" for tool in tools):
        yield "tools: input_schema is required"
    messages = body["messages"]
    parts = [part for message in messages for part in list_parts(message["content"])]
    if any(part.get("type") == "text" and not str(part.get("text", "")).strip() for part in parts):
        yield "messages: text content blocks must be non-empty"
    if any(not list_parts(message["content"]) for message in messages):
        yield "messages: content must not be empty"
    wanted = body.get("output_config", {}).get("format", {})
    if wanted and (wanted.get("type") != "json_schema" or not isinstance(wanted.get("schema"), Mapping)):
        yield "output_config.format: type is json_schema, and schema is required"
    yield from check_user_parts(messages, "text", "tool_result", image="image")
    yield from check_breakpoints([*tools, *system, *parts])
    roles = [message["role"] for message in messages]
    if "system" in roles:
        yield from check_system_messages(str(body["model"]), roles)
    yield from check_roles([role for role in roles if role != "system"])
    yield from check_tool_results([message for message in messages if message["role"] != "system"])


def check_system_messages(model: str, roles: Sequence[str]) -> Iterator[str]:
    """Yield the errors of system messages within a conversation."""
    if not find_cache("anthropic", model).system_messages:
        yield "role 'system' is not supported on this model"
    if any(role == "system" and before != "user" for before, role in pairwise(["", *roles])):
        yield "a system message must directly follow a user message"


def check_breakpoints(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the errors of the cache breakpoints, in request order."""
    marks = [item["cache_control"] for item in items if item.get("cache_control")]
    if len(marks) > MAX_BREAKPOINTS:
        yield f"a maximum of 4 blocks with cache_control may be provided, found {len(marks)}"
    if any(mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in ("5m", "1h") for mark in marks):
        yield "cache_control: type is ephemeral, and ttl is 5m or 1h"
    if any(first.get("ttl", "5m") == "5m" and second.get("ttl") == "1h" for first, second in pairwise(marks)):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def check_tool_results(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield tool results without a call, and tool calls without a result in the next message."""
    called: list[str] = []
    for at, message in enumerate(messages):
        parts = list_parts(message["content"])
        answered = [part["tool_use_id"] for part in parts if part.get("type") == "tool_result"]
        if missing := [each for each in called if each not in answered]:
            yield f"messages.{at}: tool_use ids without tool_result: {', '.join(missing)}"
        if stray := [each for each in answered if each not in called]:
            yield f"messages.{at}: unexpected tool_use_id in tool_result blocks: {', '.join(stray)}"
        called = [part["id"] for part in parts if part.get("type") == "tool_use"]
    if called:
        yield f"messages: tool_use ids without tool_result: {', '.join(called)}"


def check_chat(body: Body) -> Iterator[str]:
    """Yield the errors of a body of POST /v1/chat/completions."""
    yield from require_fields(body, "model", "messages")
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    wanted = body.get("response_format", {})
    yield from check_response_format({**wanted, **wanted.get("json_schema", {})}, str(messages))
    if any(tool.get("type") != "function" or "name" not in tool.get("function", {}) for tool in body.get("tools", ())):
        yield "tools: function.name is required"
    if any(message["role"] == "user" and not message.get("content") for message in messages):
        yield "messages: a user message needs content"
    yield from check_user_parts(messages, "text", image="image_url")
    open_calls: list[str] = []
    unanswered = "an assistant message with 'tool_calls' must be followed by tool messages: "
    for message in messages:
        if message["role"] != "tool":
            if open_calls:
                yield f"{unanswered}{', '.join(open_calls)}"
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
        elif message.get("tool_call_id") in open_calls:
            open_calls.remove(message["tool_call_id"])
        else:
            yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    if open_calls:
        yield f"{unanswered}{', '.join(open_calls)}"
    yield from check_roles([role for role in roles if role not in ("system", "tool")], tools="tool" in roles)


def check_response_format(wanted: Mapping[str, Any], said: str) -> Iterator[str]:
    """Yield the errors of an OpenAI response format; `said` is the whole conversation as text."""
    if wanted.get("type") == "json_object" and "json" not in said.lower():
        yield "the messages must contain the word 'json' to use response_format of type json_object"
    if wanted.get("type") == "json_schema" and not ("name" in wanted and isinstance(wanted.get("schema"), Mapping)):
        yield "response_format: json_schema needs a name and a schema"


def check_responses(body: Body) -> Iterator[str]:
    """Yield the errors of a body of POST /v1/responses."""
    yield from require_fields(body, "model", "input")
    if any(tool.get("type") != "function" or "name" not in tool for tool in body.get("tools", ())):
        yield "tools: name is required next to type"
    items = body["input"]
    yield from check_response_format(body.get("text", {}).get("format", {}), str(items))
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    yield from (f"No tool output found for function call {each}." for each in calls if each not in results)
    yield from (f"No tool call found for function call output with call_id {each}." for each in results
                if each not in calls)  # fmt: skip
    yield from check_user_parts(items, "input_text", image="input_image")
    roles = [item["role"] for item in items if item.get("role", "system") != "system"]
    yield from check_roles(roles, tools=bool(calls))


def check_gemini(body: Body) -> Iterator[str]:
    """Yield the errors of a body of generateContent."""
    yield from require_fields(body, "contents")
    contents = body["contents"]
    if {content.get("role") for content in contents} - {"user", "model"}:
        yield "contents: role is user or model"
    if any(not content.get("parts") for content in contents):
        yield "contents: parts must not be empty"
    yield from check_roles([content.get("role", "") for content in contents])
    yield from check_inline_data([part for content in contents for part in content["parts"]])
    results = [
        part["functionResponse"] for content in contents for part in content["parts"] if "functionResponse" in part
    ]
    if any(not result.get("name") or not isinstance(result.get("response"), Mapping) for result in results):
        yield "functionResponse: name and response are required, and response is an object"
    called = 0
    for content in contents:
        answered = sum("functionResponse" in part for part in content["parts"])
        if called != answered:
            yield "the number of function response parts must equal the number of function call parts before them"
        called = sum("functionCall" in part for part in content["parts"])


def check_user_parts(messages: Sequence[Body], *kinds: str, image: str) -> Iterator[str]:
    """Yield the errors of the parts of user messages: types that the provider does not know, and wrong images."""
    said = [message for message in messages if message.get("role") == "user"]
    parts = [part for message in said for part in list_parts(message.get("content"), kinds[0])]
    if {part.get("type") for part in parts} - {*kinds, image}:
        yield f"the parts of a user message are {', '.join((*kinds, image))}"
    for part in parts:
        if part.get("type") == image:
            yield from check_image(part)


def check_inline_data(parts: Sequence[Body]) -> Iterator[str]:
    """Yield the errors of the images in the parts of a Gemini content, which takes no GIF."""
    for part in parts:
        if "type" in part:
            yield "Unknown name 'type' at parts"
        if "inlineData" in part:
            yield from check_image(part, known=("image/png", "image/jpeg", "image/webp"))


def check_image(part: Body, known: Sequence[str] = IMAGE_TYPES) -> Iterator[str]:
    """Yield the error of an image part: its form, its media type, or its bytes."""
    found = read_image_part(part)
    try:
        header = read_image_header(b64decode(found[2], validate=True)) if found else None
    except ValueError:
        header = None
    if found is None or found[1] not in known:
        yield "image: unknown form or media type"
    elif header is None or header.media_type != found[1]:
        yield "image: could not process image"


def check_gemini_format(body: Body, model: str) -> Iterator[str]:
    """Yield the errors of a Gemini JSON response format; models before Gemini 3 cannot combine it with functions."""
    settings = body.get("generationConfig", {})
    kind, schemas = settings.get("responseMimeType", "text/plain"), RESPONSE_SCHEMAS & settings.keys()
    if kind not in ("text/plain", "application/json", "text/x.enum"):
        yield f"generationConfig.responseMimeType: {kind} is not allowed"
    if schemas and kind != "application/json":
        yield f"{', '.join(sorted(schemas))} needs the response mime type 'application/json'"
    if len(schemas) > 1:
        yield "responseSchema must be omitted where responseJsonSchema is set"
    if any(not isinstance(settings[name], Mapping) for name in schemas):
        yield f"{', '.join(sorted(schemas))} is an object"
    functions = any(tool.get("functionDeclarations") for tool in body.get("tools", ()))
    if kind == "application/json" and functions and model.startswith(("gemini-1", "gemini-2")):
        yield "Function calling with a response mime type: 'application/json' is unsupported"


def check_roles(roles: Sequence[str], *, tools: bool = False) -> Iterator[str]:
    """Yield the errors in the order of roles; with tools, assistant messages may follow each other."""
    if not roles or roles[0] != "user":
        yield "the first message must be a user message"
    if any(first == second and not (tools and first == "assistant") for first, second in pairwise(roles)):
        yield "roles must alternate"


def require_fields(body: Body, *names: str) -> Iterator[str]:
    """Yield the missing fields."""
    yield from (f"{name} is required" for name in names if not body.get(name))
