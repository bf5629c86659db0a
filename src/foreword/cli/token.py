"""`foreword token`: access to the HTTP API, one token for each person and program."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foreword.cli.command import Command, list_actions
from foreword.cli.output import print_json
from foreword.cli.place import open_here
from foreword.errors import InputError, UnknownName

if TYPE_CHECKING:
    from foreword.gateway.tokens import Token, Tokens
    from foreword.workspace import Workspace

ACTIONS = {
    "create": "USER: print a new token, once (--name, --days)",
    "list": "[USER]: whose tokens there are, and when they were last used",
    "revoke": "ID or USER: end one token, or all of a person",
}


def add_options(parser: ArgumentParser) -> None:
    """Add the action, and whom it is about."""
    listed = list_actions(ACTIONS)
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help=listed)
    parser.add_argument("who", metavar="USER", nargs="?", default="", help="the person, or the id of a token")
    parser.add_argument("--name", metavar="TEXT", default="", help="with create: what the token is for")
    parser.add_argument("--days", metavar="N", type=int, help="with create: how long it is good; else until revoked")


def run(args: Namespace) -> int:
    """Do what the action says."""
    from foreword.gateway.tokens import Tokens
    from foreword.store.state import in_words

    actions: Mapping[str, Callable[[Namespace, Workspace, Tokens], None]] = {
        "create": create,
        "list": show_all,
        "revoke": revoke,
    }
    if not args.who and args.action != "list":
        raise InputError(f"token {args.action} needs to know whom it is about\nsee: foreword token --help")
    with open_here(args) as workspace, in_words(workspace.state), Tokens(workspace.state) as tokens:
        actions[args.action](args, workspace, tokens)
    return 0


def create(args: Namespace, workspace: "Workspace", tokens: "Tokens") -> None:
    """Make a token and print it, this once."""
    import sys

    made = tokens.create(args.who, workspace.config.users, args.name, args.days)
    if args.json:
        print_json({**write(made.token), "token": made.secret})
        return
    print(made.secret)
    until = f"until {made.token.expires:%Y-%m-%d}" if made.token.expires else "until it is revoked"
    note = f"token {made.token.id} of {args.who}, good {until}; it is shown this once and cannot be read again"
    print(note, file=sys.stderr)


def show_all(args: Namespace, workspace: "Workspace", tokens: "Tokens") -> None:
    """List the tokens, never themselves; who is no longer in foreword.yaml may have some all the same."""
    from foreword.cli.table import cell, draw, find_width, make_table

    found = tokens.find_all(args.who)
    if not found and args.who and args.who not in workspace.config.users:
        raise UnknownName("user", args.who, workspace.config.users)
    if args.json:
        print_json([write(token) for token in found])
    elif found:
        table = make_table("id", "user", "name", "created", "last used", "expires")
        for token in found:
            days = [f"{when:%Y-%m-%d}" if when else "–" for when in (token.created, token.used, token.expires)]
            table.add_row(cell(token.id), cell(token.user), cell(token.name), *days)
        draw(table, find_width())
    else:
        whose = f"{args.who} has" if args.who else "there is"
        print(f"{whose} no token; make one with: foreword token create {args.who or 'USER'}")


def revoke(args: Namespace, _: "Workspace", tokens: "Tokens") -> None:
    """End tokens; a request that is being answered is answered to its end."""
    gone = tokens.revoke(args.who)
    if args.json:
        print_json([write(token) for token in gone])
    else:
        print("\n".join(f"revoked: {token.id} of {token.user}" for token in gone))


def write(token: "Token") -> dict[str, str | None]:
    """Write what is known about a token as JSON-ready values."""
    from foreword.events.moment import stamp

    return {
        "id": token.id,
        "user": token.user,
        "name": token.name,
        "created": stamp(token.created),
        "used": stamp(token.used) if token.used else None,
        "expires": stamp(token.expires) if token.expires else None,
    }


COMMAND = Command(
    name="token",
    arguments="ACTION [USER]",
    summary="make, list and revoke the tokens of the HTTP API",
    description="A token says who asks over HTTP, and everything it asks for is done as that person. create prints "
    "one, and only its hash is kept, so it cannot be shown again. A token ends when it is revoked, when its days are "
    "over, or when its person is no longer in foreword.yaml.",
    examples=(
        "foreword token create alice",
        "foreword token create bob --name phone --days 90",
        "foreword token list",
        "foreword token revoke bob",
    ),
    add_options=add_options,
    run=run,
)
