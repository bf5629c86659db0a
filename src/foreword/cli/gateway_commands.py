"""The commands that run agents, and manage who reaches them: `chat`, `serve`, `token`, `pair` and `schedule`.

Modules of the `gateway` extra are imported late, so that help and `token` do not need them.
"""

import asyncio
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from foreword.cli import inputs
from foreword.cli.inputs import add_options, load_environ, open_named_workspace
from foreword.cli.output import pick, print_json, print_table, to_plain, warn
from foreword.config.schedule_settings import MissedRuns, ScheduleSettings
from foreword.config.schema import Config
from foreword.errors import InputError, UnknownName
from foreword.storage import api_tokens, database, schedules
from foreword.types import Delivery
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.storage.pairings import PairedIdentity
    from foreword.storage.turns import TurnReply

MAX_TEXT_CHARS = 40  # characters of a schedule's text in the table
OVERDUE_AFTER = timedelta(minutes=1)  # a schedule due longer than this shows that no gateway is running
OVERDUE_NOTE = "overdue; start foreword serve to run it"
WHEN_SCHEDULES_RUN = (
    "schedules run while foreword serve runs, or while foreword chat is open if no Telegram bot is configured"
)


def add_chat_options(parser: ArgumentParser) -> None:
    """Add the message, the participants and the model."""
    message = {"words MESSAGE": "send this message, print the answer and exit"}
    add_options(parser, message, nargs="*", default=[])
    who = parser.add_argument_group("who and where")
    inputs.add_place_options(who)
    add_options(who, {"--session ID": "resume this session (default: the last one)"}, default="")
    add_options(who, {"--new": "start a new session"})
    how = parser.add_argument_group("how")
    add_options(how, {"--model NAME": "the model of the session, as provider:name"}, default="")
    inputs.add_mode_option(how)
    add_options(how, {"--project DIR": "the folder of the open project"})


def run_chat(args: Namespace) -> int:
    """Talk with an agent.

    Answers appear as they arrive, Ctrl-C stops one, and /help lists the commands inside the chat. The last session is
    resumed unless --new is given. With a message as argument or on stdin, the answer is printed and the command exits:
    with 0 if there is an answer, otherwise with 1. With --json the reply is printed with its tokens and cost.

    Examples:
        foreword chat
        foreword chat "What is on this week?"
        foreword chat /cost
    """
    if args.new and args.session:
        raise InputError("give --new or --session, not both")
    from foreword.cli.chat.repl import start_chat

    return start_chat(args)


def add_serve_options(parser: ArgumentParser) -> None:
    """Add the address and the log options."""
    add_options(parser, {"--host ADDRESS": "the address to listen on (default: server.host, else 127.0.0.1)"})
    port = {"--port N": "the port; 0 picks a free one (default: server.port, else 8707)"}
    add_options(parser, port, type=int)
    flags = {"--public": "allow an address that other machines can reach", "--quiet": "do not print events to stderr"}
    add_options(parser, flags)


def run_serve(args: Namespace) -> int:
    """Serve the agents of a workspace over HTTP, and on Telegram with `telegram: {}` in foreword.yaml.

    OpenAI chat completions are under /v1 and the gateway's own routes under /api. The default address is loopback, and
    every request needs a token. Runs due schedules. On Ctrl-C or SIGTERM it stops accepting messages, gives running
    turns some time to finish, and resumes the others at the next start.

    Examples:
        foreword serve
        foreword serve --port 9000 --quiet
        foreword serve --host 0.0.0.0 --public
    """
    from foreword.events.sinks import Console, log_to
    from foreword.gateway.channel import find_channels

    with open_named_workspace(args) as workspace:
        if args.port is not None and not 0 <= args.port <= 65_535:
            raise InputError(f"--port must be from 0 to 65535, not {args.port}")
        given = {name: getattr(args, name) for name in ("host", "port") if getattr(args, name) is not None}
        server = workspace.config.server
        settings = replace(server, public=server.public or args.public, **given)
        environ = load_environ(workspace)
        channels = find_channels(workspace, environ)  # report missing parts before slow imports
        from foreword.gateway.startup import GatewayOptions
        from foreword.http.app import serve_workspace

        console = Console(sys.stderr)
        options = GatewayOptions(tree=None if args.quiet else console, opens=channels, scheduling=True)

        def report_ready(address: str) -> None:
            if args.json:
                print(json.dumps({"address": address, "channels": [*channels]}), flush=True)
            else:
                print(f"listening on {address}")
                print(f"OpenAI clients: base_url {address}/v1, with a token as the API key")
                for name in channels:
                    print(f"{name}: answering messages to the bot; to pair a user: foreword pair USER")
                print("to create a token: foreword token create USER", flush=True)
            warn_about_models(workspace.config, environ)
            warn_about_files(workspace)

        with database.explain_sqlite_errors(workspace.state), log_to(console):
            asyncio.run(serve_workspace(workspace, settings, environ=environ, options=options, ready=report_ready))
    return 0


def warn_about_models(config: Config, environ: Mapping[str, str]) -> None:
    """Warn about agents whose model cannot answer, with the replacement or a remedy."""
    from foreword.agent.providers.model_discovery import choose_model

    for name, agent in config.agents.items():
        try:
            reason = choose_model(agent.model, config, environ).reason
        except InputError as error:
            reason = str(error)
        if reason:
            warn(f"{name}: {reason}")


def warn_about_files(workspace: Workspace) -> None:
    """Warn once about each unusable file; hints about older layouts go to the log."""
    from foreword.assembly import list_unusable_files
    from foreword.gateway.reload import explain_fallback

    reasons = [reason for assembly in workspace.preview() for reason in list_unusable_files(assembly)]
    overlays = {situation.prompt_overlay for situation in workspace.config.situations.values()}
    for path, problem in sorted(workspace.files.losses.items()):
        if path in overlays:
            warn(f"{path} {problem.reason}; {explain_fallback(path, workspace.config)}")
    for reason in dict.fromkeys(reasons):
        warn(reason)


def add_token_options(parser: ArgumentParser) -> None:
    """Add the action and the user or token."""
    actions = (
        "create USER: create a token and print it once (--name, --days); list [USER]: list tokens, with owner and last "
        "use; revoke ID or USER: revoke one token, or all tokens of a user"
    )
    parser.add_argument("action", metavar="ACTION", choices=("create", "list", "revoke"), help=actions)
    add_options(parser, {"who USER": "the user, or the id of a token"}, nargs="?", default="")
    add_options(parser, {"--name TEXT": "with create: the purpose of the token"}, default="")
    add_options(parser, {"--days N": "with create: days until the token expires (default: never)"}, type=int)


def run_token(args: Namespace) -> int:
    """Create, list and revoke tokens of the HTTP API.

    A token authenticates a user over HTTP; every request with it acts as that user. `create` prints the token once:
    only its hash is stored. A token becomes invalid when it is revoked, when it expires, or when its user is removed
    from foreword.yaml.

    Examples:
        foreword token create alice
        foreword token create bob --name phone --days 90
        foreword token revoke bob
    """
    if not args.who and args.action != "list":
        raise InputError(f"token {args.action} needs a user\nsee: foreword token --help")
    with (
        open_named_workspace(args) as workspace,
        database.explain_sqlite_errors(workspace.state),
        api_tokens.ApiTokens(workspace.state) as tokens,
    ):
        users = workspace.config.users
        if args.action == "create":
            made = tokens.create(args.who, users, args.name, args.days)
            if args.json:
                print_json({**to_plain(made.token), "token": made.secret})
            else:
                print(made.secret)
                until = f"until {made.token.expires:%Y-%m-%d}" if made.token.expires else "until it is revoked"
                note = f"token {made.token.id} of {args.who}, valid {until}"
                print(f"{note}; store it now, it cannot be shown again", file=sys.stderr)
        elif args.action == "list":
            print_tokens(args, users, tokens)
        else:
            revoked = tokens.revoke(args.who)  # requests in progress are finished
            listed = "\n".join(f"revoked: {token.id} of {token.user}" for token in revoked)
            print_json(revoked) if args.json else print(listed)
    return 0


def print_tokens(args: Namespace, users: Mapping[str, Any], tokens: api_tokens.ApiTokens) -> None:
    """List the tokens without their secrets; former users may still have some."""
    found = tokens.find_all(args.who)
    if not found and args.who and args.who not in users:
        raise UnknownName("user", args.who, users)
    if args.json:
        print_json(found)
    elif found:
        rows = []
        for token in found:
            days = [f"{when:%Y-%m-%d}" if when else "–" for when in (token.created, token.used, token.expires)]
            rows.append((token.id, token.user, token.name, *days))
        print_table(("id", "user", "name", "created", "last used", "expires"), rows)
    else:
        whose = f"{args.who} has" if args.who else "there are"
        print(f"{whose} no tokens; create one with: foreword token create {args.who or 'USER'}")


def add_pair_options(parser: ArgumentParser) -> None:
    """Add the user or the action, and the identity to revoke."""
    parser.add_argument("what", metavar="USER", help="the user to create a code for; or `list`, or `revoke`")
    identity = {"which WHO": "with revoke: an identity such as telegram:1001, or a user with all identities"}
    add_options(parser, identity, nargs="?", default="")
    add_options(parser, {"--minutes N": "minutes until the code expires (default: 10)"}, type=int, default=10)


def run_pair(args: Namespace) -> int:
    """Print a short code that pairs a person on a channel with a user in foreword.yaml.

    Sending it to the agent in a private chat, for example on Telegram, pairs the sender with that user. A code works
    once, expires after a few minutes, and becomes invalid when it is sent to a group. `list` shows the identities of
    all users; `revoke` removes a pairing.

    Examples:
        foreword pair bob --minutes 60
        foreword pair list
        foreword pair revoke bob
    """
    from foreword.gateway import pairing

    if args.what == "revoke" and not args.which:
        raise InputError("pair revoke needs an identity such as telegram:1001, or a user")
    if args.what != "revoke" and args.which:
        raise InputError(f"pair {args.what} takes no further argument, got {args.which!r}")
    with open_named_workspace(args) as workspace, database.use_state(workspace.state) as state:
        if args.what == "list":
            print_identities(args, workspace, state)
        elif args.what == "revoke":
            revoked = pairing.revoke_identities(state, args.which)  # the conversations remain
            listed = "\n".join(f"revoked: {one.identity} of {one.user}" for one in revoked)
            listed = listed or f"revoked: the code of {args.which}"
            print_json([*map(pairing_to_dict, revoked)]) if args.json else print(listed)
        else:
            code = pairing.create_code(state, args.what, workspace.config.users, datetime.now(UTC), args.minutes)
            how = f"must send this to the agent in a private chat within {args.minutes} minutes: /pair {code}"
            if args.json:
                print_json({"user": args.what, "code": code, "minutes": args.minutes})
            else:
                print(code)
                print(f"{args.what} {how}", file=sys.stderr)
    return 0


def print_identities(args: Namespace, workspace: Workspace, state: Connection) -> None:
    """List the identities of users: configured ones and paired ones."""
    from foreword.storage.pairings import list_paired

    users = workspace.config.users
    configured = [(identity, name) for name in users for identity in users[name].identities]
    rows: list[dict[str, Any]] = [
        {"identity": identity, "user": name, "name": "", "paired": None} for identity, name in configured
    ]
    rows += map(pairing_to_dict, list_paired(state))
    if args.json:
        print_json(rows)
    elif rows:
        cells = []
        for row in rows:
            former = "" if row["user"] in users else " (no longer a user; treated as a stranger)"
            since = f"{row['paired']:%Y-%m-%d}" if row["paired"] else "foreword.yaml"
            cells.append((row["identity"], f"{row['user']}{former}", row["name"], since))
        print_table(("identity", "user", "display name", "since"), cells)
    else:
        print("no identities; create a pairing code with: foreword pair USER")


def pairing_to_dict(one: "PairedIdentity") -> dict[str, Any]:
    """Return a paired identity with the names of the JSON output."""
    return {**pick(one, "identity", "user", "name"), "paired": one.since}


def add_schedule_options(parser: ArgumentParser) -> None:
    """Add the action and the options of a schedule."""
    actions = (
        "list: list the schedules and their next runs (--user); add: add a schedule (--say, and one of --cron, --at "
        "and --heartbeat); cancel ID: cancel a schedule that is not in foreword.yaml; run ID: run a schedule now, in "
        "addition to its own times, and print the reply"
    )
    parser.add_argument("action", metavar="ACTION", choices=("list", "add", "cancel", "run"), help=actions)
    add_options(parser, {"which ID": "the id or the name of a schedule"}, nargs="?", default="")
    user = "the user it acts for (default: the owner); with list: only this user's schedules"
    add_options(parser, {"--user NAME": user})
    group = parser.add_argument_group("options of add")
    texts = {
        "--say TEXT": "the message to the agent",
        "--cron LINE": 'a cron expression: minute, hour, day, month and weekday, such as "0 8 * * 1-5"',
        "--at TIME": "run once: 18:00, tomorrow 8:00, in 5 minutes, or 2026-12-24T18:00",
        "--heartbeat TIME": "work through HEARTBEAT.md at this interval, such as 30m",
        "--name NAME": "the name of the schedule",
        "--agent NAME": "the agent (default: the first one)",
        "--zone ZONE": "the time zone (default: that of the room, the user or the server)",
        "--to PLACE": "where to deliver the reply: a room, or an address such as telegram:1001",
    }
    add_options(group, texts, default="")
    add_options(group, {"--delivery": "when to deliver the reply"}, choices=[str(one) for one in Delivery])
    missed = {"--missed": "what to do with runs missed during downtime (default: once)"}
    add_options(group, missed, choices=[str(one) for one in MissedRuns], default="once")


def run_schedule(args: Namespace) -> int:
    """List, add, cancel and run scheduled messages to agents.

    A schedule sends a message to an agent at set times on behalf of a user, and delivers the reply to one of that
    user's addresses or to a room. `foreword serve` runs due schedules. `list` includes the schedules in foreword.yaml,
    which can only be changed there.

    Examples:
        foreword schedule list
        foreword schedule add --cron "0 8 * * 1-5" --say "What is on today?" --to telegram:1001
        foreword schedule cancel 3f9a2c1d
    """
    if not args.which and args.action in ("cancel", "run"):
        raise InputError(f"schedule {args.action} needs the id of a schedule\nsee: foreword schedule list")
    if args.which and args.action in ("list", "add"):
        raise InputError(f"schedule {args.action} takes no id, got {args.which!r}\nsee: foreword schedule --help")
    with open_named_workspace(args) as workspace:
        if args.action == "run":
            return run_schedule_now(args, workspace)
        with database.use_state(workspace.state) as state:
            if args.action == "list":
                print_schedules(args, workspace, state)
            elif args.action == "add":
                add_schedule(args, workspace, state)
            else:
                found = schedules.find_schedule(state, args.which)
                schedules.cancel_schedule(state, found)
                print_json(schedule_to_dict(found)) if args.json else print(f"cancelled: {found.title}")
    return 0


def print_schedules(args: Namespace, workspace: Workspace, state: Connection) -> None:
    """List the schedules."""
    from foreword.gateway.schedule import creation

    now, users = datetime.now(UTC), workspace.config.users
    creation.sync_configured_schedules(state, workspace.config, now)
    found = schedules.list_schedules(state, args.user or "")
    if args.user is not None and args.user not in users and not found:
        raise UnknownName("user", args.user, users)
    if args.json:
        print_json([schedule_to_dict(one) for one in found])
    elif found:
        rows = []
        for one in found:
            due = creation.format_time(one.due, one.timing.zone) if one.due else "–"
            when = f"{one.timing.kind} {one.timing.moment}"
            to = f"{one.delivery}, {str(one.to) or 'last address used'}"
            words = " ".join(one.say.split())
            says = words if len(words) <= MAX_TEXT_CHARS else f"{words[: MAX_TEXT_CHARS - 1].rstrip()}…"
            waiting = str(one.state) == "waiting"
            late = waiting and one.due is not None and now - one.due > OVERDUE_AFTER
            notes = "; ".join(filter(None, (OVERDUE_NOTE if late else "", one.note)))
            done = "done" if one.ran and not waiting else ""
            rows.append((one.id, one.title, one.user, when, due, says, to, notes or done))
        print_table(("id", "name", "user", "when", "next", "says", "to", "note"), rows)
    else:
        whose = f" for {args.user}" if args.user else ""
        print(f"no schedules{whose}; add one with: foreword schedule add")


def add_schedule(args: Namespace, workspace: Workspace, state: Connection) -> None:
    """Add a schedule."""
    from foreword.gateway.schedule import creation, destinations

    config = workspace.config
    texts = {name: getattr(args, name) for name in ("agent", "at", "heartbeat", "say", "name", "zone", "to")}
    entry = ScheduleSettings(
        user=inputs.find_user(args, config),
        cron=" ".join(args.cron.split()),
        delivery=Delivery(args.delivery) if args.delivery else None,
        missed=MissedRuns(args.missed),
        **texts,
    )
    channels = destinations.list_delivery_channels(config)
    created = creation.create_for_user(state, entry, config, datetime.now(UTC), channels)
    for note in created.notes:
        warn(note)
    if args.json:
        print_json(schedule_to_dict(created.schedule))
    else:
        print(f"scheduled: {creation.describe_schedule(created.schedule)}\n{WHEN_SCHEDULES_RUN}")


def run_schedule_now(args: Namespace, workspace: Workspace) -> int:
    """Run a schedule now, and print the reply."""
    from foreword.gateway.startup import open_gateway
    from foreword.storage.turns import TurnState

    async def run() -> "TurnReply":
        async with open_gateway(workspace, load_environ(workspace)) as gateway:
            accepted = await gateway.scheduler.run(args.which)
            return await gateway.wait(accepted.turn)

    with database.explain_sqlite_errors(workspace.state):
        reply = asyncio.run(run())
    if args.json:
        print_json(pick(reply, "turn", "state", "text", "cost_usd"))
    else:
        print(reply.text or "(empty reply)")
    return 0 if reply.state is TurnState.ANSWERED else 1


def schedule_to_dict(schedule: schedules.StoredSchedule) -> dict[str, Any]:
    """Return a schedule with the names of the HTTP API and `foreword status`."""
    return {
        "schedule": schedule.id,
        "name": schedule.title,
        **pick(schedule, "origin", "agent", "user"),
        **pick(schedule.timing, "kind", "moment", "zone"),
        **pick(schedule, "say", "delivery"),
        **pick(schedule.to, "channel", "address", "room"),
        **pick(schedule, "clearance", "missed", "state", "due", "note"),
    }
