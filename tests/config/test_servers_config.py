"""Claims about servers and directories in a configuration."""

import pytest

from foreword.config.load import load_config
from foreword.config.schema import Directory, McpServer
from foreword.errors import ConfigError
from foreword.types import Trust

HEAD = "owner: a\nusers: {a: {trust: full}}\nagents:\n  reid:\n"


def test_the_example():
    """The example of the design is read, with the defaults of all omitted keys."""
    text = HEAD + "    directories: [~/notes, {path: ~/b, trust: full}]\n    mcp: [{command: [uvx, some-server]}]\n"
    agent = load_config(text).agents["reid"]
    assert agent.mcp == (McpServer(command=("uvx", "some-server")),)
    assert (agent.mcp[0].trust, agent.mcp[0].confirm, agent.mcp[0].seconds) == (Trust.FULL, "always", 60.0)
    assert agent.folders == (Directory(path="~/notes", trust=Trust.INNER), Directory(path="~/b", trust=Trust.FULL))


@pytest.mark.parametrize(
    ("servers", "fault"),
    [
        ("[{}]", "agents.reid.mcp[0] must have either a command or a url"),
        ("[{command: [x], url: 'http://x'}]", "agents.reid.mcp[0] must have either a command or a url"),
        ("[{url: 'ftp://x'}]", "agents.reid.mcp[0] must have a url that begins with http:// or https://"),
        ("[{command: [x], seconds: 0}]", "agents.reid.mcp[0] must have seconds above 0"),
        ("[{command: [x], name: 'a b'}]", "agents.reid.mcp[0].name is not a usable name"),
        ("[{command: [x], name: a}, {command: [y], name: a}]", "agents.reid.mcp[1].name repeats the server 'a'"),
        ("[{command: [x], confirm: maybe}]", "agents.reid.mcp[0].confirm must be one of always, changes, never"),
        ("[{command: x}]", "agents.reid.mcp[0].command must be a list"),
        ("[{comand: [x]}]", "did you mean 'command'?"),
    ],
)
def test_faults(servers, fault):
    """Every fault of a server is reported with its line."""
    with pytest.raises(ConfigError) as error:
        load_config(f"{HEAD}    mcp: {servers}\n")
    assert fault in str(error.value)
    assert "foreword.yaml:5: " in str(error.value)


def test_two_without_a_name():
    """Servers without a name are identified by their command or address."""
    assert len(load_config(f"{HEAD}    mcp: [{{command: [x]}}, {{command: [y]}}]\n").agents["reid"].mcp) == 2
