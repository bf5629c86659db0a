"""The wire: exactly what goes to a provider, and where its cache may end."""

from foreword.wire.addressing import Addressed, Marked, address
from foreword.wire.envelope import SHAPES, Envelope, shape
from foreword.wire.marks import count_cached, mark, put_marks

__all__ = ["SHAPES", "Addressed", "Envelope", "Marked", "address", "count_cached", "mark", "put_marks", "shape"]
