"""Several recorders at once."""

from contextlib import suppress

from foreword.events.event import Event, Recorder


class Several:
    """Hands every event to several recorders; one that fails keeps nothing from the others."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def record(self, event: Event) -> None:
        """Hand an event on."""
        for recorder in self._recorders:
            with suppress(Exception):
                recorder.record(event)
