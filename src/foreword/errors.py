"""All exceptions of Foreword that more than one module uses; a module in parentheses defines its own.

ForewordError
├── InputError              the caller can fix it; the command line exits with 2
│   ├── WorkspaceError          there is no workspace, or it cannot be used
│   ├── ConfigError             one or more problems in a configuration or a blueprint
│   ├── UnknownName             a blueprint, an agent, a slot, a level or a model name that does not exist
│   ├── Forbidden               a rule forbids it; a retry changes nothing
│   │   └── PathRefused             a path that leaves the workspace
│   ├── UnusableRules           a file with the rules of a situation exists but cannot be used
│   ├── InvalidTemplate         a template that cannot be used (engine.sources.template_language)
│   ├── NotRecorded             a session without log entries for the reader (events.query)
│   ├── StorageError            a database that cannot be opened, read or upgraded (storage.database)
│   ├── DamagedHistory          stored messages of a session that cannot be read (agent.conversation)
│   ├── BadMessage              a message that cannot be accepted (gateway.messages)
│   ├── KeyReused               an idempotency key of another message (gateway.messages)
│   ├── LateResults             results of client tools that come too late (gateway.messages)
│   ├── WrongSession            a session of another agent, room or person (gateway.messages)
│   ├── NotFound                an id that does not exist for this person (gateway.messages)
│   ├── AccessChanged           the person or the room changed after the message (gateway.turn_inputs)
│   └── RunRefused              a scheduled run that may not start (gateway.schedule.destinations)
├── BudgetError             the required slots do not fit; the message shows the arithmetic
├── ToolError               a tool failed; the model gets the message
├── TurnEnded               a turn ended without an answer (agent.agent_events)
│   ├── TurnUnfinished          it reached a limit
│   ├── ProviderError           the provider failed
│   └── BudgetExceeded          a spending limit refused the call
├── ServerError             an MCP server failed (agent.mcp_connection)
├── NotStored               a message could not be stored; the channel keeps it (gateway.channel)
├── NotDelivered            a delivery failed and is retried (gateway.channel)
├── NeverDelivered          a delivery failed for good (gateway.channel)
├── UncertainDelivery       a delivery may have arrived (gateway.channels.telegram.bot_client)
├── TelegramUnreachable     the Bot API does not answer (gateway.channels.telegram.bot_client)
├── LeaseLost               another process took the turn over (storage.turns)
└── ShuttingDown            the gateway is closing (gateway.messages)

Not derived from ForewordError, because they never leave the package: UnusableError (a file that cannot be used,
engine.sources.files) and its ProtectedError (agent.tools.allowed_roots), Damaged (a memory index, memory.index),
HttpError (a response, http.error_responses).
"""

from collections.abc import Collection, Iterable, Sequence

from foreword.types import frozen

MAX_NAME_CHARS = 200  # the maximum characters of a name in a message
MAX_LISTED_NAMES = 12  # the maximum number of names that a message lists
MIN_NAME_SIMILARITY = 0.65  # the minimum similarity of two names, from 0 to 1, for a suggestion


class ForewordError(Exception):
    """The base class of all exceptions that Foreword raises deliberately."""


class InputError(ForewordError):
    """The input cannot be used; the message says what to change."""


class WorkspaceError(InputError):
    """There is no usable workspace in this folder."""


class Forbidden(InputError):
    """A rule forbids the request: trust, a quota, a confirmation, a protected file.

    The event log records it as a warning. Every other InputError of a tool is an error.
    """


class PathRefused(Forbidden):
    """A path is absolute, or leads out of the workspace directly or through a link."""


@frozen(eq=True)
class ConfigFault:
    """One problem in a file: its location and a remedy."""

    file: str
    line: int | None
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" + (f" ({self.remedy})" if self.remedy else "")


class ConfigError(InputError):
    """A configuration has problems; the message lists all of them."""

    def __init__(self, faults: Sequence[ConfigFault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class UnknownName(InputError):
    """A name does not exist; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], most: int = MAX_LISTED_NAMES) -> None:
        names = sorted(known)
        super().__init__(f"unknown {kind} {name!r}{suggest_name(name, names, most)}")
        self.kind, self.name, self.known = kind, name, tuple(names)


class UnusableRules(InputError):
    """A file with the rules of a situation exists but cannot be used, so there is no prompt.

    The message names the file. A conversation below full trust gets `public` instead.
    """

    public = (
        "This conversation is not configured correctly, so nothing is answered. `foreword doctor` names the reason."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}. It holds rules of this situation, so there is no prompt without it: "
            "repair the file, or remove it from prompt_overlay in foreword.yaml"
        )


class BudgetError(ForewordError):
    """The prompt does not fit; the message shows the arithmetic and names the slots."""


def suggest_name(name: str, known: Sequence[str], most: int = MAX_LISTED_NAMES) -> str:
    """Return the end of a sentence about an unknown name: the nearest valid name, or all names if they are few."""
    if near := find_nearest(name, known):
        return f"; did you mean {near!r}?"
    if not known:
        return "; there is none yet"
    return f"; there is {', '.join(known)}" if len(known) <= most else ""


def find_nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that differs only in case, else the nearest one, else an empty string.

    Leading dashes of options are not compared: they would make any two options look similar.
    """
    from difflib import get_close_matches

    folded = {_fold(one): one for one in known}
    near = get_close_matches(_fold(name), folded, n=1, cutoff=MIN_NAME_SIMILARITY)
    return folded[near[0]] if near else ""


def _fold(name: str) -> str:
    return name.lstrip("-").casefold()


def quote_name(name: str) -> str:
    """Quote a name from outside, shortened for a message."""
    return repr(name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…")


class ToolError(ForewordError):
    """A tool failed; the message goes to the model and to the event log."""
