"""The source that tells the agent what kind of message it is answering."""

from functools import cache, lru_cache

from foreword.blueprint import Planned
from foreword.signal import Signal, classify
from foreword.sources.builtin import read_builtin
from foreword.sources.registry import source
from foreword.sources.section import Item, Section, absent
from foreword.sources.view import TurnView
from foreword.words import Pace

OVERLAY = "signal/overlay"
LIGHT, HEAVY = 0.3, 0.8


@source("signal", Pace.TURN)
def show_signal(view: TurnView, entry: Planned) -> Item:
    """Say what the active signal asks of the agent; a signal that came with the turn is taken as it is."""
    if view.signal is not None:
        return tell_signal(entry, view.signal)
    if not view.message or view.message.isspace():
        return absent(entry, "there is no message to classify")
    return tell_signal(entry, classify(view.message, view.session.channel))


@lru_cache(maxsize=4_096)
def tell_signal(entry: Planned, signal: Signal) -> Section:
    """Put a signal into words."""
    keys = [signal.mode.name, signal.genre.name]
    if signal.weight < LIGHT:
        keys.append("BRIEF")
    if signal.weight > HEAVY:
        keys.append("ATTENTION")
    title = f"Active Signal: {keys[0]} × {keys[1]} (weight: {round(signal.weight, 3):g})"
    return tell_overlay(entry, title, tuple(keys))


@lru_cache(maxsize=4_096)
def tell_overlay(entry: Planned, title: str, keys: tuple[str, ...]) -> Section:
    """Make the section of an overlay; signals that read the same are the same object."""
    lines = read_lines()
    text = "\n".join(lines[key] for key in keys)
    return Section(entry=entry, title=title, text=text, origin=f"built-in {OVERLAY}")


@cache
def read_lines() -> dict[str, str]:
    """Read the sentences of the overlay by their keys."""
    lines = [line for line in read_builtin(OVERLAY).splitlines() if line]
    return {key: sentence for key, _, sentence in (line.partition(": ") for line in lines)}
