"""The HTTP application and its server: routers, OpenAPI document, listen address, start and shutdown."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from typing import Any, Literal

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from starlette.routing import Route

from foreword import __version__
from foreword.config.schema import HttpServer
from foreword.errors import InputError
from foreword.gateway.service import Gateway
from foreword.gateway.startup import DEFAULT_OPTIONS, GatewayOptions, open_gateway
from foreword.http import (
    agent_routes,
    log_routes,
    openai_routes,
    schedule_routes,
    session_routes,
    turn_routes,
    workspace_routes,
)
from foreword.http.error_responses import HttpError, add_error_handlers, list_error_responses
from foreword.http.middleware import AccessPolicy, RequestMiddleware, check_listen_address
from foreword.http.request_context import ResponseModel
from foreword.http.sse import WaitingClients
from foreword.storage.api_tokens import ApiTokens
from foreword.workspace import STATE_FOLDER, Workspace

API_DESCRIPTION = "Agents over HTTP: OpenAI's chat completions under /v1, and the gateway's own routes under /api."
TOKEN_LOCK_TIMEOUT_S = 0.2  # seconds that a token lookup waits for a database lock
MAX_PENDING_CONNECTIONS = 2_048
SHUTDOWN_TIMEOUT_S = 10  # seconds to finish running responses at shutdown
IDLE_TIMEOUT_S = 30  # seconds before an idle connection is closed

health_router = APIRouter(tags=["health"])
ROUTERS = (
    openai_routes.chat_router,
    openai_routes.model_router,
    turn_routes.turn_router,
    turn_routes.held_call_router,
    session_routes.session_router,
    schedule_routes.schedule_router,
    schedule_routes.notification_router,
    workspace_routes.explain_router,
    workspace_routes.price_router,
    agent_routes.memory_router,
    agent_routes.agent_router,
    agent_routes.instruction_router,
    log_routes.log_router,
    workspace_routes.reload_router,
    health_router,
)


class Health(ResponseModel):
    """The health status."""

    status: Literal["ok"]


@health_router.get("/healthz", operation_id="isAlive", openapi_extra={"security": []})
async def get_liveness() -> Health:
    """Report that the process is running."""
    return Health(status="ok")


@health_router.get("/readyz", operation_id="isReady", openapi_extra={"security": []})
async def get_readiness(request: Request) -> Health:
    """Report whether the state can be written, so that messages can be accepted."""
    try:
        await request.app.state.gateway.prove()
    except Exception as error:
        raise HttpError(503, "not ready", wait=5) from error
    return Health(status="ok")


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
        responses=list_error_responses(),
    )
    for router in ROUTERS:
        app.include_router(router)
    routes = [*app.routes, *(route for router in ROUTERS for route in router.routes)]
    app.state.routes = [route for route in routes if isinstance(route, Route)]
    add_error_handlers(app)
    describe = app.openapi
    app.openapi = lambda: clean_document(describe())  # type: ignore[method-assign]
    return app


def clean_document(document: dict[str, Any]) -> dict[str, Any]:
    """Remove FastAPI's validation error schemas, because all errors use `ErrorAnswer`, and sort the responses."""
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"] = dict(sorted(operation["responses"].items()))
    return document


def create_app(gateway: Gateway, settings: HttpServer) -> FastAPI:
    """Create the application for an open gateway."""
    workspace = gateway.workspace
    policy = AccessPolicy(settings, workspace.config)
    tokens = ApiTokens(os.path.join(workspace.files.root, STATE_FOLDER), patience=TOKEN_LOCK_TIMEOUT_S)

    @asynccontextmanager
    async def follow_reloads(_: FastAPI) -> AsyncIterator[None]:
        gateway.reloading.followers.append(policy)
        try:
            yield
        finally:
            gateway.reloading.followers.remove(policy)
            tokens.close()

    app = make_app()
    app.router.lifespan_context = follow_reloads
    app.state.gateway, app.state.tokens, app.state.waiters = gateway, tokens, WaitingClients(gateway)
    recorder = gateway.listeners.recorder
    app.add_middleware(RequestMiddleware, policy=policy, tokens=tokens, workspace=workspace, recorder=recorder)
    return app


def bind_socket(settings: HttpServer) -> socket.socket:
    """Bind the listen address; raise InputError if that fails."""
    check_listen_address(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        option = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise InputError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; choose another with {option}"
        ) from None
    return bound


def get_url(bound: socket.socket) -> str:
    """Return the URL of the bound address."""
    host, port, *_ = bound.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def run_server(app: FastAPI, bound: socket.socket) -> AsyncIterator[uvicorn.Server]:
    """Serve requests until the block ends; then stop accepting and let running requests finish."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        access_log=False,
        log_config=None,
        backlog=MAX_PENDING_CONNECTIONS,
        server_header=False,
        proxy_headers=False,  # clients can forge these headers
        timeout_keep_alive=IDLE_TIMEOUT_S,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]  # signals close the gateway first
    shutdown = app.state.shutdown = asyncio.Event()  # ends streams without an end, such as notifications
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for this
            await asyncio.sleep(0.005)
        yield server
    finally:
        shutdown.set()
        server.should_exit = True
        await task


async def serve_workspace(
    workspace: Workspace,
    settings: HttpServer,
    *,
    environ: Mapping[str, str] = os.environ,
    options: GatewayOptions = DEFAULT_OPTIONS,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a workspace until SIGTERM or SIGINT; call `ready` with the URL once the server answers."""
    ended = asyncio.Event()
    with closing(bind_socket(settings)) as bound:
        async with open_gateway(workspace, environ, options) as gateway:
            with handle_signals(ended):
                async with run_server(create_app(gateway, settings), bound):
                    ready(get_url(bound))
                    await ended.wait()


@contextmanager
def handle_signals(ended: asyncio.Event) -> Iterator[None]:
    """Set an event on SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    handled = []
    for name in (signal.SIGTERM, signal.SIGINT):
        # Not in the main thread, or not supported on this system.
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(name, ended.set)
            handled.append(name)
    try:
        yield
    finally:
        for name in handled:
            loop.remove_signal_handler(name)
