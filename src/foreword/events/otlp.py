"""OpenTelemetry: live spans with GenAI attribute names, and their export to the user's collector over OTLP."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from foreword.errors import InputError
from foreword.events.event import Context, EventType, TracePosition, Usage
from foreword.secret import REDACTED, is_secret_label, redact
from foreword.types import frozen

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context as OtelContext
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span


COLLECTOR_URL = re.compile(r"https?://[^/\s?#]+(/[^\s?#]*)?", re.IGNORECASE)
TRACES_PATH = "/v1/traces"  # the default path of a collector
EXPORT_TIMEOUT_S = 5  # seconds for one delivery attempt, and for the last one on closing


@frozen
class SpanExport:
    """The export of spans to a collector, in its own thread. A turn never waits for it."""

    processor: "SpanProcessor"

    def close(self) -> None:
        """Send the remaining spans within a few seconds and stop."""
        self.processor.force_flush(EXPORT_TIMEOUT_S * 1_000)
        self.processor.shutdown()


def start_export(address: str) -> SpanExport:
    """Send the spans of this process to a collector, in addition to existing span processors."""
    endpoint = parse_collector_url(address)
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise InputError("events.otlp needs OpenTelemetry; install it with: pip install 'foreword[otlp]'") from None
    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S))
    provider: Any = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        provider = TracerProvider(resource=Resource.create({"service.name": "foreword"}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(processor)
    return SpanExport(processor=processor)


def parse_collector_url(text: str) -> str:
    """Parse the address of a collector, or raise InputError. A bare host gets the default path."""
    found = COLLECTOR_URL.fullmatch(text.strip())
    if not found:
        raise InputError(f"events.otlp is {text!r}; write the address of a collector, such as http://localhost:4318")
    return found[0] if (found[1] or "/") != "/" else found[0].rstrip("/") + TRACES_PATH


OPERATIONS = {
    EventType.API_CALL: "chat",
    EventType.TOOL_CALL: "execute_tool",
    EventType.TURN_STARTED: "invoke_agent",
    EventType.MEMORY_SEARCH: "retrieval",
}
SPAN_KINDS = {EventType.API_CALL: "CLIENT", EventType.MESSAGE_RECEIVED: "CONSUMER", EventType.MESSAGE_SENT: "PRODUCER"}
# Provider names of the GenAI conventions that differ from the prefixes of model names.
PROVIDER_NAMES = {
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "gemini": "gcp.gemini",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "grok": "x_ai",
    "mistral": "mistral_ai",
}
ATTRIBUTE_PREFIX = "foreword."
MAX_ATTRIBUTE_CHARS = 2_000  # characters of one string
MAX_NAME_CHARS = 200  # characters of a name


@frozen
class SpanStart:
    """The data of a new span."""

    kind: EventType
    values: Mapping[str, Any]
    context: Context
    time: datetime


class LiveSpan:
    """One recording span."""

    def __init__(self, span: "Span") -> None:
        from opentelemetry import context, trace

        self._span = span
        self.inside: OtelContext = trace.set_span_in_context(span)
        self._token: Token[OtelContext] = context.attach(self.inside)
        found = span.get_span_context()
        self.position = TracePosition(
            trace=trace.format_trace_id(found.trace_id), span=trace.format_span_id(found.span_id)
        )

    def add(self, kind: EventType, values: Mapping[str, Any], time: datetime) -> None:
        """Add an event to the span."""
        self._span.add_event(str(kind), dict(list_attributes(values)), to_nanoseconds(time))

    def close(self, values: Mapping[str, Any], time: datetime) -> None:
        """Set the final attributes and end the span."""
        from opentelemetry import context
        from opentelemetry.trace.status import Status, StatusCode

        context.detach(self._token)
        self._span.set_attributes(dict(list_attributes(values)))
        if values.get("error"):
            error = redact(str(values["error"]), MAX_ATTRIBUTE_CHARS)
            self._span.set_status(Status(StatusCode.ERROR, error))
            kind = str(values.get("status") or error.partition(":")[0])  # of the provider, or the exception's class
            self._span.set_attribute("error.type", redact(kind, MAX_NAME_CHARS))
        self._span.end(to_nanoseconds(time))


def open_span(opening: SpanStart, above: TracePosition, parent: LiveSpan | None) -> LiveSpan | None:
    """Open a span below a parent or an earlier position. Return None if nothing records it."""
    with suppress(Exception):  # an error in the span library must not end a turn
        from opentelemetry import trace

        inside = parent.inside if parent else restore_context(above)
        span = trace.get_tracer("foreword").start_span(
            name_span(opening),
            context=inside,
            kind=trace.SpanKind[SPAN_KINDS.get(opening.kind, "INTERNAL")],
            attributes=dict(list_initial_attributes(opening)),
            start_time=to_nanoseconds(opening.time),
        )
        if span.is_recording():
            return LiveSpan(span)
    return None


def restore_context(above: TracePosition) -> "OtelContext | None":
    """Return the context of an earlier span, perhaps from another process."""
    if not above.span:
        return None
    from opentelemetry import trace

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if above.sampled else trace.TraceFlags.DEFAULT)
    earlier = trace.SpanContext(int(above.trace, 16), int(above.span, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(earlier))


def name_span(opening: SpanStart) -> str:
    """Name a span by the GenAI conventions: the operation and its subject."""
    operation, values = OPERATIONS.get(opening.kind), opening.values
    if operation is None:
        return str(opening.kind)
    subjects = {
        EventType.API_CALL: str(values.get("model", "")).rpartition(":")[2],
        EventType.TOOL_CALL: str(values.get("name", "")),
        EventType.TURN_STARTED: opening.context.agent,
        EventType.MEMORY_SEARCH: "memory",
    }
    return f"{operation} {redact(subjects[opening.kind], MAX_NAME_CHARS)}".rstrip()


def list_initial_attributes(opening: SpanStart) -> Iterator[tuple[str, Any]]:
    """Yield the initial attributes of a span."""
    context = opening.context
    if operation := OPERATIONS.get(opening.kind):
        yield "gen_ai.operation.name", operation
    named = {
        "gen_ai.conversation.id": context.session,
        "gen_ai.agent.name": context.agent,
        "user.id": context.user,
        "foreword.channel": context.channel,
        "foreword.room": context.room,
        "foreword.schedule": context.schedule,
        "foreword.trust": str(context.trust),
    }
    yield from ((name, value) for name, value in named.items() if value)
    if opening.kind is EventType.TOOL_CALL and "name" in opening.values:
        yield "gen_ai.tool.name", redact(str(opening.values["name"]), MAX_NAME_CHARS)
    yield from list_attributes(opening.values)


def list_attributes(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Convert facts to attributes: plain values only, and strings without secrets."""
    for name, value in values.items():
        if isinstance(value, Usage):
            yield "gen_ai.usage.input_tokens", value.tokens_in
            yield "gen_ai.usage.output_tokens", value.tokens_out
            yield "gen_ai.usage.cache_read.input_tokens", value.cache_read
            yield "gen_ai.usage.cache_creation.input_tokens", value.cache_write
        elif name == "model" and value:
            provider, _, model = str(value).rpartition(":")
            yield "gen_ai.request.model", redact(model, MAX_NAME_CHARS)
            if provider:
                yield "gen_ai.provider.name", redact(PROVIDER_NAMES.get(provider, provider), MAX_NAME_CHARS)
        elif isinstance(value, str):
            yield ATTRIBUTE_PREFIX + name, REDACTED if is_secret_label(name) else redact(value, MAX_ATTRIBUTE_CHARS)
        elif isinstance(value, bool | int | float):
            yield ATTRIBUTE_PREFIX + name, value


def to_nanoseconds(time: datetime) -> int:
    """Return the nanoseconds since 1970, without float rounding."""
    return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1_000
