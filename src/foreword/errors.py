"""Everything that Foreword raises.

ForewordError
├── InputError          the caller can mend it; the command line exits with 2
│   ├── WorkspaceError      no workspace here, or one that cannot be used
│   ├── ConfigError         one or more faults in a configuration or a blueprint
│   ├── UnknownName         a blueprint, an agent, a slot, a level or a model name that does not exist
│   ├── Forbidden           a rule forbids it, and trying again changes nothing
│   │   └── PathRefused         a path that leaves the workspace
│   ├── UnusableRules       a file with the rules of a situation exists and cannot be used
│   ├── Unrecorded          a session of which the log tells the reader nothing (in events.known)
│   └── TemplateFault       a template that cannot be used (in sources.pattern)
└── BudgetError         the required slots do not fit; carries the arithmetic
"""

from collections.abc import Collection, Iterable, Sequence

from foreword.frozen import frozen

LONGEST_NAME = 200  # characters of a name in a message
MAX_LISTED = 12  # names that a message lists
LEAST_ALIKE = 0.65  # of two names, from 0 to 1, where one is offered for the other


class ForewordError(Exception):
    """The root of every error that Foreword raises on purpose."""


class InputError(ForewordError):
    """What the caller gave cannot be used; the message says what to change."""


class WorkspaceError(InputError):
    """There is no usable workspace at this place."""


class Forbidden(InputError):
    """A rule forbids what the caller asked for: trust, a quota, a confirmation, a protected file.

    The event log records it as a warning. Every other InputError of a tool is an error.
    """


class PathRefused(Forbidden):
    """A path is absolute, climbs out of the workspace, or follows a link out of it."""


@frozen(eq=True)
class Fault:
    """One thing that is wrong in a file, where, and what to do about it."""

    file: str
    line: int | None
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" + (f" ({self.remedy})" if self.remedy else "")


class ConfigError(InputError):
    """A configuration has faults, all of them listed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class UnknownName(InputError):
    """A name is not one of the names that exist; the nearest one is offered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], most: int = MAX_LISTED) -> None:
        names = sorted(known)
        super().__init__(f"unknown {kind} {name!r}{suggest(name, names, most)}")
        self.kind, self.name, self.known = kind, name, tuple(names)


class UnusableRules(InputError):
    """A file with the rules of a situation exists and cannot be used, so there is no prompt.

    The message names the file. A conversation below full trust gets `public` instead.
    """

    public = (
        "This conversation is not configured correctly, so nothing is answered. `foreword doctor` names the reason."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}. It has rules of this situation, so no prompt is made without it: "
            "repair the file, or remove it from prompt_overlay in foreword.yaml"
        )


class BudgetError(ForewordError):
    """The prompt cannot fit; the message shows the sum and names the slots."""


def suggest(name: str, known: Sequence[str], most: int = MAX_LISTED) -> str:
    """End a sentence about an unknown name with the nearest valid one, or with all of them when few."""
    if near := find_nearest(name, known):
        return f"; did you mean {near!r}?"
    if not known:
        return "; there is none yet"
    return f"; there is {', '.join(known)}" if len(known) <= most else ""


def find_nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that differs in upper and lower case only, else the nearest one, else nothing.

    The dashes before an option are not compared: they would make every two options look alike.
    """
    from difflib import get_close_matches

    folded = {_fold(one): one for one in known}
    near = get_close_matches(_fold(name), folded, n=1, cutoff=LEAST_ALIKE)
    return folded[near[0]] if near else ""


def _fold(name: str) -> str:
    return name.lstrip("-").casefold()


def show_name(name: str) -> str:
    """Show a name that somebody gave, in quotes and no longer than a reader needs."""
    return repr(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…")
