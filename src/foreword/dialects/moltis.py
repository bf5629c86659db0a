"""The three prompt functions of Moltis: without a workspace, with every text as an argument."""

import json
import os
from collections.abc import Mapping, Sequence

from foreword.config.schema import Agent
from foreword.dialects import build_prompt, make_identity, make_tools
from foreword.turn import NO_TOOLS, Client, Host, Sandbox, Tool, Turn
from foreword.types import Mode

MOLTIS = "moltis"
MOLTIS_IDENTITY = ("name", "emoji", "creature", "vibe")
MOLTIS_PROFILE = ("name", "timezone", "location")
PROJECT = "project"  # the virtual folder of a project's texts
PARENT = "above"  # its virtual parent folders


def build_system_prompt(
    tools: Sequence[Tool] = (), project_context: Mapping[str, str] | None = None, *, native_tools: bool = True
) -> str:
    """Assemble the simple prompt: introduction, project context, tools and guidelines.

    `project_context` maps paths relative to the project, such as `CLAUDE.md` and `../AGENTS.md`, to texts.
    """
    place, texts = place_project(project_context)
    turn = Turn(tools=make_tools(tools), project=place, mode=Mode.MINIMAL)
    return build_prompt(MOLTIS, turn, Agent(), texts, native_tools=native_tools)


def build_system_prompt_with_session_runtime(
    tools: Sequence[Tool] = (),
    project_context: Mapping[str, str] | None = None,
    *,
    identity: Mapping[str, str] | None = None,
    soul: str | None = None,
    user: Mapping[str, str] | None = None,
    skills: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    host: Host | None = None,
    sandbox: Sandbox | None = None,
    session: str = "",
    model: str = "",
    client: Client | None = None,
    native_tools: bool = True,
) -> str:
    """Assemble the full prompt with all twelve components.

    `identity` has `name`, `emoji`, `creature`, `vibe`; `user` has `name`, `timezone`, `location`; `skills` maps names
    to descriptions; `files` holds the texts of `AGENTS.md`, `TOOLS.md`, `BOOT.md` and `GUIDELINES.md`. Without a soul
    the built-in one is used. Raise BudgetError if a section does not fit.
    """
    place, texts = place_project(project_context)
    texts |= {f"skills/{name}/SKILL.md": write_meta({"description": text}) for name, text in (skills or {}).items()}
    texts |= {"USER.md": write_meta({name: user.get(name) or "" for name in MOLTIS_PROFILE})} if user else {}
    turn = Turn(
        tools=make_tools(tools),
        project=place,
        host=host,
        sandbox=sandbox,
        session=session,
        model=model,
        client=client or Client(),
        mode=Mode.FULL,
    )
    agent = Agent(identity=make_identity(identity, MOLTIS_IDENTITY), soul=soul or "")
    return build_prompt(MOLTIS, turn, agent, {**(files or {}), **texts}, native_tools=native_tools)


def build_system_prompt_minimal_runtime() -> str:
    """Assemble the prompt without tools, for titles and summaries."""
    return build_prompt(MOLTIS, Turn(tools=NO_TOOLS, mode=Mode.NONE), Agent())


def place_project(context: Mapping[str, str] | None) -> tuple[str, dict[str, str]]:
    """Return the virtual folder of a project and its texts by absolute path, deep enough for every `..`."""
    if not context:
        return "", {}
    depth = max(os.path.normpath(path).split("/").count("..") for path in context)
    project = os.path.join("/", *[PARENT] * depth, PROJECT)
    return project, {os.path.normpath(os.path.join(project, path)): text for path, text in context.items()}


def write_meta(fields: Mapping[str, str]) -> str:
    """Write front matter; JSON strings are valid YAML."""
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items() if value]
    return "\n".join(["---", *lines, "---", ""])
