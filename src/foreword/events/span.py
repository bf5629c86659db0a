"""Live spans of OpenTelemetry with the names of its GenAI conventions, wherever somebody in this process listens."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from foreword.events.event import NOWHERE, Context, EventType, Place, Usage
from foreword.events.redact import REDACTED, announces_secret, redact
from foreword.frozen import frozen

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context as OtelContext
    from opentelemetry.trace import Span

OPERATIONS = {
    EventType.API_CALL: "chat",
    EventType.TOOL_CALL: "execute_tool",
    EventType.TURN_STARTED: "invoke_agent",
    EventType.MEMORY_SEARCH: "retrieval",
}
KINDS = {
    EventType.API_CALL: "CLIENT",
    EventType.MESSAGE_RECEIVED: "CONSUMER",
    EventType.MESSAGE_SENT: "PRODUCER",
}
# Where the conventions have another name for a provider than people write before a model's name.
PROVIDERS = {
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
WORD = "foreword."
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
SAMPLED = 1  # the flag of `traceparent`
LONGEST = 2_000  # characters of one text
NAME = 200  # characters of a name


@frozen
class Opening:
    """What a span begins with."""

    kind: EventType
    said: Mapping[str, Any]
    context: Context
    time: datetime


class LiveSpan:
    """One span that somebody listens to."""

    def __init__(self, span: "Span") -> None:
        from opentelemetry import context, trace

        self._span = span
        self.inside: OtelContext = trace.set_span_in_context(span)
        self._token: Token[OtelContext] = context.attach(self.inside)
        found = span.get_span_context()
        self.place = Place(trace=trace.format_trace_id(found.trace_id), span=trace.format_span_id(found.span_id))

    def add(self, kind: EventType, said: Mapping[str, Any], time: datetime) -> None:
        """Add an instant to the span."""
        self._span.add_event(str(kind), dict(describe(said)), count_nanoseconds(time))

    def close(self, said: Mapping[str, Any], time: datetime) -> None:
        """End the span with what is known by now."""
        from opentelemetry import context
        from opentelemetry.trace.status import Status, StatusCode

        context.detach(self._token)
        self._span.set_attributes(dict(describe(said)))
        if error := said.get("error"):
            self._span.set_status(Status(StatusCode.ERROR, redact(str(error), LONGEST)))
            self._span.set_attribute("error.type", name_error(said))
        self._span.end(count_nanoseconds(time))


def clean_traceparent(headers: Sequence[str]) -> str:
    """Return the `traceparent` of a request in the form of version 00; empty unless there is exactly one valid header.

    https://www.w3.org/TR/trace-context/: version 00 has four fields, later versions may add some.
    """
    found = TRACEPARENT.fullmatch(headers[0].strip()) if len(headers) == 1 else None
    if not found or found[1] == "ff" or not int(found[2], 16) or not int(found[3], 16):
        return ""
    if found[1] == "00" and found[5] is not None:
        return ""
    return f"00-{found[2]}-{found[3]}-{int(found[4], 16) & SAMPLED:02x}"


def read_traceparent(cleaned: str) -> Place:
    """Read the place of the caller's span from a cleaned `traceparent`; NOWHERE if it is empty."""
    if not cleaned:
        return NOWHERE
    _, trace, span, flags = cleaned.split("-")
    return Place(trace=trace, span=span, sampled=bool(int(flags, 16) & SAMPLED))


def open_span(opening: Opening, above: Place, parent: LiveSpan | None) -> LiveSpan | None:
    """Open a span below another one, or below a place that was told earlier; None where nobody listens.

    Nobody can listen unless they have imported OpenTelemetry, so that those who do not use it never load it.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    with suppress(Exception):  # a turn goes on, whatever a collector's library thinks of its spans
        inside = parent.inside if parent else go_on(above, trace)
        span = trace.get_tracer("foreword").start_span(
            name_span(opening),
            context=inside,
            kind=trace.SpanKind[KINDS.get(opening.kind, "INTERNAL")],
            attributes=dict(introduce(opening)),
            start_time=count_nanoseconds(opening.time),
        )
        if span.is_recording():
            return LiveSpan(span)
    return None


def go_on(above: Place, trace: Any) -> "OtelContext | None":
    """Go on from a place that was told earlier, perhaps by another process."""
    if not above.span:
        return None
    known = trace.SpanContext(
        int(above.trace, 16),
        int(above.span, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if above.sampled else trace.TraceFlags.DEFAULT),
    )
    found: OtelContext = trace.set_span_in_context(trace.NonRecordingSpan(known))
    return found


def name_span(opening: Opening) -> str:
    """Name a span as the conventions do: the operation, and what it is done with."""
    operation, said = OPERATIONS.get(opening.kind), opening.said
    if operation is None:
        return str(opening.kind)
    subjects = {
        EventType.API_CALL: str(said.get("model", "")).rpartition(":")[2],
        EventType.TOOL_CALL: str(said.get("name", "")),
        EventType.TURN_STARTED: opening.context.agent,
        EventType.MEMORY_SEARCH: "memory",
    }
    return f"{operation} {redact(subjects[opening.kind], NAME)}".rstrip()


def introduce(opening: Opening) -> Iterator[tuple[str, Any]]:
    """Say what is known when a span opens."""
    context = opening.context
    if operation := OPERATIONS.get(opening.kind):
        yield "gen_ai.operation.name", operation
    known = {
        "gen_ai.conversation.id": context.session,
        "gen_ai.agent.name": context.agent,
        "user.id": context.user,
        "foreword.channel": context.channel,
        "foreword.room": context.room,
        "foreword.schedule": context.schedule,
        "foreword.trust": str(context.trust),
    }
    yield from ((name, value) for name, value in known.items() if value)
    if opening.kind is EventType.TOOL_CALL and "name" in opening.said:
        yield "gen_ai.tool.name", redact(str(opening.said["name"]), NAME)
    yield from describe(opening.said)


def describe(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Say what was told as attributes: plain values only, and texts without secrets."""
    for name, value in said.items():
        if isinstance(value, Usage):
            yield "gen_ai.usage.input_tokens", value.tokens_in
            yield "gen_ai.usage.output_tokens", value.tokens_out
            yield "gen_ai.usage.cache_read.input_tokens", value.cache_read
            yield "gen_ai.usage.cache_creation.input_tokens", value.cache_write
        elif name == "model" and value:
            provider, _, model = str(value).rpartition(":")
            yield "gen_ai.request.model", redact(model, NAME)
            if provider:
                yield "gen_ai.provider.name", redact(PROVIDERS.get(provider, provider), NAME)
        elif isinstance(value, str):
            yield WORD + name, REDACTED if announces_secret(name) else redact(value, LONGEST)
        elif isinstance(value, bool | int | float):
            yield WORD + name, value


def name_error(said: Mapping[str, Any]) -> str:
    """Name the kind of an error: the status of the provider, else the class of the exception, which comes first."""
    return redact(str(said.get("status") or redact(str(said["error"]), LONGEST).partition(":")[0]), NAME)


def count_nanoseconds(time: datetime) -> int:
    """Count the nanoseconds since 1970, without the noise of a float."""
    return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1_000
