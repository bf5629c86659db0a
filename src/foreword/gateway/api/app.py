"""The application: the routes behind the door, and the document that describes them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from foreword import __version__
from foreword.config.schema import Config, HttpServer
from foreword.gateway.api import (
    agents,
    cache,
    chat,
    explain,
    health,
    held,
    instructions,
    log,
    memory,
    models,
    notifications,
    price,
    reload,
    schedules,
    sessions,
    turns,
)
from foreword.gateway.api.door import Door
from foreword.gateway.api.faults import add_faults
from foreword.gateway.api.terms import Terms
from foreword.gateway.api.waiters import Waiters
from foreword.gateway.tokens import Tokens
from foreword.workspace import STATE

if TYPE_CHECKING:
    from foreword.gateway.gateway import Gateway

ROUTERS = (
    chat.router,
    models.router,
    turns.router,
    held.router,
    sessions.router,
    schedules.router,
    notifications.router,
    explain.router,
    price.router,
    memory.router,
    agents.router,
    instructions.router,
    log.router,
    cache.router,
    reload.router,
    health.router,
)
ABOUT = "Agents over HTTP: OpenAI's chat completions under /v1, and the gateway's own routes under /api."
IMPATIENT = 0.2  # seconds that a look at a token waits for whoever writes


def make_app() -> FastAPI:
    """Make the application without a gateway: its routes and their description."""
    app = FastAPI(
        title="Foreword",
        version=__version__,
        description=ABOUT,
        license_info={"name": "Apache 2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "Where `foreword serve` listens; http://127.0.0.1:8707 unless set."}],
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        separate_input_output_schemas=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    app.state.routes = [*app.routes, *(route for router in ROUTERS for route in router.routes)]
    add_faults(app)
    describe = app.openapi
    app.openapi = lambda: describe_honestly(describe())  # type: ignore[method-assign]
    return app


def describe_honestly(document: dict[str, Any]) -> dict[str, Any]:
    """Leave the framework's own shape of errors out of the document: here every error has one shape."""
    schemas = document.get("components", {}).get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def create_app(gateway: "Gateway", settings: HttpServer) -> FastAPI:
    """Create the application of an open gateway."""
    workspace = gateway.workspace
    terms = Terms(settings, workspace.config)
    tokens = Tokens(os.path.join(workspace.files.root, STATE), patience=IMPATIENT)

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
    app.state.waiters = Waiters(gateway.stop)
    app.add_middleware(Door, terms=terms, tokens=tokens, config=find_config, recorder=gateway.listeners.recorder)
    return app
