"""Real token counts, and what is known about the models that are billed by them."""

from foreword.tokens.count import Counter, Meter
from foreword.tokens.models import ModelFacts, find

__all__ = ["Counter", "Meter", "ModelFacts", "find"]
