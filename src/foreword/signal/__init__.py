"""Signals: what kind of message a message is, told from its words alone, before any model is asked."""

from foreword.signal.classify import classify
from foreword.signal.dimensions import Format, Genre, Kind, Signal, SignalMode
from foreword.signal.noise import find_noise, is_noise

__all__ = ["Format", "Genre", "Kind", "Signal", "SignalMode", "classify", "find_noise", "is_noise"]
