"""`foreword serve`: the gateway, with its HTTP API."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import warn
from foreword.cli.place import find_environ, open_here
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.config.schema import Config, HttpServer
    from foreword.workspace import Workspace


def add_options(parser: ArgumentParser) -> None:
    """Add where it listens."""
    parser.add_argument("--host", metavar="ADDRESS", help="the address to listen on; else server.host, else 127.0.0.1")
    parser.add_argument(
        "--port", metavar="N", type=int, help="the port; 0 takes a free one; else server.port, else 8707"
    )
    parser.add_argument("--public", action="store_true", help="listen on an address that others can reach")
    parser.add_argument("--quiet", action="store_true", help="do not show every event on stderr")


def run(args: Namespace) -> int:
    """Serve until interrupted."""
    import asyncio

    from foreword.events.console import Console, log_to
    from foreword.gateway.channels.configured import find_channels
    from foreword.store.state import in_words

    with open_here(args) as workspace:
        settings = choose(args, workspace.config.server)
        environ = find_environ(workspace)
        channels = find_channels(workspace, environ)  # what is missing is said before anything slow is loaded
        try:
            from foreword.gateway.api.server import serve
            from foreword.gateway.opening import Options
        except ModuleNotFoundError as error:
            raise InputError(f"{error.name} is needed to serve: pip install 'foreword[gateway]'") from None
        console = Console(sys.stderr)
        options = Options(tree=None if args.quiet else console, opens=channels, scheduling=True)

        def told(address: str) -> None:
            announce(address, list(channels), args)
            warn_of_models(workspace.config, environ)
            warn_of_files(workspace)

        with in_words(workspace.state), log_to(console):
            asyncio.run(serve(workspace, settings, environ=environ, options=options, ready=told))
    return 0


def choose(args: Namespace, settings: "HttpServer") -> "HttpServer":
    """Put what was typed over what is configured."""
    if args.port is not None and not 0 <= args.port <= 65_535:
        raise InputError(f"--port is a number from 0 to 65535, not {args.port}")
    return replace(
        settings,
        host=settings.host if args.host is None else args.host,
        port=settings.port if args.port is None else args.port,
        public=settings.public or args.public,
    )


def announce(address: str, channels: list[str], args: Namespace) -> None:
    """Say where it listens, and how one gets in."""
    if args.json:
        import json

        print(json.dumps({"address": address, "channels": channels}), flush=True)
        return
    print(f"listening on {address}")
    print(f"OpenAI's clients: base_url {address}/v1, and a token as the key")
    for name in channels:
        print(f"{name}: messages to the bot are answered; who is who: foreword pair USER")
    print("a token: foreword token create USER", flush=True)


def warn_of_models(config: "Config", environ: Mapping[str, str]) -> None:
    """Warn of agents whose own model cannot answer, and say what does instead, or what to do."""
    from foreword.runtime.choosing import choose_model

    for name, agent in config.agents.items():
        try:
            reason = choose_model(agent.model, config, environ).reason
        except InputError as error:
            reason = str(error)
        if reason:
            warn(f"{name}: {reason}")


def warn_of_files(workspace: "Workspace") -> None:
    """Warn of files that cannot be used, each once; the log has the hints at files of an older layout."""
    from foreword.cli.turns import find_losses
    from foreword.events.reloads import tell_instead

    found = [find_losses(assembly) for assembly in workspace.preview()]
    overlays = {situation.prompt_overlay for situation in workspace.config.situations.values()}
    for path, trouble in sorted(workspace.files.losses.items()):
        if path in overlays:
            warn(f"{path} {trouble.reason}; {tell_instead(path, workspace.config)}")
    for reason in dict.fromkeys(reason for reasons in found for reason in reasons):
        warn(reason)


COMMAND = Command(
    name="serve",
    summary="run the gateway and its HTTP API",
    description="Serve the agents of a workspace over HTTP: OpenAI's chat completions under /v1, and the gateway's own "
    "routes under /api; with `telegram: {}` in foreword.yaml also on Telegram. It listens on the loopback unless told "
    "otherwise, and every request needs a token. What is scheduled is fired. On Ctrl-C or SIGTERM it accepts nothing "
    "more, gives running turns some time, and leaves the others to the next start.",
    examples=(
        "foreword serve",
        "foreword serve --port 9000 --quiet",
        "foreword serve --host 0.0.0.0 --public",
    ),
    add_options=add_options,
    run=run,
)
