"""The wire: exactly what goes to a provider, and where its cache may end."""

from foreword.wire.addressing import Addressed, Marked, address
from foreword.wire.envelope import SHAPES, Envelope, shape
from foreword.wire.marks import count_cached, mark, put_marks
from foreword.wire.segment import Segment, count_opening, write_request, write_segment

__all__ = [
    "SHAPES", "Addressed", "Envelope", "Marked", "Segment", "address", "count_cached", "count_opening", "mark",
    "put_marks", "shape", "write_request", "write_segment",
]  # fmt: skip
