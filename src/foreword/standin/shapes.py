"""The four ways to ask, each with its rules and its answers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from foreword.caching.blocks import Body
from foreword.frozen import frozen
from foreword.standin import anthropic, chat, gemini, responses
from foreword.standin.rules import judge_anthropic, judge_chat, judge_gemini, judge_json_answer, judge_responses
from foreword.standin.script import Refuses
from foreword.standin.speech import Speech


@frozen
class Shape:
    """One of the four ways to ask."""

    name: str
    judge: Callable[[Body], Iterator[str]]
    answer: Callable[[Speech], dict[str, Any]]
    stream: Callable[[Speech], Iterator[str]]


ANTHROPIC = Shape(
    name="anthropic",
    judge=judge_anthropic,
    answer=anthropic.answer,
    stream=anthropic.stream,
)
CHAT = Shape(name="openai", judge=judge_chat, answer=chat.answer, stream=chat.stream)
RESPONSES = Shape(
    name="responses",
    judge=judge_responses,
    answer=responses.answer,
    stream=responses.stream,
)
GEMINI = Shape(name="gemini", judge=judge_gemini, answer=gemini.answer, stream=gemini.stream)
SHAPES = {
    "/messages": ANTHROPIC,
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    ":generateContent": GEMINI,
    ":streamGenerateContent": GEMINI,
}


def judge(shape: Shape, body: Body, model: str) -> Iterable[str]:
    """Judge a request to a model; one that misses what every rule reads is refused for that."""
    try:
        return [*shape.judge(body), *(judge_json_answer(body, model) if shape is GEMINI else ())]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        return [f"the request is malformed: {type(error).__name__}: {error}"]


def find_model(path: str, body: Body) -> str:
    """Find the model that is asked, which Gemini has in the address."""
    return str(body.get("model") or path.rpartition("/")[2].partition(":")[0])


def refuse(shape: Shape, line: Refuses) -> dict[str, Any]:
    """Write a refusal as the provider of this shape does."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(line.status, "api_error")
    if shape is GEMINI:
        return {"error": {"code": line.status, "message": line.message, "status": kind.upper()}}
    error = {"type": kind, "message": line.message}
    return {"type": "error", "error": error} if shape is ANTHROPIC else {"error": {**error, "code": None}}
