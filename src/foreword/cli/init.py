"""`foreword init`: a new workspace that explains itself."""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence

from foreword.cli.command import Command
from foreword.cli.output import print_json, warn
from foreword.errors import InputError
from foreword.names import judge_name, normalize_name

NOBODY = "me"
MODEL = "anthropic:claude-sonnet-5"
# What YAML takes for a text as it stands.
BARE = r"(?i)(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z][A-Za-z0-9._-]*"
FILES = (
    "foreword.yaml",
    "SOUL.md",
    "IDENTITY.md",
    "AGENTS.md",
    "USER.md",
    "memory/private/NOTES.md",
    "memory/shared/HOME.md",
    "memory/social/PEOPLE.md",
    ".gitignore",
)
SCHEMA = ".foreword/schema.json"


def add_options(parser: ArgumentParser) -> None:
    """Add where the workspace goes, and the names in it."""
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the folder, made if need be; else the current one")
    parser.add_argument("--owner", metavar="NAME", help="the user it belongs to; else your name on this machine")
    parser.add_argument("--agent", metavar="NAME", default="assistant", help="the agent's name; else assistant")
    parser.add_argument("--model", metavar="NAME", default=MODEL, help=f"the agent's model; else {MODEL}")


def run(args: Namespace) -> int:
    """Make a workspace where there is none; files that exist already are left as they are."""
    from foreword.store.open import OURS
    from foreword.tokens import find

    folder = args.folder or args.workspace or "."
    if not all(args.model.partition(":")):
        raise InputError(f"--model {args.model!r} names no model; write it as provider:name, such as {MODEL}")
    texts = fill_templates(args)
    refuse_existing(folder)
    kept = [path for path in texts if os.path.lexists(os.path.join(folder, path))]
    made = [path for path in texts if path not in kept]
    for path in made:
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), OURS if path == SCHEMA else 0o777, exist_ok=True)
        with open(place, "x", encoding="utf-8") as file:
            file.write(texts[path])
    if assumed := find(args.model, {}).assumed:
        warn(assumed)
    if args.json:
        print_json({"workspace": os.path.abspath(folder), "created": made, "kept": kept})
    else:
        print_next(folder, made, kept)
        print_servers()
    return 0


def fill_templates(args: Namespace) -> dict[str, str]:
    """Fill the names into the templates, and check that what comes out is a configuration."""
    import json
    from importlib.resources import files
    from string import Template

    from foreword.config import Config, load
    from foreword.config.jsonschema import describe
    from foreword.facts import find_zone

    owner = judge("--owner", args.owner) if args.owner is not None else find_owner(os.environ)
    agent = judge("--agent", args.agent)
    names = {
        "owner": quote(owner),
        "agent": quote(agent),
        "model": json.dumps(args.model, ensure_ascii=False),
        "zone": find_zone(),
        "owner_name": json.dumps("the owner" if owner == NOBODY else owner.capitalize()),
        "agent_name": json.dumps(agent.capitalize()),
    }
    folder = files("foreword") / "data" / "init"
    texts = {
        # A .gitignore among our own files would be obeyed by our own tools.
        path: Template((folder / path.lstrip(".")).read_text(encoding="utf-8")).substitute(names)
        for path in FILES
    }
    load(texts["foreword.yaml"])
    return {**texts, SCHEMA: json.dumps(describe(Config), indent=2, ensure_ascii=False) + "\n"}


def judge(option: str, name: str) -> str:
    """Take a name that can be that of a folder, or refuse it."""
    plain = normalize_name(name)
    if problem := judge_name(plain):
        raise InputError(f"{option} {name!r} {problem}")
    return plain


def quote(name: str) -> str:
    """Write a name so that YAML reads it as a text."""
    return name if re.fullmatch(BARE, name) else f'"{name}"'


def find_owner(environ: Mapping[str, str]) -> str:
    """Find the name that the person has on this machine, if it can be used."""
    for variable in ("USER", "LOGNAME", "USERNAME"):
        name = environ.get(variable, "").lower()
        if not judge_name(name) and name != "root":
            return name
    return NOBODY


def refuse_existing(folder: str) -> None:
    """Refuse a place that is a workspace already, or no folder."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise InputError(f"{folder} exists and is no folder")
    if os.path.lexists(os.path.join(folder, "foreword.yaml")):
        raise InputError(f"{folder} is a workspace already: it has a foreword.yaml; nothing was made")


def print_next(folder: str, made: Sequence[str], kept: Sequence[str]) -> None:
    """Print what was made, what was left as it is, and what to do with it."""
    print(f"made a workspace in {os.path.abspath(folder)}:\n")
    for path in made:
        print(f"  {path}")
    if kept:
        print(f"\nleft as they are: {', '.join(kept)}")
    print("\nnext:\n")
    here = "" if os.path.realpath(folder) == os.path.realpath(".") else f" -w {folder}"
    for line, why in list_steps(here):
        print(f"  {line:{len(here) + 34}}  {why}".rstrip())


def print_servers() -> None:
    """Print which model servers run on this machine, and how to use them."""
    from foreword.runtime.discovery import find_servers

    servers = find_servers(None, os.environ)
    if servers:
        print("\nfound on this machine; name one as the model in foreword.yaml:\n")
    for server in servers:
        offered = ", ".join(one.name for one in server.models) or "no model yet"
        print(f"  {server.title} at {server.url}: {offered}")


def list_steps(here: str) -> Iterator[tuple[str, str]]:
    """List what to do next, and why."""
    yield "edit SOUL.md, IDENTITY.md, AGENTS.md and USER.md, in your own words", ""
    yield f"foreword{here} explain", "what the agent is told, slot by slot"
    yield f"foreword{here} explain --user stranger", "what somebody unknown would get"
    yield f"foreword{here} build", "the prompt itself"
    yield f"foreword{here} doctor", "whether keys and models are in place"
    yield f"foreword{here} chat", "talk with the agent, here"
    yield f"foreword{here} serve", "let programs talk with it, over HTTP"


COMMAND = Command(
    name="init",
    arguments="[DIR]",
    summary="make a new workspace",
    description="Make a new workspace: a configuration, the files of a character, and a memory. Nothing that exists is "
    "overwritten.",
    examples=("foreword init assistant", "foreword init --owner alice --agent reid --model openai:gpt-5.4"),
    add_options=add_options,
    run=run,
)
