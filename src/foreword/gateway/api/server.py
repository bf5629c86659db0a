"""Serving: the API on an address until it is told to end; what runs then is finished, or left to the next start."""

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
from foreword.gateway.api.app import create_app
from foreword.gateway.api.hosts import check_address
from foreword.gateway.opening import AS_USUAL, Options, open_gateway
from foreword.workspace import Workspace

BACKLOG = 2_048
GRACE = 10  # seconds in which answers under way are sent to their end
IDLE = 30  # seconds that a connection without a request is kept


class Listening(uvicorn.Server):
    """A server that leaves signals to whoever runs it: it would end the process before the gateway is closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def bind(settings: HttpServer) -> socket.socket:
    """Take the address, or say why that is not possible."""
    check_address(settings)
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


def show_address(bound: socket.socket) -> str:
    """Show the address that was taken, as a client writes it."""
    host, port, *_ = bound.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: FastAPI) -> Listening:
    """Make the server of an application."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        access_log=False,
        log_config=None,
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,  # what a client says about its own address proves nothing
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE,
    )
    return Listening(config)


@asynccontextmanager
async def serving(app: FastAPI, bound: socket.socket) -> AsyncIterator[Listening]:
    """Answer requests until the block is left; then no more are accepted, and those under way get their time."""
    server = make_server(app)
    ending = app.state.ending = asyncio.Event()  # ends streams that have no end of their own
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)
        yield server
    finally:
        ending.set()
        server.should_exit = True
        await task


async def serve(
    workspace: Workspace,
    settings: HttpServer,
    *,
    environ: Mapping[str, str] = os.environ,
    options: Options = AS_USUAL,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve a workspace until the process is told to end; `ready` is called with the address once it answers."""
    ended = asyncio.Event()
    with closing(bind(settings)) as bound:
        async with open_gateway(workspace, environ, options) as gateway:
            with catching(ended):
                async with serving(create_app(gateway, settings), bound):
                    ready(show_address(bound))
                    await ended.wait()


@contextmanager
def catching(ended: asyncio.Event) -> Iterator[None]:
    """Set an event when the process is told to end, by the system or by Ctrl-C."""
    loop = asyncio.get_running_loop()
    caught = []
    for name in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):  # not the main thread, or not this system
            loop.add_signal_handler(name, ended.set)
            caught.append(name)
    try:
        yield
    finally:
        for name in caught:
            loop.remove_signal_handler(name)
