"""The configuration of a workspace: its shape, how it is read, and what may be wrong with it."""

from foreword.config.load import load
from foreword.config.schema import Config

__all__ = ["Config", "load"]
