"""Response formats: how a request asks each provider for an answer in JSON, and which models take it.

A format is OpenAI's `response_format` as JSON text: `json_object`, or `json_schema` with a name and a schema.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

    from foreword.runtime.models import Opened

Body = Mapping[str, Any]
TAKES = {"json_object": "supports_json_object_output", "json_schema": "supports_json_schema_output"}


def find_refusal(opened: "Opened", wanted: str, model: str, *, tools: bool) -> str:
    """Say why a model does not take a format; nothing where it does."""
    kind = str(json.loads(wanted)["type"])
    profile: ModelProfile = opened.model.profile
    if opened.shape == "anthropic" and kind == "json_object":
        return f"{model} takes response_format json_schema, and not json_object"
    if not profile.get(TAKES[kind], False):
        return f"{model} does not take response_format {kind}"
    if opened.shape == "gemini" and tools and not profile.get("google_supports_tool_combination", False):
        return f"{model} does not take response_format together with tools, and the agent has tools"
    return ""


def add_format(shape: str, request: Body, wanted: str) -> Body:
    """Add a format to a finished request, in the provider's own words."""
    return WRITERS[shape](request, json.loads(wanted))


def add_chat(request: Body, wanted: Body) -> Body:
    """Add a format to the body of POST /v1/chat/completions."""
    return {**request, "response_format": wanted}


def add_responses(request: Body, wanted: Body) -> Body:
    """Add a format to the body of POST /v1/responses, which has the schema beside its type."""
    return {**request, "text": {**request.get("text", {}), "format": {"type": wanted["type"], **find_schema(wanted)}}}


def add_anthropic(request: Body, wanted: Body) -> Body:
    """Add a schema to the body of POST /v1/messages."""
    schema = {"type": "json_schema", "schema": find_schema(wanted)["schema"]}
    return {**request, "output_config": {**request.get("output_config", {}), "format": schema}}


def add_gemini(request: Body, wanted: Body) -> Body:
    """Add a format to the body of generateContent."""
    schema = find_schema(wanted)
    own = {"responseMimeType": "application/json", **({"responseJsonSchema": schema["schema"]} if schema else {})}
    return {**request, "generationConfig": {**request.get("generationConfig", {}), **own}}


def find_schema(wanted: Body) -> Body:
    """Find the schema of a format with its name; nothing for `json_object`."""
    schema: Body = wanted.get("json_schema", {})
    return schema


WRITERS: Mapping[str, Callable[[Body, Body], Body]] = {
    "openai": add_chat,
    "responses": add_responses,
    "anthropic": add_anthropic,
    "gemini": add_gemini,
}
