"""Claims about `examples/loops`: each runs against its real package, and keeps the cached prefix through an edit."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foreword.testing import ScriptedCall, ScriptedReply, run_fake_provider

LOOPS = Path(__file__).parents[2] / "examples" / "loops"
PACKAGES = {
    "anthropic_sdk": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "litellm_any": "litellm",
    "langgraph_agent": "langgraph",
    "openai_agents": "agents",
    "pydantic_ai_agent": "pydantic_ai",
}
TRAIN = ScriptedReply(calls=(ScriptedCall(name="find_train", arguments={"start": "Ulm", "end": "Bonn"}),))
SCRIPT = (TRAIN, ScriptedReply(text="At 9:04."), ScriptedReply(text="Yes."))
MAX_LINES = 35
"""Lines of code of an example: 20 more than a hello world with one tool and a chat."""


def find_environ(url):
    """Return the addresses and keys of a fake provider, without any call home."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), "k")
    addresses = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_API_BASE": url}
    quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}
    return {**os.environ, **keys, **addresses, **quiet}


def test_every_loop_is_tested():
    """Every example is in the list, and has few lines."""
    files = {file.stem: file for file in LOOPS.glob("*.py")}
    assert files.keys() == PACKAGES.keys()
    for file in files.values():
        code = file.read_text(encoding="utf-8").partition('"""\n')[2]
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= MAX_LINES, file


@pytest.mark.parametrize("name", PACKAGES)
def test_loop(name, tmp_path):
    """A chat with a tool call and an edit: each request is valid, and the second turn reads what the first has sent."""
    if importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"NOT TESTED: examples/loops/{name}.py, {PACKAGES[name]} is not installed; use foreword[adapters]")
    folder = tmp_path / "assistant"
    shutil.copytree(LOOPS.parent / "assistant", folder, ignore=shutil.ignore_patterns(".foreword"))
    with run_fake_provider(*SCRIPT) as provider:
        command = [sys.executable, LOOPS / f"{name}.py", folder]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, env=find_environ(provider.url), **pipes) as chat:
            print("A train from Ulm to Bonn?", file=chat.stdin, flush=True)
            first = chat.stdout.readline()
            (folder / "SOUL.md").write_text("Warm and exact.\n", encoding="utf-8")
            time.sleep(0.6)
            rest, errors = chat.communicate("And back?\n", timeout=60)
        assert (first, rest) == ("At 9:04.\n", "Yes.\n"), errors
        assert [request.refused for request in provider.requests] == ["", "", ""]
        before, edited = provider.requests[1], provider.requests[2]
        assert "Ulm to Bonn: 9:04" in before.raw.decode()
        assert "Warm and exact." in edited.raw.decode()
        assert edited.counted.read >= 0.95 * before.counted.total, (before.counted, edited.counted)
