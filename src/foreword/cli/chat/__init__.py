"""`foreword chat`: talk with an agent in the terminal."""

from foreword.cli.chat.entry import COMMAND

__all__ = ["COMMAND"]
