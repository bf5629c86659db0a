"""The shapes of requests and answers of the gateway's own routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from foreword.gateway.api.faults import KINDS
from foreword.gateway.checking import LONGEST, LONGEST_FACT
from foreword.gateway.projects import MAX_PATH_CHARS

LONGEST_TEXT = LONGEST
LONGEST_NAME = 200


class Asked(BaseModel):
    """What a request may hold: nothing else, and nothing of another kind."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


Text = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT)]
Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
Path = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_CHARS)]
Fact = Annotated[str, StringConstraints(max_length=LONGEST_FACT)]


def read_whole(value: object) -> object:
    """Read 3.0 as 3, which JSON does not tell apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(read_whole)]


class Device(Asked):
    """What the person's own device says of them; it holds for this message and is not remembered for the next."""

    zone: Fact = Field("", description="The time zone, such as Europe/Paris; one that nobody knows counts as UTC.")
    language: Fact = Field("", description="Languages as in Accept-Language; that header counts where this is empty.")
    location: Fact = Field("", description="Where the person is, in a few words.")


class TurnRequest(Asked):
    """A message to an agent."""

    text: Text = Field(description="What the person says.")
    session: Name | None = Field(None, description="The session it belongs to; else the one this person used last.")
    agent: Name | None = Field(None, description="The agent; else the first one of the configuration.")
    situation: Name | None = Field(None, description="A situation that allows less than a private chat.")
    client: Device | None = Field(None, description="What the person's own device says of them.")
    plan: bool | None = Field(None, description="Whether the agent only plans; else as the session has it.")
    project: Path | None = Field(
        None, description="The project's directory, in one of the agent's; the session keeps it."
    )


class Decision(Asked):
    """The answer of a person to what a tool asks before it acts."""

    question: Name = Field(description="The id of the question, from the event `ask`.")
    allowed: bool


class SessionRequest(Asked):
    """A session that is to begin."""

    agent: Name | None = Field(None, description="The agent; else the first one of the configuration.")
    situation: Name | None = Field(None, description="A situation that allows less than a private chat.")
    plan: bool = Field(default=False, description="Whether the agent only plans.")
    project: Path | None = Field(None, description="The project's directory, in one of the agent's.")


class SessionChange(Asked):
    """What is to change in a session; what is left out stays."""

    plan: bool | None = Field(None, description="Whether the agent only plans; switching it off drops an open plan.")
    project: Annotated[str, StringConstraints(max_length=MAX_PATH_CHARS)] | None = Field(
        None, description="The project's directory, in one of the agent's; empty closes it."
    )


class ForkRequest(Asked):
    """Where a session is to be forked."""

    turns: Count | None = Field(None, description="How many of its turns the new one keeps; else all.")


class Told(BaseModel):
    """What an answer holds."""

    model_config = ConfigDict(frozen=True)


class Tokens(Told):
    """What the calls of a turn used, all of them together."""

    input: int = Field(description="All input tokens, those of the cache among them.")
    output: int


class Cache(Told):
    """What was read from the provider's cache, and written to it."""

    read: int
    write: int


State = Literal["waiting", "running", "queued", "answered", "refused", "failed", "stopped"]


class TurnAnswer(Told):
    """A turn, and what came of it so far."""

    turn: str
    session: str
    agent: str
    state: State
    reply: str = Field(description="The reply, or what the person is told instead.")
    tokens: Tokens
    cost_usd: float | None = Field(description="US dollars; null where nobody knows the price.")
    cut: bool = Field(description="Whether the reply ends because it became too long.")
    silent: bool = Field(description="Whether the agent has answered that it has nothing to say; the reply is empty.")
    cache: Cache
    received: datetime
    finished: datetime | None


class RecordedTurn(TurnAnswer):
    """A turn with what its model was told."""

    prompts: list[dict[str, Any]] = Field(description="Each distinct prompt of the turn, in the schema `foreword/1`.")


class SessionShape(Told):
    """A session."""

    session: str
    agent: str
    channel: str
    situation: str
    clearance: Literal["public", "familiar", "inner", "full"]
    created: datetime
    used: datetime
    parent: str | None
    plan: bool
    model: str | None
    project: str | None


class PlanShape(Told):
    """The newest plan of a session, and whether plan mode is on."""

    on: bool
    plan: int | None = Field(description="The number of the newest plan; null where there is none.")
    state: str | None
    text: str | None


class Said(Told):
    """One message of a session, as text."""

    role: Literal["user", "assistant"]
    text: str


class SessionHistory(SessionShape):
    """A session with what was said in it."""

    messages: list[Said]


class Sessions(Told):
    """The sessions of a person, the newest first."""

    sessions: list[SessionShape]


class Stopped(Told):
    """Whether a turn was stopped."""

    turn: str
    stopped: bool


class Decided(Told):
    """A question that was answered."""

    turn: str
    question: str
    allowed: bool


class ErrorDetail(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(extra="allow")
    type: str
    message: str
    param: str | None
    code: str
    request_id: str = Field(description="The id of the request, as in the header X-Request-Id and in the log.")


class ErrorAnswer(Told):
    """The one shape of every error."""

    error: ErrorDetail


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document errors beside those that every route has."""
    listed = sorted({400, 401, 404, 408, 413, 415, 421, 422, 429, 500, 503, *statuses})
    return {status: {"model": ErrorAnswer, "description": KINDS[status].about} for status in listed}
