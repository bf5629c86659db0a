"""A process that records events until it is killed and prints the number of each acknowledged error."""

import sys
from datetime import UTC, datetime

from foreword.events.event import Context, Event, EventType, Level, Usage
from foreword.events.log import EventLog


def main(folder: str, run: str) -> None:
    """Record events of all levels until killed."""
    log = EventLog(folder)
    say("ready")
    for number in range(1_000_000):
        level = (Level.INFO, Level.INFO, Level.WARN, Level.INFO, Level.ERROR)[number % 5]
        log.record(
            Event(
                type=EventType.API_CALL,
                time=datetime.now(UTC),
                level=level,
                context=Context(session=run, user="alice"),
                usage=Usage(tokens_in=1),
                facts={"number": number},
            )
        )
        if level is not Level.INFO and not log.lost:
            say(str(number))


def say(word: str) -> None:
    """Print a word and flush."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
