"""A workspace for sessions, and clients that send their requests to a fake provider."""

import json
from urllib.request import Request, urlopen

import anthropic
import openai

import foreword
from foreword.testing import make_workspace, write_files

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}}
situations: {dm: {ceiling: full}}
models: {"ollama:tiny": {native_tools: false, window: 64000}}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "AGENTS.md": "".join(f"{number}. Ask before you buy anything, and keep the receipt.\n" for number in range(250)),
    "memory/private/garden.md": "# Garden\n\nThe plum tree was planted in 2019 by the east wall.\n",
}
MODELS = {
    "anthropic": "anthropic:claude-sonnet-5",
    "chat": "openai:gpt-5",
    "marks": "openai:gpt-5.6",
    "responses": "openai-responses:gpt-5",
    "gemini": "google:gemini-3-pro",
}


@foreword.tool(trust="familiar")
def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


def make_house(folder, files=None):
    """Make a workspace with these files besides."""
    return make_workspace(folder, {**FILES, **(files or {})})


def edit(workspace, path, text):
    """Edit a file, and let the workspace see it."""
    write_files(workspace.files.root, {path: text})
    workspace.refresh(now=True)


def make_ask(kind, url):
    """Return what sends a request and returns the reply, for one kind of client."""

    def ask(request):
        if kind == "anthropic":
            with anthropic.Anthropic(api_key="k", base_url=url) as client:
                return client.messages.create(**request)
        if kind == "gemini":
            return post(f"{url}/v1/models/gemini-3-pro:generateContent", request)
        with openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
            return (client.responses if kind == "responses" else client.chat.completions).create(**request)

    return ask


def post(url, request):
    """Send a request as JSON, without any SDK."""
    with urlopen(Request(url, json.dumps(request).encode(), {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def talk(session, ask, text, **changes):
    """Say something, run the tools of the replies, and return the reply."""
    step = session.say(text, **changes)
    while step:
        step.run_tools()
        step = step.answered(ask(step.request))
    return session.reply
