"""The HTTP server: binds the address, serves the API and shuts down on SIGTERM or SIGINT."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from foreword.config.schema import HttpServer
from foreword.errors import InputError
from foreword.gateway.startup import DEFAULT_OPTIONS, GatewayOptions, open_gateway
from foreword.http.app import create_app
from foreword.http.middleware import check_listen_address
from foreword.workspace import Workspace

MAX_PENDING_CONNECTIONS = 2_048
SHUTDOWN_TIMEOUT_S = 10  # seconds to finish running responses at shutdown
IDLE_TIMEOUT_S = 30  # seconds before an idle connection is closed


class UvicornServer(uvicorn.Server):
    """A uvicorn server without signal handlers, which would end the process before the gateway is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


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


def make_server(app: FastAPI) -> UvicornServer:
    """Make the server for an application."""
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
    return UvicornServer(config)


@asynccontextmanager
async def run_server(app: FastAPI, bound: socket.socket) -> AsyncIterator[UvicornServer]:
    """Serve requests until the block ends; then stop accepting and let running requests finish."""
    server = make_server(app)
    ending = app.state.ending = asyncio.Event()  # ends streams without an end, such as notifications
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for this
            await asyncio.sleep(0.005)
        yield server
    finally:
        ending.set()
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
    caught = []
    for name in (signal.SIGTERM, signal.SIGINT):
        with suppress(
            NotImplementedError, ValueError, RuntimeError
        ):  # not in the main thread, or not supported on this system
            loop.add_signal_handler(name, ended.set)
            caught.append(name)
    try:
        yield
    finally:
        for name in caught:
            loop.remove_signal_handler(name)
