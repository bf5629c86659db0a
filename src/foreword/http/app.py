"""The FastAPI application: routers, middleware and the OpenAPI document.

`/healthz` and `/readyz`: liveness and readiness, without authentication.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, FastAPI, Request

from foreword import __version__
from foreword.config.schema import Config, HttpServer
from foreword.http import (
    agent_routes,
    log_routes,
    memory_routes,
    notification_routes,
    openai_routes,
    schedule_routes,
    session_routes,
    turn_routes,
    workspace_routes,
)
from foreword.http.error_responses import HttpError, add_error_handlers
from foreword.http.middleware import AccessPolicy, RequestMiddleware
from foreword.http.schemas import ResponseModel, list_error_responses
from foreword.http.sse import WaitingClients
from foreword.storage.api_tokens import ApiTokens
from foreword.workspace import STATE_FOLDER

if TYPE_CHECKING:
    from foreword.gateway.service import Gateway


NO_SECURITY: dict[str, Any] = {"security": []}

health_router = APIRouter(tags=["health"])


class Health(ResponseModel):
    """The health status."""

    status: Literal["ok"]


@health_router.get("/healthz", operation_id="isAlive", responses=list_error_responses(), openapi_extra=NO_SECURITY)
async def get_liveness() -> Health:
    """Report that the process is running."""
    return Health(status="ok")


@health_router.get("/readyz", operation_id="isReady", responses=list_error_responses(), openapi_extra=NO_SECURITY)
async def get_readiness(request: Request) -> Health:
    """Report whether the state can be written, so that messages can be accepted."""
    try:
        await request.app.state.gateway.prove()
    except Exception as error:
        raise HttpError(503, "not ready", wait=5) from error
    return Health(status="ok")


ROUTERS = (
    openai_routes.chat_router,
    openai_routes.model_router,
    turn_routes.turn_router,
    turn_routes.held_call_router,
    session_routes.session_router,
    schedule_routes.schedule_router,
    notification_routes.notification_router,
    workspace_routes.explain_router,
    workspace_routes.price_router,
    memory_routes.memory_router,
    agent_routes.agent_router,
    agent_routes.instruction_router,
    log_routes.log_router,
    log_routes.cache_router,
    workspace_routes.reload_router,
    health_router,
)
API_DESCRIPTION = "Agents over HTTP: OpenAI's chat completions under /v1, and the gateway's own routes under /api."
TOKEN_LOCK_TIMEOUT_S = 0.2  # seconds that a token lookup waits for a database lock


def make_app() -> FastAPI:
    """Make the application without a gateway: the routes and the OpenAPI document."""
    app = FastAPI(
        title="Foreword",
        version=__version__,
        description=API_DESCRIPTION,
        license_info={"name": "Apache 2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "Where `foreword serve` listens; http://127.0.0.1:8707 unless set."}],
        docs_url=None,  # the page loads scripts from a CDN
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        separate_input_output_schemas=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    app.state.routes = [*app.routes, *(route for router in ROUTERS for route in router.routes)]
    add_error_handlers(app)
    describe = app.openapi
    app.openapi = lambda: remove_framework_errors(describe())  # type: ignore[method-assign]
    return app


def remove_framework_errors(document: dict[str, Any]) -> dict[str, Any]:
    """Remove FastAPI's validation error schemas from the document; all errors use `ErrorAnswer`."""
    schemas = document.get("components", {}).get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def create_app(gateway: "Gateway", settings: HttpServer) -> FastAPI:
    """Create the application for an open gateway."""
    workspace = gateway.workspace
    terms = AccessPolicy(settings, workspace.config)
    tokens = ApiTokens(os.path.join(workspace.files.root, STATE_FOLDER), patience=TOKEN_LOCK_TIMEOUT_S)

    def find_config() -> Config:
        workspace.refresh()
        return workspace.config

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        gateway.reloading.followers.append(terms)
        try:
            yield
        finally:
            gateway.reloading.followers.remove(terms)
            tokens.close()

    app = make_app()
    app.router.lifespan_context = live
    app.state.gateway = gateway
    app.state.tokens = tokens
    app.state.waiters = WaitingClients(gateway.stop)
    app.add_middleware(
        RequestMiddleware, terms=terms, tokens=tokens, config=find_config, recorder=gateway.listeners.recorder
    )
    return app
