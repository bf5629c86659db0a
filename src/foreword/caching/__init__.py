"""The rules by which providers cache prompts: one implementation for predictions, simulations and the stand-in."""

from foreword.caching.blocks import Block, list_blocks
from foreword.caching.cache import Counted, Kept, PrefixCache, name_prefixes

__all__ = ["Block", "Counted", "Kept", "PrefixCache", "list_blocks", "name_prefixes"]
