"""Claims about models that take tools only in the prompt: the schemas are in the prompt, and nowhere else."""

from pathlib import Path

import pytest
from letters import LAMPS

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.envelope import SHAPES
from foreword.errors import ConfigError
from foreword.testing import make_workspace
from foreword.turn import Tool, Toolset, Turn
from foreword.types import Trust
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
users: {alice: {trust: full}, bob: {trust: familiar}}
models:
  text: {window: 200000, native_tools: false}
  native: {window: 200000, native_tools: true}
  silent: {window: 200000}
"""
SECRET = Tool(name="vault", description="Opens the vault.")
TOOLS = Toolset([LAMPS, SECRET, *READING_TOOLS.tools])
DIALECTS = ["default", "moltis"]


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace with models of both kinds."""
    return make_workspace(tmp_path, {"foreword.yaml": CONFIG})


def assemble(
    ws: Workspace, model: str, blueprint: str = "default", tools: Toolset = TOOLS, user: str = "alice"
) -> Assembly:
    """Assemble a turn for one of the models."""
    return ws.assemble(
        Turn(user=user, situation="dm", model=f"openai:{model}", blueprint=blueprint, tools=tools, message="Hello.")
    )


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("blueprint", DIALECTS)
def test_not_on_the_wire(ws: Workspace, blueprint: str, shape: str) -> None:
    """A model without native tools gets a request without tools, in every shape."""
    bare = assemble(ws, "text", blueprint).envelope(shape)
    assert "tools" not in bare.request
    assert "lamps" in bare.json()
    assert '"properties"' not in bare.json()


@pytest.mark.parametrize("model", ["native", "silent"])
@pytest.mark.parametrize("shape", sorted({*SHAPES} - {"plain"}))
def test_on_the_wire(ws: Workspace, shape: str, model: str) -> None:
    """Any other model gets the schemas outside the prompt, and not in it."""
    assembly = assemble(ws, model)
    assert "tools" in assembly.envelope(shape).request
    assert "Params: " not in assembly.prompt.text
    assert "tool_call" not in assembly.prompt.text


@pytest.mark.parametrize("blueprint", DIALECTS)
def test_in_the_prompt(ws: Workspace, blueprint: str) -> None:
    """Every tool is in the prompt with its description and its parameters, and so is the way to call one."""
    text = assemble(ws, "text", blueprint).prompt.text
    for name in TOOLS.names:
        assert f"### {name}\n" in text
    assert "### lamps\nTurns lamps on and off.\nParams: room (string, required), on (boolean)\n" in text
    assert "### memory_get\n" in text
    assert "```tool_call\n" in text


@pytest.mark.parametrize("blueprint", DIALECTS)
def test_weight(ws: Workspace, blueprint: str) -> None:
    """Schemas that are in the prompt are counted there, once."""
    text, native = assemble(ws, "text", blueprint), assemble(ws, "native", blueprint)
    assert (text.fit.tool_tokens, native.fit.tool_tokens > 0) == (0, True)
    assert text.system_tokens == sum(block.tokens for block in text.prompt.blocks if block.pace.name != "TURN")
    assert text.used == text.prompt.tokens
    assert text.prompt.tokens > native.prompt.tokens


@pytest.mark.parametrize("blueprint", DIALECTS)
def test_without_tools(ws: Workspace, blueprint: str) -> None:
    """A turn without tools has neither schemas nor a way to call any."""
    text = assemble(ws, "text", blueprint, tools=Toolset()).prompt.text
    assert "tool_call" not in text
    assert text == assemble(ws, "native", blueprint, tools=Toolset()).prompt.text


@pytest.mark.parametrize("blueprint", DIALECTS)
def test_above_the_clearance(ws: Workspace, blueprint: str) -> None:
    """A tool above the clearance is in no schema, not even in the prompt."""
    assembly = assemble(ws, "text", blueprint, user="bob")
    assert "vault" not in assembly.prompt.text
    assert "### lamps" in assembly.prompt.text


def test_reading_still_works(ws: Workspace) -> None:
    """A tool call by such a model is answered like any other."""
    assembly = assemble(ws, "text")
    assert ws.call(assembly, "read_section", {"id": "guidelines"}).text


def test_order(ws: Workspace) -> None:
    """The schemas are in the order of the set."""
    tools = Toolset.in_order([Tool(name=name, trust=Trust.PUBLIC) for name in ("c", "a", "b")])
    text = assemble(ws, "text", tools=tools).prompt.text
    assert text.index("### c\n") < text.index("### a\n") < text.index("### b\n")


@pytest.mark.parametrize("value", ["false", "true"])
def test_override(tmp_path: Path, value: str) -> None:
    """The configuration may set for any model whether it takes tools, even for one in the table."""
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nmodels: {{gpt-5: {{native_tools: {value}}}}}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config})
    assert ("tools" in assemble(ws, "gpt-5").envelope().request) is (value == "true")


@pytest.mark.parametrize("value", ["0", "'no'", "maybe"])
def test_wrong_override(tmp_path: Path, value: str) -> None:
    """Anything but true and false is a fault."""
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nmodels: {{gpt-5: {{native_tools: {value}}}}}\n"
    with pytest.raises(ConfigError, match="native_tools must be true or false"):
        make_workspace(tmp_path, {"foreword.yaml": config})
