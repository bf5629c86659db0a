"""The commands about a workspace and the installation: `init`, `lint`, `doctor` and `bench`."""

import json
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from string import Template
from typing import Any

from foreword.agent.providers.model_discovery import find_model_servers
from foreword.cli.inputs import add_options, find_folder, open_named_workspace, show_path
from foreword.cli.output import count, print_json, to_plain, warn
from foreword.config import json_schema, load, schema
from foreword.errors import InputError, suggest_name
from foreword.host import find_host_zone
from foreword.storage.database import FOLDER_MODE
from foreword.tokens.models import find_model
from foreword.turn import check_name, normalize_name

Benches = Mapping[str, Callable[[], Iterable[str | Any]]]

BENCH_FOLDER = "bench"
BENCH_MODULE = os.path.join(BENCH_FOLDER, "__init__.py")
DEFAULT_OWNER = "me"
DEFAULT_MODEL = "anthropic:claude-sonnet-5"
# Names that YAML reads as strings without quotes.
PLAIN_YAML_NAME = r"(?i)(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z][A-Za-z0-9._-]*"
TEMPLATE_FILES = (
    "foreword.yaml", "SOUL.md", "IDENTITY.md", "AGENTS.md", "USER.md", "memory/private/NOTES.md",
    "memory/shared/HOME.md", "memory/social/PEOPLE.md", ".gitignore",
)  # fmt: skip
SCHEMA_FILE = ".foreword/schema.json"
NEXT_STEPS = {
    "explain": "show the prompt slot by slot",
    "explain --user stranger": "show what a stranger's prompt contains",
    "build": "print the prompt",
    "doctor": "check keys and models",
    "chat": "talk with the agent in the terminal",
    "serve": "serve it over HTTP",
}


def add_bench_options(parser: ArgumentParser) -> None:
    """Add the benchmark names."""
    add_options(parser, {"names NAME": "the benchmark to run (default: all available)"}, nargs="*", default=[])


def run_bench(args: Namespace) -> int:
    """Run benchmarks, each with a baseline in the same run.

    The benchmarks need a clone of the repository. `cache` simulates a three-hour session under the cache rules and
    prices of each provider, and compares it with other designs and an oracle; it takes a minute or two. Without a
    clone, `foreword cache simulate` compares them for one model.

    Examples:
        foreword bench cache
        foreword bench warm cold
        foreword bench cache --json
    """
    benches = find_benches()
    for name in args.names:
        if name not in benches:
            there = suggest_name(name, list(benches)) or f"; available: {', '.join(benches)}"
            raise InputError(f"unknown benchmark {name!r}{there}")
    done = []
    for name in args.names or benches:
        for found in benches[name]():
            if args.json:
                done += [] if isinstance(found, str) else [{**to_plain(found), "verdict": found.verdict or None}]
            else:
                print(found if isinstance(found, str) else found.show(), flush=True)
    if args.json:
        print_json(done)
    return 0


def find_benches() -> Benches:
    """Return the benchmarks of the clone that the package runs from."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    if not all(os.path.isfile(os.path.join(root, file)) for file in (BENCH_MODULE, "pyproject.toml")):
        raise InputError(
            "the benchmarks are not in the package; to run them, clone the repository and install the package from it: "
            "pip install -e '.[dev]'\nforeword cache simulate compares designs of prompts without a clone"
        )
    if root not in sys.path:
        sys.path.insert(0, root)
    benches: Benches = import_module(BENCH_FOLDER).find_benches()
    return benches


def run_doctor(args: Namespace) -> int:
    """Check Python, the tokenizer, the prices, git, and everything in the workspace that can fail before a turn.

    API keys are named but never shown. Exits with 1 if there is an error.

    Examples:
        foreword doctor
        foreword -w assistant doctor --json
    """
    from foreword.lint.doctor import check_installation, check_workspace

    checks = [*check_installation(), *check_workspace(find_folder(args))]
    errors, warnings = (sum(check.level == level for check in checks) for level in ("error", "warning"))
    if args.json:
        print_json({"checks": [check._asdict() for check in checks], "errors": errors, "warnings": warnings})
    else:
        width = max(len(check.subject) for check in checks)
        for check in checks:
            remedy = f"; {check.remedy}" if check.remedy else ""
            print(f"{check.level:7}  {check.subject:{width}}  {check.message}{remedy}")
        print(
            f"\n{count(errors, 'error')}, {count(warnings, 'warning')}" if errors or warnings else "\nno problems found"
        )
    return 1 if errors else 0


def add_init_options(parser: ArgumentParser) -> None:
    """Add the folder and the names."""
    add_options(parser, {"folder DIR": "the folder, created if needed (default: the current folder)"}, nargs="?")
    add_options(parser, {"--owner NAME": "the user who owns the workspace (default: your login name)"})
    add_options(parser, {"--agent NAME": "the agent's name (default: assistant)"}, default="assistant")
    add_options(parser, {"--model NAME": f"the agent's model (default: {DEFAULT_MODEL})"}, default=DEFAULT_MODEL)


def run_init(args: Namespace) -> int:
    """Create a workspace: a configuration, the files of a character, and a memory.

    Existing files are never overwritten.

    Examples:
        foreword init assistant
        foreword init --owner alice --agent reid --model openai:gpt-5.4
    """
    folder = args.folder or args.workspace or "."
    if not all(args.model.partition(":")):
        raise InputError(f"--model {args.model!r} is not a model; write it as provider:name, such as {DEFAULT_MODEL}")
    texts = fill_templates(args)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise InputError(f"{folder} exists and is not a folder")
    if os.path.lexists(os.path.join(folder, "foreword.yaml")):
        raise InputError(f"{folder} is already a workspace (it has a foreword.yaml); nothing was created")
    kept = [path for path in texts if os.path.lexists(os.path.join(folder, path))]
    made = [path for path in texts if path not in kept]
    for path in made:
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), FOLDER_MODE if path == SCHEMA_FILE else 0o777, exist_ok=True)
        with open(place, "x", encoding="utf-8") as file:
            file.write(texts[path])
    if assumed := find_model(args.model, {}).assumed:
        warn(assumed)
    if args.json:
        print_json({"workspace": os.path.abspath(folder), "created": made, "kept": kept})
    else:
        print_created(folder, made, kept)
    return 0


def fill_templates(args: Namespace) -> dict[str, str]:
    """Fill in the templates, and check that the result is a valid configuration."""
    owner = check_option_name("--owner", args.owner) if args.owner is not None else find_login_name(os.environ)
    agent = check_option_name("--agent", args.agent)
    people = {"owner": owner, "agent": agent}
    names = {
        # quoted if YAML would not read it as a string
        **{key: name if re.fullmatch(PLAIN_YAML_NAME, name) else f'"{name}"' for key, name in people.items()},
        "model": json.dumps(args.model, ensure_ascii=False),
        "zone": find_host_zone(),
        "owner_name": json.dumps("the owner" if owner == DEFAULT_OWNER else owner.capitalize()),
        "agent_name": json.dumps(agent.capitalize()),
    }
    folder = files("foreword") / "data" / "init"
    texts = {
        # A real .gitignore in our package would affect our own tools, so the template has no dot.
        path: Template((folder / path.lstrip(".")).read_text(encoding="utf-8")).substitute(names)
        for path in TEMPLATE_FILES
    }
    load.load_config(texts["foreword.yaml"])
    return {
        **texts,
        SCHEMA_FILE: json.dumps(json_schema.make_json_schema(schema.Config), indent=2, ensure_ascii=False) + "\n",
    }


def check_option_name(option: str, name: str) -> str:
    """Return the normalized name, or refuse one that cannot name a folder."""
    plain = normalize_name(name)
    if problem := check_name(plain):
        raise InputError(f"{option} {name!r} {problem}")
    return plain


def find_login_name(environ: Mapping[str, str]) -> str:
    """Return the login name of the person, if it is usable."""
    for variable in ("USER", "LOGNAME", "USERNAME"):
        name = environ.get(variable, "").lower()
        if not check_name(name) and name != "root":
            return name
    return DEFAULT_OWNER


def print_created(folder: str, made: Sequence[str], kept: Sequence[str]) -> None:
    """Print the created and the unchanged files, the next steps, and the model servers on this machine."""
    print(f"created a workspace in {os.path.abspath(folder)}:\n")
    for path in made:
        print(f"  {path}")
    if kept:
        print(f"\nleft unchanged: {', '.join(kept)}")
    print("\nnext:\n")
    here = "" if os.path.realpath(folder) == os.path.realpath(".") else f" -w {folder}"
    print("  edit SOUL.md, IDENTITY.md, AGENTS.md and USER.md, in your own words")
    for command, purpose in NEXT_STEPS.items():
        line = f"foreword{here} {command}"
        print(f"  {line:{len(here) + 34}}  {purpose}")
    servers = find_model_servers(None, os.environ)
    if servers:
        print("\nmodel servers on this machine; set one of their models in foreword.yaml:\n")
    for server in servers:
        offered = ", ".join(one.name for one in server.models) or "no models"
        print(f"  {server.title} at {server.url}: {offered}")


def run_lint(args: Namespace) -> int:
    """Find problems in the files of a workspace.

    These are clocks and other changing text in static files, secrets, injections, oversized files, unknown variables
    and slots that no turn can reach. Exits with 1 if there is an error.

    Examples:
        foreword lint
        foreword -w assistant lint --json
    """
    from foreword.lint.linter import lint_workspace

    with open_named_workspace(args) as workspace:
        findings = lint_workspace(workspace)
        root = workspace.files.root
    errors = sum(str(finding.level) == "error" for finding in findings)
    warnings = len(findings) - errors
    if args.json:
        plain = [finding._asdict() for finding in findings]
        print_json({"findings": plain, "errors": errors, "warnings": warnings})
    else:
        for finding in findings:
            place = show_path(root, finding.file) + (f":{finding.line}" if finding.line else "")
            remedy = f" ({finding.remedy})" if finding.remedy else ""
            print(f"{place}: {finding.level} {finding.rule}: {finding.message}{remedy}")
        print(f"{count(errors, 'error')}, {count(warnings, 'warning')}" if findings else "no problems found")
    return 1 if errors else 0
