"""`foreword serve`: run the gateway with its HTTP API.

`foreword pair`: create pairing codes, and list and revoke pairings. `foreword token`: create, list and revoke tokens
of the HTTP API.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from foreword.cli.inputs import load_environ, open_named_workspace
from foreword.cli.main import CliCommand, list_actions
from foreword.cli.output import print_json, warn
from foreword.errors import InputError, UnknownName

if TYPE_CHECKING:
    import sqlite3

    from foreword.config.schema import Config, HttpServer
    from foreword.gateway.pairing import PairedIdentity
    from foreword.storage.api_tokens import ApiToken, ApiTokens
    from foreword.workspace import Workspace


def add_pair_options(parser: ArgumentParser) -> None:
    """Add the user or the action, and the identity to revoke."""
    parser.add_argument("what", metavar="USER", help="the user to create a code for; or `list`, or `revoke`")
    parser.add_argument(
        "which",
        metavar="WHO",
        nargs="?",
        default="",
        help="with revoke: an identity such as telegram:1001, or a user with all identities",
    )
    parser.add_argument(
        "--minutes", metavar="N", type=int, default=10, help="minutes until the code expires (default: 10)"
    )


def run_pair(args: Namespace) -> int:
    """Create a code, or list or revoke pairings."""
    from foreword.storage.database import explain_sqlite_errors, open_state

    if args.what == "revoke" and not args.which:
        raise InputError("pair revoke needs an identity such as telegram:1001, or a user")
    if args.what != "revoke" and args.which:
        raise InputError(f"pair {args.what} takes no further argument, got {args.which!r}")
    with (
        open_named_workspace(args) as workspace,
        explain_sqlite_errors(workspace.state),
        closing(open_state(workspace.state).connection) as state,
    ):
        if args.what == "list":
            print_identities(args, workspace, state)
        elif args.what == "revoke":
            revoke_pairings(args, state)
        else:
            create_pairing_code(args, workspace, state)
    return 0


def create_pairing_code(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """Create a code and print it once."""
    import sys
    from datetime import UTC, datetime

    from foreword.gateway import pairing

    code = pairing.create_code(state, args.what, workspace.config.users, datetime.now(UTC), args.minutes)
    if args.json:
        print_json({"user": args.what, "code": code, "minutes": args.minutes})
        return
    print(code)
    note = f"{args.what} must send this to the agent in a private chat within {args.minutes} minutes: /pair {code}"
    print(note, file=sys.stderr)


def print_identities(args: Namespace, workspace: "Workspace", state: "sqlite3.Connection") -> None:
    """List the identities of users: configured ones and paired ones."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.gateway.pairing import list_paired

    users = workspace.config.users
    rows = [
        *(
            {"identity": one, "user": name, "name": "", "paired": None}
            for name in users
            for one in users[name].identities
        ),
        *map(pairing_to_dict, list_paired(state)),
    ]
    if args.json:
        print_json(rows)
    elif rows:
        table = make_table("identity", "user", "display name", "since")
        for row in rows:
            user = row["user"] if row["user"] in users else f"{row['user']} (no longer a user; treated as a stranger)"
            since = str(row["paired"])[:10] if row["paired"] else "foreword.yaml"
            table.add_row(make_cell(str(row["identity"])), make_cell(str(user)), make_cell(str(row["name"])), since)
        print_table(table, find_width())
    else:
        print("no identities; create a pairing code with: foreword pair USER")


def revoke_pairings(args: Namespace, state: "sqlite3.Connection") -> None:
    """Revoke pairings; the conversations remain."""
    from foreword.gateway.pairing import revoke_identities

    gone = revoke_identities(state, args.which)
    if args.json:
        print_json([pairing_to_dict(one) for one in gone])
    elif gone:
        print("\n".join(f"revoked: {one.identity} of {one.user}" for one in gone))
    else:
        print(f"revoked: the code of {args.which}")


def pairing_to_dict(one: "PairedIdentity") -> dict[str, str | None]:
    """Return a pairing as JSON-ready values."""
    from foreword.events.period import format_timestamp

    return {"identity": one.identity, "user": one.user, "name": one.name, "paired": format_timestamp(one.since)}


PAIR_COMMAND = CliCommand(
    name="pair",
    arguments="USER",
    summary="pair a person on a channel with a user, by a code",
    description="Print a short code for a user in foreword.yaml. Sending it to the agent in a private chat, for "
    "example on Telegram, pairs the sender with that user. A code works once, expires after a few minutes, and becomes "
    "invalid when it is sent to a group. `list` shows the identities of all users; `revoke` removes a pairing.",
    examples=(
        "foreword pair bob",
        "foreword pair bob --minutes 60",
        "foreword pair list",
        "foreword pair revoke telegram:1002",
        "foreword pair revoke bob",
    ),
    add_options=add_pair_options,
    run=run_pair,
)


def add_serve_options(parser: ArgumentParser) -> None:
    """Add the address and the log options."""
    parser.add_argument(
        "--host", metavar="ADDRESS", help="the address to listen on (default: server.host, else 127.0.0.1)"
    )
    parser.add_argument(
        "--port", metavar="N", type=int, help="the port; 0 picks a free one (default: server.port, else 8707)"
    )
    parser.add_argument("--public", action="store_true", help="allow an address that other machines can reach")
    parser.add_argument("--quiet", action="store_true", help="do not print events to stderr")


def run_serve(args: Namespace) -> int:
    """Serve until interrupted."""
    import asyncio

    from foreword.events.sinks import Console, log_to
    from foreword.gateway.channels.channel_setup import find_channels
    from foreword.storage.database import explain_sqlite_errors

    with open_named_workspace(args) as workspace:
        settings = override_settings(args, workspace.config.server)
        environ = load_environ(workspace)
        channels = find_channels(workspace, environ)  # report missing parts before slow imports
        from foreword.gateway.startup import GatewayOptions
        from foreword.http.app import serve_workspace

        console = Console(sys.stderr)
        options = GatewayOptions(tree=None if args.quiet else console, opens=channels, scheduling=True)

        def told(address: str) -> None:
            print_address(address, list(channels), args)
            warn_about_models(workspace.config, environ)
            warn_about_files(workspace)

        with explain_sqlite_errors(workspace.state), log_to(console):
            asyncio.run(serve_workspace(workspace, settings, environ=environ, options=options, ready=told))
    return 0


def override_settings(args: Namespace, settings: "HttpServer") -> "HttpServer":
    """Override the configured settings with the options."""
    if args.port is not None and not 0 <= args.port <= 65_535:
        raise InputError(f"--port must be from 0 to 65535, not {args.port}")
    return replace(
        settings,
        host=settings.host if args.host is None else args.host,
        port=settings.port if args.port is None else args.port,
        public=settings.public or args.public,
    )


def print_address(address: str, channels: list[str], args: Namespace) -> None:
    """Print the address, the channels and how to get a token."""
    if args.json:
        import json

        print(json.dumps({"address": address, "channels": channels}), flush=True)
        return
    print(f"listening on {address}")
    print(f"OpenAI clients: base_url {address}/v1, with a token as the API key")
    for name in channels:
        print(f"{name}: answering messages to the bot; to pair a user: foreword pair USER")
    print("to create a token: foreword token create USER", flush=True)


def warn_about_models(config: "Config", environ: Mapping[str, str]) -> None:
    """Warn about agents whose model cannot answer, with the replacement or a remedy."""
    from foreword.agent.providers.model_discovery import choose_model

    for name, agent in config.agents.items():
        try:
            reason = choose_model(agent.model, config, environ).reason
        except InputError as error:
            reason = str(error)
        if reason:
            warn(f"{name}: {reason}")


def warn_about_files(workspace: "Workspace") -> None:
    """Warn once about each unusable file; hints about older layouts go to the log."""
    from foreword.assembly import list_unusable_files
    from foreword.gateway.reload import explain_fallback

    found = [list_unusable_files(assembly) for assembly in workspace.preview()]
    overlays = {situation.prompt_overlay for situation in workspace.config.situations.values()}
    for path, trouble in sorted(workspace.files.losses.items()):
        if path in overlays:
            warn(f"{path} {trouble.reason}; {explain_fallback(path, workspace.config)}")
    for reason in dict.fromkeys(reason for reasons in found for reason in reasons):
        warn(reason)


SERVE_COMMAND = CliCommand(
    name="serve",
    summary="run the gateway and its HTTP API",
    description="Serve the agents of a workspace over HTTP: OpenAI chat completions under /v1 and the gateway's own "
    "routes under /api; with `telegram: {}` in foreword.yaml also on Telegram. The default address is loopback, and "
    "every request needs a token. Runs due schedules. On Ctrl-C or SIGTERM it stops accepting messages, gives running "
    "turns some time to finish, and resumes the others at the next start.",
    examples=(
        "foreword serve",
        "foreword serve --port 9000 --quiet",
        "foreword serve --host 0.0.0.0 --public",
    ),
    add_options=add_serve_options,
    run=run_serve,
)


TOKEN_ACTIONS = {
    "create": "USER: create a token and print it once (--name, --days)",
    "list": "[USER]: list tokens, with owner and last use",
    "revoke": "ID or USER: revoke one token, or all tokens of a user",
}


def add_token_options(parser: ArgumentParser) -> None:
    """Add the action and the user or token."""
    listed = list_actions(TOKEN_ACTIONS)
    parser.add_argument("action", metavar="ACTION", choices=TOKEN_ACTIONS, help=listed)
    parser.add_argument("who", metavar="USER", nargs="?", default="", help="the user, or the id of a token")
    parser.add_argument("--name", metavar="TEXT", default="", help="with create: the purpose of the token")
    parser.add_argument(
        "--days", metavar="N", type=int, help="with create: days until the token expires (default: never)"
    )


def run_token(args: Namespace) -> int:
    """Run the action."""
    from foreword.storage.api_tokens import ApiTokens
    from foreword.storage.database import explain_sqlite_errors

    actions: Mapping[str, Callable[[Namespace, Workspace, ApiTokens], None]] = {
        "create": create_token,
        "list": print_tokens,
        "revoke": revoke_tokens,
    }
    if not args.who and args.action != "list":
        raise InputError(f"token {args.action} needs a user\nsee: foreword token --help")
    with (
        open_named_workspace(args) as workspace,
        explain_sqlite_errors(workspace.state),
        ApiTokens(workspace.state) as tokens,
    ):
        actions[args.action](args, workspace, tokens)
    return 0


def create_token(args: Namespace, workspace: "Workspace", tokens: "ApiTokens") -> None:
    """Create a token and print it once."""
    import sys

    made = tokens.create(args.who, workspace.config.users, args.name, args.days)
    if args.json:
        print_json({**token_to_dict(made.token), "token": made.secret})
        return
    print(made.secret)
    until = f"until {made.token.expires:%Y-%m-%d}" if made.token.expires else "until it is revoked"
    note = f"token {made.token.id} of {args.who}, valid {until}; store it now, it cannot be shown again"
    print(note, file=sys.stderr)


def print_tokens(args: Namespace, workspace: "Workspace", tokens: "ApiTokens") -> None:
    """List the tokens without their secrets; former users may still have some."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table

    found = tokens.find_all(args.who)
    if not found and args.who and args.who not in workspace.config.users:
        raise UnknownName("user", args.who, workspace.config.users)
    if args.json:
        print_json([token_to_dict(token) for token in found])
    elif found:
        table = make_table("id", "user", "name", "created", "last used", "expires")
        for token in found:
            days = [f"{when:%Y-%m-%d}" if when else "–" for when in (token.created, token.used, token.expires)]
            table.add_row(make_cell(token.id), make_cell(token.user), make_cell(token.name), *days)
        print_table(table, find_width())
    else:
        whose = f"{args.who} has" if args.who else "there are"
        print(f"{whose} no tokens; create one with: foreword token create {args.who or 'USER'}")


def revoke_tokens(args: Namespace, _: "Workspace", tokens: "ApiTokens") -> None:
    """Revoke tokens; requests in progress are finished."""
    gone = tokens.revoke(args.who)
    if args.json:
        print_json([token_to_dict(token) for token in gone])
    else:
        print("\n".join(f"revoked: {token.id} of {token.user}" for token in gone))


def token_to_dict(token: "ApiToken") -> dict[str, str | None]:
    """Return a token as JSON-ready values, without its secret."""
    from foreword.events.period import format_timestamp

    return {
        "id": token.id,
        "user": token.user,
        "name": token.name,
        "created": format_timestamp(token.created),
        "used": format_timestamp(token.used) if token.used else None,
        "expires": format_timestamp(token.expires) if token.expires else None,
    }


TOKEN_COMMAND = CliCommand(
    name="token",
    arguments="ACTION [USER]",
    summary="create, list and revoke tokens of the HTTP API",
    description="A token authenticates a user over HTTP; every request with it acts as that user. `create` prints the "
    "token once: only its hash is stored. A token becomes invalid when it is revoked, when it expires, or when its "
    "user is removed from foreword.yaml.",
    examples=(
        "foreword token create alice",
        "foreword token create bob --name phone --days 90",
        "foreword token list",
        "foreword token revoke bob",
    ),
    add_options=add_token_options,
    run=run_token,
)
