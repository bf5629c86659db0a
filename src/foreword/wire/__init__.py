"""The wire: exactly what goes to a provider, and where its cache may end."""

from foreword.wire.envelope import SHAPES, Envelope, shape
from foreword.wire.marks import mark

__all__ = ["SHAPES", "Envelope", "mark", "shape"]
