"""Base classes, field types and error models of the gateway's own routes."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from foreword.gateway.equipment import MAX_PATH_CHARS
from foreword.gateway.messages import MAX_CLIENT_FACT_CHARS, MAX_MESSAGE_CHARS
from foreword.http.error_responses import STATUS_KINDS

MAX_TEXT_CHARS = MAX_MESSAGE_CHARS
MAX_NAME_CHARS = 200


class RequestModel(BaseModel):
    """Base of request models: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


TextField = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS)]
NameField = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)]
PathField = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_CHARS)]
FactField = Annotated[str, StringConstraints(max_length=MAX_CLIENT_FACT_CHARS)]


def read_integer(value: object) -> object:
    """Convert 3.0 to 3: JSON does not distinguish the two."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


CountField = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(read_integer)]


class ResponseModel(BaseModel):
    """Base of response models."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(BaseModel):
    """The details of an error."""

    model_config = ConfigDict(extra="allow")
    type: str
    message: str
    param: str | None
    code: str
    request_id: str = Field(description="The id of the request, also in the X-Request-Id header and in the log.")


class ErrorAnswer(ResponseModel):
    """The response body of every error."""

    error: ErrorDetail


def list_error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for the errors common to all routes and the given ones."""
    listed = sorted({400, 401, 404, 408, 413, 415, 421, 422, 429, 500, 503, *statuses})
    return {status: {"model": ErrorAnswer, "description": STATUS_KINDS[status].about} for status in listed}
