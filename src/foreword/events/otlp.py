"""Export of spans to a collector of the user's own, over OTLP; without `events.otlp` nothing leaves the machine."""

import re
from typing import TYPE_CHECKING, Any

from foreword.errors import InputError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

ADDRESS = re.compile(r"https?://[^/\s?#]+(/[^\s?#]*)?", re.IGNORECASE)
TRACES = "/v1/traces"  # where a collector takes spans unless its address says otherwise
PATIENCE = 5  # seconds for one attempt to deliver, and for the last one at the end


class Export:
    """Spans on their way to a collector, from a thread of their own; a turn never waits for it."""

    def __init__(self, processor: "SpanProcessor") -> None:
        self._processor = processor

    def close(self) -> None:
        """Send what is left, within a few seconds, and end."""
        self._processor.force_flush(PATIENCE * 1_000)
        self._processor.shutdown()


def start_export(address: str, service: str = "foreword") -> Export:
    """Send the spans of this process to a collector, beside any listener that is there already."""
    endpoint = read_address(address)
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise InputError("events.otlp needs OpenTelemetry; install it with: pip install 'foreword[otlp]'") from None
    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=PATIENCE))
    provider: Any = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(processor)
    return Export(processor)


def read_address(text: str) -> str:
    """Read the address of a collector, or raise InputError; a bare host gets the usual path."""
    found = ADDRESS.fullmatch(text.strip())
    if not found:
        raise InputError(f"events.otlp is {text!r}; write the address of a collector, such as http://localhost:4318")
    return found[0] if (found[1] or "/") != "/" else found[0].rstrip("/") + TRACES
